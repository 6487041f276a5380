//! `sluice trace`: what happened.

use std::io::IsTerminal;

use anyhow::Result;
use clap::{Args, Subcommand};
use hub::trace::{Event, Record, saliency, show};

use crate::exit::Exit;
use crate::json_lines::print_json;
use crate::terminal::{print, print_escaped, say};
use crate::traces::{read, sessions};

#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[command(subcommand)]
    action: TraceAction,
}

#[derive(Debug, Subcommand)]
enum TraceAction {
    /// List the sessions, newest last.
    #[command(after_help = "Example:\n  sluice trace list --json")]
    List {
        /// Print one session per line, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a session for people.
    #[command(after_help = "Example:\n  sluice trace show latest --saliency")]
    Show {
        /// A session's name, `latest`, or a file.
        #[arg(default_value = "latest")]
        session: String,
        /// Print the records as JSON lines instead.
        #[arg(long)]
        json: bool,
        /// Below each screening, colour the regions by how strongly the step depends on them. Only
        /// the attention screener tells.
        #[arg(long, conflicts_with = "json")]
        saliency: bool,
    },
    /// Write a session's records to standard output, one JSON object per line.
    #[command(after_help = "Example:\n  sluice trace export latest > session.jsonl")]
    Export {
        /// A session's name, `latest`, or a file.
        #[arg(default_value = "latest")]
        session: String,
    },
}

/// Lists, shows or exports traces.
pub(crate) fn trace(args: &Trace) -> Result<Exit> {
    match &args.action {
        TraceAction::List { json } => list(*json)?,
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
                print_json(&record)?;
            }
        }
    }
    Ok(Exit::Done)
}

fn list(as_json: bool) -> Result<()> {
    let sessions = sessions()?;
    if sessions.is_empty() && !as_json {
        say("no sessions yet; `sluice run \"…\"` makes one\n");
    }
    for file in sessions {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match as_json {
            true => print_json(&serde_json::json!({ "session": name, "file": file }))?,
            false => print(&name)?,
        }
    }
    Ok(())
}

/// The records as lines for people, if wished with the scores of regions below each screening.
fn print_for_people(records: &[Record], with_saliency: bool) -> Result<()> {
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
