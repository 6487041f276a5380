//! Plays a world on the real machine, and writes down what it does.

use std::sync::Arc;

use hub::isc::{Asks, ExchangeId};
use hub::memory::{MemoryId, Thread};
use hub::trace::MessageKind;
use hub::{
    AppTool, AppTools, Asked, CallOutcome, CompletionRequest, Filling, Need, Screened, Screening,
    Serving, Settings, Setup, Stop, TurnMachine,
};
use ifc::{Answer, Basis, Call, History, Label, Labeled, Monitor, Policy, Tool};

use super::approved::{self, Endorsed, delegating};
use super::asks::Service;
use super::chooser::Chooser;
use super::data::{carried, carrying, whole};
use super::events::TAINTS;
use super::images::Shown;
use super::kept::{Cabinet, is_kept};
use super::labels::{Taints, flows, parts, taints, union};
use super::late::reading;
use super::memory::{Shelf, id_of};
use super::model;
use super::player::{Model, Nested, Player};
use super::random::hash;
use super::record::{Act, Run, Subject, Turn};
use super::rules::{Rules, Unlimited, limit};
use super::trusted::{Trusted, is_trusted};
use super::world::{APPS, Carries, Side, Words, World};

/// When what the world remembers of its own turns was made: after what it remembers of others.
const NOW: usize = 1 << 20;

/// Entries that one turn leaves: the words, the answer, and a fact of each prompt for facts.
const OF_ONE_TURN: usize = 4;

/// More than a conversation has steps, and a step exchanges.
const PLACES: usize = 50;

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
        clearances: match vanilla {
            true => Arc::default(),
            false => world.clearances.as_slice().into(),
        },
    };
    let mut shelf = player.shelf();
    let mut thread = Thread::default();
    let mut agent = TurnMachine::new(setup.clone(), system.clone(), tools.clone());
    for (turn, said) in world.turns.iter().enumerate() {
        if turn > 0 && world.fresh.get(turn) == Some(&true) {
            thread = Thread::default();
            agent = TurnMachine::new(setup.clone(), system.clone(), tools.clone());
        }
        let said = player.learn(said.on(side));
        player.run.turns.push(Turn::default());
        if world.memories.is_some() {
            let found = thread.recall(&shelf, &said).unwrap();
            thread.record_recalled(&found);
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
                thread.record_entry(id, &label, Vec::new());
            }
            let answer =
                answer.and_then(|it| player.remember(&mut agent, &mut shelf, time + 1, &it));
            if let Some((id, label)) = answer {
                thread.record_entry(id, &label, thread.visible_at(&label));
            }
            for question in agent.fact_questions() {
                // Not by how many there are: one of another label may be above the limit.
                let of_words = *question.label() == said.label();
                let at = time + if of_words { 2 } else { 3 };
                let fact = player.fact(question.request());
                let found = player.remember(&mut agent, &mut shelf, at, &fact);
                if let Some((id, _)) = found {
                    thread.record_fact(id);
                }
            }
        }
    }
    player.run
}

impl Player<'_> {
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
        agent: &mut TurnMachine,
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
        agent: &mut TurnMachine,
        turn: usize,
        chooser: &mut dyn Chooser,
    ) -> Option<Labeled> {
        loop {
            let need = agent.poll();
            self.take_events(agent);
            match need {
                Need::Clear(_) => panic!("no clearance is unsettled here"),
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
                    if self.last().is_none_or(|step| step.drafted.is_none()) {
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
                        (None, true, false)
                            if question.choices().contains(&Answer::Each) && bits % 5 < 2 =>
                        {
                            self.run.each += 1;
                            Answer::Each
                        }
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
    ) -> Result<TurnMachine, String> {
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
        let mut agent = serving.begin(asks, tools, self.world.clearances.as_slice().into());
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

    /// What the model makes of a prompt for facts, which is bound like every prompt. It has the prompt's
    /// label, whatever it is.
    fn fact(&mut self, request: &CompletionRequest) -> Labeled {
        let completion = (self.model)(request);
        let shown = self.bound(request, &completion.text);
        self.run.turns.last_mut().unwrap().facts.push(shown);
        Labeled::label_tcb(completion.text, request.prompt.label().clone())
    }

    /// Runs a call, and has its words learnt.
    fn execute(&mut self, call: &Call, basis: &Basis, history: &History) -> CallOutcome {
        let asked = self.check_call(call, basis, history);
        let world = self.world;
        let spec = world.tool(call);
        let limit = spec.and_then(|spec| limit(spec, call));
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
}
