//! One conversation: what it holds, and what every part of the machine asks of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ifc::{
    Call, Decision, Draft, DraftCall, Flow, History, Label, Labeled, Lattice, Monitor, Policy,
    PolicyError, Remade, Rule, Sink,
};

use super::state::{State, TurnCount};
use crate::isc::Asks;
use crate::serving::Service;
use crate::trace::{self, Event, Names};
use crate::{Apps, Misuse, ProposedCall, Settings};

/// One conversation: its labelled history, its monitor, and the turn under way.
pub struct TurnMachine {
    pub(super) apps: Apps,
    pub(super) asks: Asks,
    /// The apps that the user chose to serve functionalities which several serve.
    pub(super) settled: BTreeMap<String, String>,
    pub(super) policy: Arc<dyn Policy>,
    pub(super) lattice: Arc<Lattice>,
    pub(super) settings: Settings,
    /// What the providers are cleared for that may take its steps.
    pub(super) clearances: Arc<[Label]>,
    /// The taints of what was read that the user knows to be above them.
    pub(super) uncleared: Label,
    pub(super) history: History,
    pub(super) monitor: Monitor,
    pub(super) state: State,
    pub(super) turn: TurnCount,
    /// Of the beginning of the conversation, one for each label of prompts that were too long.
    pub(super) summaries: Vec<Summary>,
    /// Those that nobody has taken to remember.
    pub(super) new_summaries: Vec<Labeled>,
    pub(super) events: Vec<Event>,
    /// The reads that were made once more.
    pub(super) refinements: Vec<Refinement>,
    /// The request that this conversation serves, if it is not the user's.
    pub(super) serving: Option<Box<Service>>,
}

/// What stands in prompts at one label for the beginning of the conversation.
pub(super) struct Summary {
    pub(super) label: Label,
    /// The position of the first message that is shown itself.
    pub(super) from: usize,
    pub(super) text: String,
}

/// A step that was taken once more. Whoever rebuilds a history refines it again, at the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refinement {
    /// Where the step stands in the history.
    pub at: usize,
    /// How long the history was by then.
    pub after: usize,
    /// The label of the second prompt.
    pub label: Label,
    /// What came out the same; nothing if it keeps its label.
    pub remade: Option<Remade>,
}

impl TurnMachine {
    /// The labelled conversation so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The step that waits for a screening, as a model has drafted it. As sensitive as the whole
    /// history: it is for the screener alone.
    #[must_use]
    pub fn draft(&self) -> Option<Draft> {
        let State::AwaitScreen(sketch) = &self.state else {
            return None;
        };
        let completion = sketch.completion()?;
        let call = |call: &ProposedCall| DraftCall {
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
        };
        Some(Draft {
            text: completion.text.clone(),
            calls: completion.calls.iter().map(call).collect(),
        })
    }

    /// What the user has said no to in this turn.
    #[must_use]
    pub fn refusals(&self) -> Vec<Call> {
        self.monitor.refusals()
    }

    /// Whether the user has said no to anything in this turn that a step under `label` may know of.
    #[must_use]
    pub fn has_refused_below(&self, label: &Label) -> bool {
        self.monitor.has_refused_below(label)
    }

    /// Takes the trace entries since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The label of everything that this conversation knows, and of why there is one.
    pub(super) fn everything(&self) -> Label {
        self.above_request(self.history.label())
    }

    /// A label of this conversation: in one that serves a request, nothing is below that.
    pub(super) fn above_request(&self, label: Label) -> Label {
        match &self.serving {
            Some(service) => label.join(&service.control),
            None => label,
        }
    }

    /// The apps that wait for this conversation.
    pub(super) fn waiting(&self) -> &[String] {
        let service = self.serving.as_ref();
        service.map_or(&[], |service| service.waiting.as_slice())
    }

    /// The policy's rule for a sink, with the limits raised by what the user has vouched for.
    pub(super) fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        self.monitor.rule(self.policy.as_ref(), &self.history, sink)
    }

    /// The monitor's decision, on whatever it is.
    pub(super) fn decide<F: Flow>(&self, flow: F) -> Decision<F> {
        let (policy, relevance) = (self.policy.as_ref(), &self.turn.relevance);
        self.monitor
            .decide_screened(policy, &self.history, relevance, flow)
    }

    /// A call as the trace has it.
    pub(super) fn shown(&self, call: &Call) -> trace::Call {
        trace::Call::new(call, &self.lattice)
    }

    /// A label as the trace has it.
    pub(super) fn names(&self, label: &Label) -> Names {
        self.lattice.describe(label)
    }

    /// The state, to be put back or followed by the next.
    pub(super) fn take_state(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Idle(None))
    }

    pub(super) fn misuse(&mut self, state: State, brought: &'static str) -> Result<(), Misuse> {
        self.state = state;
        Err(Misuse { brought })
    }
}
