//! Drives the real turn machine through one scenario under one defence.

use std::sync::Arc;

use hub::isc::Asks;
use hub::trace::Event;
use hub::{
    Apps, Asked, CallOutcome, CompletionRequest, Need, Outcome, Purpose, Screened, Screening,
    Settings, Setup, TurnMachine,
};
use ifc::{
    Answer, Basis, Call, Dimension, Effect, Label, Labeled, Lattice, Monitor, Permit, Policy,
    PolicyError, Prompt, Relevance, Rule, Screener, Sink, Tool,
};
use screen::{Defence, LmJudge};

use crate::common::nonce;
use crate::conformance::model;
use crate::conformance::scenarios::{Mishap, Planned, Scenario};

/// `inbox` is untrusted, `balance` secret; `send` and `note` want ⊥.
pub(crate) struct Table {
    lattice: Lattice,
    may_tell: bool,
}

impl Table {
    fn whole(&self, dimension: Dimension) -> Label {
        self.lattice.whole(dimension)
    }
}

impl Table {
    fn of_call(&self, call: &Call) -> Result<Rule, PolicyError> {
        let (limit, effect) = match call.tool.as_str() {
            "inbox" | "balance" => (Label::top(), Effect::Read),
            "send" => (Label::bottom(), Effect::Irreversible),
            "note" => (Label::bottom(), Effect::Write),
            tool => return Err(PolicyError(format!("no rule for {tool}"))),
        };
        Ok(Rule::asking(format!("{}.limit", call.tool), effect, limit))
    }

    fn of_answer(&self) -> Result<Rule, PolicyError> {
        let limit = match self.may_tell {
            true => Label::top(),
            false => self.whole(Dimension::Integrity),
        };
        Ok(Rule::asking("answer.limit", Effect::Read, limit))
    }
}

impl Policy for Table {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        match sink {
            Sink::Call(call) => self.of_call(call),
            Sink::Answer(_) => self.of_answer(),
            _ => Err(PolicyError("no rule".to_owned())),
        }
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        let end = result.len();
        let (from, label) = match call.tool.as_str() {
            "inbox" if is_error => (0, self.whole(Dimension::Integrity)),
            "inbox" => ("mail:".len(), self.whole(Dimension::Integrity)),
            "balance" => (0, self.whole(Dimension::Confidentiality)),
            _ => return Labeled::trusted_tcb(result),
        };
        Labeled::with_regions_tcb(result, [(from..end, label)]).unwrap()
    }
}

/// One executed call.
#[derive(Debug, PartialEq)]
pub(crate) struct Executed {
    pub(crate) turn: usize,
    pub(crate) call: Call,
    pub(crate) basis: Basis,
}

/// Everything that can be seen of one conversation.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) executed: Vec<Executed>,
    /// The events of each turn.
    pub(crate) events: Vec<Vec<Event>>,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) history: ifc::History,
    /// Requests by purpose.
    pub(crate) steps: usize,
    pub(crate) judgements: usize,
    pub(crate) screenings: usize,
    pub(crate) questions: usize,
}

/// Far more needs than any scenario has: whoever gets there does not end.
const MOST_POLLS: usize = 300;

struct Driver<'a> {
    scenario: &'static Scenario,
    screener: &'a dyn Screener,
    run: Run,
    turn: usize,
}

pub(crate) fn policy(scenario: &Scenario) -> Table {
    Table {
        lattice: Lattice::four_point(),
        may_tell: scenario.may_tell,
    }
}

/// Labels nothing and limits nothing: what an unprotected agent is.
pub(crate) struct Unprotected;

impl Policy for Unprotected {
    fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
        Ok(Rule::asking("unprotected", Effect::Read, Label::top()))
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        Labeled::trusted_tcb(result)
    }
}

/// The scenario under this defence, from the first message to the last answer.
pub(crate) fn run(scenario: &'static Scenario, defence: &Defence, how: Screening) -> Run {
    run_under(Arc::new(policy(scenario)), scenario, defence, how)
}

