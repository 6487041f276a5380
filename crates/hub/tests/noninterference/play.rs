//! Plays a world on the real machine, and writes down what it does.

use std::sync::{Arc, LazyLock};

use hub::isc::{Asks, ExchangeId};
use hub::memory::{MemoryId, Thread};
use hub::trace::{Event, Flow, MessageKind, Names};
use hub::{
    Agent, AnswerShape, AppTool, AppTools, Asked, CallOutcome, Completion, CompletionRequest,
    Filling, Need, ProposedCall, Purpose, Screened, Screening, Serving, Settings, Setup, Stop,
};
use ifc::{
    Answer, Basis, Call, Collaboration, Delivery, Direction, Effect, History, Label, Labeled,
    Lattice, Message, Monitor, Order, Policy, Ran, Release, Stage, Tool,
};

use crate::approved::{self, Endorsed, delegating};
use crate::asks::Service;
use crate::chooser::Chooser;
use crate::data::{carried, carrying, flows_apart, whole};
use crate::images::Shown;
use crate::kept::{APART, About, Cabinet, is_kept};
use crate::late::reading;
use crate::memory::{Shelf, id_of};
use crate::model;
use crate::random::hash;
use crate::rules::{Rules, Unlimited, limit};
use crate::trusted::{Trusted, is_trusted};
use crate::world::{
    self, Carries, Side, Taints, ToolSpec, Words, World, flows, flows_taints, taints, union,
};

pub(crate) const APPS: [&str; 2] = ["app", "other"];

/// Names each taint that a world can have, whatever lattice it drew its labels from: events have
/// labels by name, and a name per taint is the label again.
static TAINTS: LazyLock<Arc<Lattice>> = LazyLock::new(|| {
    let names = (0..world::TAINTS).map(|at| format!("taint{at}"));
    Arc::new(Lattice::new(&Order::Categories(names.collect()), &Order::TwoPoint).unwrap())
});

/// The label that an event names.
fn named(names: &Names) -> Label {
    TAINTS.labels(names.iter().map(String::as_str)).unwrap()
}

/// What the machine does in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// A prompt was sent: its label, and all that it shows.
    Prompt(Label, String, Masked),
    /// A call ran.
    Ran {
        call: Call,
        limit: Option<Label>,
        confirmed: bool,
    },
    /// The user was asked about this call or answer, and this is the answer.
    Asked(Subject, Answer, Option<Ran>),
    /// The policy denied this call or answer, under this label and with this reason.
    Denied(Label, Flow, String),
    /// The user has said yes to a call, and its control part has these labels from then on.
    Approved(Endorsed),
    /// A call that makes no sense, under this label.
    Rejected(Label, ProposedCall, String),
    /// A message of an exchange with another app, or that there is none: under this label, about this
    /// functionality, and what the trace notes of it.
    Message(Label, MessageKind, String, String),
    /// The turn's answer.
    Answered(Label, String),
    /// A conversation in which another app answered the request before: under this label.
    Served(Label, Box<Turn>),
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Call(Call),
    Answer(Release),
    /// With the label of the step that asks.
    Delivery(Delivery, Label),
}

/// How many regions a prompt masks. Both sides may differ in it, and no model is told.
#[derive(Debug, Clone, Copy, Eq)]
pub(crate) struct Masked(pub(crate) usize);

impl PartialEq for Masked {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) number: usize,
    /// The label that was chosen for the step.
    pub(crate) chosen: Option<Label>,
    /// The label of the prompt that it was made from.
    pub(crate) label: Option<Label>,
    /// The label of its first prompt: lazily, of the draft.
    drafted: Option<Label>,
    /// Under which label it was checked before a question, and whether it was taken there.
    pub(crate) checked: Option<(Label, bool)>,
    /// Under which label it was taken without what a no has withheld, and whether that is the step.
    pub(crate) without: Option<(Label, bool)>,
    /// Where its parts were made by themselves: each attempt, with its label, and whether the part came about there.
    /// Its control parts have no name.
    pub(crate) parts: Vec<(String, Label, bool)>,
    /// The label of its control parts, if it is not the draft's.
    pub(crate) control: Option<Label>,
    /// The earlier steps that were taken once more because of it.
    pub(crate) refined: Vec<Refined>,
    /// The labels of all of its prompts.
    pub(crate) prompts: Vec<Label>,
    pub(crate) acts: Vec<Act>,
    /// The answer might not be shown, and another one was made from what may be.
    pub(crate) fallback: bool,
}

impl Step {
    /// Of several prompts, the one of its control parts is what it was made from.
    fn as_its_control(&mut self) {
        let control = self.control.clone().or(self.drafted.clone());
        self.label.clone_from(&control);
        self.chosen = control;
    }
}

