//! The first run: a configuration that names no provider gets one, after a question.
//!
//! The question is what may be sent there. Nothing is sent before the answer, and the answer is written into the
//! configuration as `clearance`, so that it is given once.

mod clearing;
mod discover;
mod endpoint;
pub(crate) mod owner;

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use config::{Config, Provider};
use hub::trace::escape;
use ifc::Dimension;

pub(crate) use self::clearing::{Clearing, without_secret};
use self::clearing::{secret_of, value};
pub(crate) use self::discover::key_of;
use self::discover::{Candidate, candidates};
pub(crate) use self::endpoint::{dialect, endpoint};
use crate::configuration::{self, Examples, Found, Refusal};
use crate::embedded;
use crate::place::ConfigFile;
use crate::terminal::{Terminal, ask, say};

/// The models that need no provider elsewhere.
const LOCAL: &str = "start Ollama or llama.cpp's server, or install the embedded model: \
                     `cargo install --path crates/model --locked`, then `sluice model pull qwen2.5-coder-1.5b`";

/// Fills in the provider of a configuration that names none: the user's own, or one that the user is offered. Returns where
/// the clearance of its providers is written.
pub(crate) async fn provide(at: &ConfigFile, config: &mut Config, json: bool) -> Result<Clearing> {
    let found = configuration::find(at.config.as_deref())?;
    let is_written = settle(found.as_ref(), config, !json && Terminal::attended()).await?;
    if let Some(found) = found
        .as_ref()
        .filter(|it| is_written && !it.is_of_another_program())
    {
        *config = found.open(Examples::MustPass, true)?.config;
    }
    let Some(mut own) = of_own(found.as_ref(), config)? else {
        return Ok(Clearing::new(found.clone(), found, config));
    };
    for provider in own.iter_mut().filter(|it| !it.clearance.is_top()) {
        // The taints of one file's labels mean nothing in another's.
        provider.clearance = config.lattice.whole(Dimension::Integrity);
    }
    config.providers = own;
    Ok(Clearing::new(Found::own(), found, config))
}

/// Offers a model after an app was added, or shows the lines that would name one. The app stays added in any case.
pub(crate) async fn after_add(file: &ConfigFile, yes: bool) {
    let offered = async {
        let Some(found) = configuration::find(file.config.as_deref())? else {
            // Nothing was added.
            return Ok(false);
        };
        // Nothing is started by it: it is only looked at for providers and the names of apps.
        let config = Config::load(found.path()).map_err(Refusal::Mistakes)?;
        settle(Some(&found), &config, !yes && Terminal::attended()).await
    };
    if let Err(error) = offered.await {
        say(&format!("note: {error:#}\n"));
    }
}

/// The providers of the user's own configuration, if they count for another one: it names none itself.
fn of_own(found: Option<&Found>, config: &Config) -> Result<Option<Vec<Provider>>> {
    let own = Found::own().filter(|own| own.path().is_file() && !config.names_provider);
    let own = own.filter(|own| found.is_none_or(|found| found.path() != own.path()));
    let own = own.map(|own| own.open(Examples::MustPass, false));
    let own = own.transpose()?.map(|own| own.config);
    let own = own.filter(|own| own.names_provider);
    Ok(own.map(|own| own.providers))
}

/// Offers the models that are found, unless there are providers. Whether one was written; if not, the embedded model is used
/// where there is no provider.
async fn settle(found: Option<&Found>, config: &Config, attended: bool) -> Result<bool> {
    if config.names_provider || of_own(found, config)?.is_some() {
        return Ok(false);
    }
    let offers = candidates()?;
    // The user's own file where the configuration is another program's. Without a home there is none.
    let target = found.filter(|found| !found.is_of_another_program());
    let target = target.cloned().or_else(Found::own);
    match target {
        Some(target) if attended && !offers.is_empty() => {
            // An app of the same name in another file is another app.
            let is_here = found.is_none_or(|found| *found == target);
            let apps = config.apps.keys().filter(|_| is_here);
            offer(&offers, &target, apps.map(String::as_str).collect()).await
        }
        _ if embedded::is_ready() => Ok(false),
        target => bail!("{}", instead(&offers, target.as_ref())),
    }
}

