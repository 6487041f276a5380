//! `sluice run`: one query.

use anyhow::Result;
use clap::Args;
use config::Config;
use policy::Front;
use server::{SessionError, User};

use crate::exit::Exit;
use crate::interrupts::interrupts;
use crate::provider::Clearing;
use crate::session::{self, SessionArgs};

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The query.
    query: String,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs one query to its end.
pub(crate) async fn run(args: Run) -> Result<Exit> {
    let (config, clearing) = session::config(&args.session).await?;
    let notices = config.desk.clone();
    let act = async |user: &mut dyn User| ask(&args, config, &clearing, user).await;
    session::with_user(&args.session, "run", &notices, clearing.clone(), act).await
}

async fn ask(args: &Run, config: Config, clearing: &Clearing, user: &mut dyn User) -> Result<Exit> {
    let cancel = interrupts();
    let (mut session, choice, labels) = tokio::select! {
        session = session::start(&args.session, config, Front::Run, user) => session?,
        () = cancel.notified() => return Ok(Exit::Interrupted),
    };
    let query = labels.label(args.query.clone());
    match session.ask(query, choice, user, &cancel).await {
        Ok(outcome) => {
            session::show(&args.session, &outcome, clearing)?;
            Ok(Exit::of(&outcome))
        }
        Err(SessionError::Interrupted) => Ok(Exit::Interrupted),
        Err(error) => Err(error.into()),
    }
}
