//! `sluice run`: one query.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use config::Config;
use hub::trace::escape;
use hub::{Outcome, Stop};
use policy::{Front, SessionFacts, UserLabels};
use server::{Choice, Session, SessionError, User};
use tokio::sync::Notify;

use crate::args::{Run, SessionArgs};
use crate::exit::Exit;
use crate::json_lines::JsonLines;
use crate::terminal::{Terminal, print, say};
use crate::{compose, configuration};

/// Runs one query to its end.
pub(crate) async fn run(args: Run) -> Result<Exit> {
    let config = config(&args.session)?;
    if args.session.json {
        return ask(&args, config, &mut JsonLines, |_| Ok(())).await;
    }
    let mut terminal = Terminal::new(args.session.verbose);
    terminal.working("loading the model");
    let exit = ask(&args, config, &mut terminal, show).await;
    terminal.rest();
    exit
}

async fn ask(
    args: &Run,
    config: Config,
    user: &mut dyn User,
    show: fn(&Outcome) -> Result<()>,
) -> Result<Exit> {
    let cancel = interrupts();
    let (mut session, labels) = tokio::select! {
        session = start(&args.session, config, Front::Run, user) => session?,
        () = cancel.notified() => return Ok(Exit::Interrupted),
    };
    let query = labels.label(args.query.clone());
    match session
        .ask(query, choice(&args.session), user, &cancel)
        .await
    {
        Ok(outcome) => {
            show(&outcome)?;
            Ok(Exit::of(&outcome))
        }
        Err(SessionError::Interrupted) => Ok(Exit::Interrupted),
        Err(error) => Err(error.into()),
    }
}

/// The configuration of the command line. The user may be asked whether to trust it, so it is opened
/// while Ctrl-C still ends the program and nothing else is on the screen.
pub(crate) fn config(args: &SessionArgs) -> Result<Config> {
    let attended = !args.json && Terminal::attended();
    configuration::open(args.config.as_deref(), attended)
}

/// A session over the configuration, and the labels of what the user types.
pub(crate) async fn start(
    args: &SessionArgs,
    config: Config,
    front: Front,
    user: &mut dyn User,
) -> Result<(Session, UserLabels)> {
    let named = args.app.as_ref().and_then(|name| config.apps.get(name));
    if let Some(app) = named.filter(|app| app.client) {
        bail!(
            "the tools of the app {} run at a client of the guard proxy; start `sluice proxy`, or leave out client = true and give it a command",
            app.name
        );
    }
    for note in &config.notes {
        say(&format!("note: {note}\n"));
    }
    let allow_degraded = compose::layers(&args.allow_degraded)?;
    let options = compose::Options {
        eager: args.eager,
        allow_degraded,
        facts: SessionFacts {
            attended: !args.json && Terminal::attended(),
            front,
        },
        ..compose::Options::default()
    };
    let broker = compose::broker(&config).await?;
    let setup = compose::session(&config, broker, &options)?;
    Ok((Session::start(setup, user)?, config.user))
}

/// Which app the command line asks for.
pub(crate) fn choice(args: &SessionArgs) -> Choice {
    match &args.app {
        Some(app) => Choice::App(app.clone()),
        None if args.no_app => Choice::Vanilla,
        None => Choice::Planner,
    }
}

/// Prints the answer, or says why there is none.
pub(crate) fn show(outcome: &Outcome) -> Result<()> {
    match &outcome.result {
        Ok(answer) => print(answer.reveal_tcb())?,
        Err(stop) => say(&format!("sluice: {stop}{}\n", words(stop))),
    }
    if outcome.unknown > 0 {
        let calls = match outcome.unknown {
            1 => "1 call was".to_owned(),
            calls => format!("{calls} calls were"),
        };
        say(&format!(
            "({calls} sent without an answer: nobody knows whether it was done; see `sluice trace show`)\n"
        ));
    }
    if outcome.refused > 0 {
        let calls = if outcome.refused == 1 {
            "call was"
        } else {
            "calls were"
        };
        say(&format!(
            "({} {calls} refused; see `sluice trace show`)\n",
            outcome.refused
        ));
    }
    Ok(())
}

/// What a model's provider or an app says about the end of a turn. It has passed the answer's sink.
fn words(stop: &Stop) -> String {
    match stop.words() {
        Some(words) => format!(": {}", escape(words.reveal_tcb())),
        None => String::new(),
    }
}

/// Ctrl-C as a notification. Pressed twice within a second it ends the program at once; the
/// kernel then ends the spokes.
pub(crate) fn interrupts() -> Arc<Notify> {
    let cancel = Arc::new(Notify::new());
    let notify = Arc::clone(&cancel);
    tokio::spawn(async move {
        let mut last: Option<Instant> = None;
        while tokio::signal::ctrl_c().await.is_ok() {
            if last.is_some_and(|last| last.elapsed() < Duration::from_secs(1)) {
                std::process::exit(130);
            }
            last = Some(Instant::now());
            notify.notify_one();
        }
    });
    cancel
}
