//! `sluice-lab bench service`: an agent that serves one customer of a shop, behind the guard proxy.
//!
//! Strangers write into tickets, reviews, mails, gift messages and records of customers, and the agent can pay back, cancel,
//! change records and send mail. World, tasks, attacks and policy are in `lab/sluice-lab/service`.

mod model;
mod report;
mod run;
mod suite;
mod world;

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args;
use config::Config;

use self::run::{Stage, User};
use crate::exit::{Exit, interruptible};
use crate::progress::Progress;
use crate::terminal::print;

#[derive(Debug, Args)]
pub(crate) struct Service {
    /// Another policy for the same tools, as `[app.shop]`.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Only the tasks whose name has this in it.
    #[arg(long, value_name = "WORDS", default_value = "")]
    only: String,
    /// Leave out the attacks.
    #[arg(long)]
    benign: bool,
    /// Print every question.
    #[arg(long)]
    questions: bool,
}

pub(crate) async fn service(args: Service) -> Result<Exit> {
    let progress = Progress::new();
    let rows = interruptible(rows(&args, &progress)).await;
    progress.clear();
    let Some(rows) = rows else {
        return Ok(Exit::Interrupted);
    };
    let rows = rows?;
    if args.questions {
        print(report::questions(&rows).trim_end())?;
    }
    print(report::report(&rows).trim_end())?;
    Ok(Exit::Done)
}

/// Every task without an attack, with each user; and, with nobody to answer, once for each attack.
async fn rows(args: &Service, progress: &Progress) -> Result<Vec<run::Row>> {
    let config = match &args.policy {
        Some(path) => Config::load(path),
        None => {
            let text = include_str!("../../service/policy.toml");
            Config::load_with(Path::new("service/policy.toml"), &|_| Ok(text.to_owned()))
        }
    };
    let config = config.map_err(|errors| anyhow!("{errors}"))?;
    let mut tasks = suite::tasks()?;
    tasks.retain(|task| task.id.contains(&args.only));
    let attacks = suite::attacks()?;
    let users = [User::Unprotected, User::Absent, User::Ideal].map(|user| (user, None));
    let attacked = attacks
        .iter()
        .filter(|_| !args.benign)
        .flat_map(|attack| [User::Unprotected, User::Absent].map(|user| (user, Some(attack))));
    let mut rows = Vec::new();
    for (user, attack) in users.into_iter().chain(attacked) {
        let by = attack.map_or("no attack", |attack| &attack.id);
        progress.say(&format!("{} tasks, {by}, {user:?}", tasks.len()));
        let stage = Stage::new(user, &tasks, attack, &config)?;
        rows.extend(stage.run(&tasks, &config).await?);
    }
    Ok(rows)
}
