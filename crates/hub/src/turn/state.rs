//! Where a turn is, as data alone.

use std::collections::VecDeque;
use std::sync::Arc;

use ifc::{
    Arguments, Call, CallId, Delivery, Label, Labeled, Permit, Prompt, Receipt, Release, Relevance,
    Unread,
};

use super::step::{Retained, StepCall};
use super::value::Fill;
use crate::isc::{Exchange, Functionality, Parties, Response};
use crate::{Completion, Drafter, Outcome, ProposedCall, Stop, StopReason};

/// Where a turn is. A state that begins with `Await` waits for the answer to a need that the driver has, or is about
/// to get.
#[expect(
    clippy::large_enum_variant,
    reason = "a conversation has one, and it moves a few times a step"
)]
pub(super) enum State {
    /// No turn is under way; how the last one ended.
    Idle(Option<Outcome>),
    /// The next step begins.
    Begin,
    /// A step is made by this strategy, whose need comes next.
    Make(Strategy),
    /// The same; its prompt is as short as it gets.
    Shortened(Strategy),
    AwaitStep(Strategy),
    /// The prompt of this strategy is too long, and its beginning is being summarised.
    AwaitSummary(Summarising),
    /// The next call of the step is decided on (lines 7 to 11).
    Calls(Calls),
    AwaitCall(Calls, CallId, Waiting),
    /// The user decides whether the final answer, made under this label, may be shown.
    AwaitRelease(Label, Release),
    /// The user decides whether a provider may be sent text with these taints.
    AwaitClearance(Label),
}

/// What a call of a step waits for.
#[expect(
    clippy::large_enum_variant,
    reason = "a conversation has one, and it moves a few times a step"
)]
pub(super) enum Waiting {
    /// The user's answer.
    User(Call),
    /// Its result.
    Result(Call, Receipt),
    /// The id of the exchange that it begins.
    Exchange(Asking),
    /// The user's answer to a message of its exchange.
    Delivery(Message, Delivery),
    /// The conversation of another app that serves its request.
    Served(Exchange),
}

/// The calls of one step that are still to be decided on, and the label they were made under.
pub(super) struct Calls {
    pub(super) label: Label,
    pub(super) text: Labeled,
    /// How many calls the step has.
    pub(super) count: usize,
    pub(super) queue: VecDeque<(CallId, StepCall)>,
    /// Calls of the queue that the user has allowed with an earlier one, each with the taints that the question showed.
    pub(super) answered: Vec<(CallId, Call, Label)>,
    /// Allowed, and to run elsewhere.
    pub(super) allowed: Vec<(CallId, Permit)>,
    /// The exchange that the call under way is a part of.
    pub(super) exchange: Option<Exchange>,
}

/// A message of an exchange that is decided on.
pub(super) enum Message {
    Probe(Exchange),
    Request(Exchange),
    Response(Response),
}

impl Message {
    pub(super) fn delivery(&self) -> Delivery {
        match self {
            Self::Probe(exchange) => exchange.probe(),
            Self::Request(exchange) => exchange.request(),
            Self::Response(response) => response.delivery.clone(),
        }
    }

    pub(super) fn parties(&self) -> &Parties {
        match self {
            Self::Probe(exchange) | Self::Request(exchange) => &exchange.parties,
            Self::Response(response) => &response.parties,
        }
    }
}

/// A request that waits for its exchange to begin.
pub(super) struct Asking {
    pub(super) functionality: Arc<Functionality>,
    pub(super) arguments: Arguments,
}

/// A summary that is being made.
pub(super) struct Summarising {
    pub(super) label: Label,
    /// The position of the first message that the summary leaves as it is.
    pub(super) from: usize,
    /// The strategy whose prompt waits for it.
    pub(super) then: Strategy,
}

/// What a turn remembers besides the history. An entry that can change a step has the label under which it came
/// about, and a step uses only what flows to its own label. Otherwise a step above a label could tell a step below
/// it something past the redactor.
pub(super) struct Turn {
    /// Whether the call of a turn that the user's own call is has had a result; `None` in any other turn.
    pub(super) own_call: Option<bool>,
    /// Steps that have begun.
    pub(super) step: usize,
    /// Why the completion of the newest step ended.
    pub(super) stop: StopReason,
    /// What came unread with it.
    pub(super) unread: Option<Arc<Unread>>,
    /// The clearance that the prompts of the step keep to; ⊤ where they may show everything. It stays the same until
    /// the step is over: another one could leave out what the draft was made from.
    pub(super) clearance: Label,
    /// What the step's screening left in; everything without one. Questions are worded by it.
    pub(super) relevance: Relevance,
    /// The names of the rules that asked, with the labels of the flows that they asked about.
    pub(super) asked: Vec<(Label, String)>,
    /// Calls that the policy or the user refused.
    pub(super) refused: usize,
    /// Calls of which it is not known whether they ran.
    pub(super) unknown: usize,
    /// Requests to other apps to which no response of the agreed form came.
    pub(super) dropped: usize,
    /// Words of the answer that are not shown as written, since they could be addresses.
    pub(super) inert: usize,
    /// Every call that was proposed, with the label of its step.
    pub(super) proposed: Vec<(Label, ProposedCall)>,
    /// The calls of each step.
    pub(super) steps: Vec<(Label, Vec<ProposedCall>)>,
    /// How many re-runs of this step have proposed what was made before.
    pub(super) counted: usize,
    /// What steps are made without since calls were refused. It is fixed when a step begins.
    pub(super) withheld: Vec<Withheld>,
    /// Whether this step was incomplete without that, and is made from everything.
    pub(super) is_full: bool,
    /// The label of the descriptions that this step is drafted from, where others are not believed and left out.
    pub(super) undescribed: Option<Label>,
    /// The newest prompt of a step that was made from less than everything.
    pub(super) trial: Option<Trial>,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            own_call: None,
            step: 0,
            stop: StopReason::End,
            unread: None,
            clearance: Label::top(),
            relevance: Relevance::Everything,
            asked: Vec::new(),
            refused: 0,
            unknown: 0,
            dropped: 0,
            inert: 0,
            proposed: Vec::new(),
            steps: Vec::new(),
            counted: 0,
            withheld: Vec::new(),
            is_full: false,
            undescribed: None,
            trial: None,
        }
    }
}

