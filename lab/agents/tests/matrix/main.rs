//! Real agents, unmodified, before a scripted worst-case model: `cargo xtask agents`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "a command-line tool of the laboratory"
)]

mod agent;
mod mcp;
mod person;
mod report;
mod run;
mod scenario;
mod sdks;

use std::collections::VecDeque;
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand, ValueEnum};

use crate::agent::Agent;
use crate::run::{Guard, Outcome, Programs};
use crate::scenario::Scenario;

/// Runs at a time.
const WORKERS: usize = 2;

/// Real agents before a scripted model that obeys every order that it can see.
#[derive(Debug, Parser)]
#[command(name = "agents", no_binary_name = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run agents on scenarios behind guards, and print what came of it.
    Matrix(Matrix),
    /// Run official clients of the three APIs before the proxy.
    Sdks(sdks::Sdks),
    /// Serve notes and mail on standard input and output; runs start it.
    Mcp {
        /// The server's folder.
        folder: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct Matrix {
    /// Only this agent (repeatable) [default: all].
    #[arg(long, value_enum, value_name = "AGENT")]
    agent: Vec<Agent>,
    /// Only scenarios whose name contains this (repeatable) [default: all].
    #[arg(long, value_name = "WORDS")]
    scenario: Vec<String>,
    /// Only this guard (repeatable) [default: all but `draft`].
    #[arg(long, value_enum, value_name = "GUARD")]
    guard: Vec<Guard>,
    /// Runs of each.
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,
    /// Print each run as a line of JSON, and no table.
    #[arg(long)]
    json: bool,
    /// The folder with the commands `claude`, `codex` and `opencode` [default: where `cargo xtask agents` installs them].
    #[arg(long, value_name = "DIR")]
    agents: Option<PathBuf>,
    /// The folder with `sluice` and its programs [default: where this program was built].
    #[arg(long, value_name = "DIR")]
    sluice: Option<PathBuf>,
    /// Write the tables into docs/measurements.md.
    #[arg(long)]
    write: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // As a test among others it has nothing to say: cargo starts it without words of its own, nextest asks for a list.
    if !matches!(
        arguments.first().map(String::as_str),
        Some("matrix" | "sdks" | "mcp" | "help")
    ) {
        if arguments.is_empty() {
            eprintln!("NOT RUN: `cargo xtask agents` installs the agents and runs them");
        }
        return ExitCode::SUCCESS;
    }
    let result = match Args::parse_from(arguments).command {
        Command::Matrix(args) => matrix(&args),
        Command::Sdks(args) => sdks::sdks(&args),
        Command::Mcp { folder } => mcp::serve(&folder).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// The exit code is 3 if a run did not come out as it must.
fn matrix(args: &Matrix) -> Result<ExitCode> {
    let programs = Programs::find(args.agents.as_deref(), args.sluice.as_deref())?;
    let mut jobs = jobs(args)?;
    let count = jobs.len();
    if count == 0 {
        bail!("no scenario has such a name");
    }
    let outcomes = Mutex::new(Vec::<Outcome>::new());
    let jobs = Mutex::new(&mut jobs);
    let next = || {
        jobs.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    };
    let work = || -> Result<()> {
        while let Some((agent, scenario, guard, number)) = next() {
            let outcome = run::run(&programs, agent, &scenario, guard, number)?;
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.push(outcome.clone());
            eprintln!("{}/{count} {}", outcomes.len(), report::line(&outcome));
            if args.json {
                println!("{}", serde_json::to_string(&outcome)?);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a run of the laboratory has panicked"),
        });
        ended.collect::<Result<Vec<()>>>()
    })?;
    let outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let tables = report::tables(&outcomes);
    if !args.json {
        println!("{tables}");
    }
    if args.write {
        report::write(&tables)?;
    }
    Ok(match outcomes.iter().all(report::is_as_it_must) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(3),
    })
}

type Job = (Agent, Scenario, Guard, usize);

fn jobs(args: &Matrix) -> Result<VecDeque<Job>> {
    let agents = match args.agent.as_slice() {
        [] => Agent::value_variants(),
        some => some,
    };
    let usual = [Guard::None, Guard::Gateway, Guard::Proxy, Guard::Guard];
    let guards = match args.guard.as_slice() {
        [] => &usual,
        some => some,
    };
    let wanted = |name: &str| {
        args.scenario.is_empty() || args.scenario.iter().any(|it| name.contains(it.as_str()))
    };
    let scenarios = scenario::scenarios()?
        .into_iter()
        .filter(|it| wanted(&it.name));
    let mut jobs = VecDeque::new();
    for scenario in scenarios {
        for (guard, agent) in guards
            .iter()
            .flat_map(|guard| agents.iter().map(move |agent| (*guard, *agent)))
        {
            jobs.extend((0..args.runs).map(|run| (agent, scenario.clone(), guard, run)));
        }
    }
    Ok(jobs)
}
