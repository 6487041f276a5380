//! `sluice-lab leakage`: what agents give away without an attacker (RTBAS §8.2 and §8.3.1), and with one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::leakage::{
    Agent, DOMAINS, Defence, Model, Report, Row, Scenario, Selection, Settings, User, scenarios,
};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use ifc::Screener;
use llm::{ApiKey, OpenAi, OpenAiConfig, Provider};

use crate::exit::Exit;
use crate::progress::Progress;
use crate::rows::{self, Rows};
use crate::served;
use crate::small_model;
use crate::terminal::{print, say};

/// The model that runs in this process.
const EMBEDDED: &str = "embedded";

#[derive(Debug, Args)]
pub(crate) struct Leakage {
    /// Domains.
    #[arg(long, value_delimiter = ',', default_values = DOMAINS)]
    domain: Vec<String>,
    /// The open tasks, those of the templates, or both.
    #[arg(long, value_enum, default_value_t = TasksArg::All)]
    tasks: TasksArg,
    /// What the tasks of the templates are made with: another number, other tasks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Defences by name, or `all` [default: those that need no model].
    #[arg(long, value_delimiter = ',')]
    defence: Vec<String>,
    /// Agents without a model: `ground-truth` uses exactly what a task needs, `over-sharing` fills every optional argument.
    #[arg(long, value_delimiter = ',', default_values = ["ground-truth", "over-sharing"])]
    agent: Vec<String>,
    /// A model in their place: `embedded`, or a model's name with `--upstream`.
    #[arg(long, value_name = "NAME", conflicts_with = "agent")]
    model: Option<String>,
    /// The OpenAI-compatible API that serves the model (with the key in OPENAI_API_KEY, if it is set). With `--defence none` this
    /// measures whatever stands behind the address.
    #[arg(long, value_name = "URL", requires = "model")]
    upstream: Option<String>,
    /// Whether arguments that are there to carry one kind of private data may carry it without a question.
    #[arg(long, value_enum, default_value_t = ArgumentsArg::Off)]
    arguments: ArgumentsArg,
    /// Without an attacker, with a stranger's text that asks for secrets, or both.
    #[arg(long, value_enum, default_value_t = VariantArg::Both)]
    variant: VariantArg,
    /// Keep rows and report here; the rows as they are made.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the rows in --out: what is there is reported and not run again.
    #[arg(long, requires = "out")]
    resume: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TasksArg {
    Open,
    Seeded,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArgumentsArg {
    Off,
    On,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VariantArg {
    None,
    Injection,
    Both,
}

/// Runs the benchmark.
pub(crate) async fn leakage(args: Leakage) -> Result<Exit> {
    let progress = Progress::new();
    let rows = run(&args, &progress);
    // Giving up the run loses nothing: each row is in its file before the next one is made.
    let rows = tokio::select! {
        rows = rows => Some(rows),
        _ = tokio::signal::ctrl_c() => None,
    };
    progress.clear();
    let Some(rows) = rows else {
        if let Some(folder) = &args.out {
            say(&rows::interrupted::<Row>(folder));
        }
        return Ok(Exit::Interrupted);
    };
    let rows = rows?;
    let report = Report::new(rows);
    if let Some(folder) = &args.out {
        keep(&report, folder)?;
    }
    let text = if args.json {
        report.json()?
    } else {
        report.text()
    };
    print(text.trim())?;
    Ok(match report.rows.iter().any(|row| row.error.is_some()) {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

fn selection(args: &Leakage) -> Selection {
    Selection {
        domains: args.domain.clone(),
        open: args.tasks != TasksArg::Seeded,
        seeded: args.tasks != TasksArg::Open,
    }
}

fn variants(args: &Leakage) -> &'static [bool] {
    match args.variant {
        VariantArg::None => &[false],
        VariantArg::Injection => &[true],
        VariantArg::Both => &[false, true],
    }
}

async fn run(args: &Leakage, progress: &Progress) -> Result<Vec<Row>> {
    let runs = settings(args).await?;
    let mut tasks = Vec::new();
    for inject in variants(args) {
        tasks.extend(scenarios(&selection(args), args.seed, *inject)?);
    }
    let mut rows: Rows<Row> = Rows::open(args.out.as_deref(), args.resume)?;
    for (number, settings) in runs.iter().enumerate() {
        let (agent, defence) = (settings.agent(), settings.defence.name());
        let head = format!("{}/{} {agent} behind {defence}", number + 1, runs.len());
        for (at, scenario) in tasks.iter().enumerate() {
            progress.moved(&head, at, tasks.len());
            for user in [User::Blocks, User::Allows] {
                let is_it = |row: &Row| is_row_of(row, settings, scenario, user);
                if !rows.all().iter().any(is_it) {
                    rows.add(settings.run(scenario, user).await?)?;
                }
            }
        }
    }
    Ok(rows.into_vec())
}

impl rows::Row for Row {
    const FILE: &'static str = "rows.jsonl";

    fn has_failed(&self) -> bool {
        self.error.is_some()
    }
}

/// Whether this is what came of this run.
fn is_row_of(row: &Row, settings: &Settings, scenario: &Scenario, user: User) -> bool {
    let seed = scenario.seeded.then_some(settings.seed);
    row.domain == scenario.domain.name()
        && row.task == scenario.task.id
        && row.seed == seed
        && row.agent == settings.agent()
        && row.defence == settings.defence.name()
        && row.arguments == settings.arguments
        && row.injected == scenario.injected.is_some()
        && row.allowed == (user == User::Allows)
}

/// What is run: each agent behind each defence.
async fn settings(args: &Leakage) -> Result<Vec<Settings>> {
    let models = models(args).await?;
    let is_scripted = args.model.is_none();
    let defences: Vec<Defence> = match args.defence.as_slice() {
        [] => Defence::ALL
            .into_iter()
            .filter(|defence| defence.is_free())
            .collect(),
        [all] if all == "all" => Defence::ALL.to_vec(),
        names => names
            .iter()
            .map(|name| Defence::parse(name))
            .collect::<Result<_>>()?,
    };
    let attention: Option<Arc<dyn Screener>> = match defences.iter().any(|it| it.needs_attention())
    {
        true => {
            let open = || small_model::screener(&small_model::weights(None)?, None);
            Some(Arc::new(tokio::task::spawn_blocking(open).await??))
        }
        false => None,
    };
    // Agents without a model cannot judge.
    let judge = match is_scripted && defences.iter().any(|it| it.needs_judge()) {
        true => Some(served::embedded(EMBEDDED)?),
        false => None,
    };
    let arguments: &[bool] = match args.arguments {
        ArgumentsArg::Off => &[false],
        ArgumentsArg::On => &[true],
        ArgumentsArg::Both => &[false, true],
    };
    let mut runs = Vec::new();
    for model in &models {
        for defence in &defences {
            for arguments in arguments {
                runs.push(Settings {
                    arguments: *arguments,
                    attention: attention.clone(),
                    judge: judge.clone(),
                    ..Settings::new(model.clone(), *defence, args.seed)
                });
            }
        }
    }
    Ok(runs)
}

async fn models(args: &Leakage) -> Result<Vec<Model>> {
    let provider: Arc<dyn Provider> = match (&args.model, &args.upstream) {
        (None, _) => {
            let agent = |name: &String| {
                let found = Agent::ALL.into_iter().find(|agent| agent.name() == name);
                let found = found.with_context(|| format!("there is no agent '{name}'"));
                Ok(Model::Scripted(found?))
            };
            return args.agent.iter().map(agent).collect();
        }
        (Some(name), Some(url)) => {
            let mut config = OpenAiConfig::new(name, url, name);
            config.api_key = std::env::var("OPENAI_API_KEY").ok().map(ApiKey::new);
            Arc::new(OpenAi::new(config)?)
        }
        (Some(name), None) if name == EMBEDDED => served::embedded(EMBEDDED)?,
        (Some(name), None) => {
            anyhow::bail!(
                "say with --upstream where the model {name} is, or use --model {EMBEDDED}"
            )
        }
    };
    Ok(vec![Model::Provider(provider)])
}

/// The report in a folder.
fn keep(report: &Report, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join("report.txt");
    fs::write(&path, report.text()).with_context(|| format!("cannot write {}", path.display()))
}