/// An earlier step that was taken once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refined {
    /// Its number.
    pub(crate) of: usize,
    pub(crate) label: Label,
    /// Whether the same calls came out, and the same words.
    pub(crate) taken: bool,
    pub(crate) whole: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) steps: Vec<Step>,
    pub(crate) stop: Option<Stop>,
    /// Whether something above the limit was recalled for it.
    pub(crate) recalled_above: bool,
    /// The prompts for facts after it: their labels, and what they show.
    pub(crate) facts: Vec<(Label, String)>,
}

/// A run of one side of a world.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) turns: Vec<Turn>,
    /// Offences against the bounds that hold for every screener, in words.
    pub(crate) offences: Vec<String>,
    /// What was allowed by a permission, and of this what was by one that the other side lacks.
    pub(crate) permitted: usize,
    pub(crate) apart: usize,
    /// Texts that the user vouched for, and what was allowed by it.
    pub(crate) trusted: usize,
    pub(crate) by_trust: usize,
    /// Calls that the user's yes endorsed.
    pub(crate) approved: usize,
}

impl Turn {
    pub(crate) fn acts(&self) -> impl Iterator<Item = &Act> {
        let mut acts = Vec::new();
        self.collect(&mut acts);
        acts.into_iter()
    }

    /// With those of the conversations that served.
    fn collect<'a>(&'a self, all: &mut Vec<&'a Act>) {
        for act in self.steps.iter().flat_map(|step| &step.acts) {
            all.push(act);
            if let Act::Served(_, turn) = act {
                turn.collect(all);
            }
        }
    }
}

impl Run {
    pub(crate) fn acts(&self) -> impl Iterator<Item = &Act> {
        self.turns.iter().flat_map(Turn::acts)
    }
}

/// A conversation that serves, while it does.
struct Nested {
    app: String,
    /// The label of the request.
    control: Label,
    turn: Turn,
    /// Where it is: tells the steps of all conversations of a turn apart.
    place: usize,
}

/// When what the world remembers of its own turns was made: after what it remembers of others.
const NOW: usize = 1 << 20;

/// Entries that one turn leaves: the words, the answer, and a fact of each prompt for facts.
const OF_ONE_TURN: usize = 4;

/// More than a conversation has steps, and a step exchanges.
const PLACES: usize = 50;

/// Who answers prompts.
pub(crate) type Model<'a> = &'a dyn Fn(&CompletionRequest) -> Completion;

/// Plays one side of a world with the model that can be swayed.
pub(crate) fn play(world: &World, side: Side, vanilla: bool, chooser: &mut dyn Chooser) -> Run {
    let model = |request: &CompletionRequest| match (world.carries, world.reads) {
        _ if world.delegates => delegating(world, request),
        (Carries::Nothing, true) => reading(world.seed, request),
        (Carries::Nothing, false) => model::answer(world.seed, request),
        (carries, _) => carrying((carries, world.nests, world.filling), world.seed, request),
    };
    play_with(world, side, vanilla, chooser, &model)
}

/// Plays one side of a world.
pub(crate) fn play_with(
    world: &World,
    side: Side,
    vanilla: bool,
    chooser: &mut dyn Chooser,
    model: Model<'_>,
) -> Run {
    let policy: Arc<dyn Policy> = match vanilla {
        true => Arc::new(Unlimited),
        false => Arc::new(Rules(world.clone())),
    };
    let settings = Settings {
        screening: match vanilla {
            true => Screening::LAZY,
            false => world.screening,
        },
        arguments: match vanilla {
            true => Filling::Lazy,
            false => world.filling,
        },
        limits: world.limits,
        ..Settings::default()
    };
    let mut player = Player {
        words: Words::default(),
        shown: Shown::default(),
        side,
        world,
        vanilla,
        model,
        cabinet: Arc::new(Cabinet::of(world, side)),
        run: Run::default(),
        nested: Vec::new(),
        trusted: Vec::new(),
        exchanges: 0,
        draft: String::new(),
        newest: String::new(),
    };
    let tools = world.tools_on(side).map(|spec| {
        let shown = world.shown(spec);
        // What is said of a tool is at least as restrictive as its name.
        let name = Labeled::label_tcb(shown.as_str(), spec.label.clone());
        player.learn(name);
        player.learn(spec.description.on(side).restrict(&spec.label));
        player.learn(spec.parameters.on(side).restrict(&spec.label));
        Tool {
            label: spec.label.clone(),
            name: shown,
            description: spec.description.on(side),
            parameters: spec.parameters.on(side),
        }
    });
    let tools = tools.collect::<Vec<_>>();
    let system = player.learn(world.system.on(side));
    let setup = Setup {
        apps: world.apps(),
        asks: Asks::of(APPS[0], world.services.iter().map(Service::functionality)),
        policy,
        lattice: TAINTS.clone(),
        monitor: Monitor::new()
            .with_permissions(player.cabinet.clone())
            .with_trust(&approved::lattice(world.integrity)),
        settings,
    };
    let mut shelf = player.shelf();
    let mut thread = Thread::default();
    let mut agent = Agent::new(setup.clone(), system.clone(), tools.clone());
    for (turn, said) in world.turns.iter().enumerate() {
        if turn > 0 && world.fresh.get(turn) == Some(&true) {
            thread = Thread::default();
            agent = Agent::new(setup.clone(), system.clone(), tools.clone());
        }
        let said = player.learn(said.on(side));
        player.run.turns.push(Turn::default());
        if world.memories.is_some() {
            let found = thread.recall(&shelf, &said).unwrap();
            let above = found.iter().any(|memory| world.above(&memory.label));
            player.run.turns.last_mut().unwrap().recalled_above = above;
            agent.recall(&found);
        }
        let answers = world
            .gathered
            .iter()
            .map(|text| player.learn(text.on(side)));
        let answers: Vec<(String, Labeled)> =
            APPS.map(str::to_owned).into_iter().zip(answers).collect();
        match answers.is_empty() {
            true => agent.user(said.clone()).unwrap(),
            false => agent.gather(said.clone(), answers).unwrap(),
        }
        let answer = player.turn(&mut agent, turn, chooser);
        if world.memories.is_some() {
            let time = NOW + turn * OF_ONE_TURN;
            if let Some((id, label)) = player.remember(&mut agent, &mut shelf, time, &said) {
                thread.user_said(id, &label);
            }
            let answer =
                answer.and_then(|it| player.remember(&mut agent, &mut shelf, time + 1, &it));
            if let Some((id, label)) = answer {
                thread.model_made(id, &label);
            }
            for question in agent.fact_questions() {
                // Not by how many there are: one of another label may be above the limit.
                let of_words = *question.label() == said.label();
                let at = time + if of_words { 2 } else { 3 };
                let fact = player.fact(question.request());
                let found = player.remember(&mut agent, &mut shelf, at, &fact);
                if let Some((id, _)) = found {
                    thread.fact_found(id);
                }
            }
        }
    }
    player.run
}

