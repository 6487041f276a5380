//! What the benches of AgentDojo share at the edge: the report's places, progress, Ctrl-C.

use std::fs;
use std::path::Path;

use agentdojo::report::Report;
use anyhow::{Context, Result};

pub(super) use crate::progress::Progress;
use crate::terminal::print;

/// The report on stdout.
pub(super) fn show(report: &Report, json: bool) -> Result<()> {
    match json {
        true => print(&report.json()?)?,
        false => print(report.text().trim_end())?,
    }
    Ok(())
}

/// The report and its plots in a folder.
pub(super) fn keep(report: &Report, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let json = ("report.json".to_owned(), report.json()?);
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
