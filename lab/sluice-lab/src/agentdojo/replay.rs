//! `sluice-lab bench agentdojo replay`: recorded runs through labels, screener and policy.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use agentdojo::{
    closed_loop::{read_folder, write_folder},
    python::{Python, cache_folder},
    replay::{
        ATTENDED, GPT_4O, MAIN_ATTACK, MODELS, Method, Options, Progress as Step, ReplayReport,
    },
    report::{REPLAYED, Report, replay_details, replay_rows, replay_text},
};
use anyhow::{Context, Result, bail};
use clap::Args;

use super::attention::{self, AttentionArgs};
use super::output::{self, Progress, interruptible};
use crate::exit::Exit;
use crate::small_model;
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
    /// Methods by name, `all` that need no model (none, naive, redact-all, values-eager,
    /// values-lazy), or `attention` (attention-lazy, attention-drafted) [default: all; with `--quick`
    /// also attention, if its model is here].
    #[arg(long, value_delimiter = ',')]
    method: Vec<String>,
    /// The methods by attention replay one run of so many [default: 1; 3 of the quick form's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    attention_every: Option<u16>,
    #[command(flatten)]
    tuned: AttentionArgs,
    /// A fixed sample, one run of 23: some seconds once everything is fetched.
    #[arg(long)]
    quick: bool,
    /// Threads, each with a Python process [default: one per core].
    #[arg(long)]
    threads: Option<usize>,
    /// Write `replay.json`, `rows.jsonl`, `details.jsonl`, `report.json` and the plots here.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the replay's figures as JSON.
    #[arg(long)]
    json: bool,
}

/// Replays.
pub(super) async fn replay(args: ReplayArgs) -> Result<Exit> {
    if let Some(folder) = &args.out {
        mine(folder)?;
    }
    let quick_attention = args.quick && small_model::is_here();
    let methods = methods(&args.method, quick_attention)?;
    let needs_attention = methods.iter().any(|method| method.needs_attention());
    let attention = attention::open(needs_attention, &args.tuned).await?;
    let progress = Progress::new();
    let work = {
        let mut options = options(&args, methods)?;
        options.attention = attention;
        let progress = progress.clone();
        tokio::task::spawn_blocking(move || run(options, &progress))
    };
    let done = interruptible(work).await;
    progress.clear();
    let Some(done) = done else {
        return Ok(Exit::Interrupted);
    };
    let found = done??;
    if found.runs.is_empty() {
        bail!(
            "the archive has no such runs; see `sluice-lab bench agentdojo replay --help` for names"
        );
    }
    match args.json {
        true => print(&serde_json::to_string_pretty(&found)?)?,
        false => print(replay_text(&found).trim_end())?,
    }
    if let Some(folder) = &args.out {
        keep(&found, folder)?;
    }
    Ok(Exit::Done)
}

/// Everything but the screener, and the Python, which may have to be made.
fn options(args: &ReplayArgs, methods: Vec<Method>) -> Result<Options> {
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
        methods,
        attention_every: match args.attention_every {
            Some(every) => usize::from(every),
            None if args.quick => ATTENDED,
            None => 1,
        },
        quick: args.quick,
        threads: args.threads.unwrap_or(cores).clamp(1, MAX_THREADS),
        ..Options::new(cache_folder()?, None)
    })
}

fn run(mut options: Options, progress: &Progress) -> Result<ReplayReport> {
    let python = Python::ready(&mut |line| progress.say(line))?;
    options.python = python.interpreter().to_owned();
    options.agentdojo = Some(python.interpreter().to_owned());
    agentdojo::replay::replay(&options, &|step| match step {
        Step::Phase(what) => progress.say(&what),
        Step::Runs(done, total) => progress.moved("replaying", done, total),
    })
}

/// The methods of these names; without any, the usual ones.
fn methods(names: &[String], quick_attention: bool) -> Result<Vec<Method>> {
    if names.is_empty() {
        return Ok(match quick_attention {
            true => Method::ALL.to_vec(),
            false => Method::PLAIN.to_vec(),
        });
    }
    // Once each, in the order of the tables.
    let mut named = BTreeSet::new();
    for name in names {
        match name.as_str() {
            "all" => named.extend(Method::PLAIN),
            "attention" => named.extend(Method::BY_ATTENTION),
            name => {
                let method = Method::ALL.into_iter().find(|it| it.name() == name);
                let known = || Method::ALL.map(Method::name).join(", ");
                named.insert(method.with_context(|| {
                    format!(
                        "there is no method '{name}'; use all, attention or one of {}",
                        known()
                    )
                })?);
            }
        }
    }
    Ok(named.into_iter().collect())
}

/// A replay writes its rows anew: those of a closed loop took longer to get, and stay.
fn mine(folder: &Path) -> Result<()> {
    if !folder.join("rows.jsonl").exists() {
        return Ok(());
    }
    let (rows, _) = read_folder(folder)?;
    if rows.iter().any(|row| row.version != REPLAYED) {
        bail!(
            "{} holds rows of a closed loop; name another folder",
            folder.display()
        );
    }
    Ok(())
}

fn keep(found: &ReplayReport, folder: &Path) -> Result<()> {
    let (rows, details) = (replay_rows(found), replay_details(found));
    output::keep(&Report::new(&rows, &details), folder)?;
    write_folder(folder, &rows, &details)?;
    let own = serde_json::to_string_pretty(found)?;
    output::write(&folder.join("replay.json"), &own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_taken_once_and_in_order() {
        let parse = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            methods(&names, false)
        };
        let (lazy, none) = (Method::ValuesLazy, Method::None);
        assert_eq!(
            parse(&["values-lazy", "none", "none"]).unwrap(),
            [none, lazy]
        );
        assert_eq!(parse(&["all"]).unwrap(), Method::PLAIN);
        assert_eq!(parse(&["attention"]).unwrap(), Method::BY_ATTENTION);
        assert_eq!(parse(&["attention", "all"]).unwrap(), Method::ALL);
        let unknown = parse(&["oracle"]).unwrap_err().to_string();
        assert!(unknown.contains("one of none, naive"), "{unknown}");
        // The quick form looks at attention where it can.
        assert_eq!(methods(&[], true).unwrap(), Method::ALL);
        assert_eq!(methods(&[], false).unwrap(), Method::PLAIN);
    }

    #[test]
    fn rows_of_a_closed_loop_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        mine(folder.path()).unwrap();
        let row = |version: &str| {
            let row = serde_json::json!({
                "defence": "none", "version": version, "suite": "banking",
                "user_task": "user_task_0", "injection_task": null, "attack": null,
                "model": "worst-case", "user_model": "absent", "utility": true,
                "attack_succeeded": null, "questions": 0, "llm_calls": 1, "judge_calls": 0,
                "prompt_tokens": 1, "completion_tokens": 1, "seconds": 0.5, "error": null,
            });
            serde_json::from_value(row).unwrap()
        };
        write_folder(folder.path(), &[row(REPLAYED)], &[]).unwrap();
        mine(folder.path()).unwrap();
        write_folder(folder.path(), &[row("v1")], &[]).unwrap();
        let refused = mine(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("name another folder"), "{refused}");
    }
}
