//! What a front is to the driver: it brings its conversation, shows questions and text, and keeps the record.

use std::sync::Arc;

use async_trait::async_trait;
use hub::address::{BREAK, Message};
use hub::isc::Asks;
use hub::trace::Event;
use hub::{AppTools, Misuse, Opening, Purpose, TurnMachine};
use llm::{ProviderError, RequestOptions};

use crate::desk::Answered;
use crate::parts::Parts;
use crate::spoke::Spoke;
use crate::user::{FormAnswer, FormView};
use hub::question::QuestionView;

/// The holder of a conversation, as the driver sees it.
#[async_trait]
pub(crate) trait Front: Send {
    /// Why a turn has no end at all.
    type Error: From<Misuse> + Send;

    fn records(&self) -> bool {
        true
    }

    /// Writes an event down. `serving` names the conversation where it is one that serves an app's
    /// request.
    ///
    /// # Errors
    /// It cannot be recorded. The turn ends, because what cannot be recorded must not be done.
    fn record(&mut self, serving: Option<&str>, event: Event) -> Result<(), Self::Error>;

    /// Waits until what was recorded is written down, where `record` itself does not.
    ///
    /// # Errors
    /// It cannot be written. The turn ends.
    async fn written(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Shows a question and brings the answer. Anything but a clear yes must be [`Answer::No`].
    async fn confirm(&mut self, view: QuestionView) -> Answered;

    /// Asks whether a provider may be sent text with these taints above its clearance. Anything but a clear yes must be false.
    async fn clear(&mut self, provider: &str, above: &[String]) -> bool {
        let _ = (provider, above);
        false
    }

    /// Shows an app's question and brings the answer. Where there is no user, there is none: no user has declined.
    async fn fill_in(&mut self, view: &FormView) -> FormAnswer {
        let _ = view;
        FormAnswer::Dismissed
    }

    /// The user's choice among several apps that serve a functionality; `None` is none of them.
    ///
    /// # Errors
    /// The choice cannot be recorded.
    async fn choose(&mut self, opening: &Opening) -> Result<Option<String>, Self::Error> {
        let _ = opening;
        Ok(None)
    }

    /// The spoke of an app that another one asks, started if it does not run; or why there is none.
    ///
    /// # Errors
    /// What happened cannot be recorded.
    async fn spoke(&mut self, app: &str) -> Result<Result<Arc<Spoke>, String>, Self::Error> {
        Ok(Err(format!("the app {app} does not run here")))
    }

    /// What the conversation of an app needs that is to answer a request; or why there is none.
    ///
    /// # Errors
    /// What happened cannot be recorded.
    async fn host(&mut self, app: &str) -> Result<Result<Host, String>, Self::Error> {
        Ok(Err(format!("the app {app} does not run here")))
    }

    /// What the screener's own request to a model carries beside its prompt.
    fn aside(&self) -> RequestOptions {
        RequestOptions::default()
    }

    /// A completion begins: what it carries beside its prompt. `shown` says whether its text goes
    /// to [`Front::delta`] while it is written.
    fn begin(&mut self, purpose: Purpose, shown: bool) -> RequestOptions {
        let _ = (purpose, shown);
        RequestOptions::default()
    }

    /// Takes a piece of text while the model writes it. It may be shown whatever becomes of its
    /// step, and may not become the step.
    fn delta(&mut self, piece: &str);

    /// What comes next is the text of another completion than what the reader has got so far.
    fn separate(&mut self) {
        self.delta(BREAK);
    }

    /// The message that the reader gets, as a client renders it: in one piece, however many completions it
    /// is made of.
    fn message(&mut self) -> &mut Message;

    /// The text that was shown by [`Front::delta`] is over. As an answer, the machine gives it as `said`: made
    /// inert by itself, and not for its place in the message.
    fn streamed(&mut self, said: String) {
        let _ = said;
    }

    /// Sees how the completion ended before the machine does.
    fn completed(&mut self, answer: &mut Result<llm::Answer, ProviderError>) {
        let _ = answer;
    }
}

/// An app whose conversation is to answer a request.
pub(crate) struct Host {
    pub(crate) spoke: Arc<Spoke>,
    pub(crate) tools: AppTools,
    pub(crate) asks: Asks,
    pub(crate) model: Option<String>,
}

/// What a driver drives: the machine of one turn, and the front that shows and records what it does.
pub(crate) struct Driven<'a, F: Front> {
    pub(crate) parts: &'a Parts,
    pub(crate) front: &'a mut F,
    pub(crate) agent: &'a mut TurnMachine,
    /// The conversation's name in the record, where it serves an app's request.
    pub(crate) serving: Option<String>,
}

impl<F: Front> Driven<'_, F> {
    /// Writes down what the machine has decided.
    pub(crate) async fn flush(&mut self) -> Result<(), F::Error> {
        match self.record_events()? {
            true => self.front.written().await,
            false => Ok(()),
        }
    }

    /// Records what the machine has decided, and says whether there was anything.
    pub(crate) fn record_events(&mut self) -> Result<bool, F::Error> {
        // Taken in any case, so that they do not pile up where no record is kept.
        let events = self.agent.take_events();
        if events.is_empty() || !self.front.records() {
            return Ok(false);
        }
        for event in events {
            self.front.record(self.serving.as_deref(), event)?;
        }
        Ok(true)
    }

    /// Writes down what happened in this conversation.
    pub(crate) async fn record(&mut self, event: Event) -> Result<(), F::Error> {
        self.front.record(self.serving.as_deref(), event)?;
        self.front.written().await
    }
}
