//! `sluice-lab bench agentdojo report`: the report of several folders of rows.

use std::path::PathBuf;

use agentdojo::{closed_loop::read_folder, report::Report};
use anyhow::{Context, Result};
use clap::Args;

use super::output;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Folders with rows. A task that is in several counts as the last one has it.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Write `report.json` here.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the report.
pub(super) fn report(args: &ReportArgs) -> Result<Exit> {
    let mut rows = Vec::new();
    for folder in &args.folders {
        let kept = read_folder(folder);
        rows.extend(kept.with_context(|| {
            let folder = folder.display();
            format!("{folder} is not what `loop --out` kept")
        })?);
    }
    let report = Report::new(&rows);
    output::show(&report, args.json, false)?;
    if let Some(folder) = &args.out {
        output::keep(&report, folder)?;
    }
    Ok(Exit::Done)
}
