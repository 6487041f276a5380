//! `sluice audit`: what was decided, answered and changed, and whether the record of it is whole.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::json;
use server::audit::{Entry, Fault, ocsf, verify};
use store::{AuditLog, ChainId, Time};

use super::token::duration;
use crate::deployment;
use crate::exit::Exit;
use crate::json_lines::{escaped, print_json, show};
use crate::permissions::now;
use crate::place::ConfigFile;
use crate::terminal::{print, print_escaped, say};
use crate::words::{counted, minute, set};

#[derive(Debug, Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    file: ConfigFile,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check that no entry was changed, added or removed.
    #[command(
        after_help = "Example:\n  sluice audit verify\n  sluice audit verify --heads /backup/audit-heads.jsonl --json\n\n\
                      The service may be running. Exit codes: 0 nothing is wrong, 1 error, 2 wrong usage, 3 the log was changed.\n\
                      Keep copies of the heads on another machine: without them, a log that was replaced by an older copy of\n\
                      itself looks whole."
    )]
    Verify {
        /// The file of the heads outside of the store [default: the one that this machine has written].
        #[arg(long, value_name = "FILE")]
        heads: Option<PathBuf>,
        /// A public key that signs heads, once for each [default: that of the secret of the deployment].
        #[arg(long = "key", value_name = "KEY")]
        keys: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show entries, the oldest first. Arguments and texts are in the log as digests alone.
    #[command(after_help = "Example:\n  sluice audit show --since 1d --outcome deny")]
    Show {
        #[command(flatten)]
        filter: Filter,
        /// Print JSON, one entry per line, as it is stored.
        #[arg(long)]
        json: bool,
    },
    /// Print entries for another program, one JSON object per line, in the form of the Open Cybersecurity Schema Framework.
    #[command(after_help = "Example:\n  sluice audit export --since 1d > audit.jsonl")]
    Export {
        #[command(flatten)]
        filter: Filter,
    },
    /// Print the public key that signs heads.
    #[command(after_help = "Example:\n  sluice audit key")]
    Key,
}

/// Which entries.
#[derive(Debug, Args)]
struct Filter {
    /// Only entries of this last time: a number with m, h, d or w [default: all].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    since: Option<i64>,
    /// Only what this user, approver or token did.
    #[arg(long)]
    who: Option<String>,
    /// Only what is about this tool.
    #[arg(long)]
    tool: Option<String>,
    /// Only what ended so: allow, ask, deny, once, no, failed …
    #[arg(long)]
    outcome: Option<String>,
}

/// Checks or shows the audit log.
pub(crate) async fn audit(args: &Audit) -> Result<Exit> {
    let config = args.file.open(!matches!(args.action, Action::Key))?;
    let log = async || anyhow::Ok(deployment::store(&config).await?.audit());
    match &args.action {
        Action::Key => {
            let keys = deployment::audit_keys(&config)?;
            keys.first().map_or(Ok(()), |key| print(key))?;
        }
        Action::Verify { heads, keys, json } => {
            let keys = match keys.is_empty() {
                true => deployment::audit_keys(&config)?,
                false => keys.clone(),
            };
            return check(&*log().await?, &keys, heads.clone(), *json).await;
        }
        Action::Show { filter, json } => {
            each(&*log().await?, filter, |entry, text| match json {
                true => Ok(print_escaped(&escaped(text))?),
                false => Ok(show(false, &(), &line(entry))?),
            })
            .await?;
        }
        Action::Export { filter } => {
            each(&*log().await?, filter, |entry, text| {
                Ok(print_json(&ocsf(entry, text))?)
            })
            .await?;
        }
    }
    Ok(Exit::Done)
}

