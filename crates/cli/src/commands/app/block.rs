//! The lines of `sluice.toml` for an app that is added.

use std::collections::BTreeMap;
use std::fs;
use std::iter::successors;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
pub(crate) use config::ForeignServer as Wish;
use config::{Config, Piece, SpokeLimits, anchored, from_environment, pieces, with_home};
use provision::Host;
use serde_json::Value;

use super::section;
use crate::known::Known;
use crate::needs;
use crate::proposal::{self, Tool};

/// The line that says what is started, or where.
pub(crate) fn start(wish: &Wish) -> String {
    match &wish.url {
        Some(url) => format!("url = {}", quote(url)),
        None => format!("command = {}", list(&wish.command)),
    }
}

/// The lines, with proposed rules for its tools once these are known.
pub(crate) fn of(wish: &Wish, data: &[(String, Access)], tools: &[Tool]) -> String {
    let (name, start) = (&wish.name, start(wish));
    let mut text = format!("\n{}[app.{name}]\n{start}\n", section::ADDED);
    for (key, pairs) in [("env", &wish.env), ("headers", &wish.headers)] {
        if !pairs.is_empty() {
            let pairs = pairs
                .iter()
                .map(|(name, value)| format!("{} = {}", quote(name), quote(value)));
            text += &format!("{key} = {{ {} }}\n", pairs.collect::<Vec<_>>().join(", "));
        }
    }
    if let Some(only) = &wish.filter.only {
        text += &format!("only_tools = {}\n", list(only));
    }
    for (key, words) in [
        ("hidden_tools", &wish.filter.hidden),
        ("env_from", &wish.env_from),
        ("connect", &wish.connect),
    ] {
        if !words.is_empty() {
            text += &format!("{key} = {}\n", list(words));
        }
    }
    let default = SpokeLimits::default();
    // A shorter time would end what starts more slowly in a sandbox.
    for (key, seconds, default) in [
        (
            "start_timeout_s",
            wish.start_timeout_s,
            default.start_timeout,
        ),
        ("call_timeout_s", wish.call_timeout_s, default.call_timeout),
    ] {
        if seconds > default.as_secs() {
            text += &format!("limits.{key} = {seconds}\n");
        }
    }
    for (path, access) in data {
        text += &mount(&wish.name, path, *access);
    }
    let known = Known::of(wish).ok().flatten();
    if let Some(known) = known.as_ref().filter(|_| wish.url.is_none()) {
        text += &known.domain_lines(name);
    }
    let rules = known.as_ref().map(|known| known.rules(name, tools));
    text += &rules.unwrap_or_default();
    let is_proposed = |tool: &&Tool| {
        known
            .as_ref()
            .is_none_or(|it| it.rule(name, tool).is_none())
    };
    let proposed: Vec<&Tool> = tools.iter().filter(is_proposed).collect();
    if !proposed.is_empty() {
        text += "# Proposed from the names of tools and arguments, and from the app's annotations where these are stricter. Review\n\
                 # every line; where in doubt, write effect = \"irreversible\" and limit = []. Results without a label are untrusted\n\
                 # and secret.\n";
        for tool in proposed {
            text += &proposal::rule(&wish.name, tool);
        }
    }
    text
}

/// Why an app cannot be started, if a variable of the user's that it needs is not set.
pub(crate) fn unset(wish: &Wish) -> Option<String> {
    let is_given = |entry: &&String| !wish.given.iter().any(|name| reads(entry, name));
    let needed: Vec<String> = wish.env_from.iter().filter(is_given).cloned().collect();
    needs::unset(&needed)
}

/// Whether an entry of `env_from` reads this variable of the user's.
pub(crate) fn reads(entry: &str, variable: &str) -> bool {
    let read = pieces(&from_environment(entry).1).unwrap_or_default();
    let mut read = read.into_iter();
    read.any(|piece| matches!(piece, Piece::Variable(name, _) if name == variable))
}

/// The lines of a folder or file that an app sees.
pub(super) fn mount(app: &str, path: &str, access: Access) -> String {
    // Otherwise each of its connections would be a question about a secret.
    let is_public = access == Access::Read && provision::holds_certificates(Path::new(path));
    let label = match is_public {
        true => "\"public\" # certificates",
        false => "\"any\" # untrusted and secret; narrow it where you can",
    };
    let path = quote(path);
    let more = match access {
        Access::Read => "",
        Access::Run => "execute = true\n",
        Access::Write => "write = true\n",
    };
    format!("[[app.{app}.mount]]\nsource = {path}\ntarget = {path}\n{more}label = {label}\n")
}

/// The lines of the domains that an app may reach.
pub(crate) fn domains(app: &str, names: &[String]) -> String {
    let lines = names.iter();
    let lines = lines.map(|name| format!("[[app.{app}.domain]]\nname = {}\n", quote(name)));
    lines.collect()
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    format!("[{}]", words.join(", "))
}

/// Quotes a string as JSON does, which TOML reads as the same basic string.
fn quote(text: &str) -> String {
    // JSON leaves DEL as it is, and TOML does not allow it in a string.
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// What an app may do with a file or folder that it sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Read and execute.
    Run,
    Write,
}

impl Access {
    /// The word that a user types to allow it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Write => "write",
        }
    }
}

/// Files and folders that an app sees.
pub(crate) type Data = Vec<(String, Access)>;

/// A word of a command that the user typed, with its whole path. A path over a link that the app may have made stays as it is.
pub(crate) fn typed(word: &str, here: &Path, write: &[PathBuf]) -> String {
    let home = std::env::var("HOME").unwrap_or("~".to_owned());
    let (word, host) = (with_home(word, &home), Host::of_user());
    let mut values = successors(Some(&*word), |rest| Some(rest.split_once('=')?.1));
    match values.any(|value| provision::is_diverted(&host, &here.join(value), write)) {
        true => word,
        false => anchored(&word, here),
    }
}

/// The files that its arguments name, and those that it may write.
pub(crate) fn data(wish: &Wish, write: &[PathBuf]) -> Result<Data> {
    let host = Host::of_user();
    let found = provision::named(&host, &wish.command, &wish.env, write)?;
    let mut data: BTreeMap<String, Access> = found
        .iter()
        .map(|found| (found.source.to_string_lossy().into_owned(), Access::Read))
        .collect();
    for path in write {
        // The app may have put the link there at an earlier start.
        if provision::is_diverted(&host, &std::path::absolute(path)?, write) {
            bail!(
                "--write: {} leads over a link in a folder that the app may write; name the place that is meant",
                path.display()
            );
        }
        // Resolved, since no path of a mount may lead through a link.
        let path = path
            .canonicalize()
            .with_context(|| format!("{} is not there", path.display()))?;
        data.insert(path.to_string_lossy().into_owned(), Access::Write);
    }
    Ok(data.into_iter().collect())
}

/// The configuration with these lines at its end.
pub(crate) fn with(file: &Path, before: &str, lines: &str) -> Result<Config> {
    let text = format!("{before}{lines}");
    let read = |path: &Path| match path == file {
        true => Ok(text.clone()),
        false => fs::read_to_string(path),
    };
    Config::load_with(file, &read).map_err(|mistakes| {
        anyhow!("with this change the configuration has mistakes\n\n{mistakes}")
    })
}
