//! One conversation: its state, the labels that its steps may be shown, and its memories.
//!
//! Text above the clearance of every provider ([`Setup::clearances`]) is masked: all prompts of a step keep to one
//! clearance, which is chosen by labels alone. The broker checks each prompt again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ifc::{
    ArgumentPath, Call, CallId, Decision, Dimension, Draft, DraftCall, History, Label, Labeled,
    Lattice, MemoryWrite, Message, Permit, Policy, PromptMessage, REDACTED, Relevance, Tool,
    redact,
};

use super::state::{State, Strategy, Turn};
use super::summary::{Summaries, transcript};
use crate::guard::{CallBudget, Guard};
use crate::isc::Asks;
use crate::memory::{FactQuestion, Memory, MemoryId};
use crate::serving::Service;
use crate::trace::{self, Event, Names, Recalled};
use crate::{Apps, Execution, Misuse, Need, ProposedCall, Screening, Settings, Setup, Stop};

/// Characters of one memory that a prompt shows.
const MEMORY_CHARACTERS: usize = 600;

/// Bytes of one text that are remembered: an answer, or a long mail that was pasted.
const MEMORY_BYTES: usize = 16 << 10;

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
    /// The calls whose labels have fallen.
    pub(super) refinements: Vec<Refinement>,
    /// The request that this conversation serves, if it is not the user's.
    pub(super) serving: Option<Box<Service>>,
    /// What may be behind each call of a tool that is not the client's own ([`Apps::Client`]): behind a read, and behind any
    /// other.
    pub(super) behind_others: [Label; 2],
}

