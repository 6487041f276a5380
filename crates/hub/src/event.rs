//! What the turn machine did, for the trace. Append-only, in order.

use ifc::{Answer, Basis, Call, Cause, Effect, Label, Labeled, Ran, RegionId, Source};

use crate::{Asked, Outcome, ProposedCall, StopReason, Subject, Usage};

/// A region and how strongly a draft depends on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The region's number in the history.
    pub region: RegionId,
    /// Where its text comes from.
    pub source: Source,
    /// The beginning of its text, with its label.
    pub excerpt: Labeled,
    /// From 0 to 1.
    pub score: f32,
}

impl Scored {
    /// A trace is read by people: whatever has more regions than this is seen in its beginning.
    pub const MOST: usize = 256;
}

/// One entry of a trace.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The user said something.
    User {
        /// The text.
        text: String,
        /// Its label.
        label: Label,
    },
    /// A screener chose the next step's label (Algorithm 4, line 4).
    Screened {
        /// The step within the turn, from 1.
        step: usize,
        /// The screener's name.
        screener: String,
        /// The relevant regions; `None` is everything.
        relevant: Option<Vec<RegionId>>,
        /// How many regions there were.
        regions: usize,
        /// The label of the whole history.
        before: Label,
        /// The label of the relevant regions.
        after: Label,
        /// Why the screener could not tell, if so: everything is relevant, or another decided.
        failure: Option<String>,
        /// How strongly the draft depends on the regions, where the screener can tell; the first
        /// [`Scored::MOST`] of them in reading order.
        scores: Vec<Scored>,
    },
    /// A prompt was made by the redactor (lines 5 and 16).
    Redacted {
        /// The step within the turn.
        step: usize,
        /// The prompt's label.
        label: Label,
        /// Regions shown.
        kept: usize,
        /// Regions masked or left out.
        masked: usize,
    },
    /// The model answered (lines 6 and 17).
    Completed {
        /// The step within the turn.
        step: usize,
        /// Which provider answered.
        provider: String,
        /// What it cost.
        usage: Usage,
        /// Why it ended.
        stop: StopReason,
        /// Calls proposed.
        calls: usize,
    },
    /// A draft was thrown away: its label violates policy and a lower one masks regions.
    DraftDropped {
        /// The step within the turn.
        step: usize,
    },
    /// The step was taken once more without what stood in its draft's way.
    Checked {
        /// The step within the turn.
        step: usize,
        /// The label of the second prompt.
        label: Label,
        /// Whether it was taken there. Otherwise the draft stands under its own label.
        taken: bool,
    },
    /// An answer was thrown away because it only repeats a read or a refused call; the model is
    /// asked for an answer in words.
    RepetitionDropped {
        /// The step within the turn.
        step: usize,
    },
    /// The monitor decided on a call (lines 8 to 11), or did not simply allow the final answer.
    Decided {
        /// The step within the turn.
        step: usize,
        /// What was decided on.
        subject: Subject,
        /// The decision.
        verdict: Verdict,
    },
    /// A proposed call makes no sense, and was not decided on.
    Rejected {
        /// The step within the turn.
        step: usize,
        /// The call as the model wrote it.
        proposed: ProposedCall,
        /// The label of the prompt that it comes from.
        label: Label,
        /// Why.
        reason: String,
    },
    /// The user answered a question.
    Answered {
        /// What it was about.
        subject: Subject,
        /// The answer.
        answer: Answer,
        /// Whether it may flow.
        allowed: bool,
    },
    /// A call returned, and its result was labelled (lines 12 and 13).
    Returned {
        /// The call.
        call: Call,
        /// Bytes of the result.
        bytes: usize,
        /// Whether the app called it an error.
        is_error: bool,
        /// The label of the result as a whole, joined with the call's.
        label: Label,
        /// Labelled regions in the result.
        regions: usize,
    },
    /// A call was sent, and nobody knows whether it ran.
    CallUnknown {
        /// The call.
        call: Call,
        /// Why no answer came.
        reason: String,
    },
    /// A call did not return a result.
    CallFailed {
        /// The call.
        call: Call,
        /// Why.
        reason: String,
    },
    /// The turn ended.
    Ended {
        /// How, with the words of a stop as they were said: the trace is not the user's screen.
        outcome: Outcome,
    },
}

/// A decision, as the trace keeps it.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The call may run.
    Allowed(Basis),
    /// The user is asked.
    Asked {
        /// The rule's name.
        rule: String,
        /// The limit of the rule.
        limit: Label,
        /// What the call does to the world.
        effect: Effect,
        /// The taints beyond the limit.
        excess: Label,
        /// The regions that brought them.
        causes: Vec<Cause>,
        /// What is known of an equal call that was sent before.
        ran: Option<Ran>,
    },
    /// The call may not run.
    Denied(String),
}

impl Verdict {
    pub(crate) fn of_question(asked: &Asked) -> Self {
        Self::Asked {
            rule: asked.rule().name.clone(),
            limit: asked.rule().limit.clone(),
            effect: asked.rule().effect,
            excess: asked.excess().clone(),
            causes: asked.causes().to_vec(),
            ran: asked.ran(),
        }
    }
}
