//! What all requests share.

use std::sync::{Arc, Mutex, PoisonError};

use hub::recognise::Recogniser;
use hub::trace::Event;
use ifc::Labeled;
use llm::OpenAi;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::approve::{Approver, Observer};
use super::label_cache::LabelCache;
use super::memory::{Memory, Taken};
use super::rebuild::ClientLabels;
use super::sessions::Sessions;
use super::tokens::Tokens;
use super::transcript::{Chain, Digest};
use crate::openai_api::http::{Budget, Hosts};
use crate::openai_api::response::ApiError;
use crate::parts::Parts;
use crate::trace_file::TraceFile;

/// What all requests share. Nothing in it is of one conversation, except what is kept under that
/// conversation's digest.
pub(super) struct Shared {
    pub(super) parts: Parts,
    pub(super) app: String,
    pub(super) approver: Arc<dyn Approver>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) labels: ClientLabels,
    /// The trace, or why it ended. What follows a cut line could not be read, and a gap would say
    /// that nothing happened; so nothing is done any more once a record could not be written.
    pub(super) trace: Option<Mutex<Result<TraceFile, String>>>,
    pub(super) models: Option<Arc<OpenAi>>,
    pub(super) memory: Memory,
    pub(super) texts: Recogniser,
    pub(super) cache: LabelCache,
    pub(super) sessions: Sessions,
    pub(super) secret: Digest,
    pub(super) observe: bool,
    /// Where requests are answered that take long to read: its threads take each other's work.
    pub(super) runtime: Handle,
    pub(super) slots: Arc<Semaphore>,
    pub(super) budget: Budget,
    pub(super) hosts: Hosts,
    pub(super) tokens: Tokens,
}

impl Shared {
    /// Remembers how a message came about, and knows its text again. `dropped` are words that a stream
    /// has shown before it was clear that they are not taken.
    pub(super) fn remember(&self, chain: &Chain, taken: Taken, dropped: &Labeled) {
        let texts = self.texts.tenant(chain.tenant());
        for text in taken.texts() {
            texts.learn(None, &text);
        }
        texts.learn(None, dropped);
        // The upstream has answered: it takes the client's key, where it looks at keys at all.
        texts.confirm();
        self.memory.remember(chain, taken);
    }

    /// Whether anybody wants to know of events.
    pub(super) fn records(&self) -> bool {
        self.trace.is_some() || self.observer.attends()
    }

    /// What cannot be recorded must not be done.
    pub(super) fn record(&self, conversation: &str, event: Event) -> Result<(), ApiError> {
        let Some(trace) = &self.trace else {
            self.observer.event(conversation, &event);
            return Ok(());
        };
        let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
        let file = trace
            .as_mut()
            .map_err(|reason| ApiError::internal(reason.as_str()))?;
        let record = match file.append_to(Some(conversation), event) {
            Ok(record) => record,
            Err(error) => {
                let reason = format!("{error}, and start the proxy again");
                self.observer.failed(&reason);
                let answer = ApiError::internal(reason.as_str());
                *trace = Err(reason);
                return Err(answer);
            }
        };
        // An observer may take a while, and other conversations have records to write.
        drop(trace);
        self.observer.event(conversation, &record.event);
        Ok(())
    }
}