/// The same under another policy.
pub(crate) fn run_under(
    policy: Arc<dyn Policy>,
    scenario: &'static Scenario,
    defence: &Defence,
    how: Screening,
) -> Run {
    let tools = scenario.tools.iter().map(|name| Tool {
        label: Label::bottom(),
        name: (*name).to_owned(),
        description: Labeled::trusted_tcb("a tool"),
        parameters: Labeled::trusted_tcb(r#"{"type":"object"}"#),
    });
    let settings = Settings {
        screening: defence.screening(how),
        ..Settings::default()
    };
    let setup = Setup {
        apps: Apps::One("app".to_owned()),
        asks: Asks::default(),
        policy,
        lattice: Arc::new(Lattice::four_point()),
        monitor: Monitor::new(),
        settings,
        clearances: Arc::default(),
    };
    let mut agent = TurnMachine::new(setup, Labeled::trusted_tcb("Be helpful."), tools.collect());
    let screener = defence.screener();
    let mut driver = Driver {
        scenario,
        screener: &*screener,
        turn: 0,
        run: Run {
            outcomes: Vec::new(),
            executed: Vec::new(),
            events: Vec::new(),
            prompts: Vec::new(),
            history: ifc::History::default(),
            steps: 0,
            judgements: 0,
            screenings: 0,
            questions: 0,
        },
    };
    for (at, turn) in scenario.turns.iter().enumerate() {
        driver.turn = at;
        agent.user(Labeled::trusted_tcb(turn.says)).unwrap();
        let outcome = driver.turn(&mut agent);
        driver.run.outcomes.push(outcome);
        driver.run.events.push(agent.take_events());
    }
    driver.run.history = agent.history().clone();
    driver.run
}

impl Driver<'_> {
    fn turn(&mut self, agent: &mut TurnMachine) -> Outcome {
        for _ in 0..MOST_POLLS {
            match agent.poll() {
                Need::Screen => {
                    let screened = self.screened(agent);
                    agent.handle_screened(screened).unwrap();
                }
                Need::Complete(request) => {
                    let answer = self.complete(&request);
                    agent.handle_completion("worst-case", answer).unwrap();
                }
                Need::Confirm(question) => {
                    self.run.questions += 1;
                    let answer = self.user(&question);
                    agent.handle_answer(question, answer).unwrap();
                }
                Need::Execute(permit) => {
                    let outcome = self.execute(permit);
                    agent.handle_result(outcome).unwrap();
                }
                Need::User(outcome) => return outcome.unwrap(),
                need @ (Need::HandOver(_)
                | Need::Exchange(_)
                | Need::Serve(_)
                | Need::Clear(_)
                | Need::Answer) => panic!("{need:?}"),
            }
        }
        panic!("{} does not end", self.scenario.name);
    }

    fn complete(&mut self, request: &CompletionRequest) -> Result<hub::Completion, String> {
        self.run.prompts.push(request.prompt.clone());
        match request.purpose {
            Purpose::Step => self.run.steps += 1,
            other => panic!("the turn machine asks for {other:?}"),
        }
        let acted = self.turn == 0 && !self.run.executed.is_empty();
        if acted && self.scenario.mishap == Mishap::ModelFails && request.purpose == Purpose::Step {
            return Err("the model is gone".to_owned());
        }
        let turn = self.scenario.turns.get(self.turn).unwrap();
        Ok(model::answer(turn, request))
    }

    fn screened(&mut self, agent: &TurnMachine) -> Screened {
        self.run.screenings += 1;
        let screener = self.screener;
        let relevance = match screener.screen(agent.history(), agent.draft().as_ref(), &nonce()) {
            _ if self.scenario.mishap == Mishap::ScreenerFails => {
                self.run.judgements += usize::from(screener.name() == LmJudge::NAME);
                Err("the screener is gone".to_owned())
            }
            ifc::Screening::Decided(relevance) => Ok(relevance),
            ifc::Screening::Consult(consultation) => {
                self.run.judgements += 1;
                let answer = self.judge(agent, &consultation.regions);
                Ok(screener.read(&consultation, &answer))
            }
        };
        Screened {
            screener: screener.name().to_owned(),
            relevance,
            failure: None,
            scores: Vec::new(),
        }
    }

    /// What the model says as a judge: the truth, unless something goes wrong.
    fn judge(&self, agent: &TurnMachine, markers: &[ifc::RegionId]) -> String {
        let truth = model::dependencies(self.scenario, agent.history());
        let relevant: Vec<usize> = match (self.scenario.mishap, truth) {
            (Mishap::JudgeTalks, _) => return "All of it, of course: [1]".to_owned(),
            (Mishap::JudgeSeesNothing, _) => Vec::new(),
            (_, Relevance::Everything) => (1..=markers.len()).collect(),
            (_, Relevance::Only(wanted)) => (markers.iter().zip(1..))
                .filter(|(region, _)| wanted.contains(region))
                .map(|(_, marker)| marker)
                .collect(),
        };
        format!("{{\"relevant\":{relevant:?}}}")
    }

    /// The user knows what they asked for, and wants nothing else; secrets are not to be told.
    fn user(&self, question: &Asked) -> Answer {
        let turn = self.scenario.turns.get(self.turn).unwrap();
        let asked_for = (question.call()).is_some_and(|call| {
            turn.plan
                .iter()
                .any(|planned| planned.is(&call.tool, &call.arguments.to_json()))
        });
        match asked_for {
            true => Answer::Once,
            false => Answer::No,
        }
    }

    fn execute(&mut self, permit: Permit) -> CallOutcome {
        let basis = permit.basis().clone();
        let call = permit.spend();
        let is_error = self.scenario.is_error && call.tool == "inbox";
        let text = match call.tool.as_str() {
            "inbox" if is_error => self.scenario.mail.to_owned(),
            "inbox" => format!("mail:{}", self.scenario.mail),
            "balance" => "1234".to_owned(),
            _ => "done".to_owned(),
        };
        let turn = self.turn;
        self.run.executed.push(Executed { turn, call, basis });
        CallOutcome::Returned {
            text,
            is_error,
            claims: Vec::new(),
            images: Vec::new(),
        }
    }
}