/// A call that came out again from less. In a history that is rebuilt its label falls again, at the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refinement {
    /// The position of its step in the history.
    pub at: usize,
    /// Its position in the step.
    pub call: usize,
    /// The length of the history by then.
    pub after: usize,
    /// The label of the prompt.
    pub label: Label,
    /// The places of data arguments that came out otherwise.
    pub data: BTreeSet<ArgumentPath>,
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
            Apps::Client(app, others) => history.of_client(app.as_str(), Arc::clone(others)),
            Apps::None | Apps::Joint(_) | Apps::Each(_) => history,
        };
        let history = declaring(history, &apps, policy.as_ref());
        Self {
            guard: Guard {
                history,
                monitor,
                policy,
                budget: None,
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
            behind_others: Default::default(),
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

    /// The calls whose labels have fallen, in the order in which they did.
    pub fn refinements(&self) -> &[Refinement] {
        &self.refinements
    }

    /// Says what may be behind each call of a tool that is not the client's own, no matter what the conversation shows
    /// ([`Apps::Client`]): programs that the client has started can write a conversation too.
    pub fn suspect_others(&mut self, reads: Label, others: Label) {
        self.behind_others = [reads, others];
    }

    /// Limits the calls that are made from now on.
    pub fn limit_calls(&mut self, budget: Option<Arc<dyn CallBudget>>) {
        self.guard.budget = budget;
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
        let history = &mut self.guard.history;
        let ids = history.push_step(label, &floor, text, calls);
        let newest = history.messages().len() - 1;
        history.carry(newest, self.turn.unread.take());
        ids
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

    // ---- What a step may be shown ----

    /// The label that a step is drafted under: of everything that is not withheld, unless it was incomplete so.
    pub(super) fn draft_label(&self) -> Label {
        if let Some(shown) = &self.turn.undescribed {
            return self.undescribed_label().join(shown);
        }
        let withheld = self.turn.withheld.iter();
        let withheld = withheld.fold(Label::bottom(), |all, one| all.join(&one.taints));
        if self.turn.is_full || withheld.is_bottom() {
            return self.shown_at_most();
        }
        let names = self.guard.history.tools().iter().map(|tool| &tool.label);
        let shown = names.chain(self.guard.history.regions().map(|region| region.label));
        // Texts that the user has vouched for are shown, and values of a checked form unless one of these was refused.
        let formed = withheld.formed_taints();
        let is_shown = |own: &Label| {
            own.plain().meet(&withheld).is_bottom() && own.formed_taints().meet(&formed).is_bottom()
        };
        let shown = shown.filter(|own| is_shown(own));
        let shown = shown.filter(|own| own.flows_to(&self.turn.clearance));
        self.above_request(shown.collect())
    }

    /// The label of everything that the step may be shown but what apps say of their tools.
    fn undescribed_label(&self) -> Label {
        let (said, _) = self.guard.history.labels_below(&self.shown_at_most());
        self.above_request(said)
    }

    /// Whether a step is drafted without descriptions that the user does not believe: they are not in the way of its calls
    /// then, and the user's rules tell the names and parameters of tools. Gives the label of those that are shown all the
    /// same, since they flow to that of the rest.
    pub(super) fn hides_descriptions(&self) -> Option<Label> {
        let history = &self.guard.history;
        let mut tools = history.tools().iter();
        let is_possible = self.is_lazy()
            && self.turn.withheld.is_empty()
            && tools.any(|tool| history.declared(&tool.name).is_some());
        let label = self.undescribed_label();
        (is_possible && label != self.shown_at_most()).then(|| history.labels_below(&label).1)
    }

    /// Whether something is withheld from a step that is drafted under this label.
    pub(super) fn withholds(&self, label: &Label) -> bool {
        !self.turn.withheld.is_empty() && *label != self.shown_at_most()
    }

    /// The label of everything that the step may be shown.
    pub(super) fn shown_at_most(&self) -> Label {
        let everything = self.everything();
        match everything.flows_to(&self.turn.clearance) {
            true => everything,
            false => self.shown_below(&self.turn.clearance),
        }
    }

    /// The label of a prompt that shows all that flows to `limit`.
    pub(super) fn shown_below(&self, limit: &Label) -> Label {
        let limit = limit.meet(&self.turn.clearance);
        self.above_request(self.guard.history.label_below(&limit))
    }

    /// The label of a prompt that shows the regions that the screener left in, as far as the step may be shown them.
    pub(super) fn relevant_label(&self) -> Label {
        let (history, relevance) = (&self.guard.history, &self.turn.relevance);
        let label = self.above_request(history.label_of(relevance));
        if label.flows_to(&self.turn.clearance) {
            return label;
        }
        let Relevance::Only(wanted) = relevance else {
            return self.shown_at_most();
        };
        let regions = history
            .regions()
            .filter(|region| wanted.contains(&region.id));
        let labels: Vec<&Label> = regions.map(|region| region.label).collect();
        // As in `History::label_of`: an answer that names a region which does not exist counts for nothing.
        if labels.len() < wanted.len() {
            return self.shown_at_most();
        }
        // Region by region. The meet of the clearance with a label that is left out would reveal a part of it.
        let labels = labels.into_iter();
        let shown = labels.filter(|own| own.flows_to(&self.turn.clearance));
        self.above_request(shown.collect())
    }

    /// The same, without what is withheld: a screener reads that too.
    pub(super) fn screened_label(&self) -> Label {
        self.relevant_label().meet(&self.draft_label())
    }

    /// Chooses the clearance that the prompts of a new step keep to, and records what is masked for it.
    pub(super) fn choose_clearance(&mut self) {
        self.turn.clearance = self.clearance();
        if self.turn.clearance.is_top() {
            return;
        }
        let above = self.everything().beyond(&self.turn.clearance);
        // Once in a conversation: the text stays in the history.
        if !above.flows_to(&self.uncleared) {
            self.uncleared = self.uncleared.join(&above);
            self.events.push(Event::Uncleared {
                step: self.turn.step,
                above: self.names(&above),
                label: self.names(&self.shown_at_most()),
            });
        }
    }

    /// The taints above the first provider's clearance in the results of this turn, where the user has to be asked about
    /// them. Memories and earlier turns are masked unasked.
    pub(super) fn result_to_clear(&self) -> Option<Label> {
        let clearance = self.clearance();
        if !self.settings.asks_clearance || clearance.is_top() {
            return None;
        }
        let mut read = Label::bottom();
        for (label, message) in self.guard.history.messages() {
            match message {
                Message::User(_) => read = Label::bottom(),
                Message::Result { content, .. } => read = read.join(label).join(&content.label()),
                _ => {}
            }
        }
        let above = read.beyond(self.clearances.first()?);
        (!read.flows_to(&clearance)).then_some(above)
    }

    /// Brings the user's word on whether the first provider may be sent text with the taints that were asked about.
    ///
    /// # Errors
    /// It was not asked for.
    pub fn handle_clearance(&mut self, allowed: bool) -> Result<(), Misuse> {
        let above = match self.awaited() {
            Some(State::AwaitClearance(above)) => above,
            other => return self.misuse(other, "a clearance"),
        };
        let names = self.names(&above);
        self.events.push(Event::ClearanceAsked {
            step: self.turn.step,
            above: names.clone(),
            allowed,
        });
        if !allowed {
            self.stop(Stop::Uncleared(names));
            return Ok(());
        }
        let first = self.clearances.iter().take(1).map(|own| own.join(&above));
        let others = self.clearances.iter().skip(1).cloned();
        self.clearances = first.chain(others).collect();
        self.begin_cleared();
        Ok(())
    }

    /// The secrets that no provider may see, where an answer has no word but the mark of what is masked, or was made from
    /// nothing of what the turn has read. Such a text answers nothing.
    ///
    /// It follows from the answer's prompt and from the settings alone: what is above the prompt has no say.
    pub(super) fn unanswered(&self, answer: &Labeled, label: &Label) -> Option<Names> {
        let first = self.clearances.first()?;
        let sees_all = self.clearances.iter().any(Label::is_top);
        if sees_all || self.settings.execution == Execution::Elsewhere {
            return None;
        }
        let shown = self.prompt(label);
        let messages = shown.messages().iter().rev();
        let turn = messages.take_while(|message| !matches!(message, PromptMessage::User(_)));
        let mut results = turn.filter_map(|message| match message {
            PromptMessage::Tool { content, .. } => Some(content),
            _ => None,
        });
        // A screener and a refusal mask as well, and leave what the answer does not need.
        let is_lazy = matches!(self.settings.screening, Screening::Lazy { .. });
        let is_blind = is_lazy
            && !self.has_refused_below(label)
            && results.next().is_some_and(|first| is_masked(first))
            && results.all(|result| is_masked(result));
        let secret = self.lattice.whole(Dimension::Confidentiality);
        (is_blind || is_masked(answer.reveal_tcb())).then(|| self.names(&secret.beyond(first)))
    }

    /// The first clearance by which most is shown; ⊤ where nothing need be masked. It is ⊤ too where none is enough for
    /// the instructions and the user's words: then the broker refuses the prompt, and the turn ends with its reason.
    fn clearance(&self) -> Label {
        if self.clearances.is_empty() {
            return Label::top();
        }
        let everything = self.everything();
        if self.clearances.iter().any(|own| everything.flows_to(own)) {
            return Label::top();
        }
        let words = self.label_of_task();
        let mut most: Option<(Label, &Label)> = None;
        for own in self.clearances.iter().filter(|own| words.flows_to(own)) {
            let shown = self.guard.history.label_below(own);
            let is_more = |less: &Label| *less != shown && less.flows_to(&shown);
            if most.as_ref().is_none_or(|(less, _)| is_more(less)) {
                most = Some((shown, own));
            }
        }
        most.map_or(Label::top(), |(_, own)| own.clone())
    }

    /// The label of the instructions and the user's last message: without all of them, a model would do something else.
    fn label_of_task(&self) -> Label {
        let (mut instructions, mut query) = (Label::bottom(), Label::bottom());
        for (label, message) in self.guard.history.messages() {
            match message {
                Message::System(text) => instructions = instructions.join(&text.label()),
                Message::User(text) => query = label.join(&text.label()),
                Message::Memory(_) | Message::Assistant { .. } | Message::Result { .. } => {}
            }
        }
        self.above_request(instructions.join(&query))
    }

    // ---- What is recalled before a turn, and left behind after it ----

    /// Tells the conversation what it is to remember in the next turn, before the user speaks.
    pub fn recall(&mut self, memories: &[Memory]) {
        if memories.is_empty() {
            return;
        }
        let named = memories.iter().map(|memory| Recalled {
            id: memory.id.to_string(),
            origin: memory.origin.clone(),
            label: self.names(&memory.label),
        });
        let named = named.collect();
        self.events.push(Event::Recalled { memories: named });
        for memory in memories {
            // It gets its label there.
            let line = Labeled::trusted_tcb(line(memory));
            self.guard.history.push_memory(&memory.label, line);
        }
    }

    /// Asks the monitor whether a text of this conversation may be remembered. `None`: it may not,
    /// which is in the trace. The user is not asked: that would be a question after each turn.
    pub fn remember(&mut self, id: MemoryId, text: &Labeled) -> Option<Permit<MemoryWrite>> {
        let apps = self.apps.names();
        let text = cut(text);
        let label = self.names(&text.label());
        let bytes = text.len();
        // Cut before it is decided on: the permit is for the very bytes that are kept.
        let reason = match self
            .guard
            .decide(&self.turn.relevance, MemoryWrite { apps, text })
        {
            Decision::Allow(permit) => {
                let id = id.to_string();
                self.events.push(Event::Remembered { id, label, bytes });
                return Some(permit);
            }
            Decision::Ask(question) => format!("above the limit of {}", question.rule().name),
            Decision::Deny(denial) => denial.to_string(),
        };
        let reason = reason.into();
        self.events.push(Event::NotRemembered { label, reason });
        None
    }

    /// What to ask a model for the facts in the turn that has just ended: one question at the label of
    /// what the user said, and one at the answer's, if it is another. Memories are not in them: their
    /// facts are known.
    #[must_use]
    pub fn fact_questions(&self) -> Vec<FactQuestion> {
        let messages: Vec<_> = self.guard.history.messages().collect();
        let is_user = |(_, message): &(&Label, &Message)| matches!(message, Message::User(_));
        let Some(begin) = messages.iter().rposition(is_user) else {
            return Vec::new();
        };
        let mut labels: Vec<Label> = Vec::new();
        for (_, message) in messages.iter().skip(begin) {
            let label = match message {
                Message::User(text) => text.label(),
                Message::Assistant { text, calls } if calls.is_empty() => text.label(),
                _ => continue,
            };
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        let turn = self
            .guard
            .history
            .part(begin..messages.len(), &Labeled::trusted_tcb(""));
        let limit = self.settings.limits.prompt_bytes;
        let question = |label: &Label| {
            let prompt = redact(&turn, label);
            let mut rest = prompt.messages().iter();
            let of_user = rest.all(|message| {
                matches!(message, PromptMessage::System(_) | PromptMessage::User(_))
            });
            FactQuestion::new(transcript(&prompt, limit), of_user, label)
        };
        // ⊤ is for the user alone, and never recalled.
        let labels = labels.iter().filter(|label| !label.is_top());
        labels.map(question).collect()
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

/// A memory as a prompt shows it. Quoted, so that its text cannot end its line.
fn line(memory: &Memory) -> String {
    let Memory { origin, text, .. } = memory;
    let mut shown: String = text.chars().take(MEMORY_CHARACTERS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let quoted = serde_json::Value::from(shown);
    format!("- {origin}: {quoted}\n")
}

/// Whether a text has no word but the mark of what is masked.
fn is_masked(text: &str) -> bool {
    let rest = text.replace(REDACTED, "");
    rest.len() < text.len() && !rest.contains(char::is_alphanumeric)
}

/// The beginning of a text that is too long to keep.
fn cut(text: &Labeled) -> Labeled {
    let end = text.reveal_tcb().floor_char_boundary(MEMORY_BYTES);
    match text.slice(0..end) {
        Some(cut) if end < text.len() => Labeled::concat([&cut, &Labeled::trusted_tcb(" […]")])
            // That it was longer is as secret as the rest.
            .restrict(&text.label()),
        _ => text.clone(),
    }
}
