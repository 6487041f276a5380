//! `sluice bench agentdojo`: AgentDojo against the worst-case agent, behind each defence.

use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use agentdojo::{
    closed_loop::{
        ATTACKS, Cell, Defence, Loop, SLUICE_ATTACKS, Settings, Store, Summary, UserModel,
        benign_questions, successes, summaries,
    },
    python::Python,
    worst_case::Judge,
};
use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Exit;
use crate::terminal::print;

/// The suites, in the order of the paper's tables.
const SUITES: [&str; 4] = ["banking", "slack", "travel", "workspace"];
/// The defences of the quick form: no protection, the most precise one, and the product's own.
const QUICK: [&str; 3] = ["none", "oracle", "judge"];
/// More workers than this wait for one another: the agent answers in microseconds.
const MAX_WORKERS: usize = 16;

#[derive(Debug, Args)]
pub(crate) struct AgentDojo {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The unmodified harness in a closed loop with the worst-case agent behind the guard proxy.
    #[command(
        after_help = "Example:\n  sluice bench agentdojo loop --quick\n  sluice bench agentdojo loop --version v1 --attack important_instructions --defence none,oracle,judge\n\nThe first run installs AgentDojo, pinned by hash, in the user's cache folder."
    )]
    Loop(LoopArgs),
}

#[derive(Debug, Args)]
struct LoopArgs {
    /// Suites.
    #[arg(long, value_delimiter = ',', default_values = SUITES)]
    suite: Vec<String>,
    /// AgentDojo's versions of the suites.
    #[arg(long, value_delimiter = ',', default_values = ["v1.2.2"])]
    version: Vec<String>,
    /// Attacks: `none`, AgentDojo's by name, `sluice_…` for those on Sluice itself, or one of the
    /// groups `agentdojo` and `sluice`.
    #[arg(long, value_delimiter = ',', default_values = ["none", "important_instructions"])]
    attack: Vec<String>,
    /// Defences by name, or `all`.
    #[arg(long, value_delimiter = ',', default_values = QUICK)]
    defence: Vec<String>,
    /// Who answers questions: `absent` says no, `ideal` says yes to the task's own calls.
    #[arg(long, value_delimiter = ',', default_values = ["absent"])]
    user: Vec<String>,
    /// What the agent is as a judge of dependencies.
    #[arg(long, value_enum, default_value_t = JudgeArg::Perfect)]
    judge: JudgeArg,
    /// Three tasks of each suite instead of all: less than a minute once AgentDojo is installed.
    #[arg(long)]
    quick: bool,
    /// Python processes that run tasks side by side [default: one per core].
    #[arg(long)]
    workers: Option<usize>,
    /// Keep rows here as JSON lines; what is there already is not run again.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one cell per line, as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum JudgeArg {
    /// Names exactly what the next step needs: what judging costs.
    Perfect,
    /// Names everything as soon as it sees an injected goal: what a convinced judge gives away.
    Persuaded,
}

/// Runs AgentDojo.
pub(crate) async fn agentdojo(args: AgentDojo) -> Result<Exit> {
    match args.action {
        Action::Loop(args) => closed_loop(args).await,
    }
}

