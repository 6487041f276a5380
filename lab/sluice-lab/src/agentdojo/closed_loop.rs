//! `sluice-lab bench agentdojo loop`: AgentDojo against the worst-case agent, or any model, behind each
//! defence.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;

use agentdojo::{
    closed_loop::{
        ATTACKS, Cell, Defence, Loop, Model, SLUICE_ATTACKS, Settings, Store, UserModel,
    },
    policies::{Answers, Policies},
    python::Python,
    report::{GOALS_VERSION, Report, Share, UNPROTECTED},
    worst_case::Judge,
};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use llm::{ApiKey, HttpConfig};

use super::replay;
use crate::exit::{Exit, interruptible};
use crate::progress::Progress;
use crate::small_model;
use crate::terminal::print;

/// The defence that the aims are about: the product's usual one.
const GOALS: [&str; 1] = ["attention"];
/// The defences of the quick form: no protection, the most precise one, and the product's own.
const QUICK: [&str; 3] = ["none", "oracle-eager", "judge"];
/// More workers than this wait for one another: the agent answers in microseconds.
const MAX_WORKERS: usize = 16;

#[derive(Debug, Args)]
pub(super) struct LoopArgs {
    /// Suites [default: all that have a policy].
    #[arg(long, value_delimiter = ',')]
    suite: Vec<String>,
    /// Policies of other suites: SUITE.toml in this folder, with the suite's tools as `[app.SUITE]`. A file
    /// dependencies.toml there may say what the ground truth depends on, as lab/agentdojo/src/suite/dependencies.toml does.
    #[arg(long, value_name = "DIR", conflicts_with = "goals")]
    policies: Option<PathBuf>,
    /// The folder of another `agentdojo` package, a fork's `src` for example, instead of the pinned one.
    #[arg(long, value_name = "DIR", requires = "policies")]
    package: Option<PathBuf>,
    /// AgentDojo's versions of the suites.
    #[arg(long, value_delimiter = ',', default_values = [GOALS_VERSION])]
    version: Vec<String>,
    /// Attacks: `none`, AgentDojo's by name, `sluice_…` for those on Sluice itself, or one of the
    /// groups `agentdojo` and `sluice`.
    #[arg(long, value_delimiter = ',', default_values = ["none", "important_instructions"])]
    attack: Vec<String>,
    /// Defences by name, or `all` [default: none,oracle-eager,judge; with `--goals` attention].
    #[arg(long, value_delimiter = ',')]
    defence: Vec<String>,
    /// The attention screener's weights, by `sluice-lab screener train` [default: those of this program].
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Who answers questions: `absent` says no, `ideal` says yes to the task's own calls, `ideal-2` does so
    /// twice and leaves; `trusting` (`trusting-2`) trusts what such a call is made of, where that is offered.
    #[arg(long, value_delimiter = ',', default_values = ["absent"], conflicts_with = "goals")]
    user: Vec<String>,
    /// Print where the defences stand beside what the project aims at, and run what that takes:
    /// without an attack with every user, under the attacks with nobody, and the recorded runs of GPT-4o.
    #[arg(long, conflicts_with = "upstream")]
    goals: bool,
    /// What the worst-case agent is as a judge of dependencies.
    #[arg(long, value_enum, default_value_t = JudgeArg::Perfect)]
    judge: JudgeArg,
    /// Another model than the worst-case agent, behind this OpenAI-compatible API (with the key in
    /// OPENAI_API_KEY, if it is set); for an embedded one start `sluice model serve`.
    #[arg(long, value_name = "URL", requires = "model", conflicts_with = "judge")]
    upstream: Option<String>,
    /// The name of that model.
    #[arg(long, value_name = "NAME", requires = "upstream")]
    model: Option<String>,
    /// What a final answer may depend on without a question.
    #[arg(long, value_enum, default_value_t = AnswersArg::Policy)]
    answers: AnswersArg,
    /// Three tasks of each suite instead of all: less than a minute once AgentDojo is installed.
    #[arg(long)]
    quick: bool,
    /// Python processes that run tasks side by side [default: one per core].
    #[arg(long)]
    workers: Option<usize>,
    /// Keep rows here as JSON lines; what is there already is not run again. Name another folder for other weights.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum JudgeArg {
    /// Names exactly what the next step needs: what judging costs.
    Perfect,
    /// Names everything as soon as it sees an injected goal: what a convinced judge gives away.
    Persuaded,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AnswersArg {
    /// What the suite's policy says: anything.
    Policy,
    /// Trusted text only: goals that lie in the answer alone are stopped too, and answers that
    /// quote what others wrote are asked about.
    Trusted,
}

pub(super) async fn closed_loop(args: LoopArgs) -> Result<Exit> {
    let cells = cells(&args)?;
    // Rows go to a folder in any case; without `--out` it is gone when this function ends.
    let scratch = tempfile::tempdir().context("no folder for temporary files")?;
    let out = args.out.as_deref().unwrap_or(scratch.path());
    let mut store = Store::open(out)?;
    let progress = Progress::new();
    let python = {
        let progress = progress.clone();
        let package = args.package.clone();
        tokio::task::spawn_blocking(move || {
            let python = Python::ready(&mut |line| progress.say(line))?;
            let package = package.map(std::path::absolute).transpose()?;
            anyhow::Ok(match package {
                Some(package) => python.with_package(package),
                None => python,
            })
        })
    };
    // The first run installs a package, which takes minutes.
    let Some(python) = interruptible(python).await else {
        return Ok(Exit::Interrupted);
    };
    let cores = available_parallelism().map_or(1, usize::from);
    let needs_attention = cells.iter().any(|cell| cell.defence.needs_attention());
    let attention = match needs_attention {
        true => {
            let weights = args.weights.clone();
            // Reading and checking the model's file takes a second, in which the runtime must hear Ctrl-C.
            let open = move || {
                let weights = small_model::weights(weights.as_deref())?;
                small_model::screener(&weights)
            };
            Some(Arc::new(tokio::task::spawn_blocking(open).await??))
        }
        false => None,
    };
    let settings = Settings {
        workers: args.workers.unwrap_or(cores).clamp(1, MAX_WORKERS),
        model: model(&args),
        quick: args.quick,
        attention,
        policies: policies(&args),
    };
    let mut run = Loop::start(python??, settings)?;
    for version in &args.version {
        run.load(version, &mut |line| progress.say(line))?;
    }
    let everything = async {
        for (number, cell) in cells.iter().enumerate() {
            let head = format!("{}/{} {cell}", number + 1, cells.len());
            let mut moved = |done, total| progress.moved(&head, done, total);
            run.run(cell, &mut store, &mut moved).await?;
        }
        anyhow::Ok(())
    };
    // Dropping it ends the Python side; the rows so far are on disk.
    let ended = interruptible(everything).await;
    // Only after a loop that came to its end: aims of half a run say nothing.
    let recorded = match (&ended, args.goals) {
        (Some(Ok(())), true) => Some(recorded(&progress, args.quick).await?),
        _ => None,
    };
    progress.clear();
    // What is there is worth showing, whatever ended the run.
    show(&args, &store, recorded)?;
    let interrupted = ended.is_none();
    ended.transpose()?;
    let errors = store.rows().iter().filter(|row| row.error.is_some());
    Ok(match (interrupted, errors.count()) {
        (true, _) => Exit::Interrupted,
        (false, 0) => Exit::Done,
        (false, _) => Exit::Failed,
    })
}

/// The share of recorded runs without an attack in which nothing is asked.
async fn recorded(progress: &Progress, quick: bool) -> Result<Share> {
    let progress = progress.clone();
    let replayed = move || Ok(replay::replayed(false, quick, &progress)?.silent);
    tokio::task::spawn_blocking(replayed).await?
}

fn policies(args: &LoopArgs) -> Policies {
    args.policies
        .clone()
        .map_or(Policies::Shipped, Policies::Folder)
}

fn suites(args: &LoopArgs) -> Result<Vec<String>> {
    match args.suite.as_slice() {
        [] => policies(args).suites(),
        named => Ok(named.to_vec()),
    }
}

fn defences(args: &LoopArgs) -> Result<Vec<Defence>> {
    if args.defence.iter().any(|name| name == "all") {
        return Ok(Defence::ALL.map(|(_, defence)| defence).to_vec());
    }
    let usual: &[&str] = if args.goals { &GOALS } else { &QUICK };
    let mut names: Vec<&str> = args.defence.iter().map(String::as_str).collect();
    if names.is_empty() {
        names = usual.to_vec();
    }
    // What an agent takes that nobody guards is what ratios are taken over.
    if args.goals && !names.contains(&UNPROTECTED) {
        names.insert(0, UNPROTECTED);
    }
    names.into_iter().map(Defence::parse).collect()
}

/// Who answers in the cells of a defence. Users who stay come before those who leave after some answers: where a task
/// asks no more than that, its rows are the same, and it is not run again.
fn users(args: &LoopArgs, defence: Defence, attacked: bool) -> Result<Vec<UserModel>> {
    if !args.goals {
        return args
            .user
            .iter()
            .map(|name| UserModel::parse(name))
            .collect();
    }
    Ok(match (defence.is_guarded(), attacked) {
        (true, false) => vec![
            UserModel::IDEAL,
            UserModel::IDEAL.leaving_after(1),
            UserModel::TRUSTING.leaving_after(1),
            UserModel::ABSENT,
        ],
        (true, true) | (false, false) => vec![UserModel::ABSENT],
        // Without a defence there are no questions, and the aims need no attack on it.
        (false, true) => Vec::new(),
    })
}

fn model(args: &LoopArgs) -> Model {
    match (&args.upstream, &args.model) {
        (Some(url), Some(name)) => {
            let mut config = HttpConfig::new(name, url, name);
            config.api_key = std::env::var("OPENAI_API_KEY").ok().map(ApiKey::new);
            Model::Http(Box::new(config))
        }
        _ => Model::WorstCase(match args.judge {
            JudgeArg::Perfect => Judge::Perfect,
            JudgeArg::Persuaded => Judge::Persuaded,
        }),
    }
}

/// The cells that are asked for: defence by defence, so that ratios can be read while it runs.
fn cells(args: &LoopArgs) -> Result<Vec<Cell>> {
    let attacks: Vec<Option<String>> = args.attack.iter().flat_map(|name| group(name)).collect();
    let answers = match args.answers {
        AnswersArg::Policy => Answers::Policy,
        AnswersArg::Trusted => Answers::Trusted,
    };
    let suites = suites(args)?;
    let mut cells = Vec::new();
    for version in &args.version {
        for defence in defences(args)? {
            for attack in &attacks {
                for user in users(args, defence, attack.is_some())? {
                    cells.extend(suites.iter().map(|suite| Cell {
                        defence,
                        version: version.clone(),
                        suite: suite.clone(),
                        attack: attack.clone(),
                        user,
                        answers,
                    }));
                }
            }
        }
    }
    Ok(cells)
}

fn group(name: &str) -> Vec<Option<String>> {
    let all = |names: &[&str]| names.iter().map(|name| Some((*name).to_owned())).collect();
    match name {
        "none" => vec![None],
        "agentdojo" => all(&ATTACKS),
        "sluice" => all(&SLUICE_ATTACKS),
        name => vec![Some(name.to_owned())],
    }
}

/// Everything that is there, of earlier runs too; with `--goals` the aims alone.
fn show(args: &LoopArgs, store: &Store, recorded: Option<Share>) -> Result<()> {
    let mut report = Report::new(store.rows());
    if let Some(recorded) = recorded {
        report.add_recorded(recorded);
    }
    let mut text = report.goals_text();
    if !args.goals {
        text = report.text() + &text;
    }
    print(text.trim())?;
    for row in store.rows() {
        if let Some(error) = &row.error {
            print(&format!(
                "no result: {} {}: {error}",
                row.suite, row.user_task
            ))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: LoopArgs,
    }

    #[test]
    fn the_aims_take_every_user_without_an_attack_and_nobody_under_one() {
        let args = |line: &str| {
            let words = ["loop"].into_iter().chain(line.split_whitespace());
            Line::try_parse_from(words).map(|line| line.args)
        };
        let goals = args("--goals --suite banking --defence oracle-eager").unwrap();
        let found: Vec<_> = cells(&goals)
            .unwrap()
            .into_iter()
            .map(|cell| {
                (
                    cell.defence.name().to_owned(),
                    cell.user.name(),
                    cell.attack.is_some(),
                    cell.version,
                )
            })
            .collect();
        let cell = |defence: &str, user: &str, attacked| {
            (
                defence.to_owned(),
                user.to_owned(),
                attacked,
                "v1".to_owned(),
            )
        };
        let expected = [
            cell("none", "absent", false),
            cell("oracle-eager", "ideal", false),
            cell("oracle-eager", "ideal-1", false),
            cell("oracle-eager", "trusting-1", false),
            cell("oracle-eager", "absent", false),
            cell("oracle-eager", "absent", true),
        ];
        assert_eq!(found, expected);
        let usual = cells(&args("--goals --quick").unwrap()).unwrap();
        let usual: BTreeSet<&str> = usual.iter().map(|cell| cell.defence.name()).collect();
        assert_eq!(Vec::from_iter(usual), ["attention", "none"]);
        for wrong in [
            "--goals --user ideal",
            "--goals --upstream http://x --model m",
        ] {
            assert!(args(wrong).is_err(), "{wrong}");
        }
    }
}
