//! What the benches of AgentDojo share at the edge: the report's places, progress, Ctrl-C.

use std::fs;
use std::path::Path;

use agentdojo::report::Report;
use anyhow::{Context, Result};
use clap::Args;

pub(super) use crate::progress::Progress;
use crate::terminal::print;

/// How a report is printed.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Shown {
    /// List every question of a task without an attack and every attack that succeeds, whatever the
    /// defence.
    #[arg(long)]
    pub(super) list: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// The report on stdout: of `goals` only the aims, and what the options add.
pub(super) fn show(report: &Report, shown: Shown, goals: bool) -> Result<()> {
    let text = match (shown.json, goals) {
        (true, _) => report.json()?,
        (false, false) => report.text(shown.list) + &report.goals_text(),
        (false, true) if shown.list => report.lists(true) + &report.goals_text(),
        (false, true) => report.goals_text(),
    };
    print(text.trim())?;
    Ok(())
}

/// The report and its plots in a folder.
pub(super) fn keep(report: &Report, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let json = ("report.json".to_owned(), report.json()?);
    // The report last: where it is, the plots are complete.
    let plots = report.tradeoff().into_iter().chain(report.utility());
    for (name, text) in plots.chain([json]) {
        write(&folder.join(name), &text)?;
    }
    Ok(())
}

/// Writes one file.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Ends early on Ctrl-C.
pub(super) async fn interruptible<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        _ = tokio::signal::ctrl_c() => None,
    }
}