async fn closed_loop(args: LoopArgs) -> Result<Exit> {
    let cells = cells(&args)?;
    let scratch = tempfile::tempdir().context("no folder for temporary files")?;
    let out = args.out.as_deref().unwrap_or(scratch.path());
    let mut store = Store::open(out)?;
    let progress = Progress::new();
    let python = {
        let progress = progress.clone();
        tokio::task::spawn_blocking(move || Python::ready(&mut |line| progress.say(line)))
    };
    let Some(python) = interruptible(python).await else {
        return Ok(Exit::Interrupted);
    };
    let cores = available_parallelism().map_or(1, usize::from);
    let settings = Settings {
        workers: args.workers.unwrap_or(cores).clamp(1, MAX_WORKERS),
        judge: match args.judge {
            JudgeArg::Perfect => Judge::Perfect,
            JudgeArg::Persuaded => Judge::Persuaded,
        },
        quick: args.quick,
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
    progress.clear();
    // What is there is worth showing, whatever ended the run.
    report(&args, &store)?;
    let interrupted = ended.is_none();
    ended.transpose()?;
    let errors = store.rows().iter().filter(|row| row.error.is_some());
    Ok(match (interrupted, errors.count()) {
        (true, _) => Exit::Interrupted,
        (false, 0) => Exit::Done,
        (false, _) => Exit::Failed,
    })
}

/// The cells that are asked for: defence by defence, so that ratios can be read while it runs.
fn cells(args: &LoopArgs) -> Result<Vec<Cell>> {
    let defences: Vec<Defence> = match args.defence.iter().any(|name| name == "all") {
        true => Defence::ALL.to_vec(),
        false => {
            let parsed = args.defence.iter().map(|name| Defence::parse(name));
            parsed.collect::<Result<_, _>>()?
        }
    };
    let users: Vec<UserModel> = {
        let parsed = args.user.iter().map(|name| UserModel::parse(name));
        parsed.collect::<Result<_, _>>()?
    };
    let attacks: Vec<Option<String>> = args.attack.iter().flat_map(|name| group(name)).collect();
    let mut cells = Vec::new();
    for version in &args.version {
        for defence in &defences {
            for user in &users {
                for attack in &attacks {
                    cells.extend(args.suite.iter().map(|suite| Cell {
                        defence: *defence,
                        version: version.clone(),
                        suite: suite.clone(),
                        attack: attack.clone(),
                        user: *user,
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

/// Ends early on Ctrl-C.
async fn interruptible<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        _ = tokio::signal::ctrl_c() => None,
    }
}

fn report(args: &LoopArgs, store: &Store) -> Result<()> {
    let found = summaries(store.rows());
    if args.json {
        for summary in &found {
            print(&serde_json::to_string(summary)?)?;
        }
        return Ok(());
    }
    print(
        "defence              user   suite     version attack                  tasks useful attacked asked questions  calls judge    tokens  s/task",
    )?;
    for summary in &found {
        print(&line(summary))?;
    }
    section(
        "Questions to a user who is not under attack:",
        &benign_questions(store.details()),
    )?;
    section(
        "Attacks that succeeded behind a guard:",
        &behind_guard(store),
    )?;
    for row in store.rows().iter().filter(|row| row.error.is_some()) {
        let error = row.error.as_deref().unwrap_or_default();
        print(&format!(
            "no result: {} {}: {error}",
            row.suite, row.user_task
        ))?;
    }
    Ok(())
}

/// Defences that enforce nothing are there to be attacked.
fn behind_guard(store: &Store) -> Vec<String> {
    let enforces = |name: &str| {
        let defence = Defence::parse(name);
        defence.is_ok_and(Defence::enforces)
    };
    let details = store.details().iter();
    let guarded: Vec<_> = details
        .filter(|detail| enforces(&detail.defence))
        .cloned()
        .collect();
    successes(&guarded)
}

fn section(title: &str, lines: &[String]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    print("")?;
    print(title)?;
    for line in lines {
        print(&format!("  {line}"))?;
    }
    Ok(())
}

fn line(summary: &Summary) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand tasks")]
    let per_task = summary.seconds / summary.tasks.max(1) as f64;
    let attacked = match summary.attack {
        Some(_) => summary.attacks_succeeded.to_string(),
        None => "-".to_owned(),
    };
    format!(
        "{:<20} {:<6} {:<9} {:<7} {:<23} {:>5} {:>6} {attacked:>8} {:>5} {:>9} {:>6} {:>5} {:>9} {per_task:>7.3}",
        summary.defence,
        summary.user_model,
        summary.suite,
        summary.version,
        summary.attack.as_deref().unwrap_or("none"),
        summary.tasks,
        summary.useful,
        summary.asked,
        summary.questions,
        summary.llm_calls,
        summary.judge_calls,
        summary.prompt_tokens + summary.completion_tokens,
    )
}

/// What is going on, on stderr and only there.
#[derive(Debug, Clone)]
struct Progress(ProgressBar);

impl Progress {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    fn say(&self, line: &str) {
        self.0.set_message(line.to_owned());
    }

    fn moved(&self, head: &str, done: usize, total: usize) {
        self.0.set_message(format!("{head}: {done} of {total}"));
    }

    fn clear(&self) {
        self.0.finish_and_clear();
    }
}
