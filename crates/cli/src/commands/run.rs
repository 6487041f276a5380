//! `sluice run`: one query.

use anyhow::Result;
use clap::Args;
use config::Config;
use hub::Outcome;
use policy::Front;
use server::{SessionError, User};

use crate::exit::Exit;
use crate::interrupts::interrupts;
use crate::json_lines::JsonLines;
use crate::session::{self, SessionArgs};
use crate::terminal::Terminal;

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What you want.
    query: String,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs one query to its end.
pub(crate) async fn run(args: Run) -> Result<Exit> {
    let config = session::config(&args.session).await?;
    if args.session.json {
        return ask(&args, config, &mut JsonLines, |_| Ok(())).await;
    }
    let mut terminal = Terminal::new(
        args.session.verbose,
        args.session.keep_for.unwrap_or_default(),
    );
    terminal.working("loading the model");
    let exit = ask(&args, config, &mut terminal, session::show).await;
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
    let (mut session, choice, labels) = tokio::select! {
        session = session::start(&args.session, config, Front::Run, user) => session?,
        () = cancel.notified() => return Ok(Exit::Interrupted),
    };
    let query = labels.label(args.query.clone());
    match session.ask(query, choice, user, &cancel).await {
        Ok(outcome) => {
            show(&outcome)?;
            Ok(Exit::of(&outcome))
        }
        Err(SessionError::Interrupted) => Ok(Exit::Interrupted),
        Err(error) => Err(error.into()),
    }
}
