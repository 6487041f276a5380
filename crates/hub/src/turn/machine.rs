//! One conversation: what it holds, and what every part of the machine asks of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ifc::{
    Call, CallId, Draft, DraftCall, History, Label, Labeled, Lattice, Message, Policy, Remade, Tool,
};

use super::state::{State, Strategy, Turn};
use super::summary::Summaries;
use crate::guard::Guard;
use crate::isc::Asks;
use crate::serving::Service;
use crate::trace::{self, Event, Names};
use crate::{Apps, Misuse, Need, ProposedCall, Settings, Setup};

/// One conversation: its guard, and the turn under way.
pub struct TurnMachine {
    pub(super) guard: Guard,
    pub(super) apps: Apps,
    pub(super) asks: Asks,
    /// The apps that the user chose to serve functionalities which several serve.
    pub(super) settled: BTreeMap<String, String>,
    pub(super) lattice: Arc<Lattice>,
    pub(super) settings: Settings,
    /// The clearances of the providers that may take its steps.
    pub(super) clearances: Arc<[Label]>,
    /// The taints above all clearances that the user knows about.
    pub(super) uncleared: Label,
    pub(super) state: State,
    /// What the driver gets next.
    pub(super) need: Option<Need>,
    pub(super) turn: Turn,
    pub(super) summaries: Summaries,
    /// Those that are not remembered yet.
    pub(super) new_summaries: Vec<Labeled>,
    pub(super) events: Vec<Event>,
    /// The reads that were re-run.
    pub(super) refinements: Vec<Refinement>,
    /// The request that this conversation serves, if it is not the user's.
    pub(super) serving: Option<Box<Service>>,
}

/// A step that was re-run. A history that is rebuilt is refined again, at the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refinement {
    /// The position of the step in the history.
    pub at: usize,
    /// The length of the history by then.
    pub after: usize,
    /// The label of the second prompt.
    pub label: Label,
    /// What came out the same; nothing if the step keeps its label.
    pub remade: Option<Remade>,
}

impl TurnMachine {
    /// A conversation with these tools, beginning with the developer's instructions.
    pub fn new(setup: Setup, system: Labeled, tools: Vec<Tool>) -> Self {
        let mut history = History::new(tools);
        history.push_system(system);
        Self::over(setup, history)
    }

    /// Takes over a turn that began elsewhere: the next step follows this history at once. If the user's message is the
    /// last, the turn begins here, for the monitor as well.
    pub fn resume(setup: Setup, history: History) -> Self {
        // A client that brings results goes on with the turn that it was in.
        if let Some((_, Message::User(_))) = history.messages().last() {
            setup.monitor.begin_turn();
        }
        let mut machine = Self::over(setup, history);
        // A client brings the texts again: what the user has vouched for in them counts as before.
        machine.endorse();
        machine.state = State::Begin;
        machine
    }

    fn over(setup: Setup, history: History) -> Self {
        let Setup {
            apps,
            asks,
            policy,
            lattice,
            monitor,
            settings,
            clearances,
        } = setup;
        let history = match &apps {
            Apps::One(app) => history.of_app(app.as_str()),
            Apps::None | Apps::Joint(_) | Apps::Each(_) => history,
        };
        let history = declaring(history, &apps, policy.as_ref());
        Self {
            guard: Guard {
                history,
                monitor,
                policy,
            },
            apps,
            asks,
            settled: BTreeMap::new(),
            lattice,
            settings,
            clearances,
            uncleared: Label::bottom(),
            state: State::Idle(None),
            need: None,
            turn: Turn::default(),
            summaries: Summaries::default(),
            new_summaries: Vec::new(),
            events: Vec::new(),
            refinements: Vec::new(),
            serving: None,
        }
    }

    /// The labelled conversation so far.
    pub fn history(&self) -> &History {
        &self.guard.history
    }

    /// The step that waits for a screening, as a model has drafted it. As sensitive as the whole history: it is for the
    /// screener alone.
    #[must_use]
    pub fn draft(&self) -> Option<Draft> {
        let completion = match &self.state {
            State::AwaitStep(Strategy::Screen(draft)) => draft.as_ref()?,
            State::AwaitStep(Strategy::ScreenOwn(draft)) => draft,
            _ => return None,
        };
        let call = |call: &ProposedCall| DraftCall {
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
        };
        Some(Draft {
            text: completion.text.clone(),
            calls: completion.calls.iter().map(call).collect(),
        })
    }

    /// What the user has refused in this turn.
    #[must_use]
    pub fn refusals(&self) -> Vec<Call> {
        self.guard.monitor.refusals()
    }

    /// Whether the user has refused anything in this turn that a step under `label` may know of.
    #[must_use]
    pub fn has_refused_below(&self, label: &Label) -> bool {
        self.guard.monitor.has_refused_below(label)
    }

    /// The steps that were re-run, in the order in which they were.
    pub fn refinements(&self) -> &[Refinement] {
        &self.refinements
    }

    /// Says by what a history that was taken over has been refined. No step of these is re-run.
    pub fn recall_refinements(&mut self, refinements: Vec<Refinement>) {
        self.refinements = refinements;
    }

    /// Takes the trace entries since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The label of everything that this conversation knows, and of why there is one.
    pub(super) fn everything(&self) -> Label {
        self.above_request(self.guard.history.label())
    }

    /// A label of this conversation: in one that serves a request, nothing is below that.
    pub(super) fn above_request(&self, label: Label) -> Label {
        match &self.serving {
            Some(service) => label.join(&service.control),
            None => label,
        }
    }

    /// Appends what the model said to the prompt at `label`. The history restricts it, for as long as what the prompt
    /// showed is restricted.
    pub(super) fn push_step(
        &mut self,
        label: &Label,
        text: &Labeled,
        calls: impl IntoIterator<Item = (String, Labeled)>,
    ) -> Vec<CallId> {
        let floor = self.above_request(Label::bottom());
        // Without the label of the prompt, which the history adds itself: else the words would keep it when the label of
        // what they were made from falls.
        let text = Labeled::trusted_tcb(text.reveal_tcb());
        self.guard.history.push_step(label, &floor, text, calls)
    }

    /// A call as the trace has it.
    pub(super) fn shown(&self, call: &Call) -> trace::Call {
        trace::Call::new(call, &self.lattice)
    }

    /// A label as the trace has it.
    pub(super) fn names(&self, label: &Label) -> Names {
        self.lattice.describe(label)
    }

    /// Waits in this state for what it needs.
    pub(super) fn wait(&mut self, state: State, need: Need) {
        (self.state, self.need) = (state, Some(need));
    }

    /// The state, to be put back or followed by the next.
    pub(super) fn take_state(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Idle(None))
    }

    /// The state that waits for the driver; `None` if the driver does not have the need yet.
    pub(super) fn awaited(&mut self) -> Option<State> {
        self.need.is_none().then(|| self.take_state())
    }

    /// Nothing has changed.
    pub(super) fn misuse(
        &mut self,
        state: Option<State>,
        brought: &'static str,
    ) -> Result<(), Misuse> {
        if let Some(state) = state {
            self.state = state;
        }
        Err(Misuse { brought })
    }
}

/// The history with the parameters of its tools as the user's rules have them.
fn declaring(history: History, apps: &Apps, policy: &dyn Policy) -> History {
    let tools = history.tools().iter();
    let declared = tools.filter_map(|tool| {
        let (app, own) = apps.resolve(&tool.name)?;
        Some((tool.name.clone(), policy.parameters(&app, &own)?))
    });
    let declared = declared.collect();
    history.declaring_tcb(declared)
}
