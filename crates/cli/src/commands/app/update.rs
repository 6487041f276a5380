//! `sluice app update`.

use anyhow::{Result, bail};
use clap::Args;
use hub::trace::escape;
use provision::{Package, Record};

use super::place::Place;
use super::{add, try_out};
use crate::exit::Exit;
use crate::login::address;
use crate::review::Difference;
use crate::seen::RemoteTools;
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

/// Shows what is new of an app, and takes it if the user wants it: the newest version of an installed one, or what a server
/// elsewhere offers now.
pub(super) async fn update(args: Update) -> Result<Exit> {
    match installed::store()?.get(&args.name)? {
        Some(old) => version(&args, old).await,
        None => elsewhere(&args).await,
    }
}

/// Installs the newest version, and takes it if the user wants it.
async fn version(args: &Update, old: Record) -> Result<Exit> {
    let store = installed::store()?;
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
    let taken = review(args, &old, &new).await;
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
    Ok((unasked || asked()).then(|| Record {
        tools: Some(now),
        // Without a question the user has looked at no more than before.
        reviewed: !unasked || old.reviewed,
        tried: trial.tried.keys().cloned().collect(),
        ..new.clone()
    }))
}

/// Takes the tools that a server elsewhere has now. Whatever is served there has changed already; what is not taken is not
/// called.
async fn elsewhere(args: &Update) -> Result<Exit> {
    let mut config = args.place.open()?;
    let remote = config.apps.get(&args.name);
    let Some(remote) = remote.and_then(|app| app.remote.clone()) else {
        bail!(
            "no app '{}' is installed, and none of the configuration is a server elsewhere",
            escape(&args.name)
        );
    };
    let degraded = &args.place.allow_degraded;
    let trial = try_out::start(&mut config, &args.name, degraded, Of::Installed).await?;
    try_out::say_tried(&args.name, &trial);
    let (kept, server) = (RemoteTools::of_user()?, address(&remote.url));
    let now = review::seen(&trial.tools);
    // Where nothing was seen before, every tool is a new one.
    let seen = kept.find(&args.name, &server)?.unwrap_or_default();
    let Some(difference) = Difference::between(&seen, &now) else {
        say(&format!("{}: its tools stay as they are\n", args.name));
        return Ok(Exit::Done);
    };
    say(&format!("{}: {difference}\n", args.name));
    difference.say_words(&trial.tools);
    if !asked() {
        say("nothing was changed\n");
        return Ok(Exit::Refused);
    }
    kept.keep(&args.name, &server, now)?;
    Ok(Exit::Done)
}

/// Whether the user, who has been shown what is new, takes it.
fn asked() -> bool {
    is_agreed("Type update and Enter [no]: ", "update")
}