impl Turn {
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

/// The taints that blocked a call which was refused.
pub(super) struct Withheld {
    /// A step below its label does not know about the refusal.
    pub(super) call: Call,
    pub(super) taints: Label,
}

/// A prompt, and the completion that it got. The same prompt would get it again.
pub(super) struct Trial {
    pub(super) prompt: Prompt,
    pub(super) completion: Option<Completion>,
}

/// A draft whose data arguments are checked.
pub(super) struct DataCheck {
    pub(super) draft: Completion,
    /// The re-run with the control parts of the draft, and its label.
    pub(super) step: Completion,
    pub(super) label: Label,
    /// For each call, the arguments that need not come out again.
    pub(super) retained: Vec<Retained>,
    /// The same with those that are to come out now, under the label of the next prompt.
    pub(super) data: Vec<Retained>,
    pub(super) next: Label,
}

/// How a step is made. The label is that of the prompt.
pub(super) enum Strategy {
    /// Nothing has been tried.
    Begin(Label),
    /// A draft from everything that the step may be shown, for the screener in any case.
    DraftForScreener(Label, Drafter),
    /// The screener chooses the regions that matter, by another model's draft if there is one.
    Screen(Option<Completion>),
    /// The same by the draft of the agent's own model, which may become the step.
    ScreenOwn(Completion),
    /// The step from what the screener left in, or from everything where there is nothing to screen.
    Screened(Label),
    /// A draft from everything, which becomes the step if nothing blocks it (lazy screening).
    Draft(Label),
    /// The same without what refused calls depended on.
    Without(Label),
    /// From everything (the second label), to complete a step that was made without.
    Full(Completion, Label, Label),
    /// The draft is re-run in parts.
    Fill(Box<Fill>),
    /// The draft is re-run without what blocks it, to compare the two. For each of its calls, the arguments that are
    /// retained need not come out again.
    Check(Completion, Label, Vec<Retained>),
    /// The draft is re-run for calls that were made before, after a re-run that proposed them, which had this label.
    Count(Completion, Label, Box<(Completion, Label)>),
    /// The same for data arguments, after the control parts have come out again.
    CheckData(Box<DataCheck>),
    /// An answer in words.
    Answer(Label, Wording),
    // These ask for nothing: the draft is at hand.
    /// A draft that was not screened.
    Evaluate(Completion, Label),
    /// A draft that was screened, or before which calls were counted.
    Reconsider(Completion),
    /// A draft that is blocked even by what the screener left in.
    Unblock(Completion),
    /// The step, unless it only repeats what was done before.
    Accept(Completion, Label),
}

/// What an answer in words takes the place of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wording {
    /// Nothing: the step is an answer.
    Step,
    /// A step that only repeats what was done, or that may not be shown.
    Words,
    /// An answer that the user did not let be shown.
    Fallback,
    /// A response that is not of the agreed form.
    Form,
}

impl Strategy {
    /// The label of its prompt, if that shows the conversation as it is.
    pub(super) fn prompt_label(&self) -> Option<&Label> {
        match self {
            Self::DraftForScreener(label, _)
            | Self::Screened(label)
            | Self::Draft(label)
            | Self::Without(label)
            | Self::Full(_, _, label)
            | Self::Check(_, label, _)
            | Self::Count(_, label, _)
            | Self::Answer(label, _) => Some(label),
            Self::Fill(fill) => Some(&fill.next),
            Self::CheckData(check) => Some(&check.next),
            _ => None,
        }
    }

    /// Whether it waits for a screening.
    pub(super) fn is_screening(&self) -> bool {
        matches!(self, Self::Screen(_) | Self::ScreenOwn(_))
    }

    /// The turn ends, since the provider failed. Its words about a prompt may quote the prompt.
    pub(super) fn failed(&self, reason: String) -> Stop {
        let label = self.prompt_label().cloned().unwrap_or(Label::top());
        Stop::Model(Labeled::label_tcb(reason, label))
    }

    /// Whether its completion may be dropped for what it says. Text of such a step is not shown while it is written: a
    /// reader would often get two texts of one step.
    pub(super) fn may_be_dropped(&self) -> bool {
        let is_shown = matches!(self, Self::Screened(_) | Self::Draft(_) | Self::Answer(..));
        !is_shown
    }
}
