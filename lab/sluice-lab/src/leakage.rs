//! `sluice-lab leakage`: what agents give away without an attacker (RTBAS §8.2 and §8.3.1).

use std::sync::Arc;

use ::leakage::{Agent, Defence, Row, Selection, Settings, User, report, scenarios};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use ifc::Screener;

use crate::exit::{Exit, interruptible};
use crate::progress::Progress;
use crate::small_model;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(crate) struct Leakage {
    /// The open tasks, those of the templates, or both.
    #[arg(long, value_enum, default_value_t = TasksArg::All)]
    tasks: TasksArg,
    /// The seed of the tasks of the templates.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Defences by name [default: those that need no model].
    #[arg(long, value_delimiter = ',')]
    defence: Vec<String>,
    /// Agents: `ground-truth` uses exactly what a task needs, `over-sharing` fills every optional argument.
    #[arg(long, value_delimiter = ',', default_values = ["ground-truth", "over-sharing"])]
    agent: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TasksArg {
    Open,
    Seeded,
    All,
}

pub(crate) async fn leakage(args: Leakage) -> Result<Exit> {
    let progress = Progress::new();
    let rows = interruptible(run(&args, &progress)).await;
    progress.clear();
    let Some(rows) = rows else {
        return Ok(Exit::Interrupted);
    };
    let rows = rows?;
    print(report(&rows).trim())?;
    Ok(match rows.iter().any(|row| row.error.is_some()) {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

async fn run(args: &Leakage, progress: &Progress) -> Result<Vec<Row>> {
    let runs = settings(args).await?;
    let selection = Selection {
        open: args.tasks != TasksArg::Seeded,
        seeded: args.tasks != TasksArg::Open,
    };
    let tasks = scenarios(selection, args.seed)?;
    let mut rows = Vec::new();
    for (number, settings) in runs.iter().enumerate() {
        let (agent, defence) = (settings.agent.name(), settings.defence.name());
        let head = format!("{}/{} {agent} behind {defence}", number + 1, runs.len());
        for (at, scenario) in tasks.iter().enumerate() {
            progress.moved(&head, at, tasks.len());
            for user in [User::Blocks, User::Allows] {
                rows.push(settings.run(scenario, user).await?);
            }
        }
    }
    Ok(rows)
}

/// Each agent behind each defence.
async fn settings(args: &Leakage) -> Result<Vec<Settings>> {
    let agent = |name: &String| {
        let found = Agent::ALL.into_iter().find(|agent| agent.name() == name);
        found.with_context(|| format!("there is no agent '{name}'"))
    };
    let agents: Vec<Agent> = args.agent.iter().map(agent).collect::<Result<_>>()?;
    let defences: Vec<Defence> = match args.defence.as_slice() {
        [] => Defence::all().filter(|it| !it.needs_attention()).collect(),
        names => {
            let named = names.iter().map(|name| Defence::parse(name));
            named.collect::<Result<_>>()?
        }
    };
    let needs_attention = defences.iter().any(|it| it.needs_attention());
    let attention: Option<Arc<dyn Screener>> = match needs_attention {
        true => {
            let open = || small_model::screener(&small_model::weights(None)?);
            Some(Arc::new(tokio::task::spawn_blocking(open).await??))
        }
        false => None,
    };
    let runs = agents.into_iter().flat_map(|agent| {
        let attention = attention.clone();
        defences.iter().map(move |defence| Settings {
            agent,
            defence: *defence,
            attention: attention.clone(),
        })
    });
    Ok(runs.collect())
}
