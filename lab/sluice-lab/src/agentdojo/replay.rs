//! `sluice-lab bench agentdojo replay`: recorded runs through labels, screener and policy.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use agentdojo::{
    python::{Python, cache_folder},
    replay::{
        GPT_4O, MAIN_ATTACK, MODELS, Method, Options, Progress as Step, ReplayReport,
        questions_text, replay_text,
    },
};
use anyhow::{Context, Result, bail};
use clap::Args;

use super::output::{self, Progress, interruptible};
use crate::exit::Exit;
use crate::terminal::print;

/// Each thread has a Python of its own, of some 200 MB.
const MAX_THREADS: usize = 8;

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// Recorded models, or `all` three that the paper's figures are about.
    #[arg(long, value_delimiter = ',', default_values = [GPT_4O])]
    model: Vec<String>,
    /// Attacks by name, `none`, or `all` that were recorded. Runs without one are always read.
    #[arg(long, value_delimiter = ',', default_values = [MAIN_ATTACK])]
    attack: Vec<String>,
    /// Methods: none, naive, naive-checked, redact-all, values-eager, values-lazy, values-checked, or `all`.
    #[arg(long, value_delimiter = ',', default_values = ["all"])]
    method: Vec<String>,
    /// A fixed sample, one run of 23: some seconds once everything is fetched.
    #[arg(long)]
    quick: bool,
    /// Threads, each with a Python process [default: one per core].
    #[arg(long)]
    threads: Option<usize>,
    /// Write `replay.json` here.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// List every question of a run without an attack, too.
    #[arg(long)]
    list: bool,
    /// Print the replay's figures as JSON.
    #[arg(long)]
    json: bool,
}

/// Replays.
pub(super) async fn replay(args: ReplayArgs) -> Result<Exit> {
    let progress = Progress::new();
    let work = {
        let options = options(&args)?;
        let progress = progress.clone();
        tokio::task::spawn_blocking(move || run(options, &progress))
    };
    let done = interruptible(work).await;
    progress.clear();
    let Some(done) = done else {
        return Ok(Exit::Interrupted);
    };
    let found = done??;
    // A misspelt name matches no run; a report of nothing would read like one without questions.
    if found.runs.is_empty() {
        bail!(
            "the archive has no such runs; see `sluice-lab bench agentdojo replay --help` for names"
        );
    }
    match args.json {
        true => print(&serde_json::to_string_pretty(&found)?)?,
        false => print(replay_text(&found).trim_end())?,
    }
    if args.list && !args.json {
        print(questions_text(&found).trim_end())?;
    }
    if let Some(folder) = &args.out {
        keep(&found, folder)?;
    }
    Ok(Exit::Done)
}

/// Everything but the Python, which may have to be installed.
fn options(args: &ReplayArgs) -> Result<Options> {
    let cores = available_parallelism().map_or(1, usize::from);
    let all = |names: &[String]| names.iter().any(|name| name == "all");
    Ok(Options {
        models: match all(&args.model) {
            true => MODELS.map(str::to_owned).to_vec(),
            false => args.model.clone(),
        },
        attacks: match all(&args.attack) {
            true => Vec::new(),
            false => args.attack.clone(),
        },
        methods: methods(&args.method)?,
        quick: args.quick,
        threads: args.threads.unwrap_or(cores).clamp(1, MAX_THREADS),
        ..Options::new(cache_folder()?, None)
    })
}

/// What the recorded runs of GPT-4o without an attack ask about, and nothing else of them.
pub(super) fn benign(quick: bool, progress: &Progress) -> Result<ReplayReport> {
    let options = Options {
        models: vec![GPT_4O.to_owned()],
        attacks: vec!["none".to_owned()],
        methods: vec![
            Method::Naive,
            Method::NaiveChecked,
            Method::ValuesLazy,
            Method::ValuesChecked,
        ],
        quick,
        ..Options::new(cache_folder()?, None)
    };
    let python = Python::ready(&mut |line| progress.say(line))?;
    replayed(
        Options {
            python: python.interpreter().to_owned(),
            ..options
        },
        progress,
    )
}

fn run(mut options: Options, progress: &Progress) -> Result<ReplayReport> {
    let python = Python::ready(&mut |line| progress.say(line))?;
    options.python = python.interpreter().to_owned();
    options.agentdojo = Some(python.interpreter().to_owned());
    replayed(options, progress)
}

fn replayed(options: Options, progress: &Progress) -> Result<ReplayReport> {
    agentdojo::replay::replay(&options, &|step| match step {
        Step::Phase(what) => progress.say(&what),
        Step::Runs(done, total) => progress.moved("replaying", done, total),
    })
}

/// The methods of these names, once each, in the order of the tables.
fn methods(names: &[String]) -> Result<Vec<Method>> {
    let mut found = BTreeSet::new();
    for name in names {
        if name == "all" {
            found.extend(Method::ALL);
            continue;
        }
        let method = Method::ALL.into_iter().find(|it| it.name() == name);
        let known = || Method::ALL.map(Method::name).join(", ");
        found.insert(method.with_context(|| {
            format!("there is no method '{name}'; use all or one of {}", known())
        })?);
    }
    Ok(found.into_iter().collect())
}

fn keep(found: &ReplayReport, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let json = serde_json::to_string_pretty(found)?;
    output::write(&folder.join("replay.json"), &json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_taken_once_and_in_order() {
        let parse = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            methods(&names)
        };
        let (lazy, none) = (Method::ValuesLazy, Method::None);
        assert_eq!(
            parse(&["values-lazy", "none", "none"]).unwrap(),
            [none, lazy]
        );
        assert_eq!(parse(&["all"]).unwrap(), Method::ALL);
        let unknown = parse(&["oracle"]).unwrap_err().to_string();
        assert!(unknown.contains("one of none, naive"), "{unknown}");
    }
}
