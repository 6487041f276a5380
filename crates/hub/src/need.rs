//! What the turn machine asks of its driver, and what the driver brings back.

use std::fmt;

use ifc::{Image, Label, Permit, Receipt, RegionId, Relevance};

#[cfg(doc)]
use crate::TurnMachine;
use crate::{Asked, CompletionRequest, HandOver, Outcome, Serving};

/// What the machine needs next.
#[must_use]
#[derive(Debug)]
pub enum Need {
    /// A screening of [`TurnMachine::history`], and of [`TurnMachine::draft`] if there is one: bring it with
    /// [`TurnMachine::handle_screened`].
    Screen,
    /// A language model's answer: bring it with [`TurnMachine::handle_completion`].
    Complete(CompletionRequest),
    /// The user's answer: bring both back with [`TurnMachine::handle_answer`].
    Confirm(Asked),
    /// The user's word on whether the first provider of the conversation may be sent text with these taints: bring it with
    /// [`TurnMachine::handle_clearance`].
    Clear(Label),
    /// A fresh id for an exchange with another app, and the user's choice where several serve the
    /// functionality: bring both with [`TurnMachine::handle_exchange`].
    Exchange(Opening),
    /// A conversation of another app in which it answers a request: begin it with its tools, drive it
    /// until its turn is over, and bring it with [`TurnMachine::handle_served`].
    Serve(Box<Serving>),
    /// The execution of one call: bring its result with [`TurnMachine::handle_result`].
    Execute(Permit),
    /// The execution of these calls by the client that holds the conversation ([`Execution::Elsewhere`]).
    /// The turn is over for this machine: the results come with the next history.
    ///
    /// [`Execution::Elsewhere`]: crate::Execution::Elsewhere
    HandOver(HandOver),
    /// The answer to the previous need.
    Answer,
    /// The user: the turn is over (or none has begun). [`TurnMachine::user`] starts the next.
    User(Option<Outcome>),
}

/// An exchange that is to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The app that asks.
    pub asks: String,
    /// The functionality that is asked for.
    pub functionality: String,
    /// The apps that serve it, at least one. Of several the user chooses, never a model.
    pub apps: Vec<String>,
}

/// A screening, as the driver brings it.
#[derive(Debug)]
pub struct Screened {
    /// The screener's name.
    pub screener: String,
    /// The regions of interest, or why there are none to tell: an error means everything.
    pub relevance: Result<Relevance, String>,
    /// Why the screener could not tell by itself, although there are regions of interest: for the
    /// trace alone, as is the rest of [`ifc::Report`].
    pub failure: Option<String>,
    /// How strongly the draft depends on the regions.
    pub scores: Vec<(RegionId, f32)>,
}

/// What became of an executed call.
#[derive(Debug)]
pub enum CallOutcome {
    /// The app answered.
    Returned {
        /// The result's text.
        text: String,
        /// Whether the app called it an error.
        is_error: bool,
        /// What the app says of its label, in words of its own. It can only restrict, and where the policy
        /// gives the words a meaning.
        claims: Vec<String>,
        /// Its images. No rule looks into one: each has the most restrictive label of the tool's results.
        images: Vec<Image>,
    },
    /// The app did not answer properly; the spoke lives. The reason may quote the app: it is
    /// labelled like the app's most restrictive result.
    Failed(String),
    /// The call was sent, and no answer will come: it was given up after a time-out. The spoke
    /// lives. It is not known whether the call ran. The reason is for the trace.
    Unknown(String),
    /// The app or the spoke is gone, and it is not known whether the call ran. The turn ends. The reason
    /// may quote the app, and is shown to the user as far as the answer's limit allows.
    Lost(String),
}

impl CallOutcome {
    /// Enters it in the ledger. For any other outcome than an answer the ledger keeps that the call may have run, so that an
    /// equal one is asked about.
    pub fn note(&self, receipt: &Receipt) {
        match self {
            Self::Returned {
                is_error: false, ..
            } => receipt.answered(),
            // An error is an answer too.
            Self::Returned { .. } | Self::Failed(_) => receipt.failed(),
            Self::Unknown(_) | Self::Lost(_) => {}
        }
    }
}

/// A `handle_*` that the machine did not ask for. A bug in the driver; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misuse {
    /// What was brought.
    pub brought: &'static str,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the turn machine did not ask for {}", self.brought)
    }
}

impl std::error::Error for Misuse {}
