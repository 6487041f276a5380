//! What the benches of AgentDojo share at the edge: the report's places, progress, Ctrl-C.

use std::fs;
use std::path::Path;
use std::time::Duration;

use agentdojo::report::Report;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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

/// What is going on, on stderr and only there.
#[derive(Debug, Clone)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    pub(super) fn say(&self, line: &str) {
        self.0.set_message(line.to_owned());
    }

    pub(super) fn moved(&self, head: &str, done: usize, total: usize) {
        self.0.set_message(format!("{head}: {done} of {total}"));
    }

    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
