//! What all requests share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hub::recognise::Recogniser;
use hub::trace::Event;
use ifc::Label;
use llm::Dialect;
use tokio::sync::Semaphore;
use wire::{Hints, ToolDescription};

use super::behind::{Behind, LabelledTexts};
use super::memory::Memory;
use super::models::Models;
use super::observe;
use super::observer::Observer;
use super::rebuild::ClientLabels;
use super::sessions::Sessions;
use super::tokens::Tokens;
use super::trace::TraceWriter;
use super::transcript::Digest;
use crate::api::error::ApiError;
use crate::api::http::Budget;
use crate::api::request::Takes;
use crate::desk::Approver;
use crate::locks::lock;
use crate::parts::{Parts, Told};
use crate::sink::At;
use crate::state::StateHandle;

/// Sets of tools that are recorded; an agent has a few.
const TOOL_SETS: usize = 64;

/// What all requests share. Nothing in it is of one conversation, except what is kept under that
/// conversation's digest.
pub(super) struct Shared {
    pub(super) parts: Parts,
    pub(super) app: String,
    pub(super) approver: Arc<dyn Approver>,
    /// How long a question waits for its answer, and an answer for its request.
    pub(super) patience: Duration,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) labels: ClientLabels,
    pub(super) known: LabelledTexts,
    pub(super) behind: Option<Behind>,
    pub(super) told: Option<Told>,
    pub(super) trace: Option<TraceWriter>,
    pub(super) models: Option<Models>,
    pub(super) memory: Memory,
    pub(super) texts: Recogniser,
    pub(super) sessions: Sessions,
    /// The store that is shared with other replicas.
    pub(super) state: Option<StateHandle>,
    pub(super) secret: Digest,
    pub(super) observe: bool,
    /// The sets of tools that are recorded.
    pub(super) offered: Mutex<Vec<Event>>,
    pub(super) unknown_members: bool,
    pub(super) omits_tools: bool,
    pub(super) any_model: bool,
    pub(super) silence: Duration,
    pub(super) slots: Arc<Semaphore>,
    pub(super) budget: Budget,
    pub(super) tokens: Tokens,
}

impl Shared {
    pub(super) fn takes(&self) -> Takes {
        Takes {
            // Where nothing says how images are labelled, one is refused.
            images: self.labels.images.is_some(),
            unknown_members: self.unknown_members,
            omits_tools: self.omits_tools,
            upstream: self.upstream(),
        }
    }

    /// The API of the upstream. One that lists no models is of this program.
    pub(super) fn upstream(&self) -> Dialect {
        let models = self.models.as_ref();
        models.map_or(Dialect::Chat, |models| models.upstream.dialect())
    }

    /// Takes note of the label of text that a client has or is about to get.
    pub(super) fn gives(&self, behind: Option<&Behind>, label: &Label) {
        if let Some(behind) = behind {
            behind.permits().give(&behind.session, label);
        }
        if let Some(told) = &self.told {
            told(label);
        }
    }

    /// The gateway at which the clients of a tenant call tools. Where there is a store, each tenant has a session there.
    pub(super) fn behind_of(&self, tenant: &Digest) -> Option<Behind> {
        let behind = self.behind.clone()?;
        match self.state {
            Some(_) => Some(behind.of_tenant(tenant)),
            None => Some(behind),
        }
    }

    pub(super) fn records(&self) -> bool {
        self.trace.is_some() || self.observer.attends() || !self.parts.sinks.is_empty()
    }

    /// Takes an event down. What follows from it is done after [`Shared::written`].
    pub(super) fn record(&self, at: &At<'_>, event: Event) {
        self.observer.event(at.conversation, &event);
        self.parts.sinks.event(at, &event);
        if let Some(trace) = &self.trace {
            trace.record(at.conversation, event);
        }
    }

    /// Records the tools that a request brings, once for each set of them.
    pub(super) fn offers(&self, at: &At<'_>, tools: &[(&str, &str)]) {
        let tools = tools.iter().map(|(name, schema)| ToolDescription {
            name: (*name).to_owned(),
            description: String::new(),
            input_schema: (*schema).to_owned(),
            hints: Hints::default(),
        });
        let event = observe::offered(&self.app, tools.collect());
        let mut offered = lock(&self.offered);
        if offered.len() < TOOL_SETS && !offered.contains(&event) {
            offered.push(event.clone());
            self.record(at, event);
        }
    }

    /// Waits until everything that was recorded so far is written. What cannot be recorded must not be done.
    pub(super) async fn written(&self) -> Result<(), ApiError> {
        if let Some(trace) = &self.trace {
            trace.written().await?;
        }
        let kept = self.parts.sinks.written().await;
        kept.map_err(ApiError::unavailable)
    }
}
