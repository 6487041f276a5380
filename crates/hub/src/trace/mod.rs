//! The trace: what happened, in the order it happened, for people and for replay.
//!
//! A trace is a file of JSON lines, one [`Record`] each. The types here are the trace's own
//! (labels are lists of names); the core's types are not serializable on purpose.

mod convert;
mod escape;
mod saliency;
mod show;

use serde::{Deserialize, Serialize};

pub use convert::{causes, from_agent, ran_name};
pub use escape::{escape, escape_lines};
pub use saliency::saliency;
pub use show::show;

/// The format's version, in every record.
pub const VERSION: u32 = 2;

/// A label as names of taints; empty is ⊥, `["any"]` is ⊤.
pub type Names = Vec<String>;

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`].
    pub version: u32,
    /// Counts the records of a session from 1, without gaps.
    pub sequence: u64,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The conversation that it belongs to, where one trace holds many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// What happened.
    pub event: Event,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The app.
    pub app: String,
    /// The tool.
    pub tool: String,
    /// The exact arguments, as JSON text.
    pub arguments: String,
    /// The label under which it was made.
    pub label: Names,
}

/// What was decided on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flow {
    /// Running a call.
    Call(Call),
    /// Showing an answer to the user.
    Answer {
        /// The app; `None` for a vanilla spoke.
        app: Option<String>,
        /// The answer.
        text: String,
        /// Its label.
        label: Names,
    },
}

/// A region that stood in the way of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The region's number in the history.
    pub region: u32,
    /// Where its text comes from.
    pub source: String,
    /// The beginning of its text.
    pub excerpt: String,
    /// Its label.
    pub label: Names,
}

/// A region and how strongly a draft depends on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The region's number in the history.
    pub region: u32,
    /// Where its text comes from.
    pub source: String,
    /// The beginning of its text.
    pub excerpt: String,
    /// Its label.
    pub label: Names,
    /// From 0 to 1.
    pub score: f32,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Event {
    /// A session began.
    SessionStarted {
        /// The session's name.
        session: String,
        /// `rtbas-lazy`, `rtbas-lazy-checked`, `rtbas-eager` or `rtbas-drafted`.
        mode: String,
        /// The screener's name.
        screener: String,
    },
    /// The planner chose.
    Planned {
        /// The apps that it found to be needed.
        needed: Vec<String>,
        /// The app that was taken; `None` is a vanilla spoke.
        app: Option<String>,
        /// Who chose: `planner`, `user` or `command line`.
        by: String,
    },
    /// The planner could not tell whether an app is needed; it was not taken.
    PlanUnclear {
        /// The app.
        app: String,
        /// Why.
        reason: String,
    },
    /// A spoke runs.
    SpokeStarted {
        /// Its app.
        app: String,
        /// The hub's process id of it.
        pid: u32,
        /// The isolation layers in force.
        layers: Vec<String>,
        /// The layers that the user gave up.
        given_up: Vec<String>,
        /// The app's tools.
        tools: Vec<String>,
        /// Milliseconds from the request until the app had listed its tools.
        start_ms: u64,
    },
    /// A spoke is gone.
    SpokeEnded {
        /// Its app.
        app: String,
        /// Why.
        reason: String,
    },
    /// The spoke opened a connection through the hub, or was refused one.
    Egress {
        /// Its app.
        app: String,
        /// The configured destination.
        to: String,
        /// What became of it.
        outcome: String,
    },
    /// The user said something.
    User {
        /// The text.
        text: String,
        /// Its label.
        label: Names,
    },
    /// A screener chose a label.
    Screened {
        /// The step within the turn.
        step: usize,
        /// The screener.
        screener: String,
        /// The relevant regions; `None` is everything.
        relevant: Option<Vec<u32>>,
        /// How many regions there were.
        regions: usize,
        /// The label of the whole history.
        before: Names,
        /// The label chosen.
        after: Names,
        /// Why the screener could not tell: everything is relevant, or another decided.
        failure: Option<String>,
        /// How strongly the draft depends on the regions, where the screener could tell.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        scores: Vec<Score>,
    },
    /// A language model was consulted for something other than the next step.
    Consulted {
        /// `judge` or `plan`.
        purpose: String,
        /// Which provider.
        provider: String,
        /// What it cost.
        usage: Usage,
    },
    /// A prompt was redacted.
    Redacted {
        /// The step within the turn.
        step: usize,
        /// Its label.
        label: Names,
        /// Regions shown.
        kept: usize,
        /// Regions masked.
        masked: usize,
    },
    /// The model answered.
    Completed {
        /// The step within the turn.
        step: usize,
        /// Which provider.
        provider: String,
        /// What it cost.
        usage: Usage,
        /// `end`, `length` or `repetition`.
        stop: String,
        /// Calls proposed.
        calls: usize,
    },
    /// A draft was thrown away and made again at a lower label.
    DraftDropped {
        /// The step within the turn.
        step: usize,
    },
    /// The step was taken once more without what stood in its draft's way.
    Checked {
        /// The step within the turn.
        step: usize,
        /// The label of the second prompt.
        label: Names,
        /// Whether it was taken there. Otherwise the draft stands under its own label.
        taken: bool,
    },
    /// An answer was thrown away because it only repeats a read or a refused call; words are
    /// asked for.
    RepetitionDropped {
        /// The step within the turn.
        step: usize,
    },
    /// A call may run.
    Allowed {
        /// The step within the turn.
        step: usize,
        /// The call.
        flow: Flow,
        /// `policy RULE`, `user` or `user, for the session`.
        by: String,
    },
    /// A call or an answer was put to the user.
    Asked {
        /// The step within the turn.
        step: usize,
        /// What it is about.
        flow: Flow,
        /// The rule.
        rule: String,
        /// The rule's limit.
        limit: Names,
        /// `read`, `write` or `irreversible`.
        effect: String,
        /// The taints beyond the limit.
        excess: Names,
        /// The regions that brought them.
        causes: Vec<Cause>,
        /// If an equal irreversible call was sent before: `answered` or `unknown`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran: Option<String>,
    },
    /// A call may not run, or an answer may not be shown.
    Denied {
        /// The step within the turn.
        step: usize,
        /// What it is about.
        flow: Flow,
        /// Why.
        reason: String,
    },
    /// A proposed call makes no sense, and was not decided on.
    Rejected {
        /// The step within the turn.
        step: usize,
        /// The tool's name, as the model wrote it.
        tool: String,
        /// The arguments, as the model wrote them.
        arguments: String,
        /// The label under which it was proposed.
        label: Names,
        /// Why.
        reason: String,
    },
    /// The user, or whoever stands in for an absent user, answered.
    Answered {
        /// What it was about.
        flow: Flow,
        /// `once`, `session` or `no`.
        answer: String,
        /// Whether it may flow.
        allowed: bool,
    },
    /// A call returned.
    Returned {
        /// The call.
        call: Call,
        /// Bytes of the result.
        bytes: usize,
        /// Whether the app called it an error.
        is_error: bool,
        /// The label of the result.
        label: Names,
        /// Its labelled regions.
        regions: usize,
    },
    /// A call was sent, and nobody knows whether it ran.
    CallUnknown {
        /// The call.
        call: Call,
        /// Why no answer came.
        reason: String,
    },
    /// A call did not return.
    CallFailed {
        /// The call.
        call: Call,
        /// Why.
        reason: String,
    },
    /// The turn ended with an answer.
    Answer {
        /// The answer.
        text: String,
        /// Its label.
        label: Names,
        /// Calls that were refused on the way.
        refused: usize,
    },
    /// The turn ended without an answer.
    Stopped {
        /// Why. The user is shown it as far as the answer's limit allows.
        reason: String,
        /// The label of foreign words in it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        label: Names,
        /// Calls that were refused on the way.
        refused: usize,
        /// Calls of which nobody knows whether they ran.
        #[serde(default)]
        unknown: usize,
    },
}

/// What a completion cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// How many of them were reused from a cached prefix.
    pub cached_tokens: u32,
    /// Generated tokens.
    pub completion_tokens: u32,
    /// Milliseconds to the first token, where known.
    pub first_token_ms: Option<u64>,
    /// Milliseconds in all.
    pub total_ms: u64,
}
