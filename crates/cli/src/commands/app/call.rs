//! `sluice app call`: one tool, called by the user.

use std::io::IsTerminal;

use anyhow::{Result, anyhow};
use clap::Args;
use config::ScreenerKind;
use hub::address::inert;
use ifc::{Arguments, Label, Labeled, Lattice};
use policy::{Front, SessionFacts};
use serde_json::json;
use server::{Session, SessionError, User};

use crate::asking::{AT_TERMINAL, Asking};
use crate::commands::policy::pieces;
use crate::configuration;
use crate::exit::Exit;
use crate::fetch::{self, Fetch};
use crate::interrupts::interrupts;
use crate::json_lines;
use crate::keep_for::KeepFor;
use crate::place::Place;
use crate::session;
use crate::terminal::{Terminal, message};
use crate::{compose, terminal, trial};

#[derive(Debug, Args)]
pub(super) struct Call {
    /// The app.
    name: String,
    /// The tool.
    tool: String,
    /// Its arguments: one JSON object.
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
    /// Print JSON: the text, its label, and its pieces with their labels.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// Calls a tool as a session would, by the user's own word, and prints what it returns.
pub(super) async fn call(args: Call) -> Result<Exit> {
    Arguments::parse(&args.arguments, &Label::bottom()).map_err(|error| {
        anyhow!(
            "the arguments of {}: {error}; write one JSON object, like '{{\"id\": 1}}'",
            args.tool
        )
    })?;
    let mut config = args.place.file.open(false)?;
    session::say_notes(&config);
    trial::startable(&config, &args.name)?;
    // What others need is not looked for, and nothing is screened.
    config.apps.retain(|name, _| *name == args.name);
    config.screener.kind = ScreenerKind::Naive;
    let (named, layers) = ([args.name.clone()].into(), args.place.layers());
    fetch::provide_for(&mut config, &named, Fetch::No, &layers, false).await?;
    let options = compose::Options {
        allow_degraded: layers,
        facts: SessionFacts {
            attended: Terminal::attended(),
            front: Front::Run,
            user: config.user_name.clone(),
        },
        ..compose::Options::default()
    };
    // No model is asked, so there need not be one.
    let setup = compose::session(&config, compose::no_model()?, &options)?;
    let arguments = config.user.label(args.arguments.clone());
    let asking = match Terminal::attended() {
        true => Some(Asking::new("app call", AT_TERMINAL, &config.desk)?),
        false => None,
    };
    let mut user = Terminal::new(false, KeepFor::default()).asking(asking);
    if let Some(file) = configuration::find(args.place.file.config.as_deref())? {
        user.file = file.path().display().to_string();
    }
    let cancel = interrupts();
    user.working(format!("starting {}", args.name));
    let mut session = Session::start(setup, &mut user)?;
    let called = session
        .call(&args.name, &args.tool, &arguments, &mut user, &cancel)
        .await;
    user.idle();
    let outcome = match called {
        Err(SessionError::Interrupted) => return Ok(Exit::Interrupted),
        called => called?,
    };
    match &outcome.result {
        Ok(text) => show(&args, text, &config.lattice)?,
        Err(stop) => message(&format!("sluice: {stop}{}", session::words(stop))),
    }
    Ok(Exit::of(&outcome))
}

/// Prints a result. A program gets it as it is; at a terminal no address in it is one to click.
fn show(args: &Call, text: &Labeled, lattice: &Lattice) -> std::io::Result<()> {
    let is_terminal = std::io::stdout().is_terminal();
    let shown = |text: &str| match is_terminal {
        true => inert(text, |_, _| false).0,
        false => text.to_owned(),
    };
    let whole = shown(text.reveal_tcb());
    if !args.json {
        return terminal::print(&whole);
    }
    let pieces = pieces(text).into_iter();
    let pieces = pieces
        .map(|(text, _, label)| json!({ "text": shown(text), "label": lattice.describe(&label) }));
    json_lines::print_json(&json!({
        "app": args.name, "tool": args.tool, "text": whole,
        "label": lattice.describe(&text.label()), "pieces": pieces.collect::<Vec<_>>(),
    }))
}
