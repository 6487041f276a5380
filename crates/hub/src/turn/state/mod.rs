//! Where a turn is: data alone. What leads from one state to the next stands in the files around this folder.

mod calls;
mod count;
mod message;
mod parts;
mod rejection;

use ifc::{Call, CallId, Delivery, Label, Permit, Question, Receipt, Release};

use crate::isc::{Exchange, Pending};
use crate::serving::Serving;
use crate::{Completion, HandOver, Outcome};
pub(crate) use calls::{Calls, Kept, StepCall, filled_calls, same_calls, same_control, step_calls};
pub(crate) use count::{Offered, Tried, TurnCount, Withheld};
pub(crate) use message::{Asking, Message};
pub(crate) use parts::{Filled, Hole, OpenCall, with_values};
pub(crate) use rejection::Rejection;

/// Where the turn is. `Ask…` states emit a need; `Await…` states wait for its answer.
pub(crate) enum State {
    Idle(Option<Outcome>),
    /// Begin the next step: line 4, and its lazy variants.
    Step,
    AskScreen(Sketch),
    AwaitScreen(Sketch),
    AskCompletion(Phase, Label),
    AwaitCompletion(Phase, Label),
    /// Take the step from everything, after it was taken without what is withheld.
    AskWhole(Without),
    AwaitWhole(Without),
    /// Take the step once more without what stands in its way, to compare it with the draft.
    AskCheck(Check),
    AwaitCheck(Check),
    /// Make a part of the step by itself: its control part, or a value.
    AskPart(Box<Filled>),
    AwaitPart(Box<Filled>),
    /// Take an earlier read once more, to see whether it can do without what stands in a draft's way.
    AskRefinement(Refining),
    AwaitRefinement(Refining),
    /// The next prompt is too long, and its beginning is being summarised.
    AwaitSummary(Summarising),
    /// Its prompt is as short as it gets: one summary for each prompt.
    Shortened(Box<State>),
    /// Decide on the next call of the step: lines 7 to 11.
    Calls(Calls),
    AskExecution(Calls, CallId, Permit),
    AskUser(Calls, CallId, Question),
    AwaitUser(Calls, CallId, Call),
    AwaitResult(Calls, CallId, Call, Receipt),
    /// An exchange with another app begins with an id, which the driver draws.
    AskExchange(Calls, CallId, Asking),
    AwaitExchange(Calls, CallId, Asking),
    /// A conversation of another app is to answer a request.
    AskServing(Calls, CallId, Exchange<Pending>, Box<Serving>),
    AwaitServed(Calls, CallId, Exchange<Pending>),
    /// The user must say whether a message of an exchange may be delivered.
    AskDelivery(Calls, CallId, Message, Question<Delivery>),
    AwaitDelivery(Calls, CallId, Message, Delivery),
    /// The user must say whether the final answer, made under this label, may be shown.
    AskRelease(Label, Question<Release>),
    AwaitRelease(Label, Release),
    /// The allowed calls of the step run elsewhere.
    HandOver(HandOver),
}

/// A step that the screener may look at.
pub(crate) enum Sketch {
    /// There is none.
    None,
    /// Of the agent's own model: it may become the step.
    Own(Completion),
    /// Of another model: it must not.
    Other(Completion),
}

impl Sketch {
    pub(crate) fn completion(&self) -> Option<&Completion> {
        match self {
            Self::None => None,
            Self::Own(completion) | Self::Other(completion) => Some(completion),
        }
    }
}

/// What a completion is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A draft by another model, for the screener alone.
    Sketch,
    /// A draft that is screened in any case.
    Screened,
    /// Its calls may still be refined (lazy screening).
    Draft,
    /// As a draft, without what is withheld since a call was refused.
    Without,
    Final,
    /// An answer in words was asked for, since the model only repeats itself.
    Words,
    /// An answer in place of one that may not be shown.
    Fallback,
    /// A response in the form that was agreed on.
    Form,
}

/// A step that was taken without what is withheld.
pub(crate) struct Without {
    pub(crate) step: Completion,
    pub(crate) label: Label,
    /// The label of everything, which it is taken from next.
    pub(crate) whole: Label,
}

/// A step that is taken once more, to see whether it can do without what stands in its way.
pub(crate) struct Check {
    /// The step as it was drafted, from everything.
    pub(crate) draft: Completion,
    /// The label of everything that it may see this time.
    pub(crate) label: Label,
    /// For each call of the draft, what need not come out again.
    pub(crate) kept: Vec<Kept>,
}

/// A read that is made once more.
pub(crate) struct Refining {
    /// The step in whose way it stands.
    pub(crate) draft: Completion,
    /// Where the step that reads stands in the history.
    pub(crate) at: usize,
    /// The label of everything that it may see this time.
    pub(crate) label: Label,
}

/// A summary that is being made.
pub(crate) struct Summarising {
    pub(crate) label: Label,
    /// The position of the first message that the summary leaves as it is.
    pub(crate) from: usize,
    /// The request that waits for it.
    pub(crate) then: Box<State>,
}
