//! Where a turn is.

use std::collections::{HashMap, VecDeque};

use ifc::{Call, CallId, Label, Labeled, Permit, Question};

use crate::{Completion, HandOver, Outcome, ProposedCall};

/// Where the turn is. `Ask…` states emit a need; `Await…` states wait for its answer.
pub(super) enum State {
    Idle(Option<Outcome>),
    /// Begin the next step: line 4, and its lazy variants.
    Step,
    /// The model must say which tools this turn needs (the tool filter).
    AskFilter,
    AwaitFilter,
    AskScreen(Option<Completion>),
    AwaitScreen(Option<Completion>),
    AskCompletion(Phase, Label),
    AwaitCompletion(Phase, Label),
    /// Decide on the next call of the step: lines 7 to 11.
    Calls(Calls),
    AskExecution(Calls, CallId, Permit),
    AskUser(Calls, CallId, Question),
    AwaitUser(Calls, CallId, Call),
    AwaitResult(Calls, CallId, Call),
    /// The user must say whether the final answer may be shown.
    AskRelease(Labeled, Question),
    AwaitRelease(Labeled, Call),
    /// The allowed calls of the step run elsewhere.
    HandOver(HandOver),
}

/// What a completion is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its calls may still be refined (lazy screening).
    Draft,
    Final,
    /// An answer in words was asked for, since the model only repeats itself.
    Words,
    /// An answer in place of one that may not be shown.
    Fallback,
}

/// The calls of one step that are still to be decided on, and the label they were made under.
pub(super) struct Calls {
    pub(super) label: Label,
    pub(super) text: Labeled,
    pub(super) queue: VecDeque<(CallId, ProposedCall)>,
    /// Allowed, and to run elsewhere.
    pub(super) allowed: Vec<(CallId, Permit)>,
}

#[derive(Default)]
pub(super) struct TurnCount {
    pub(super) step: usize,
    pub(super) refused: usize,
    pub(super) proposed: HashMap<(String, String), usize>,
    /// The calls of the step before.
    pub(super) last_calls: Vec<ProposedCall>,
    /// What the user has said no to. Nobody is asked the same twice in one turn.
    pub(super) refusals: Vec<ProposedCall>,
}
