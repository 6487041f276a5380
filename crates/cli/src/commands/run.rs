//! `sluice run`: one query.

use anyhow::Result;
use clap::Args;
use config::Config;
use policy::Front;
use server::{SessionError, User};

use crate::exit::Exit;
use crate::interrupts::interrupts;
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
    let config = session::config(&args.session).await?;
    session::with_user(&args.session, async |user| ask(&args, config, user).await).await
}

async fn ask(args: &Run, config: Config, user: &mut dyn User) -> Result<Exit> {
    let cancel = interrupts();
    let (mut session, choice, labels) = tokio::select! {
        session = session::start(&args.session, config, Front::Run, user) => session?,
        () = cancel.notified() => return Ok(Exit::Interrupted),
    };
    let query = labels.label(args.query.clone());
    match session.ask(query, choice, user, &cancel).await {
        Ok(outcome) => {
            session::show(&args.session, &outcome)?;
            Ok(Exit::of(&outcome))
        }
        Err(SessionError::Interrupted) => Ok(Exit::Interrupted),
        Err(error) => Err(error.into()),
    }
}
