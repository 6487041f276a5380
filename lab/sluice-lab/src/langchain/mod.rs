//! `sluice-lab langchain`: LangChain's four benchmarks, as SecGPT measures with them (§5.2, §5.3, appendix D).
//!
//! `VanillaGPT` beside Sluice, with a model that makes no mistake (so that whatever is lost was lost by enforcement) or with the
//! embedded one. The data are ours: the figures compare the two systems here, not this table with the paper's.

mod emails;
mod queries;
mod relational;
mod report;
mod run;
mod score;
mod system;
mod typewriter;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use self::queries::Benchmark;
use self::run::{Row, Runner};
use self::system::System;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::rows::{self, Rows};
use crate::served::{self, NAME, Served, serve};
use crate::terminal::{print, say};

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
    /// Keep rows and report in this folder; the rows as they are made.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the rows in --out: what is there is reported and not run again.
    #[arg(long, requires = "out")]
    resume: bool,
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

impl ModelArg {
    fn name(self) -> &'static str {
        match self {
            Self::Perfect => "perfect",
            Self::Embedded => "embedded",
        }
    }
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
    let rows = run(&args, &benchmarks, &progress).await;
    progress.clear();
    let Some(rows) = rows? else {
        if let Some(folder) = &args.out {
            say(&rows::interrupted::<Row>(folder));
        }
        return Ok(Exit::Interrupted);
    };
    let (rows, failed): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.error.is_none());
    let report = report::report(&rows, &failed);
    if !args.json {
        print(&report)?;
    }
    if let Some(folder) = &args.out {
        std::fs::write(folder.join("langchain.txt"), report)?;
    }
    if args.model == ModelArg::Perfect {
        report::hold(&rows)?;
    }
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
    let mut rows: Rows<Row> = Rows::open(args.out.as_deref(), args.resume)?;
    let model = args.model.name();
    // A report over rows of two models would compare models and call it systems.
    if let Some(other) = rows.all().iter().find(|row| row.model != model) {
        bail!(
            "the rows that are there are of the model {}, not of {model}",
            other.model
        );
    }
    for row in rows.all().iter().filter(|_| args.json) {
        print(&serde_json::to_string(row)?)?;
    }
    let embedded = match args.model {
        ModelArg::Embedded => {
            progress.say("loading the model");
            Some(serve(served::embedded(NAME)?).await?)
        }
        ModelArg::Perfect => None,
    };
    for (number, benchmark) in benchmarks.iter().enumerate() {
        let own;
        let served: &Served = match &embedded {
            Some(served) => served,
            None => {
                own = serve(Arc::new(benchmark.model().provider(NAME))).await?;
                &own
            }
        };
        let runner = Runner::new(benchmark, (served, model), &args.allow_degraded)?;
        let most = args.queries.unwrap_or(usize::MAX);
        let count = benchmark.queries.len().min(most);
        for (at, query) in benchmark.queries.iter().take(most).enumerate() {
            for system in System::ALL {
                let Some(arguments) = benchmark.arguments(system) else {
                    continue;
                };
                if rows
                    .all()
                    .iter()
                    .any(|row| runner.is_row_of(row, query, system))
                {
                    continue;
                }
                let place = format!("{}/{}", number + 1, benchmarks.len());
                let head = format!("{place} {} by {}", benchmark.name, system.name());
                progress.moved(&head, at, count);
                let Some(row) = runner.run(query, system, arguments).await? else {
                    return Ok(None);
                };
                if args.json {
                    print(&serde_json::to_string(&row)?)?;
                }
                rows.add(row)?;
            }
        }
    }
    Ok(Some(rows.into_vec()))
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
