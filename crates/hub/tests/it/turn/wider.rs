//! A rule that accepts more never asks more: random small policies and runs, each under a policy and a wider one.
//!
//! The model has a plan, and proposes the first call of it that its prompt does not show. What a call carries comes from
//! the user or from a result. The user says yes to each question, which lowers no label here: an answer that does is an
//! input of its own, and the wider policy may not have it.

#![expect(clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hub::{AnswerShape, Need, Screening, TurnMachine};
use ifc::{
    Answer, ArgumentPath, Call, Effect, Exceeded, Label, Labeled, Lattice, Order, Policy,
    PolicyError, Prompt, PromptMessage, Relevance, Results, Rule, Sink, Tool,
};
use serde_json::{Value, json};

use super::{completion, returned, screened, settings, setup};
use crate::noninterference::random::Random;

/// Tools that read.
const READS: usize = 3;
const TOOLS: usize = READS + 3;

/// The limit of the argument `body`, and the read among whose results it may be, as far as these have this label.
#[derive(Clone, Debug)]
struct Data {
    limit: Label,
    among: Option<(usize, Label)>,
}

#[derive(Clone, Debug)]
struct ToolRule {
    limit: Label,
    data: Option<Data>,
    result: Label,
}

#[derive(Clone, Debug)]
struct Rules(Vec<ToolRule>);

/// Where the value of an argument comes from: the user's words, or the newest result of a read.
#[derive(Clone, Copy, Debug)]
enum From {
    User,
    Read(usize),
}

#[derive(Clone, Debug)]
struct Planned {
    tool: usize,
    to: From,
    body: From,
}

fn body() -> ArgumentPath {
    ArgumentPath::of("body")
}

fn name(tool: usize) -> String {
    format!("t{tool}")
}

fn number(tool: &str) -> usize {
    tool[1..].parse().unwrap()
}

fn text_of(read: usize) -> String {
    format!("text of {read}")
}

impl Policy for Rules {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        self.rule_after(&Results::none(), sink)
    }

    fn rule_after(&self, results: &Results<'_>, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let Sink::Call(call) = sink else {
            return Ok(Rule::asking("all", Effect::Read, Label::top()));
        };
        let own = &self.0[number(&call.tool)];
        let effect = match number(&call.tool) < READS {
            true => Effect::Read,
            false => Effect::Write,
        };
        let data = own.data.as_ref();
        let limit = data.zip(call.arguments.get("body")).map(|(data, value)| {
            let paths = [body()];
            let control = call.control_label(paths.iter());
            let accepting = data.among.as_ref().filter(|(read, labelled)| {
                let limit = labelled.meet(&control);
                let tool = name(*read);
                let mut known = results.of("app", &tool, &limit);
                let text = text_of(*read);
                value.reveal_tcb() == format!("{text:?}") && known.any(|it| it.knows(0..text.len()))
            });
            match accepting {
                Some((_, labelled)) => data.limit.join(labelled),
                None => data.limit.clone(),
            }
        });
        Ok(Rule {
            arguments: BTreeMap::from_iter(limit.map(|limit| (body(), limit))),
            exceeded: Exceeded::Ask,
            ..Rule::asking("limit", effect, own.limit.clone())
        })
    }

    fn floor(&self, _: &str, _: &str) -> Label {
        Label::bottom()
    }

    fn data_arguments(&self, _: &str, tool: &str) -> Vec<ArgumentPath> {
        let data = &self.0[number(tool)].data;
        data.iter().map(|_| body()).collect()
    }

    fn label_result(&self, call: &Call, result: String, _: bool) -> Labeled {
        Labeled::label_tcb(result, self.0[number(&call.tool)].result.clone())
    }
}

/// The next call of the plan, as far as a prompt shows what is done and what it needs.
fn next(plan: &[Planned], prompt: &Prompt) -> Option<(String, String)> {
    let mut done = BTreeSet::new();
    let mut read = BTreeMap::new();
    for message in prompt.messages() {
        match message {
            PromptMessage::Assistant { calls, .. } => done.extend(calls.iter().map(|call| {
                let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                arguments["n"].as_u64().unwrap()
            })),
            PromptMessage::Tool { tool, content, .. } => {
                read.insert(number(tool), content.clone());
            }
            _ => {}
        }
    }
    let mut left = (0..).zip(plan).filter(|(n, _)| !done.contains(n));
    let (n, planned) = left.next()?;
    let value = |from: From| match from {
        From::User => "word".to_owned(),
        From::Read(read_of) => {
            let shown = read.get(&read_of);
            shown.map_or("[redacted]".to_owned(), |text| text.trim().to_owned())
        }
    };
    let arguments = match planned.tool < READS {
        true => json!({ "n": n }),
        false => json!({ "n": n, "to": value(planned.to), "body": value(planned.body) }),
    };
    Some((name(planned.tool), arguments.to_string()))
}

