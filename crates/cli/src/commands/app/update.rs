//! `sluice app update`.

use anyhow::{Result, bail};
use clap::Args;
use hub::trace::escape;
use provision::{Package, Record};

use super::place::Place;
use super::{add, try_out};
use crate::exit::Exit;
use crate::review::Difference;
use crate::terminal::{is_agreed, say};
use crate::trial::Of;
use crate::{installed, review};

#[derive(Debug, Args)]
pub(super) struct Update {
    /// The app.
    name: String,
    /// Take it unasked where its tools stay as they are.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    place: Place,
}

/// Installs the newest version of an app, shows its differences, and takes it if the user agrees.
pub(super) async fn update(args: Update) -> Result<Exit> {
    let store = installed::store()?;
    let Some(old) = store.get(&args.name)? else {
        bail!(
            "no app '{0}' is installed; the tools of a server elsewhere are reviewed with `sluice app test {0} --accept`",
            escape(&args.name)
        );
    };
    // What was asked for when it was installed. Whether that is still what the configuration names is checked at each
    // start (`installed::of`).
    let wanted = Package {
        registry: old.registry,
        requirement: old.requirement.clone(),
        with: old.with.clone(),
        program: old.program.clone(),
        arguments: Vec::new(),
    };
    let new = add::install(&args.name, wanted, old.scripts).await?;
    if new.sha256 == old.sha256 {
        say(&format!(
            "{} {} is the newest that its command asks for\n",
            installed::package(&old),
            old.version
        ));
        return Ok(Exit::Done);
    }
    // The old record stays until the user has said so: whatever ends the program before that changes nothing, and a session
    // that begins meanwhile starts the old files.
    let taken = review(&args, &old, &new).await;
    match taken {
        // The record first: an interruption leaves a tree that no record names, and not a record without its tree.
        Ok(Some(record)) => {
            store.put(&record)?;
            store.tidy(&record)?;
            Ok(Exit::Done)
        }
        other => {
            store.tidy(&old)?;
            other?;
            say("nothing was changed\n");
            Ok(Exit::Refused)
        }
    }
}

/// Shows what is new. The record with what the user has seen, if the user takes it.
async fn review(args: &Update, old: &Record, new: &Record) -> Result<Option<Record>> {
    let mut config = args.place.open()?;
    let degraded = &args.place.allow_degraded;
    let trial = try_out::start(&mut config, &args.name, degraded, Of::New(new)).await?;
    let now = review::seen(&trial.tools);
    // Where nothing was seen before, every tool is a new one.
    let seen = old.tools.clone().unwrap_or_default();
    let difference = Difference::between(&seen, &now);
    let tools = difference.as_ref().map(Difference::to_string);
    say(&format!(
        "{}: {} becomes {}; {}\n",
        args.name,
        old.version,
        new.version,
        tools.as_deref().unwrap_or("its tools stay as they are")
    ));
    if let Some(difference) = &difference {
        difference.say_words(&trial.tools);
    }
    try_out::say_tried(&args.name, &trial);
    let unasked = args.yes && difference.is_none();
    let is_taken = unasked || is_agreed("Type update and Enter [no]: ", "update");
    Ok(is_taken.then(|| Record {
        tools: Some(now),
        // Without a question the user has looked at no more than before.
        reviewed: !unasked || old.reviewed,
        tried: trial.tried.keys().cloned().collect(),
        ..new.clone()
    }))
}
