//! Starting an app once: `sluice app tools`, `sluice app test`.

use anyhow::{Context, Result};
use clap::Args;
use config::App;
use serde_json::{Value, json};
use wire::Hints;

use crate::exit::Exit;
use crate::json_lines::show;
use crate::login::address;
use crate::place::Place;
use crate::refused;
use crate::review::{Difference, Seen};
use crate::seen::RemoteTools;
use crate::terminal::say;
use crate::trial::{self, Of, Trial};
use crate::{installed, review};

#[derive(Debug, Args)]
pub(super) struct Try {
    /// The app.
    name: String,
    /// Print JSON, one object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Test {
    #[command(flatten)]
    app: Try,
    /// Record today's tools as the ones that you have reviewed.
    #[arg(long)]
    accept: bool,
}

/// Shows the tools of an app.
pub(super) async fn tools(args: &Try) -> Result<Exit> {
    let (_, trial) = started(args, Of::Installed).await?;
    for tool in &trial.tools {
        let value = json!({ "name": tool.name, "description": tool.description,
            "input_schema": tool.input_schema, "annotations": annotations(tool.hints) });
        let first = tool.description.lines().next().unwrap_or_default();
        show(args.json, &value, &format!("{:<28} {first}", tool.name))?;
    }
    Ok(Exit::Done)
}

/// Starts an app and compares its tools with the reviewed ones.
pub(super) async fn test(Test { app: args, accept }: &Test) -> Result<Exit> {
    let of = match accept {
        true => Of::Installed,
        false => Of::Seen,
    };
    let (app, trial) = started(args, of).await?;
    let (name, tools) = (&args.name, trial.names());
    if *accept {
        self::accept(&app, &trial)?;
    }
    say_tried(name, &trial);
    let value = json!({ "app": name, "starts": true, "tools": tools, "tried": trial.tried });
    let text = format!("{name} starts, with {}", tools.join(", "));
    show(args.json, &value, &text)?;
    Ok(Exit::Done)
}

/// Records the tools of an installed app or a remote server as reviewed.
fn accept(app: &App, trial: &Trial) -> Result<()> {
    let now = review::seen(&trial.tools);
    let say_new = |seen: Option<Seen>| {
        if let Some(difference) = Difference::between(&seen.unwrap_or_default(), &now) {
            difference.say_words(&trial.tools);
            say(&format!("accepted: {difference}\n"));
        }
    };
    if let Some(remote) = &app.remote {
        say_new(RemoteTools::of_user()?.find(&app.name, &address(&remote.url))?);
        return keep_elsewhere(app, now);
    }
    // Other apps have no record: sessions do not compare their tools.
    if let Some(mut record) = installed::store()?.get(&app.name)? {
        say_new(record.tools.take());
        installed::store()?.put(&trial.record(&record, true))?;
    }
    Ok(())
}

/// Records the tools of a remote server as reviewed. An installed app has them in its record.
pub(super) fn keep_elsewhere(app: &App, seen: Seen) -> Result<()> {
    match &app.remote {
        Some(remote) => RemoteTools::of_user()?.keep(&app.name, &address(&remote.url), seen),
        None => Ok(()),
    }
}

/// The hints of a tool under their names in MCP.
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

/// Names the places that an app tried to reach and may not.
pub(super) fn say_tried(app: &str, trial: &Trial) {
    if !trial.tried.is_empty() {
        say(&format!(
            "{app} tried to reach places, and was not connected: {}\n",
            refused::words(&trial.tried)
        ));
    }
}

async fn started(args: &Try, of: Of<'_>) -> Result<(App, Trial)> {
    let mut config = args.place.file.open(false)?;
    let trial = trial::find_and_start(&mut config, &args.name, of, &args.place.layers()).await?;
    let app = config.apps.remove(&args.name);
    Ok((app.context("the app that was started")?, trial))
}
