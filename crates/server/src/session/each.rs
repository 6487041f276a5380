//! One query to several apps, each by itself.
//!
//! The apps do not meet: each is asked in its own isolated conversation, and no word of one reaches a
//! prompt that has tools of another. What they said is put together where there are no tools at all, so
//! what one app says of another can at most mislead a reader; and the user sees each answer by itself
//! as well.

use std::collections::BTreeSet;

use hub::trace::Event;
use hub::{Apps, Outcome, Stop, TurnMachine};
use ifc::Labeled;
use tokio::sync::Notify;

use super::{Failed, Session, SessionError, Turn};
use crate::user::User;

/// What stands in the place of an answer. What the app said about it, if anything, is in the trace.
const NO_ANSWER: &str = "(no answer)";

#[derive(Default)]
struct Gathered {
    /// What is put together: a text for each app, whether it gave an answer or not.
    texts: Vec<(String, Labeled)>,
    answered: Vec<(String, Outcome)>,
    unanswered: Vec<(String, Result<Outcome, SessionError>)>,
    /// Of all conversations: refused calls, calls that may have run, and requests to other apps without a response.
    refused: usize,
    unknown: usize,
    dropped: usize,
}

impl Session {
    /// Asks each app, and puts the answers together. `failed` are those whose spokes could not be
    /// started: they give no answer.
    pub(super) async fn each(
        &mut self,
        apps: BTreeSet<String>,
        mut failed: Failed,
        query: Labeled,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Outcome, SessionError> {
        let mut gathered = Gathered::default();
        for app in &apps {
            let turn = match failed.remove(app) {
                Some(error) => Err(error.into()),
                None => self.alone(app, query.clone(), user, cancel).await,
            };
            match turn {
                Ok(turn) if turn.outcome.result == Err(Stop::Interrupted) => {
                    return Ok(turn.outcome);
                }
                Ok(turn) => gathered.take(app, turn),
                // The others are asked all the same, so that no app decides whether another one is heard.
                Err(error @ SessionError::Spoke(_)) => {
                    // That it does not start is something that it says of itself.
                    let label = self.known(app)?.descriptions.clone();
                    let text = Labeled::label_tcb(NO_ANSWER, label);
                    gathered.texts.push((app.clone(), text));
                    gathered.unanswered.push((app.clone(), Err(error)));
                }
                Err(error) => return Err(error),
            }
        }
        self.record(gathered.event(), user)?;
        let (refused, unknown, dropped) = (gathered.refused, gathered.unknown, gathered.dropped);
        let outcome = match gathered.answered.len() {
            0 | 1 => self.only(gathered)?,
            _ => {
                // Of all that were asked, also of those without an answer: who is left would depend on what they said.
                let together = Apps::Each(apps);
                self.open(&together, user).await?;
                let said = query.clone();
                let begin = |agent: &mut TurnMachine| agent.gather(said, gathered.texts);
                let turn = self.converse(&together, &query, None, begin, user, cancel);
                turn.await?.outcome
            }
        };
        Ok(Outcome {
            refused: refused + outcome.refused,
            unknown: unknown + outcome.unknown,
            dropped: dropped + outcome.dropped,
            ..outcome
        })
    }

    /// The query in the isolated conversation of one app.
    async fn alone(
        &mut self,
        app: &str,
        query: Labeled,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Turn, SessionError> {
        let alone = Apps::One(app.to_owned());
        tokio::select! {
            opened = self.open(&alone, user) => drop(opened?),
            () = cancel.notified() => return Err(SessionError::Interrupted),
        }
        let begin = |agent: &mut TurnMachine| agent.user(query.clone());
        let turn = self.converse(&alone, &query, Some(app), begin, user, cancel);
        turn.await
    }

    /// The only answer, which needs nothing put together and has passed its own sink; or why there is
    /// none. What was refused is counted already.
    fn only(&mut self, gathered: Gathered) -> Result<Outcome, SessionError> {
        let answered = gathered.answered.into_iter().map(|(app, it)| (app, Ok(it)));
        let mut all = answered.chain(gathered.unanswered);
        // No app was asked: there is no such plan.
        let (app, outcome) = all.next().ok_or(SessionError::NoChoice(Vec::new()))?;
        self.last = Apps::One(app);
        Ok(Outcome {
            refused: 0,
            unknown: 0,
            dropped: 0,
            ..outcome?
        })
    }
}

impl Gathered {
    fn take(&mut self, app: &str, turn: Turn) {
        let app = app.to_owned();
        self.refused += turn.outcome.refused;
        self.unknown += turn.outcome.unknown;
        self.dropped += turn.outcome.dropped;
        match &turn.outcome.result {
            Ok(answer) => {
                self.texts.push((app.clone(), answer.clone()));
                self.answered.push((app, turn.outcome));
            }
            Err(_) => {
                // That there is none may depend on everything in its conversation.
                let text = Labeled::label_tcb(NO_ANSWER, turn.label);
                self.texts.push((app.clone(), text));
                self.unanswered.push((app, Ok(turn.outcome)));
            }
        }
    }

    fn event(&self) -> Event {
        Event::Gathered {
            answered: self.answered.iter().map(|(app, _)| app.clone()).collect(),
            missing: self.unanswered.iter().map(|(app, _)| app.clone()).collect(),
        }
    }
}