/// Offers one model after the other, and writes the first that the user takes.
async fn offer(offers: &[Candidate], target: &Found, mut apps: BTreeSet<&str>) -> Result<bool> {
    let before = target.text()?;
    let mut expected: toml::Table = before.parse()?;
    // The user's own labels have no secret for each app, and no app may have a name that would read as another answer.
    let is_free = !expected.contains_key("lattice");
    apps.retain(|name| is_free && !matches!(name.to_lowercase().as_str(), "yes" | "no"));
    let last = discover::embedded();
    for candidate in offers.iter().chain(&last) {
        let Some(clearance) = question(candidate, &apps, target) else {
            continue;
        };
        let mut lines = candidate.clone().accepted().await?.lines(&clearance);
        if clearance.starts_with('[') {
            lines +=
                "\n[lattice]\nconfidentiality = \"apps\" # a secret for each app: secret:NAME\n";
        }
        let after = format!("{before}\n# Added after a question of `sluice`.\n{lines}");
        expected.extend(lines.parse::<toml::Table>()?);
        let path = target.path().display();
        clearing::rewrite(target, &before, &after, &expected)
            .with_context(|| format!("not written to {path}:\n\n{lines}"))?;
        say(&format!("written to {path}:\n\n{lines}"));
        return Ok(true);
    }
    let some = match apps.is_empty() {
        true => "",
        false => "to allow \"only these apps\", run it again and type their names; ",
    };
    bail!("no model was accepted, and nothing was sent; {some}for a model on this machine, {LOCAL}")
}

/// Asks about a model. The clearance that it gets, as a value of `sluice.toml`; `None` if it is not used.
fn question(candidate: &Candidate, apps: &BTreeSet<&str>, target: &Found) -> Option<String> {
    let (found, shown, host) = (candidate.found, candidate.shown(), candidate.host());
    let names = BTreeSet::from_iter(apps.iter().copied().filter(|_| host.is_some()));
    let list: Vec<&str> = names.iter().copied().collect();
    let what = match host.is_some() {
        true => "Nothing is sent there before your answer",
        false => "What it is sent stays on this machine",
    };
    let asked = host.map(|host| format!("May text from your apps be sent to {host}?"));
    let asked = asked.unwrap_or_else(|| "Use it?".to_owned());
    let choices = match names.is_empty() {
        true => "yes or no".to_owned(),
        false => format!("yes, no, or only these apps: {}", escape(&list.join(", "))),
    };
    let file = target.path().display();
    say(&format!(
        "{found}, and the configuration names no model. Sluice can use {shown}. {what}.\nA yes is written to {file}.\n"
    ));
    let (prompt, unclear) = (
        format!("{asked} {choices} [no]: "),
        format!("Type {choices}."),
    );
    ask(&prompt, &unclear, |line| read(line, &names)).flatten()
}

/// The clearance that was typed, `Some(None)` for none; `None` if it is unclear. Commas or spaces divide the names of apps.
fn read(line: &str, apps: &BTreeSet<&str>) -> Option<Option<String>> {
    match line.trim().to_lowercase().as_str() {
        "" | "no" => return Some(None),
        "yes" => return Some(Some("\"any\"".to_owned())),
        _ => {}
    }
    let names = line.split([',', ' ']).map(str::trim);
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    let is_known = !names.is_empty() && names.is_subset(apps);
    is_known.then(|| Some(value(names.iter().map(|name| secret_of(name)))))
}

/// What to do in the place of an answer.
fn instead(offers: &[Candidate], target: Option<&Found>) -> String {
    let names_none = "the configuration names no model";
    match (offers.first(), target) {
        (Some(first), Some(target)) => format!(
            "{names_none}; {}, and to use {}, write in {}:\n\n{}\nclearance says what may be sent there: \"any\" is all text from your apps",
            first.found,
            first.shown(),
            target.path().display(),
            first.lines("\"any\"")
        ),
        _ => format!(
            "{names_none}; set OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY, {LOCAL}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_and_known_apps_are_an_answer() {
        let apps = BTreeSet::from(["files", "db"]);
        for (line, expected) in [
            ("", Some(None)),
            (" No\n", Some(None)),
            ("YES\n", Some(Some("\"any\""))),
            ("y", None),
            ("files", Some(Some("[\"secret:files\"]"))),
            ("files, db", Some(Some("[\"secret:db\", \"secret:files\"]"))),
            ("files mail", None),
            (",", None),
        ] {
            let found = read(line, &apps);
            let found = found.as_ref().map(|found| found.as_deref());
            assert_eq!(found, expected, "{line}");
        }
    }
}
