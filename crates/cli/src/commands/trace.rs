//! `sluice trace`: what happened.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hub::trace::{Event, Record, saliency, show};
use server::TraceFile;

use crate::args::{Trace, TraceAction};
use crate::exit::Exit;
use crate::paths;
use crate::terminal::{print, print_escaped, say};

/// Lists, shows or exports traces.
pub(crate) fn trace(args: &Trace) -> Result<Exit> {
    match &args.action {
        TraceAction::List => list()?,
        TraceAction::Show {
            session,
            json: false,
            saliency,
        } => print_for_people(&read(session)?, *saliency)?,
        TraceAction::Show {
            session,
            json: true,
            ..
        }
        | TraceAction::Export { session } => {
            for record in read(session)? {
                print(&serde_json::to_string(&record)?)?;
            }
        }
    }
    Ok(Exit::Done)
}

fn list() -> Result<()> {
    let sessions = sessions()?;
    if sessions.is_empty() {
        say("no sessions yet; `sluice run \"…\"` makes one\n");
    }
    for file in sessions {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        print(&name)?;
    }
    Ok(())
}

/// The records as lines for people, if wished with the scores of regions below each screening.
///
/// # Errors
/// Standard output is closed.
pub(crate) fn print_for_people(records: &[Record], with_saliency: bool) -> Result<()> {
    let start_ms = records.first().map_or(0, |record| record.at_ms);
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut scored = 0;
    for record in records {
        print(&show(record, start_ms))?;
        if with_saliency {
            let lines = saliency(record, colour);
            scored += lines.len();
            lines.iter().try_for_each(|line| print_escaped(line))?;
        }
    }
    if with_saliency && scored == 0 {
        let screened = |record: &Record| matches!(record.event, Event::Screened { .. });
        say(if records.iter().any(screened) {
            "no screening of this session has scores: only kind = \"attention\" and \
             \"combined\" under [screener] give them\n"
        } else {
            "no step of this session needed a screening\n"
        });
    }
    Ok(())
}

/// The records of a session: its name, `latest`, or a file.
///
/// # Errors
/// There is no such session, or it cannot be read.
pub(crate) fn read(session: &str) -> Result<Vec<Record>> {
    Ok(TraceFile::read(&find(session)?)?)
}

fn find(session: &str) -> Result<PathBuf> {
    if session == "latest" {
        return sessions()?
            .pop()
            .context("no sessions yet; `sluice run \"…\"` makes one");
    }
    let file = Path::new(session);
    if file.is_file() {
        return Ok(file.to_owned());
    }
    let named = paths::traces()?.join(format!("{session}.jsonl"));
    // A name is one component; anything else was meant as a file.
    if file.components().count() == 1 && named.is_file() {
        return Ok(named);
    }
    bail!("there is no session {session}; see `sluice trace list`")
}

/// Trace files, oldest first: names begin with the time.
fn sessions() -> Result<Vec<PathBuf>> {
    let directory = paths::traces()?;
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", directory.display()));
        }
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
