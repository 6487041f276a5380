//! Where a turn is.

use std::collections::VecDeque;

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
    AskScreen(Sketch),
    AwaitScreen(Sketch),
    AskCompletion(Phase, Label),
    AwaitCompletion(Phase, Label),
    /// Take the step once more under this label, to compare it with the draft.
    AskCheck(Completion, Label),
    AwaitCheck(Completion, Label),
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

/// A step that the screener may look at.
pub(super) enum Sketch {
    /// There is none.
    None,
    /// Of the agent's own model: it may become the step.
    Own(Completion),
    /// Of another model: it must not.
    Other(Completion),
}

impl Sketch {
    pub(super) fn completion(&self) -> Option<&Completion> {
        match self {
            Self::None => None,
            Self::Own(completion) | Self::Other(completion) => Some(completion),
        }
    }
}

/// What a completion is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// A draft by another model, for the screener alone.
    Sketch,
    /// A draft that is screened in any case.
    Screened,
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

/// What a turn remembers beside the history. What decides over a step remembers the label under
/// which it came about, and a step sees only what flows to its own: otherwise a step above a label
/// could speak to a step at it, past the redactor.
#[derive(Default)]
pub(super) struct TurnCount {
    pub(super) step: usize,
    pub(super) refused: usize,
    /// Every call that was proposed.
    pub(super) proposed: Vec<Call>,
    /// The calls of each step.
    pub(super) steps: Vec<(Label, Vec<ProposedCall>)>,
    /// What the user has said no to. Nobody is asked the same twice in one turn.
    pub(super) refusals: Vec<Call>,
}

impl TurnCount {
    /// How often this very call has been proposed, as far as a step under its label may know.
    pub(super) fn times_proposed(&self, call: &Call) -> usize {
        self.proposed
            .iter()
            .filter(|past| known(past, call))
            .count()
    }

    /// Whether the user has said no to this very call, as far as a step under its label may know.
    pub(super) fn is_refused(&self, call: &Call) -> bool {
        self.refusals.iter().any(|past| known(past, call))
    }

    /// The calls of the newest step that a step under `label` may know of.
    pub(super) fn last_calls(&self, label: &Label) -> &[ProposedCall] {
        let mut steps = self.steps.iter().rev();
        let known = steps.find(|(own, _)| own.flows_to(label));
        known.map_or(&[], |(_, calls)| calls)
    }
}

fn known(past: &Call, call: &Call) -> bool {
    past.tool == call.tool && past.arguments == call.arguments && past.label.flows_to(&call.label)
}