/// The questions of a run.
fn questions(rules: &Rules, plan: &[Planned]) -> Vec<String> {
    let tools = (0..TOOLS).map(|tool| Tool {
        label: Label::bottom(),
        name: name(tool),
        description: Labeled::trusted_tcb("a tool"),
        parameters: Labeled::trusted_tcb("{}"),
    });
    let setup = setup(Arc::new(rules.clone()), settings(Screening::CHECKED));
    let mut agent = TurnMachine::new(setup, Labeled::trusted_tcb("be helpful"), tools.collect());
    agent.user(Labeled::trusted_tcb("do as planned")).unwrap();
    let mut asked = Vec::new();
    loop {
        match agent.poll() {
            Need::Screen => {
                let all = screened(Ok(Relevance::Everything));
                agent.handle_screened(all).unwrap();
            }
            Need::Complete(request) => {
                let next = next(plan, &request.prompt);
                let next = next.filter(|_| request.shape != AnswerShape::Text);
                let brought = match &next {
                    Some((tool, arguments)) => completion("", &[(tool, arguments)]),
                    None => completion("done", &[]),
                };
                agent.handle_completion("scripted", Ok(brought)).unwrap();
            }
            Need::Confirm(question) => {
                asked.push(question.call().unwrap().arguments.to_json());
                agent.handle_answer(question, Answer::Once).unwrap();
            }
            Need::Execute(permit) => {
                let call = permit.spend();
                let text = text_of(number(&call.tool));
                agent.handle_result(returned(text)).unwrap();
            }
            Need::User(_) => return asked,
            _ => panic!("nothing else is needed here"),
        }
    }
}

struct Maker {
    random: Random,
    labels: Vec<Label>,
}

impl Maker {
    fn new(seed: u64) -> Self {
        let categories =
            |names: &[&str]| Order::Categories(names.iter().map(|it| (*it).to_owned()).collect());
        let lattice = Lattice::new(&categories(&["mail", "web"]), &categories(&["card"])).unwrap();
        // No text here is what an app says of itself.
        let own = lattice.descriptions();
        let names = lattice
            .names()
            .filter(|name| *name != Lattice::DESCRIPTIONS);
        let labels = names.map(|name| lattice.label(name).unwrap().beyond(&own));
        let mut labels: Vec<Label> = labels.collect();
        labels.push(Label::bottom());
        labels.push(
            labels
                .iter()
                .fold(Label::bottom(), |all, one| all.join(one)),
        );
        Self {
            random: Random::new(seed),
            labels,
        }
    }

    fn label(&mut self) -> Label {
        self.random.pick(&self.labels).clone()
    }

    fn data(&mut self) -> Data {
        let among = self.random.chance(50);
        Data {
            limit: self.label(),
            among: among.then(|| (self.random.below(READS), self.label())),
        }
    }

    fn rules(&mut self) -> Rules {
        let tool = |tool| {
            let reads = tool < READS;
            ToolRule {
                limit: match reads {
                    true => Label::top(),
                    false => self.label(),
                },
                data: (!reads && self.random.chance(70)).then(|| self.data()),
                result: match reads {
                    true => self.label(),
                    false => Label::bottom(),
                },
            }
        };
        Rules((0..TOOLS).map(tool).collect())
    }

    /// Reads first, and what they returned is used afterwards.
    fn plan(&mut self) -> Vec<Planned> {
        let mut from = || match self.random.chance(60) {
            true => From::User,
            false => From::Read(self.random.below(READS)),
        };
        let mut plan = Vec::new();
        for tool in 0..READS {
            plan.push((tool, from(), from()));
        }
        for _ in 0..3 {
            let values = (from(), from());
            plan.push((READS, values.0, values.1));
        }
        let plan = plan.into_iter().map(|(tool, to, body)| Planned {
            tool: match tool < READS {
                true => tool,
                false => READS + self.random.below(TOOLS - READS),
            },
            to,
            body,
        });
        plan.collect()
    }

    /// The same rules, one of which accepts more.
    fn widen(&mut self, rules: &Rules) -> Rules {
        let mut wider = rules.clone();
        let label = self.label();
        let tool = READS + self.random.below(TOOLS - READS);
        let accepted = (self.random.below(READS), self.label());
        let own = &mut wider.0[tool];
        match (self.random.below(4), &mut own.data) {
            (0, _) | (1, None) => own.limit = own.limit.join(&label),
            (_, data @ None) => {
                *data = Some(Data {
                    limit: own.limit.join(&label),
                    among: None,
                });
            }
            (1, Some(data)) => data.limit = data.limit.join(&label),
            (_, Some(data)) => {
                let known = data.among.take();
                data.among = Some(match known {
                    Some((read, labelled)) => (read, labelled.join(&label)),
                    None => accepted,
                });
            }
        }
        wider
    }
}

#[test]
fn a_rule_that_accepts_more_never_asks_more() {
    for seed in 0..500 {
        let mut maker = Maker::new(seed);
        let (rules, plan) = (maker.rules(), maker.plan());
        let wider = maker.widen(&rules);
        let (few, more) = (questions(&wider, &plan), questions(&rules, &plan));
        assert!(
            few.len() <= more.len(),
            "seed {seed}: {few:?} where there were {more:?}\n{plan:#?}\n{rules:#?}\n{wider:#?}"
        );
    }
}