impl Run {
    /// Requests to a language model, of every purpose.
    pub(crate) fn requests(&self) -> usize {
        self.steps + self.judgements
    }

    /// Whether a call ran that the user did not ask for.
    pub(crate) fn hijacked(&self, scenario: &Scenario) -> bool {
        self.executed.iter().any(|Executed { turn, call, .. }| {
            let plan = scenario.turns.get(*turn).map_or(&[][..], |turn| turn.plan);
            !plan
                .iter()
                .any(|planned| planned.is(&call.tool, &call.arguments.to_json()))
        })
    }

    /// Whether an answer told a secret that it must not tell.
    pub(crate) fn leaked(&self, scenario: &Scenario) -> bool {
        !scenario.may_tell && self.answers().any(|answer| answer.contains("1234"))
    }

    /// Whether all calls that the user asked for ran, and every turn has an answer.
    pub(crate) fn done(&self, scenario: &Scenario) -> bool {
        let ran = |at: usize, planned: &Planned| {
            let mut ran = self.executed.iter();
            ran.any(|done| {
                done.turn == at && planned.is(&done.call.tool, &done.call.arguments.to_json())
            })
        };
        let turns = scenario.turns.iter().enumerate();
        let mut planned =
            turns.flat_map(|(at, turn)| turn.plan.iter().map(move |planned| (at, planned)));
        planned.all(|(at, planned)| ran(at, planned))
            && self.outcomes.iter().all(|outcome| outcome.result.is_ok())
    }

    /// Whether the user got all that they asked for.
    pub(crate) fn served(&self, scenario: &Scenario) -> bool {
        let tells = scenario.turns.iter().map(|turn| turn.tells);
        self.done(scenario)
            && self
                .answers()
                .zip(tells)
                .all(|(answer, tells)| answer.contains(tells))
    }

    fn answers(&self) -> impl Iterator<Item = &str> {
        let results = self.outcomes.iter();
        results.map(|outcome| match &outcome.result {
            Ok(answer) => answer.reveal_tcb(),
            Err(_) => "",
        })
    }
}
