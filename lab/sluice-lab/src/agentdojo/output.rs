//! What the benches of AgentDojo share at the edge: the report's places, progress, Ctrl-C.

use std::fs;
use std::path::Path;

use agentdojo::report::Report;
use anyhow::{Context, Result};

pub(super) use crate::progress::Progress;
use crate::terminal::print;

/// The report on stdout; with `goals` the aims alone.
pub(super) fn show(report: &Report, json: bool, goals: bool) -> Result<()> {
    let text = match (json, goals) {
        (true, _) => report.json()?,
        (false, false) => report.text() + &report.goals_text(),
        (false, true) => report.goals_text(),
    };
    print(text.trim())?;
    Ok(())
}

/// The report in a folder.
pub(super) fn keep(report: &Report, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join("report.json");
    fs::write(&path, report.json()?).with_context(|| format!("cannot write {}", path.display()))
}

/// Ends early on Ctrl-C.
pub(super) async fn interruptible<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        _ = tokio::signal::ctrl_c() => None,
    }
}