struct Player<'a> {
    words: Words,
    shown: Shown,
    side: Side,
    world: &'a World,
    vanilla: bool,
    model: Model<'a>,
    cabinet: Arc<Cabinet>,
    run: Run,
    /// The conversations that serve, each for the one before it.
    nested: Vec<Nested>,
    /// What the user has vouched for.
    trusted: Vec<Trusted>,
    /// How many exchanges have begun.
    exchanges: u128,
    /// All that the newest draft says.
    draft: String,
    /// All that the newest completion says.
    newest: String,
}

impl Player<'_> {
    fn learn(&mut self, text: Labeled) -> Labeled {
        for (part, label) in parts(&text) {
            self.words.learn(part, &taints(&label));
        }
        text
    }

    /// What earlier sessions left.
    fn shelf(&mut self) -> Shelf {
        for piece in self.world.memories.iter().flatten() {
            for (text, label) in piece.on(self.side) {
                self.learn(Labeled::label_tcb(text.as_str(), label.clone()));
            }
        }
        Shelf::of(self.world, self.side)
    }

    /// Remembers a text, if it may be. The bound on a memory: it flows to its limit.
    fn remember(
        &mut self,
        agent: &mut Agent,
        shelf: &mut Shelf,
        time: usize,
        text: &Labeled,
    ) -> Option<(MemoryId, Label)> {
        let text = agent.remember(id_of(time), text)?.spend().text;
        let (label, limit) = (text.label(), self.world.memory_limit.as_ref());
        if !self.vanilla && !limit.is_some_and(|limit| flows(&label, limit)) {
            self.offence(format!("{label:?} is remembered over {limit:?}"));
        }
        let id = shelf.add(time, text.reveal_tcb(), label.clone());
        Some((id, label))
    }

    /// Plays a turn to its end. Returns its answer.
    fn turn(
        &mut self,
        agent: &mut Agent,
        turn: usize,
        chooser: &mut dyn Chooser,
    ) -> Option<Labeled> {
        loop {
            let need = agent.poll();
            self.take_events(agent);
            match need {
                Need::Screen => {
                    // An eager screening comes before anything else of its step, and no draft.
                    assert_ne!(
                        agent.draft().is_some(),
                        self.world.screening == Screening::Eager
                    );
                    let before = self.last().map_or(0, |step| step.number);
                    let step = before + usize::from(self.world.screening == Screening::Eager);
                    let place = self.nested.last().map_or(0, |nested| nested.place);
                    let step = place * PLACES + step;
                    let relevance = chooser.choose(agent.history(), turn, step);
                    let screened = Screened {
                        screener: "fixed".to_owned(),
                        relevance,
                        failure: None,
                        scores: Vec::new(),
                    };
                    agent.handle_screened(screened).unwrap();
                }
                Need::Complete(request) => {
                    let completion = (self.model)(&request);
                    let calls = completion.calls.iter().map(|call| call.arguments.as_str());
                    let all: Vec<&str> = calls.chain([completion.text.as_str()]).collect();
                    self.newest = all.join(" ");
                    if self.last().is_none_or(|step| step.prompts.is_empty()) {
                        self.draft.clone_from(&self.newest);
                    }
                    self.prompt(&request, &completion.text);
                    for word in completion.calls.iter().flat_map(carried) {
                        self.words.learn(&word, &taints(request.prompt.label()));
                    }
                    agent.handle_completion("model", Ok(completion)).unwrap();
                }
                Need::Confirm(question) => {
                    let subject = match &question {
                        Asked::Call(question) | Asked::Request(_, question) => {
                            Subject::Call(question.call().clone())
                        }
                        Asked::Delivery(_, question) => {
                            Subject::Delivery(question.delivery().clone(), self.step_label())
                        }
                        Asked::Answer(question) => Subject::Answer(question.release().clone()),
                    };
                    let bits = match &subject {
                        Subject::Call(call) => hash(&[&call.tool, &call.arguments.to_json()]),
                        Subject::Answer(release) => hash(&[release.text.reveal_tcb()]),
                        Subject::Delivery(delivery, _) => {
                            hash(&[delivery.stage.name(), delivery.message.reveal_tcb()])
                        }
                    };
                    let yes = bits % 100 < u64::try_from(self.world.yes).unwrap();
                    let for_good = (bits / 100).is_multiple_of(2) && is_kept(self.world, &question);
                    let trust = is_trusted(self.world, &question).filter(|_| bits % 7 < 4);
                    let answer = match (trust, yes, for_good) {
                        (Some(until), ..) => {
                            self.run.trusted += 1;
                            self.trusted.push(Trusted::of(&question, until, turn));
                            Answer::Trust(until)
                        }
                        (None, true, true) => Answer::Always,
                        (None, true, false) => Answer::Once,
                        (None, false, _) => Answer::No,
                    };
                    self.act(Act::Asked(subject, answer, question.ran()));
                    agent.handle_answer(question, answer).unwrap();
                }
                Need::Execute(permit) => {
                    let basis = permit.basis().clone();
                    let call = permit.spend();
                    let outcome = self.execute(&call, &basis, agent.history());
                    agent.handle_result(outcome).unwrap();
                }
                Need::HandOver(_) => panic!("calls run here"),
                Need::Exchange(opening) => {
                    // Nobody is told an id, and the user always chooses the same app, or none.
                    self.exchanges += 1;
                    let id = ExchangeId::from_random(self.exchanges);
                    let seed = self.world.seed.to_string();
                    let wish = hash(&[&seed, &opening.functionality]) % 4;
                    let wish = usize::try_from(wish).unwrap();
                    let chosen = opening.apps.get(wish.saturating_sub(1) % 3);
                    agent
                        .handle_exchange(id, chosen.map(String::as_str))
                        .unwrap();
                }
                Need::Serve(serving) => {
                    let served = self.serve(*serving, turn, chooser);
                    agent.handle_served(served).unwrap();
                }
                Need::Answer => panic!("every need is answered at once here"),
                Need::User(outcome) => {
                    let result = outcome.unwrap().result;
                    match &result {
                        Ok(text) => {
                            self.check_answer(text);
                            let answer = Act::Answered(text.label(), text.reveal_tcb().to_owned());
                            self.act(answer);
                        }
                        // It is for the conversation that waits.
                        Err(Stop::Served) => {}
                        Err(stop) => self.turn_mut().stop = Some(stop.clone()),
                    }
                    if !self.vanilla {
                        self.check_history(agent.history());
                    }
                    return result.ok();
                }
            }
        }
    }

    /// Plays the conversation of an app that answers a request.
    fn serve(
        &mut self,
        serving: Serving,
        turn: usize,
        chooser: &mut dyn Chooser,
    ) -> Result<Agent, String> {
        let app = serving.app().to_owned();
        let waits = |nested: &Nested| nested.app == app;
        if app == APPS[0] || self.nested.iter().any(waits) {
            self.offence(format!("{app} answers while it waits"));
        }
        if self.nested.len() >= self.world.limits.hops {
            self.offence(format!("more than {} wait", self.world.limits.hops));
        }
        let step = self.last_mut();
        let control = match step.acts.last() {
            Some(Act::Message(label, MessageKind::Request, ..)) => label.clone(),
            _ => Label::top(),
        };
        let before = step.acts.iter();
        let before = before.filter(|act| matches!(act, Act::Served(..))).count();
        let (number, place) = (step.number, self.nested.last().map_or(0, |it| it.place));
        let world = self.world;
        let own = world.tools_of(&app);
        let said = world.services.iter();
        let mut said = said.filter(|service| service.tools.iter().any(|spec| spec.app == app));
        let tools = AppTools {
            app: app.clone(),
            tools: own
                .map(|spec| AppTool {
                    name: spec.name.clone(),
                    listed: true,
                    description: "knows".to_owned(),
                    parameters: "{}".to_owned(),
                })
                .collect(),
            descriptions: said.next().map_or(Label::top(), |it| it.taint.clone()),
        };
        let asks = Asks::of(&app, world.services.iter().map(Service::functionality));
        let mut agent = serving.begin(asks, tools);
        self.nested.push(Nested {
            app,
            control,
            turn: Turn::default(),
            place: ((place * PLACES + number) * PLACES) + before + 1,
        });
        self.turn(&mut agent, turn, chooser);
        let served = self.nested.pop().unwrap();
        self.act(Act::Served(served.control, Box::new(served.turn)));
        Ok(agent)
    }

    /// What the trace says of steps, denials and what was remembered.
    fn take_events(&mut self, agent: &mut Agent) {
        for event in agent.take_events() {
            match event {
                Event::Redacted { step, .. }
                    if self.last().is_none_or(|last| last.number != step) =>
                {
                    self.turn_mut().steps.push(Step {
                        number: step,
                        ..Step::default()
                    });
                }
                Event::Checked { label, taken, .. } => {
                    let step = self.last_mut();
                    step.checked = Some((named(&label), taken));
                    if taken {
                        step.control = Some(named(&label));
                    }
                    step.parts.push((String::new(), named(&label), taken));
                    step.as_its_control();
                }
                Event::Filled {
                    argument,
                    label,
                    taken,
                    ..
                } => {
                    let part = (argument.to_string(), named(&label), taken);
                    let step = self.last_mut();
                    step.parts.push(part);
                    step.as_its_control();
                }
                Event::Refined {
                    of,
                    label,
                    taken,
                    whole,
                    ..
                } => {
                    if taken {
                        self.relearn(agent.history());
                    }
                    let step = self.last_mut();
                    step.refined.push(Refined {
                        of,
                        label: named(&label),
                        taken,
                        whole,
                    });
                    step.label.clone_from(&step.drafted);
                    step.chosen.clone_from(&step.drafted);
                }
                Event::Withheld { step, label, taken } => {
                    // The prompt may have been that of a check before.
                    if self.last().is_none_or(|last| last.number != step) {
                        self.turn_mut().steps.push(Step {
                            number: step,
                            ..Step::default()
                        });
                    }
                    let step = self.last_mut();
                    step.without = Some((named(&label), taken));
                    if taken {
                        // Its calls are made from this prompt, whatever was shown in between.
                        step.drafted = Some(named(&label));
                        step.label.clone_from(&step.drafted);
                        step.chosen.clone_from(&step.drafted);
                    } else {
                        // From here on the draft is what came of the newest prompt, from everything.
                        step.drafted.clone_from(&step.label);
                        self.draft.clone_from(&self.newest);
                    }
                }
                Event::Denied { flow, reason, .. } => {
                    let label = match &flow {
                        Flow::Call(call) => call
                            .data
                            .values()
                            .fold(named(&call.label), |all, data| all.join(&named(data))),
                        Flow::Message(message) => named(&message.label).join(&self.step_label()),
                        Flow::Answer { label, .. } => named(label),
                    };
                    self.act(Act::Denied(label, flow, reason.to_string()));
                }
                Event::Message {
                    message,
                    functionality,
                    asks,
                    serves,
                    label,
                    note,
                    ..
                } => {
                    let apps = (asks, serves);
                    self.check_message(message, &functionality, apps, &named(&label));
                    if message != MessageKind::Denied {
                        self.count(&note);
                    }
                    // Whether a step asks at all is as secret as the step.
                    let label = named(&label).join(&self.step_label());
                    self.act(Act::Message(
                        label,
                        message,
                        functionality,
                        note.to_string(),
                    ));
                }
                Event::Rejected {
                    tool,
                    arguments,
                    label,
                    reason,
                    ..
                } => {
                    let (tool, arguments) = (tool.to_string(), arguments.to_string());
                    let proposed = ProposedCall { tool, arguments };
                    self.act(Act::Rejected(named(&label), proposed, reason.to_string()));
                }
                _ => {}
            }
        }
    }

    /// Labels have fallen since an earlier step was refined: what is below now may be seen there. How far
    /// they may fall is held by `ifc`'s own tests, and by the comparison of both sides.
    fn relearn(&mut self, history: &History) {
        for (label, message) in history.messages() {
            let texts = match message {
                Message::System(text) | Message::User(text) | Message::Memory(text) => vec![text],
                Message::Result { content, .. } => vec![content],
                Message::Assistant { text, calls } => {
                    let arguments = calls.iter().map(|call| &call.arguments);
                    std::iter::once(text).chain(arguments).collect()
                }
            };
            for (part, own) in texts.into_iter().flat_map(parts) {
                let label = union(&taints(&own), &taints(label));
                self.words.learn(part, &label);
            }
        }
        self.shown.relearn(&mut self.words, self.world, history);
        // The draft was made from everything, whose label this is now.
        let control = self.nested.last().map(|nested| nested.control.clone());
        let coarse = history.label().join(&control.unwrap_or(Label::bottom()));
        self.words.learn(&self.draft.clone(), &taints(&coarse));
        self.last_mut().drafted = Some(coarse);
    }

    /// The bounds on a prompt: no word above its label, and its label is recorded.
    fn prompt(&mut self, request: &CompletionRequest, said: &str) {
        let (label, shown) = self.bound(request, said);
        let masked = Masked(request.prompt.masked());
        let step = self.last_mut();
        step.fallback |= matches!(step.acts.last(), Some(Act::Asked(Subject::Answer(_), ..)));
        // Nobody is asked about an answer from everything, after a step without that lacked something.
        let from_everything = matches!(step.without, Some((_, false)));
        let is_in_words = request.purpose == Purpose::Step && request.shape == AnswerShape::Text;
        step.fallback |= from_everything && is_in_words;
        if request.purpose == Purpose::Summary {
            // The step follows, unless there is no summary.
            if !step.fallback {
                step.chosen = Some(label.clone());
            }
            step.acts.push(Act::Prompt(label, shown, masked));
            return;
        }
        step.label = Some(label.clone());
        step.prompts.push(label.clone());
        step.drafted.get_or_insert_with(|| label.clone());
        if !step.fallback {
            step.chosen = Some(label.clone());
        }
        step.acts.push(Act::Prompt(label, shown, masked));
    }

    /// Checks a prompt: its label, and what it shows.
    fn bound(&mut self, request: &CompletionRequest, said: &str) -> (Label, String) {
        let label = request.prompt.label().clone();
        let shown = model::shown(request);
        if let Some(word) = self
            .words
            .secret_in(&shown, &taints(&label))
            .filter(|_| !self.vanilla)
        {
            self.offence(format!("a prompt at {label:?} shows {word}"));
        }
        let nested = self.nested.last();
        if nested.is_some_and(|it| !flows(&it.control, &label)) && !self.vanilla {
            self.offence(format!("a prompt at {label:?} is below its request"));
        }
        // The model made up one word, and repeated words that it was shown.
        if let Some(made_up) = said.split(' ').next() {
            self.words.learn(made_up, &taints(&label));
        }
        (label, shown)
    }

    /// What the model makes of a prompt for facts, which is bound like every prompt. It has the prompt's
    /// label, whatever it is.
    fn fact(&mut self, request: &CompletionRequest) -> Labeled {
        let completion = (self.model)(request);
        let shown = self.bound(request, &completion.text);
        self.run.turns.last_mut().unwrap().facts.push(shown);
        Labeled::label_tcb(completion.text, request.prompt.label().clone())
    }

    /// The bound on an answer: it flows to its limit, unless the user has said yes to it.
    fn check_answer(&mut self, text: &Labeled) {
        let label = text.label();
        let limit = self.world.answer_limit.as_ref();
        let asked = match self.last_mut().acts.last() {
            Some(Act::Asked(Subject::Answer(release), Answer::Once, _)) => release.text == *text,
            _ => false,
        };
        let allowed = limit.is_some_and(|limit| flows(&label, limit)) || asked;
        if !allowed && !self.vanilla {
            self.offence(format!("an answer at {label:?} is shown over {limit:?}"));
        }
    }

    /// The bound on a message: it flows to its limit, unless the user has said yes to it.
    fn check_message(
        &mut self,
        kind: MessageKind,
        functionality: &str,
        (asks, serves): (String, String),
        label: &Label,
    ) {
        let stage = match kind {
            MessageKind::Probe => Stage::Probe,
            MessageKind::Request => Stage::Request,
            MessageKind::Response => Stage::Response,
            _ => return,
        };
        let mut services = self.world.services.iter();
        let service = services.find(|service| service.name == functionality);
        let asked = match self.last_mut().acts.last() {
            Some(Act::Asked(Subject::Delivery(delivery, _), Answer::Once | Answer::Always, _)) => {
                delivery.stage == stage && delivery.functionality == functionality
            }
            _ => false,
        };
        let allowed = service.is_some_and(|service| {
            let rule = service.rule(stage);
            let about = About::Apps(Collaboration {
                asks,
                serves,
                functionality: functionality.to_owned(),
                direction: match stage {
                    Stage::Response => Direction::Answering,
                    _ => Direction::Asking,
                },
            });
            let limit = (!rule.always_ask).then_some(&rule.limit);
            limit.is_some_and(|limit| flows(label, limit))
                || self.cabinet.covers(&about, label, limit)
        });
        // A response of a conversation is made from its last prompt.
        let made_from = match self.last().and_then(|step| {
            let served = |act: &Act| match act {
                Act::Served(_, turn) => turn.steps.last()?.label.clone(),
                _ => None,
            };
            step.acts.iter().rev().find_map(served)
        }) {
            Some(label) if service.is_some_and(|it| it.conversed) => label,
            _ => Label::bottom(),
        };
        if stage == Stage::Response && !flows(&made_from, label) && !self.vanilla {
            self.offence(format!("a response at {label:?} was made at {made_from:?}"));
        }
        if !allowed && !asked && !self.vanilla {
            self.offence(format!("a {stage:?} at {label:?} passes unasked"));
        }
    }

    /// The label of the step whose calls are decided on.
    fn step_label(&self) -> Label {
        let label = self.last().and_then(|step| step.label.clone());
        label.unwrap_or(Label::top())
    }

    /// The bounds on a call: its label is that of the prompt that it came from, and it flows to
    /// the call's limit unless the user has just said yes to this very call.
    fn execute(&mut self, call: &Call, basis: &Basis, history: &History) -> CallOutcome {
        let world = self.world;
        let spec = world.tool(call);
        let limit = spec.and_then(|spec| limit(spec, call));
        let irreversible = spec.is_none_or(|spec| spec.effect == Effect::Irreversible);
        let ran_before = irreversible && self.acts().any(|act| ran(act, call));
        let own = self.nested.last().map(|nested| nested.app.clone());
        let step = self.last_mut();
        let is_call = |act: &&Act| !matches!(act, Act::Asked(Subject::Call(_), ..));
        let requested = match step.acts.iter().rev().find(is_call) {
            Some(Act::Message(_, MessageKind::Request, functionality, _)) => {
                Some(functionality.clone())
            }
            _ => None,
        };
        // What a prompt was made of may have been endorsed since.
        let same_label =
            step.label.as_ref().map(Label::unendorsed) == Some(call.label.unendorsed());
        let asked = match step.acts.last() {
            Some(Act::Asked(Subject::Call(about), Answer::Once | Answer::Always, _)) => {
                about == call
            }
            _ => false,
        };
        if !self.vanilla {
            // What the user has vouched for, in calls like this one.
            let turn = self.run.turns.len() - 1;
            let effect = spec.map(|spec| spec.effect);
            let trusted = self.trusted.iter();
            let trusted = trusted.filter(|it| it.reaches(&call.app, effect) && it.holds_in(turn));
            let trusted = trusted.fold(Label::bottom(), |all, it| all.join(&it.taints));
            let allowed = match basis {
                Basis::Policy { .. } => {
                    let asks = world.tool(call).is_none_or(|spec| spec.always_ask);
                    !asks
                        && !ran_before
                        && limit.is_some_and(|limit| flows_apart(world, spec, call, history, limit))
                }
                Basis::UserOnce => asked,
                Basis::Permission { .. } => {
                    let asks = world.tool(call).is_none_or(|spec| spec.always_ask);
                    let about = match spec.and_then(|spec| world.service(spec)) {
                        Some(service) => Some(About::Apps(Collaboration {
                            asks: own.clone().unwrap_or(APPS[0].to_owned()),
                            serves: call.app.clone(),
                            functionality: service.name.clone(),
                            direction: Direction::Asking,
                        })),
                        // What an app does for another one is permitted by nothing.
                        None if own.is_some() => None,
                        None => Some(About::Tool(call.app.clone(), call.tool.clone())),
                    };
                    // What the user has vouched for besides needs no permission.
                    let limit = limit.map(|limit| limit.join(&trusted));
                    let covers = |about| self.cabinet.covers(&about, &call.label, limit.as_ref());
                    !asks && !irreversible && limit.is_some() && about.is_some_and(covers)
                }
                Basis::UserTrust => {
                    let asks = world.tool(call).is_none_or(|spec| spec.always_ask);
                    // Every limit of the call is raised by it.
                    let spec = spec.cloned().map(|spec| ToolSpec {
                        data_limit: spec.data_limit.map(|limit| limit.join(&trusted)),
                        ..spec
                    });
                    let limit = limit.map(|limit| limit.join(&trusted));
                    let flows =
                        |limit: Label| flows_apart(world, spec.as_ref(), call, history, &limit);
                    !asks && !ran_before && own.is_none() && limit.is_some_and(flows)
                }
                Basis::UserSession => false,
            };
            let serves = spec.and_then(|spec| world.service(spec));
            let reached = match serves {
                // No app is asked before it was given the request.
                Some(service) => requested.as_ref() == Some(&service.name),
                None => match own {
                    Some(own) => own == call.app,
                    None => world.apps().with_tools().contains(&call.app),
                },
            };
            if !allowed || !reached {
                self.offence(format!("{call:?} ran by {basis:?} over {limit:?}"));
            }
            if !same_label {
                self.offence(format!(
                    "{call:?} has not the label of its prompt {:?}",
                    self.last()
                ));
            }
        }
        let is_own = self.nested.is_empty() && spec.is_none_or(|it| world.service(it).is_none());
        let endorsed = Endorsed::of(world, call).filter(|_| asked && is_own && !self.vanilla);
        let made_at = match &endorsed {
            Some(endorsed) => endorsed.whole(world, call),
            None => whole(call),
        };
        if let Some(endorsed) = endorsed {
            for (text, label) in &endorsed.0 {
                self.words.learn(text, label);
            }
            self.run.approved += 1;
            self.act(Act::Approved(endorsed));
        }
        self.run.by_trust += usize::from(*basis == Basis::UserTrust);
        if let Basis::Permission { .. } = basis {
            self.count(&basis.to_string());
        }
        // Somebody has said yes to it.
        let confirmed = !matches!(basis, Basis::Policy { .. });
        self.act(Act::Ran {
            call: call.clone(),
            limit: limit.cloned(),
            confirmed,
        });
        match world.answer(self.side, call) {
            Ok(text) => {
                self.learn_result(call, &made_at, &text, false);
                let images = self
                    .shown
                    .bring(&mut self.words, world, self.side, (call, &made_at));
                CallOutcome::Returned {
                    text,
                    is_error: false,
                    claims: Vec::new(),
                    images,
                }
            }
            Err(text) => {
                self.learn_result(call, &made_at, &text, true);
                if hash(&[&text]).is_multiple_of(2) {
                    CallOutcome::Returned {
                        text,
                        is_error: true,
                        claims: Vec::new(),
                        images: Vec::new(),
                    }
                } else {
                    CallOutcome::Failed(text)
                }
            }
        }
    }

    /// Words of a result have the labels of their fields, joined with the call's. What the app
    /// echoes keeps the labels that it has.
    fn learn_result(&mut self, call: &Call, made_at: &Taints, text: &str, is_error: bool) {
        let fields = match text.split_once('\n') {
            Some((_echo, fields)) if !is_error => fields,
            _ => text,
        };
        let labelled = Rules(self.world.clone()).label_result(call, fields.to_owned(), is_error);
        let spec = self.world.tool(call);
        let service = spec.and_then(|spec| self.world.service(spec));
        let sender = service.map_or(Label::bottom(), |service| service.taint.clone());
        for (part, label) in parts(&labelled) {
            let label = union(&taints(&label), made_at);
            self.words.learn(part, &union(&label, &taints(&sender)));
        }
    }

    /// The bounds on the record: no word of the history has a label below its own, and nothing
    /// that a step brought is below the step.
    fn check_history(&mut self, history: &History) {
        let mut found: Vec<String> = Vec::new();
        let mut check = |least: &Taints, text: &Labeled| {
            for (part, label) in parts(text) {
                let label = taints(&label);
                if let Some(word) = self.words.secret_in(part, &label) {
                    found.push(format!("the history has {word} at {label:?}"));
                }
                if !part.is_empty() && !flows_taints(least, &label) {
                    found.push(format!("{part} at {label:?} is below its step"));
                }
            }
        };
        for (label, message) in history.messages() {
            let least = taints(label);
            // A name in a call and in its result is as sensitive as the message.
            let named = |tool: &String| Labeled::label_tcb(tool.as_str(), label.clone());
            match message {
                Message::System(text) | Message::User(text) | Message::Memory(text) => {
                    check(&least, text);
                }
                Message::Result { tool, content, .. } => {
                    check(&least, content);
                    check(&least, &named(tool));
                }
                Message::Assistant { text, calls } => {
                    check(&least, text);
                    for call in calls {
                        let own = call.label(label);
                        check(&taints(&own), &call.arguments);
                        let name = Labeled::label_tcb(call.tool.as_str(), own.clone());
                        check(&taints(&own), &name);
                    }
                }
            }
        }
        found.into_iter().for_each(|what| self.offence(what));
    }

    /// Something was allowed by this.
    fn count(&mut self, by: &str) {
        if let Some(name) = by.strip_prefix("permission ") {
            self.run.permitted += 1;
            self.run.apart += usize::from(name.starts_with(APART));
        }
    }

    fn offence(&mut self, what: String) {
        self.run.offences.push(what);
    }

    fn act(&mut self, act: Act) {
        self.last_mut().acts.push(act);
    }

    fn last(&self) -> Option<&Step> {
        match self.nested.last() {
            Some(nested) => nested.turn.steps.last(),
            None => self.run.turns.last()?.steps.last(),
        }
    }

    /// What has happened so far.
    fn acts(&self) -> impl Iterator<Item = &Act> {
        let nested = self.nested.iter().flat_map(|nested| nested.turn.acts());
        self.run.acts().chain(nested)
    }

    fn turn_mut(&mut self) -> &mut Turn {
        match self.nested.last_mut() {
            Some(nested) => &mut nested.turn,
            None => self.run.turns.last_mut().unwrap(),
        }
    }

    fn last_mut(&mut self) -> &mut Step {
        let steps = &mut self.turn_mut().steps;
        if steps.is_empty() {
            steps.push(Step::default());
        }
        steps.last_mut().unwrap()
    }
}

/// Whether this is the run of an equal call.
fn ran(act: &Act, call: &Call) -> bool {
    matches!(act, Act::Ran { call: past, .. } if past.same(call))
}

/// A text cut where its label changes.
pub(crate) fn parts(text: &Labeled) -> Vec<(&str, Label)> {
    let whole = text.reveal_tcb();
    let mut parts = Vec::new();
    let mut at = 0;
    for (span, label) in text.regions() {
        parts.push((&whole[at..span.start], Label::bottom()));
        parts.push((&whole[span.clone()], label.clone()));
        at = span.end;
    }
    parts.push((&whole[at..], Label::bottom()));
    parts
}
