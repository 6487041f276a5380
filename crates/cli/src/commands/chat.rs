//! `sluice chat`: line by line.

use std::io::IsTerminal;
use std::pin::pin;

use anyhow::{Context, Result};
use clap::Args;
use config::Config;
use policy::Front;
use server::{SessionError, User};
use tokio::task::spawn_blocking;

use crate::exit::{self, Exit};
use crate::interrupts::{interrupts, is_terminated};
use crate::provider::Clearing;
use crate::session::{self, SessionArgs};
use crate::terminal::say;

#[derive(Debug, Args)]
pub(crate) struct Chat {
    #[command(flatten)]
    session: SessionArgs,
}

/// Talks until the end of input. The exit code is that of the first turn that failed; interrupted turns
/// do not count.
pub(crate) async fn chat(args: Chat) -> Result<Exit> {
    let (config, clearing) = session::config(&args.session).await?;
    let notices = config.desk.clone();
    let act = async |user: &mut dyn User| talk(&args, config, &clearing, user).await;
    session::with_user(&args.session, "chat", &notices, clearing.clone(), act).await
}

async fn talk(
    args: &Chat,
    config: Config,
    clearing: &Clearing,
    user: &mut dyn User,
) -> Result<Exit> {
    let cancel = interrupts();
    let (mut session, choice, labels) = tokio::select! {
        session = session::start(&args.session, config, Front::Chat, user) => session?,
        () = cancel.notified() => return Ok(Exit::Interrupted),
    };
    let mut worst = Exit::Done;
    if std::io::stdin().is_terminal() {
        user.idle();
        say("Ctrl-C interrupts an answer; Ctrl-D ends the chat.\n");
    }
    loop {
        user.idle();
        let (mut line, mut is_warned) = (pin!(line()), false);
        let line = loop {
            tokio::select! {
                line = &mut line => break line?,
                // The terminal drops what was typed. A second one ends the chat.
                () = cancel.notified() => {
                    if is_warned || is_terminated() || !std::io::stdin().is_terminal() {
                        return Ok(worst);
                    }
                    is_warned = true;
                    say("\nCtrl-C again or Ctrl-D ends the chat.\n> ");
                }
            }
        };
        let Some(line) = line else { return Ok(worst) };
        let query = line.trim();
        if query.is_empty() {
            continue;
        }
        let query = labels.label(query.to_owned());
        let exit = match session.ask(query, choice.clone(), user, &cancel).await {
            Ok(outcome) => {
                session::show(&args.session, &outcome, clearing)?;
                Exit::of(&outcome)
            }
            Err(SessionError::Interrupted) => Exit::Interrupted,
            // The next line may need another app.
            Err(error @ (SessionError::NoChoice(_) | SessionError::Spoke(_))) => {
                user.idle();
                say(&format!("sluice: {}", exit::shown(&error.into())));
                Exit::Failed
            }
            Err(error) => return Err(error.into()),
        };
        if worst == Exit::Done && exit != Exit::Interrupted {
            worst = exit;
        }
        if is_terminated() {
            return Ok(worst);
        }
    }
}

/// The next line; `None` at the end of input.
async fn line() -> Result<Option<String>> {
    if std::io::stdin().is_terminal() {
        say("> ");
    }
    let read = spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin()
            .read_line(&mut line)
            .map(|count| (count > 0).then_some(line))
    });
    let line = read.await?;
    line.context("standard input cannot be read; a chat reads lines of UTF-8 text")
}
