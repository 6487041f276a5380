//! `sluice app import`: the servers of another program's file, added one after the other.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use hub::trace::escape;

use super::add::{self, How};
use super::block::{self, Wish};
use super::foreign;
use super::secrets;
use crate::configuration::Found;
use crate::exit::Exit;
use crate::known::Known;
use crate::question::Lines;
use crate::terminal::{Terminal, columns, is_agreed, message, say, say_nothing};
use crate::{exit, provider, shell};

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file of Claude, Cursor, Gemini, VS Code, Zed, OpenCode (JSON), Codex (TOML) or Goose (YAML).
    file: PathBuf,
    /// Write the apps without a terminal, as --yes does. At a terminal you are asked about each.
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    how: How,
}

/// What became of servers.
#[derive(Debug, Default)]
pub(crate) struct Imported {
    added: Vec<String>,
    there: Vec<String>,
    /// Those that are not there, with the reasons.
    pub(crate) left_out: Vec<(String, String)>,
}

impl Imported {
    /// The apps that are in the configuration now.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &String> {
        self.added.iter().chain(&self.there)
    }
}

/// Adds every server of a file that can be added, and names the others.
pub(super) async fn import(mut args: Import) -> Result<Exit> {
    args.how.yes |= args.write && !Terminal::attended();
    let path = args.file.display();
    let read = foreign::read(&args.file).with_context(|| format!("{path} was not imported"));
    let (servers, notes) = read?;
    for note in notes {
        message(&format!("note: {path}: {note}"));
    }
    // Once for all servers: the first one added changes the file that was trusted.
    let file = args.how.place.writable()?;
    let Some(imported) = add_all(servers, &args.how, &file).await? else {
        say_nothing("fetched");
        return Ok(Exit::Refused);
    };
    say("\n");
    let left_out = imported
        .left_out
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    for (what, names) in [
        ("added", &imported.added),
        ("already there", &imported.there),
        ("not added", &left_out),
    ] {
        if !names.is_empty() {
            say(&format!("{what}: {}\n", names.join(", ")));
        }
    }
    provider::after_add(&args.how.place.file, args.how.yes).await;
    Ok(if left_out.is_empty() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// Adds these servers one after the other; `None` if the user does not want them started.
pub(crate) async fn add_all(
    servers: Vec<Wish>,
    how: &How,
    file: &Found,
) -> Result<Option<Imported>> {
    let is_there = |wish: &Wish| !how.replace && add::is_there(wish, file).unwrap_or(false);
    let (mut imported, mut fit) = (Imported::default(), Vec::new());
    for wish in servers {
        for note in &wish.notes {
            say(&format!("note: {}: {}\n", wish.name, escape(note)));
        }
        let reason = unfit(&wish).or_else(|| {
            let unset = || block::unset(&wish);
            (!is_there(&wish)).then(unset).flatten()
        });
        match reason {
            None => fit.push(wish),
            Some(reason) => {
                let name = wish.name;
                message(&format!("{name} is left out: {reason}"));
                if !wish.is_disabled {
                    imported.left_out.push((name, reason));
                }
            }
        }
    }
    let new: Vec<&Wish> = fit.iter().filter(|it| !is_there(it)).collect();
    if !new.is_empty() && !may_start(&new, how) {
        return Ok(None);
    }
    let count = fit.len();
    let mut reasons = String::new();
    for (number, wish) in fit.into_iter().enumerate() {
        say(&format!(
            "\nserver {} of {count}: {}\n",
            number + 1,
            wish.name
        ));
        if is_there(&wish) {
            say(&format!("{} is already installed\n", wish.name));
            imported.there.push(wish.name);
            continue;
        }
        match add::one(&wish, &[], how, file).await {
            Ok(true) => imported.added.push(wish.name),
            Ok(false) => imported
                .left_out
                .push((wish.name, "you did not add it".to_owned())),
            Err(error) => {
                let reason = exit::shown(&error);
                let why = match reasons.contains(&reason) {
                    true => "for the same reason\n",
                    false => &reason,
                };
                say(&format!("{} was not added: {why}", wish.name));
                reasons += &reason;
                imported.left_out.push((wish.name, format!("{error:#}")));
            }
        }
    }
    Ok(Some(imported))
}

/// Why a server cannot be added as it is.
pub(crate) fn unfit(wish: &Wish) -> Option<String> {
    if let Some(reason) = &wish.left_out {
        return Some(escape(reason));
    }
    // `app add` only gives a note, because there the user has typed the command.
    let at = secrets::first(&wish.command)?;
    Some(format!(
        "word {} of its command looks like a secret and is not copied; if the server also reads a variable, add it with `sluice \
         app add`, --env-from NAME and without that word",
        at + 1
    ))
}

/// Whether the user agrees that these commands, which another program's file names, are fetched and started.
fn may_start(new: &[&Wish], how: &How) -> bool {
    let mut lines = Lines::new(columns());
    for wish in new {
        let mut text = wish.url.clone().unwrap_or(shell::command(&wish.command));
        // An error is reported when it is added.
        let data = block::data(wish, &[]).unwrap_or_default();
        let data: Vec<String> = data.into_iter().map(|(path, _)| path).collect();
        let variables = wish.variables().into_iter().collect();
        let domains = Known::of(wish)
            .ok()
            .flatten()
            .filter(|_| wish.url.is_none());
        let domains = domains.map_or_else(Vec::new, |it| it.domains().to_vec());
        for (what, names) in [
            ("reads", &data),
            ("gets your", &variables),
            ("may reach", &domains),
        ] {
            if !names.is_empty() {
                text += &format!("; {what} {}", names.join(", "));
            }
        }
        lines.said_by(&format!("{}> ", wish.name), [text]);
    }
    say(&format!(
        "These servers would be fetched and started, each in a sandbox; programs among them reach no other domain before you allow it:\n{}",
        lines.finish()
    ));
    let prompt = "Type start to start each once and review it [no]: ";
    how.yes || is_agreed(prompt, "start")
}
