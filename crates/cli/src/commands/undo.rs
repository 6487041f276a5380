//! `sluice undo`: what `sluice init` has changed, taken back.

use std::collections::BTreeSet;

use anyhow::Result;
use clap::Args;
use clients::{FileChange, Journal, Kind, Record, SettingsChange, Undone};
use config::ServiceSettings;
use jiff::Timestamp;

use super::init::{digest, folder, ids_of_clients};
use crate::commands::app::{section, take_out};
use crate::configuration::Found;
use crate::exit::Exit;
use crate::service;
use crate::terminal::{is_agreed, message, print, say};

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  sluice undo --list
  sluice undo
  sluice undo --client codex

A file that still is as `sluice init` wrote it gets its old bytes back. In one that was changed since, Sluice's entries are
taken out and the old ones put back; all else stays. Apps that no client needs any more leave your sluice.toml.")]
pub(crate) struct Undo {
    /// List what can be undone, and undo nothing.
    #[arg(long)]
    list: bool,
    /// Undo every run of `sluice init` [default: the last one].
    #[arg(long)]
    all: bool,
    /// Undo the changes of this client's files only, of every run (repeatable).
    #[arg(long, value_name = "NAME", value_parser = ids_of_clients(), conflicts_with = "all")]
    client: Vec<String>,
    /// Take Sluice's entries out without asking even if they were changed since [default: they stay].
    #[arg(long)]
    yes: bool,
}

/// Takes changes back, newest first.
pub(crate) fn undo(args: &Undo) -> Result<Exit> {
    let journal = Journal::open(&folder()?)?;
    let records = journal.records()?;
    if args.list {
        for record in &records {
            print(&line(record))?;
        }
        return Ok(Exit::Done);
    }
    let last = records.last().map(|record| record.run.clone());
    let is_chosen = |record: &&Record| match &record.kind {
        _ if args.all => true,
        Kind::File(change) if !args.client.is_empty() => args.client.contains(&change.client),
        // An app may be needed by no other client now.
        Kind::Settings(_) if !args.client.is_empty() => true,
        _ => Some(&record.run) == last.as_ref(),
    };
    let chosen: Vec<&Record> = records.iter().rev().filter(is_chosen).collect();
    let (mut failed, mut undone) = (false, false);
    for record in &chosen {
        if let Kind::File(change) = &record.kind {
            undone = true;
            failed |= !file(args, &journal, change)? || journal.remove(record).is_err();
        }
    }
    let left = journal.records()?;
    let needed = left.iter().filter_map(|record| match &record.kind {
        Kind::File(change) => Some(&change.apps),
        Kind::Settings(_) => None,
    });
    let needed: BTreeSet<&String> = needed.flatten().collect();
    for record in chosen {
        if let Kind::Settings(change) = &record.kind {
            undone |= settings(&journal, record, change, &needed)?;
        }
    }
    if !undone {
        say("there is nothing to undo\n");
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Undoes the change of a file. Whether it is undone.
fn file(args: &Undo, journal: &Journal, change: &FileChange) -> Result<bool> {
    let path = change.path.display();
    let may_take = |name: &str| {
        let prompt = format!(
            "The entry {name} in {path} was changed since. Type remove to remove it [no]: "
        );
        args.yes || is_agreed(&prompt, "remove")
    };
    match journal.undo(change, &may_take) {
        Ok(Undone::Restored) => message(&format!("{path} is as it was before")),
        Ok(Undone::Unchanged) => message(&format!("{path} had not been changed")),
        Ok(Undone::Entries { kept, left }) => {
            message(&format!(
                "{path} was changed since: only the entries of `sluice init` were taken back"
            ));
            for name in kept {
                message(&format!(
                    "  {name} was changed since and stays; --yes removes it"
                ));
            }
            for name in left {
                message(&format!(
                    "  {name} was not put back: there is another entry of that name, or its list is gone"
                ));
            }
        }
        Err(problem) => {
            let old = change
                .before
                .as_ref()
                .map(|it| journal.content(it).display().to_string());
            let old = old.map_or("there was no file before".to_owned(), |old| {
                format!("its old content is in {old}")
            });
            message(&format!("{path} is left alone: {problem}; {old}"));
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes the apps of a run that no client needs. Whether one was removed.
fn settings(
    journal: &Journal,
    record: &Record,
    change: &SettingsChange,
    needed: &BTreeSet<&String>,
) -> Result<bool> {
    let file = Found::new(&change.path, false);
    let (mut left, mut undone) = (change.clone(), false);
    for (app, lines) in change.apps.iter().filter(|(app, _)| !needed.contains(app)) {
        undone = true;
        let text = file.text()?;
        let own = section::split(&text, app)?.own;
        if lines
            .as_ref()
            .is_some_and(|lines| !own.is_empty() && *lines != digest(&own))
        {
            message(&format!(
                "the app {app} was changed since and stays; `sluice app remove {app}` removes it"
            ));
        } else if !own.is_empty() {
            if let Err(error) = take_out(app, &file, &text) {
                message(&format!("the app {app} stays: {error:#}"));
                continue;
            }
            let path = change.path.display();
            let service = service::find(&ServiceSettings::default()).ok().flatten();
            let keeps = match service.is_some_and(|it| it.file.as_ref() == Some(&change.path)) {
                true => "; the running service has it until it gets SIGHUP",
                false => "",
            };
            message(&format!("the app {app} was removed from {path}{keeps}"));
        }
        left.apps.remove(app);
    }
    if !change.existed && file.path().is_file() && file.text()?.trim().is_empty() {
        std::fs::remove_file(file.path())?;
    }
    match left.apps.is_empty() {
        true => journal.remove(record)?,
        false => journal.save(&record.of(Kind::Settings(left)))?,
    }
    Ok(undone)
}

/// A change in one line.
fn line(record: &Record) -> String {
    let at = i64::try_from(record.at_ms).ok();
    let at = at.and_then(|at| Timestamp::from_millisecond(at).ok());
    let at = at.map_or_else(String::new, |at| {
        at.strftime("%Y-%m-%d %H:%M UTC").to_string()
    });
    let what = match &record.kind {
        Kind::File(change) => format!("{:<14} {}", change.client, change.path.display()),
        Kind::Settings(change) => {
            let apps = change.apps.keys().cloned().collect::<Vec<_>>();
            format!(
                "{:<14} {}: {}",
                "apps",
                change.path.display(),
                apps.join(", ")
            )
        }
    };
    format!("run {}  {at}  {what}", record.run)
}
