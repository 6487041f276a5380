//! `sluice app update`.

use anyhow::{Result, bail};
use clap::Args;
use hub::trace::escape;
use provision::{Package, Record};

use super::{add, try_out};
use crate::exit::Exit;
use crate::place::Place;
use crate::review::Difference;
use crate::terminal::{is_agreed, say};
use crate::trial::{self, Of};
use crate::{installed, review};

#[derive(Debug, Args)]
pub(super) struct Update {
    /// The app.
    name: String,
    /// Install the new version without asking if its tools did not change.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    place: Place,
}

/// Fetches the newest version of an app, shows how its tools differ, and installs it if the user agrees.
pub(super) async fn update(args: Update) -> Result<Exit> {
    let store = installed::store()?;
    let Some(old) = store.get(&args.name)? else {
        bail!(
            "no app '{0}' is installed; review the tools of a remote server with `sluice app test {0} --accept`",
            escape(&args.name)
        );
    };
    // What the first installation asked for. `installed::of` checks at each start that the configuration still names it.
    let wanted = Package {
        registry: old.registry,
        requirement: old.requirement.clone(),
        with: old.with.clone(),
        python: old.python.clone(),
        program: old.program.clone(),
        arguments: Vec::new(),
    };
    let new = add::install(&args.name, wanted, old.scripts).await?;
    // Python writes another time into its files at each installation.
    if new.sha256 == old.sha256 || new.version == old.version {
        store.tidy(&old)?;
        say(&format!(
            "{} {} is the newest version\n",
            installed::package(&old),
            old.version
        ));
        return Ok(Exit::Done);
    }
    // The old record stays until the user has agreed: an interruption changes nothing, and a session that starts
    // meanwhile starts the old files.
    let taken = review(&args, &old, &new).await;
    match taken {
        // The record first: an interruption then leaves an unused tree, not a record without its tree.
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

/// Shows the differences. The record with the reviewed tools, if the user agrees.
async fn review(args: &Update, old: &Record, new: &Record) -> Result<Option<Record>> {
    let mut config = args.place.file.open(false)?;
    let layers = args.place.layers();
    trial::hide_variables(&mut config, &args.name, &Default::default());
    let trial = trial::find_and_start(&mut config, &args.name, Of::New(new), &layers).await?;
    let now = review::seen(&trial.tools);
    let seen = old.tools.clone().unwrap_or_default();
    let difference = Difference::between(&seen, &now);
    let tools = difference.as_ref().map(Difference::to_string);
    say(&format!(
        "{}: {} becomes {}; {}\n",
        args.name,
        old.version,
        new.version,
        tools.as_deref().unwrap_or("its tools did not change")
    ));
    if let Some(difference) = &difference {
        difference.say_words(&trial.tools);
    }
    try_out::say_tried(&args.name, &trial);
    let unasked = args.yes && difference.is_none();
    let is_taken = unasked || is_agreed("Type update to install it [no]: ", "update");
    Ok(is_taken.then(|| trial.record(new, !unasked || old.reviewed)))
}
