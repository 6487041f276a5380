//! `sluice-lab langchain`: LangChain's four benchmarks, as SecGPT measures with them (§5.2, §5.3, appendix D).
//!
//! `VanillaGPT` beside Sluice, with a model that makes no mistake, so that each loss is one of enforcement. The data are
//! ours: the figures compare the two systems here, not this table with the paper's.

mod emails;
mod queries;
mod relational;
mod report;
mod run;
mod score;
mod system;
mod typewriter;

use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;

use self::queries::Benchmark;
use self::run::{Row, Runner};
use self::system::System;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::served::{NAME, serve};
use crate::sluice::Sluice;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(crate) struct LangChain {
    /// Only the benchmarks whose name contains this.
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// Only the first queries of each benchmark.
    #[arg(long, value_name = "NUMBER")]
    queries: Option<usize>,
    /// Start without these sandbox layers if the kernel lacks them (see `sluice doctor`).
    #[arg(long, value_name = "LAYER", value_delimiter = ',')]
    allow_degraded: Vec<String>,
}

pub(crate) async fn langchain(args: LangChain) -> Result<Exit> {
    let wanted = |benchmark: &Benchmark| match &args.only {
        Some(words) => benchmark.name.contains(words.as_str()),
        None => true,
    };
    let benchmarks: Vec<Benchmark> = all()?.into_iter().filter(wanted).collect();
    if benchmarks.is_empty() {
        bail!("no benchmark has these words in its name");
    }
    let progress = Progress::new();
    let rows = run(&args, &benchmarks, &progress).await;
    progress.clear();
    let Some(rows) = rows? else {
        return Ok(Exit::Interrupted);
    };
    let (rows, failed): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.error.is_none());
    print(&report::report(&rows, &failed))?;
    report::hold(&rows)?;
    Ok(match failed.is_empty() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

/// All rows; `None` after Ctrl-C.
async fn run(
    args: &LangChain,
    benchmarks: &[Benchmark],
    progress: &Progress,
) -> Result<Option<Vec<Row>>> {
    let sluice = Sluice::find(&args.allow_degraded)?;
    let mut rows = Vec::new();
    for (number, benchmark) in benchmarks.iter().enumerate() {
        let served = serve(Arc::new(benchmark.model().provider(NAME))).await?;
        let runner = Runner::new(benchmark, served, &sluice)?;
        let most = args.queries.unwrap_or(usize::MAX);
        let count = benchmark.queries.len().min(most);
        for (at, query) in benchmark.queries.iter().take(most).enumerate() {
            for system in System::ALL {
                let Some(arguments) = benchmark.arguments(system) else {
                    continue;
                };
                let place = format!("{}/{}", number + 1, benchmarks.len());
                let head = format!("{place} {} by {}", benchmark.name, system.name());
                progress.moved(&head, at, count);
                match runner.run(query, system, arguments).await? {
                    Some(row) => rows.push(row),
                    None => return Ok(None),
                }
            }
        }
    }
    Ok(Some(rows))
}

/// All benchmarks.
fn all() -> Result<Vec<Benchmark>> {
    Ok(vec![
        typewriter::one_tool(),
        typewriter::an_app_for_each_letter(),
        relational::benchmark()?,
        emails::benchmark()?,
    ])
}