async fn check(
    log: &dyn AuditLog,
    keys: &[String],
    heads: Option<PathBuf>,
    as_json: bool,
) -> Result<Exit> {
    let is_default = heads.is_none();
    let file = heads.map_or_else(deployment::heads, Ok)?;
    let witnessed = match fs::read_to_string(&file) {
        Err(error) if is_default && error.kind() == ErrorKind::NotFound => String::new(),
        text => text.with_context(|| format!("the heads in {} cannot be read", file.display()))?,
    };
    let witnessed: Vec<String> = witnessed.lines().map(str::to_owned).collect();
    let report = verify(log, keys, &witnessed).await?;
    let exit = match report.faults.is_empty() {
        true => Exit::Done,
        false => Exit::Refused,
    };
    if as_json {
        let open = report
            .open
            .iter()
            .map(|(end, at)| json!({"chain": end.chain, "entries": end.number, "at": at.millis()}));
        print_json(&json!({
            "chains": report.chains,
            "entries": report.entries,
            "removed": report.removed,
            "heads": report.witnessed,
            "heads_of_other_stores": report.others,
            "open": open.collect::<Vec<_>>(),
            "faults": report.faults,
        }))?;
        return Ok(exit);
    }
    for (end, at) in &report.open {
        let (chain, number, at) = (&end.chain, end.number, minute(*at));
        say(&format!(
            "chain {chain} has no closing head: its process is running, or ended without one after entry {number} ({at})\n"
        ));
    }
    for fault in &report.faults {
        say(&format!("{fault}\n"));
    }
    let entries = counted(usize::try_from(report.entries)?, "entry", "entries");
    let chains = counted(report.chains, "chain", "chains");
    let heads = counted(report.witnessed, "head", "heads");
    if report.others > 0 {
        let others = counted(report.others, "head is", "heads are");
        say(&format!(
            "{others} of chains of another store than {}, and not compared\n",
            log.store()
        ));
    }
    let is_of_key = |fault: &Fault| ["key", "witness"].contains(&fault.kind);
    match exit {
        Exit::Done => say(&format!(
            "{entries} in {chains} are as they were written; {heads} outside of the store agree\n"
        )),
        _ if report.faults.iter().all(is_of_key) => say(
            "All that is wrong is the key. If the secret here is not that of the log, copy the file `secret` of its service, or\n\
             give --key KEY, which `sluice audit key` prints there. If it is, the log was written anew by another program\n",
        ),
        _ => say(
            "The log was changed. Keep a copy of the database and of the heads before anything else, compare with a backup\n\
             (`sluice audit verify` on a restored one), and look who can write to the database\n",
        ),
    }
    Ok(exit)
}

/// Calls `with` for each entry that the filter lets pass, in the order of their times.
async fn each(
    log: &dyn AuditLog,
    filter: &Filter,
    mut with: impl FnMut(&Entry, &str) -> Result<()>,
) -> Result<()> {
    let since = (filter.since).map_or(0, |since| now().millis().saturating_sub(since));
    let mut after = (Time::from_millis(since), ChainId::from_bytes([0; 16]), 0);
    loop {
        let page = log.read(after).await?;
        let Some((chain, last)) = page.last() else {
            return Ok(());
        };
        after = (last.at, *chain, last.number);
        for (chain, stored) in &page {
            let damaged = || {
                format!(
                    "entry {} of the chain {chain} is damaged; run `sluice audit verify`",
                    stored.number
                )
            };
            let entry: Entry = serde_json::from_str(&stored.text).with_context(damaged)?;
            let note = &entry.note;
            let is = |wanted: &Option<String>, own: Option<&str>| {
                wanted.as_deref().is_none_or(|wanted| own == Some(wanted))
            };
            let passes = is(&filter.who, note.text("who"))
                && is(&filter.tool, note.text("tool"))
                && is(&filter.outcome, Some(&note.outcome));
            if passes {
                with(&entry, &stored.text)?;
            }
        }
    }
}

/// `2026-11-27 16:40  decision deny  ada  proxy  mail.send  send.limit  {untrusted:mail}`.
fn line(entry: &Entry) -> String {
    let note = &entry.note;
    let mut parts = vec![minute(entry.at), format!("{} {}", note.kind, note.outcome)];
    for name in [
        "who", "tenant", "front", "app", "tool", "rule", "name", "from", "to",
    ] {
        parts.extend(note.text(name).map(|value| format!("{name} {value}")));
    }
    let label = note.about.get("label").and_then(|it| it.as_array());
    let label = label.map(|names| names.iter().filter_map(|it| it.as_str()).map(str::to_owned));
    parts.extend(label.map(|names| set(&names.collect::<Vec<_>>())));
    parts.join("  ")
}
