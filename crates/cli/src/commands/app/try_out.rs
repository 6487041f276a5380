//! Starting an app once: `sluice app tools`, `sluice app test`.

use anyhow::{Context, Result, bail};
use clap::Args;
use config::{App, Config};
use hub::trace::escape;
use serde_json::{Value, json};
use wire::Hints;

use super::place::Place;
use crate::compose;
use crate::exit::Exit;
use crate::json_lines::print_json;
use crate::login::address;
use crate::refused;
use crate::review::{Difference, Seen};
use crate::seen::RemoteTools;
use crate::session::configured;
use crate::terminal::{print, say};
use crate::trial::{self, Of, Trial};
use crate::{installed, review};

#[derive(Debug, Args)]
pub(super) struct Try {
    /// The app.
    name: String,
    /// One tool per line, as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Test {
    /// The app.
    name: String,
    /// From now on these are the tools that you have seen.
    #[arg(long)]
    accept: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// Shows the tools of an app.
pub(super) async fn tools(args: &Try) -> Result<Exit> {
    let (_, trial) = started(&args.place, &args.name, Of::Installed).await?;
    for tool in &trial.tools {
        match args.json {
            true => print_json(
                &json!({ "name": tool.name, "description": tool.description, "input_schema": tool.input_schema, "annotations": annotations(tool.hints) }),
            )?,
            false => {
                let first = tool.description.lines().next().unwrap_or_default();
                print(&format!("{:<28} {}", tool.name, escape(first)))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// Starts an app and compares its tools.
pub(super) async fn test(args: &Test) -> Result<Exit> {
    let of = match args.accept {
        true => Of::Installed,
        false => Of::Seen,
    };
    let (app, trial) = started(&args.place, &args.name, of).await?;
    let names: Vec<&str> = trial.tools.iter().map(|tool| tool.name.as_str()).collect();
    if args.accept {
        accept(&app, &trial)?;
    }
    say_tried(&args.name, &trial);
    match args.json {
        true => print_json(
            &json!({ "app": args.name, "starts": true, "tools": names, "tried": trial.tried }),
        )?,
        false => print(&format!("{} starts, with {}", args.name, names.join(", ")))?,
    }
    Ok(Exit::Done)
}

/// From now on these are the tools that the user has seen of an app that was installed, or that is a server elsewhere.
fn accept(app: &App, trial: &Trial) -> Result<()> {
    let now = review::seen(&trial.tools);
    let say_new = |seen: Option<Seen>| {
        if let Some(difference) = Difference::between(&seen.unwrap_or_default(), &now) {
            difference.say_words(&trial.tools);
            say(&format!("taken: {difference}\n"));
        }
    };
    if let Some(remote) = &app.remote {
        say_new(RemoteTools::of_user()?.find(&app.name, &address(&remote.url))?);
        return keep_elsewhere(app, now);
    }
    // Neither installed nor remote, an app has no record, and sessions compare its tools with nothing.
    if let Some(mut record) = installed::store()?.get(&app.name)? {
        say_new(record.tools.take());
        record.tools = Some(now);
        record.reviewed = true;
        record.tried = trial.tried.keys().cloned().collect();
        installed::store()?.put(&record)?;
    }
    Ok(())
}

/// Notes these tools as those that the user has seen, if the app is a server elsewhere. What is installed has a record of
/// its own.
pub(super) fn keep_elsewhere(app: &App, seen: Seen) -> Result<()> {
    match &app.remote {
        Some(remote) => RemoteTools::of_user()?.keep(&app.name, &address(&remote.url), seen),
        None => Ok(()),
    }
}

/// What a tool says that it does, in MCP's words.
fn annotations(hints: Hints) -> Value {
    let words = [
        ("readOnlyHint", hints.read_only),
        ("destructiveHint", hints.destructive),
        ("idempotentHint", hints.idempotent),
        ("openWorldHint", hints.open_world),
    ];
    let said = words.into_iter();
    said.filter_map(|(word, hint)| Some((word.to_owned(), Value::from(hint?))))
        .collect()
}

/// Says what an app tried to reach when it was started.
pub(super) fn say_tried(app: &str, trial: &Trial) {
    if !trial.tried.is_empty() {
        say(&format!(
            "{app} tried to reach what it may not: {}\n",
            refused::words(&trial.tried)
        ));
    }
}

/// Starts an app of the configuration.
async fn started(place: &Place, name: &str, of: Of<'_>) -> Result<(App, Trial)> {
    let mut config = place.open()?;
    let trial = start(&mut config, name, &place.allow_degraded, of).await?;
    let app = config.apps.remove(name);
    Ok((app.context("the app that was started")?, trial))
}

/// Starts one app of this configuration.
pub(super) async fn start(
    config: &mut Config,
    name: &str,
    allow_degraded: &[String],
    of: Of<'_>,
) -> Result<Trial> {
    if config.apps.get(name).is_none_or(|app| app.client) {
        bail!(
            "there is no app '{}' that is started here; {}",
            escape(name),
            configured(config)
        );
    }
    let layers = compose::layers(allow_degraded)?;
    trial::find_and_start(config, name, of, &layers).await
}
