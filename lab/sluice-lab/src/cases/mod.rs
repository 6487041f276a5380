//! `sluice-lab cases`: SecGPT's case studies (§5.1) and three later attacks, without protection, with the default
//! settings, and with the settings of each study.
//!
//! `VanillaGPT` is the same program, the same apps and the same model in one shared context, under rules that label
//! nothing and limit nothing. Whether an attack succeeded is read off what the apps and the mail server were really
//! given, and off what the user was told; never off what a model says it did.

mod benign;
mod report;
mod studies;
mod verdict;
mod way;
mod world;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use self::report::Row;
use self::studies::{Study, studies};
use self::verdict::Ended;
use self::way::Way;
use self::world::World;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::served::{self, NAME, Served, serve};
use crate::sluice::Sluice;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(crate) struct Cases {
    /// Who decides what to do next.
    #[arg(long, value_enum, default_value_t = ModelArg::WorstCase)]
    model: ModelArg,
    /// Only the studies whose name contains this.
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// Keep configurations, states of the apps and traces in this folder, which must be new.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Ask at every message between isolated apps, as SecGPT does.
    #[arg(long)]
    strict: bool,
    /// Instead of the studies, tasks over several apps that no one attacks: how often the user is asked, and model calls.
    #[arg(long, conflicts_with = "strict")]
    benign: bool,
    /// Print one run per line, as JSON.
    #[arg(long)]
    json: bool,
    /// Start without these sandbox layers if the kernel lacks them (see `sluice doctor`).
    #[arg(long, value_name = "LAYER", value_delimiter = ',')]
    allow_degraded: Vec<String>,
}

/// A model that the case studies run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModelArg {
    /// Competent at each task, and obeys every instruction that it can see.
    WorstCase,
    /// The embedded one. It makes mistakes of its own: an attack that fails with it proves nothing.
    Embedded,
}

pub(crate) async fn cases(args: Cases) -> Result<Exit> {
    let sluice = Sluice::find(&args.allow_degraded)?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = match &args.keep {
        Some(folder) => {
            std::fs::create_dir(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            std::fs::canonicalize(folder)?
        }
        None => temporary.path().to_owned(),
    };
    if args.benign {
        return benign::benign((args.only.as_deref(), args.json), &sluice, &folder).await;
    }
    let wanted = |study: &Study| match &args.only {
        Some(words) => study.name.contains(words.as_str()),
        None => true,
    };
    let studies: Vec<Study> = studies().into_iter().filter(wanted).collect();
    if studies.is_empty() {
        bail!("no study has these words in its name");
    }
    let embedded = match args.model {
        ModelArg::Embedded => {
            let progress = Progress::new();
            progress.say("loading the model");
            let embedded = serve(served::embedded(NAME)?).await?;
            progress.clear();
            Some(embedded)
        }
        ModelArg::WorstCase => None,
    };
    let mut rows = Vec::new();
    for study in &studies {
        let own;
        let served = match &embedded {
            Some(served) => served,
            None => {
                own = serve(Arc::new((study.model)().provider(NAME))).await?;
                &own
            }
        };
        for way in Way::ALL {
            let folder = folder.join(format!("{}-{way:?}", study.name.replace(' ', "-")));
            let Some(row) = run(&args, &sluice, study, way, served, &folder).await? else {
                return Ok(Exit::Interrupted);
            };
            if args.json {
                print(&serde_json::to_string(&row)?)?;
            }
            rows.push(row);
        }
    }
    if !args.json {
        print(&report::table(&rows))?;
    }
    if args.model == ModelArg::WorstCase {
        report::hold(&rows)?;
    }
    Ok(Exit::Done)
}

/// One study in one way; `None` after Ctrl-C.
async fn run(
    args: &Cases,
    sluice: &Sluice,
    study: &Study,
    way: Way,
    served: &Served,
    folder: &std::path::Path,
) -> Result<Option<Row>> {
    let world = World::create(folder, &study.setting, (way, args.strict), &served.base_url)?;
    let arguments = study.arguments(way);
    // The embedded model serves all runs: what it was shown in the last one is not this one's.
    served.forget();
    let session = sluice
        .ask(world.home(), study.queries, &arguments, false)
        .await?;
    if session.interrupted {
        return Ok(None);
    }
    let prompts = served.prompts();
    let ended = Ended {
        world: &world,
        session: &session,
        prompts,
        way,
    };
    let finding = (study.verdict)(&ended)?;
    Ok(Some(Row::new(study.name, way, finding, &ended)))
}
