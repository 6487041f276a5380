//! `sluice trace`: what happened.

use std::io::IsTerminal;

use anyhow::Result;
use clap::{Args, Subcommand};
use hub::trace::{Event, Record, saliency, show};

use crate::exit::Exit;
use crate::json_lines::{self, print_json};
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
        /// Print JSON, one session per line.
        #[arg(long)]
        json: bool,
    },
    /// Show what happened in a session.
    #[command(
        after_help = "Example:\n  sluice trace show latest --saliency\n  sluice trace show latest --json > session.jsonl"
    )]
    Show {
        /// The name of a session, `latest`, or a file.
        #[arg(default_value = "latest")]
        session: String,
        /// Print JSON, one record per line.
        #[arg(long)]
        json: bool,
        /// Show how strongly each screened step depends on each region, as scored by the attention
        /// screener.
        #[arg(long, conflicts_with = "json")]
        saliency: bool,
    },
}

pub(crate) fn trace(args: &Trace) -> Result<Exit> {
    match &args.action {
        TraceAction::List { json } => list(*json)?,
        TraceAction::Show {
            session,
            json,
            saliency,
        } => match json {
            true => read(session)?.iter().try_for_each(print_json)?,
            false => print_for_people(&read(session)?, *saliency)?,
        },
    }
    Ok(Exit::Done)
}

fn list(as_json: bool) -> Result<()> {
    let sessions = sessions()?;
    if sessions.is_empty() && !as_json {
        say("there are no sessions yet; start one with `sluice run \"…\"`\n");
    }
    for file in sessions {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let value = serde_json::json!({ "session": name, "file": file });
        json_lines::show(as_json, &value, &name)?;
    }
    Ok(())
}

/// The records as lines, with the scores of regions below each screening if asked for.
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
            "no step of this session was screened\n"
        });
    }
    Ok(())
}
