//! Where a turn is.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use ifc::{
    ArgumentPath, Arguments, ArgumentsError, Call, CallId, Delivery, Label, Labeled, Permit,
    Question, Receipt, Release, Relevance,
};

use super::fill::Filled;
use super::message::{Asking, Message};
use super::refused::{Tried, Withheld, Without};
use super::serve::Serving;
use super::summary::Summarising;
use crate::isc::{Exchange, Malformed, Pending};
use crate::{Completion, HandOver, Outcome, ProposedCall};

/// Where the turn is. `Ask…` states emit a need; `Await…` states wait for its answer.
pub(super) enum State {
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

/// A call of a step.
pub(super) struct StepCall {
    pub(super) proposed: ProposedCall,
    /// Its data arguments that were made from more than the rest of the step.
    pub(super) kept: Kept,
}

impl StepCall {
    /// The label of the whole call, in a step under `label`.
    pub(super) fn label(&self, label: &Label) -> Label {
        label.join(&self.kept.label())
    }
}

impl From<ProposedCall> for StepCall {
    fn from(proposed: ProposedCall) -> Self {
        let kept = Kept::default();
        Self { proposed, kept }
    }
}

/// Arguments that were not made with the rest of their call, by their places: those that are kept from a draft
/// have its label, those that were filled by themselves one each.
#[derive(Clone, Default)]
pub(super) struct Kept(BTreeMap<ArgumentPath, Label>);

impl Kept {
    /// Another one; where several values stand at a place, the label of all of them.
    pub(super) fn add(&mut self, path: &ArgumentPath, label: &Label) {
        let known = self.0.entry(path.clone()).or_insert(Label::bottom());
        *known = known.join(label);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their places.
    pub(super) fn paths(&self) -> impl Iterator<Item = &ArgumentPath> + Clone {
        self.0.keys()
    }

    /// The label of all of them; ⊥ if there are none.
    pub(super) fn label(&self) -> Label {
        self.0.values().collect()
    }

    /// Labels the arguments.
    pub(super) fn restrict(&self, arguments: Arguments) -> Arguments {
        let kept = self.0.iter();
        kept.fold(arguments, |all, (path, label)| all.restrict_at(path, label))
    }
}

/// A step that is taken once more, to see whether it can do without what stands in its way.
pub(super) struct Check {
    /// The step as it was drafted, from everything.
    pub(super) draft: Completion,
    /// The label of everything that it may see this time.
    pub(super) label: Label,
    /// For each call of the draft, what need not come out again.
    pub(super) kept: Vec<Kept>,
}

/// A read that is made once more.
pub(super) struct Refining {
    /// The step in whose way it stands.
    pub(super) draft: Completion,
    /// Where the step that reads stands in the history.
    pub(super) at: usize,
    /// The label of everything that it may see this time.
    pub(super) label: Label,
}

/// The calls of one step that are still to be decided on, and the label they were made under.
pub(super) struct Calls {
    pub(super) label: Label,
    pub(super) text: Labeled,
    /// How many calls the step has.
    pub(super) count: usize,
    pub(super) queue: VecDeque<(CallId, StepCall)>,
    /// Allowed, and to run elsewhere.
    pub(super) allowed: Vec<(CallId, Permit)>,
    /// The exchange that the call which is being decided on, or runs, is a part of.
    pub(super) exchange: Option<Exchange<Pending>>,
}

/// Why a proposed call makes no sense. It quotes nothing that a model wrote.
pub(super) enum Rejection {
    /// No tool that was offered has this name.
    UnknownTool,
    /// The arguments are not one JSON object.
    Arguments(ArgumentsError),
    /// The request is not of the form that its functionality has.
    Request(Malformed),
    /// Nobody serves this functionality here.
    NoFunctionality,
    /// Whoever serves it waits for this very request.
    Circle,
    /// So many apps wait for each other already.
    TooFar(usize),
    /// The step has more calls than a step may have.
    TooMany(usize),
}

impl From<ArgumentsError> for Rejection {
    fn from(error: ArgumentsError) -> Self {
        Self::Arguments(error)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTool => f.write_str("there is no such tool"),
            Self::Arguments(error) => error.fmt(f),
            Self::Request(why) => write!(f, "the request is not of its form: {why}"),
            Self::NoFunctionality => f.write_str("no app serves this functionality"),
            Self::Circle => f.write_str("every app that serves it waits for this request"),
            Self::TooFar(hops) => write!(f, "{hops} apps wait for each other already"),
            Self::TooMany(limit) => write!(
                f,
                "too many calls in one step; make at most {limit} at a time"
            ),
        }
    }
}

/// What a turn remembers beside the history. What decides over a step remembers the label under
/// which it came about, and a step sees only what flows to its own: otherwise a step above a label
/// could speak to a step at it, past the redactor.
pub(super) struct TurnCount {
    pub(super) step: usize,
    /// What the step's screening left in; everything without one. Questions are worded by it.
    pub(super) relevance: Relevance,
    pub(super) refused: usize,
    /// Calls of which nobody knows whether they ran.
    pub(super) unknown: usize,
    /// Requests to other apps that no response of the agreed form came to.
    pub(super) dropped: usize,
    /// Words of the answer that are not shown as they were written, since they could be addresses.
    pub(super) inert: usize,
    /// Every call that was proposed, with the label of its step.
    pub(super) proposed: Vec<(Label, ProposedCall)>,
    /// The calls of each step.
    pub(super) steps: Vec<(Label, Vec<ProposedCall>)>,
    /// Whether calls of this step's draft were given up, since what they may depend on was masked.
    pub(super) gave_up: bool,
    /// How many reads were made once more in this step.
    pub(super) refined: usize,
    /// What steps are taken without, since calls were refused. The calls of one step are all decided on by what
    /// was refused before it.
    pub(super) withheld: Vec<Withheld>,
    /// Whether this step lacked something without that.
    pub(super) is_whole: bool,
    pub(super) tried: Option<Tried>,
}

impl Default for TurnCount {
    fn default() -> Self {
        Self {
            step: 0,
            relevance: Relevance::Everything,
            refused: 0,
            unknown: 0,
            dropped: 0,
            inert: 0,
            proposed: Vec::new(),
            steps: Vec::new(),
            gave_up: false,
            refined: 0,
            withheld: Vec::new(),
            is_whole: false,
            tried: None,
        }
    }
}

impl TurnCount {
    /// How often this very call has been proposed, as far as a step under `label` may know.
    pub(super) fn times_proposed(&self, proposed: &ProposedCall, label: &Label) -> usize {
        let equal =
            |(own, past): &&(Label, ProposedCall)| own.flows_to(label) && past.same(proposed);
        self.proposed.iter().filter(equal).count()
    }

    /// The calls of the newest step that a step under `label` may know of.
    pub(super) fn last_calls(&self, label: &Label) -> &[ProposedCall] {
        let mut steps = self.steps.iter().rev();
        let known = steps.find(|(own, _)| own.flows_to(label));
        known.map_or(&[], |(_, calls)| calls)
    }
}

/// Whether two steps propose the same calls, in the same order.
pub(super) fn same_calls(a: &[ProposedCall], b: &[ProposedCall]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
}
