//! `sluice-lab langchain`: LangChain's four benchmarks, as SecGPT measures with them (§5.2, §5.3, appendix D).
//!
//! `VanillaGPT` beside Sluice, with a model that makes no mistake (so that whatever is lost was lost by enforcement) or with the
//! embedded one. The data are ours: the figures compare the two systems here, not this table with the paper's.

mod emails;
mod plot;
mod queries;
mod relational;
mod report;
mod run;
mod score;
mod system;
mod times;
mod typewriter;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use self::queries::Benchmark;
use self::run::{Row, Runner};
use self::system::System;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::served::{self, NAME, serve};
use crate::terminal::print;

#[derive(Debug, Args)]
pub(crate) struct LangChain {
    /// Who answers.
    #[arg(long, value_enum, default_value_t = ModelArg::Perfect)]
    model: ModelArg,
    /// Only the benchmarks whose name contains this.
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// Only the first queries of each benchmark.
    #[arg(long, value_name = "NUMBER")]
    queries: Option<usize>,
    /// Keep rows, report and plot in this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one run per line, as JSON, instead of the report.
    #[arg(long)]
    json: bool,
    /// Start without these sandbox layers if the kernel lacks them (see `sluice doctor`).
    #[arg(long, value_name = "LAYER", value_delimiter = ',')]
    allow_degraded: Vec<String>,
}

/// A model that the benchmarks run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModelArg {
    /// Knows every query by heart.
    Perfect,
    /// The embedded one.
    Embedded,
}

/// Runs the benchmarks.
pub(crate) async fn langchain(args: LangChain) -> Result<Exit> {
    // Ctrl-C reaches `sluice` as well, which ends its spokes and says that it was interrupted.
    tokio::spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
    let wanted = |benchmark: &Benchmark| match &args.only {
        Some(words) => benchmark.name.contains(words.as_str()),
        None => true,
    };
    let benchmarks: Vec<Benchmark> = all()?.into_iter().filter(wanted).collect();
    if benchmarks.is_empty() {
        bail!("no benchmark has these words in its name");
    }
    let progress = Progress::new();
    let embedded = match args.model {
        ModelArg::Embedded => {
            progress.say("loading the model");
            Some(serve(served::embedded().await?).await?)
        }
        ModelArg::Perfect => None,
    };
    let mut rows: Vec<Row> = Vec::new();
    for benchmark in &benchmarks {
        let own;
        let served = match &embedded {
            Some(served) => served,
            None => {
                own = serve(Arc::new(benchmark.model().provider(NAME))).await?;
                &own
            }
        };
        let runner = Runner::new(benchmark, served, &args.allow_degraded)?;
        let most = args.queries.unwrap_or(usize::MAX);
        let count = benchmark.queries.len().min(most);
        for (at, query) in benchmark.queries.iter().take(most).enumerate() {
            progress.moved(benchmark.name, at, count);
            for system in System::ALL {
                let Some(arguments) = benchmark.arguments(system) else {
                    continue;
                };
                let Some(row) = runner.run(query, system, arguments).await? else {
                    return Ok(Exit::Interrupted);
                };
                if args.json {
                    print(&serde_json::to_string(&row)?)?;
                }
                rows.push(row);
            }
        }
    }
    progress.clear();
    let report = report::report(&rows);
    if !args.json {
        print(&report)?;
    }
    if let Some(folder) = &args.out {
        keep(folder, &rows, &report)?;
    }
    if args.model == ModelArg::Perfect {
        report::hold(&rows)?;
    }
    Ok(Exit::Done)
}

/// All benchmarks.
///
/// # Errors
/// A reference does not parse.
fn all() -> Result<Vec<Benchmark>> {
    Ok(vec![
        typewriter::one_tool(),
        typewriter::an_app_for_each_letter(),
        relational::benchmark(),
        emails::benchmark()?,
    ])
}

fn keep(folder: &std::path::Path, rows: &[Row], report: &str) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut lines = String::new();
    for row in rows {
        lines += &serde_json::to_string(row)?;
        lines.push('\n');
    }
    std::fs::write(folder.join("langchain.jsonl"), lines)?;
    std::fs::write(folder.join("langchain.txt"), report)?;
    std::fs::write(folder.join("figure9.svg"), plot::figure(rows))?;
    Ok(())
}
