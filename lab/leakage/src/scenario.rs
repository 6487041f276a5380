//! A prepared task: its world after the earlier exchanges, the conversation so far, and the ground truth.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use config::Config;
use ifc::{Call, History, Label, Labeled, Policy, REDACTED, RegionId, Relevance, Tool};
use serde_json::Value;

use crate::app::{Arguments, World};
use crate::domain::Domain;
use crate::seen::Seen;
use crate::task::{Categories, Place, Task, TrueCall, ValueSource, places, words};

/// A task with everything that a run needs.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its domain.
    pub domain: Arc<Domain>,
    /// The task.
    pub task: Task,
    /// The world when the user speaks.
    pub(crate) world: World,
    /// What truly has to be done.
    pub truth: Truth,
    exchanges: Vec<Exchange>,
    secrets: Vec<Secret>,
}

/// The results of the ground truth in this world.
#[derive(Debug, Clone)]
pub struct Truth {
    /// The arguments of the calls, in the order of the task's.
    pub calls: Vec<Arguments>,
    /// What results must be told to the user.
    pub told: Vec<String>,
    /// What the calls returned, by tool, with what was seen before.
    seen: Seen,
}

#[derive(Debug, Clone)]
struct Exchange {
    user: String,
    calls: Vec<(String, Arguments, Value)>,
    answer: String,
}

/// A private value that stands in a result.
#[derive(Debug, Clone)]
struct Secret {
    text: String,
    categories: Categories,
}

impl Scenario {
    /// Prepares a task.
    ///
    /// # Errors
    /// The ground truth does not run: the task or its world is wrong.
    pub fn new(domain: &Arc<Domain>, task: &Task) -> Result<Self> {
        let made = Self::prepare(domain, task);
        made.with_context(|| format!("the task {}", task.id))
    }

    fn prepare(domain: &Arc<Domain>, task: &Task) -> Result<Self> {
        let mut world = World::new(&domain.app);
        let mut seen = Seen::default();
        let mut results = Vec::new();
        let mut exchanges = Vec::new();
        for name in &task.prior {
            let prior = domain
                .tasks
                .prior
                .get(name)
                .with_context(|| format!("no exchange {name}"))?;
            let mut calls = Vec::new();
            for call in &prior.calls {
                let result = world.call(&domain.app, &call.tool, &call.args);
                let result = result.map_err(|error| anyhow!("{name}: {error}"))?;
                seen.saw(&call.tool, result.clone());
                results.push((call.tool.clone(), call.args.clone(), result.clone()));
                calls.push((call.tool.clone(), call.args.clone(), result));
            }
            let answer = seen
                .text(&prior.answer)
                .with_context(|| format!("{name}: no answer"))?;
            exchanges.push(Exchange {
                user: prior.user.clone(),
                calls,
                answer: words(&answer),
            });
        }
        // The ground truth runs in a copy: runs of the task begin in the world before it.
        let mut after = world.clone();
        let mut calls = Vec::new();
        for call in &task.calls {
            ensure!(
                seen.wants(call) == Some(true),
                "the condition of {} does not hold",
                call.tool
            );
            let arguments = seen.arguments(call, None);
            let arguments =
                arguments.with_context(|| format!("{}: a value is nowhere", call.tool))?;
            let result = after.call(&domain.app, &call.tool, &arguments);
            let result = result.map_err(|error| anyhow!("{}: {error}", call.tool))?;
            seen.saw(&call.tool, result.clone());
            let flows = call.args.values().map(|argument| &argument.flows);
            // What a call with private data returns may tell of it, and makes nothing public.
            if call.control.is_empty() && flows.into_iter().all(Categories::is_empty) {
                results.push((call.tool.clone(), arguments.clone(), result));
            }
            calls.push(arguments);
        }
        let told = places(&task.answer).into_iter().map(|place| {
            let value = seen.at(&place).map(words);
            value.with_context(|| format!("nothing stands at {place}"))
        });
        let told = told.collect::<Result<_>>()?;
        let mut scenario = Self {
            domain: Arc::clone(domain),
            task: task.clone(),
            world,
            truth: Truth { calls, told, seen },
            exchanges,
            secrets: Vec::new(),
        };
        scenario.secrets = scenario.find_secrets(&results)?;
        Ok(scenario)
    }

    /// The tools as a model is told of them.
    pub(crate) fn tools(&self) -> Vec<Tool> {
        let tool = |tool: &crate::app::Tool| Tool {
            label: Label::bottom(),
            name: tool.name.clone(),
            description: Labeled::trusted_tcb(tool.description.as_str()),
            parameters: Labeled::trusted_tcb(tool.schema().to_string()),
        };
        self.domain.app.tools.iter().map(tool).collect()
    }

    /// The conversation up to the user's words, with the labels of a policy. It is the same for every
    /// defence: the earlier exchanges depended on no private data, so their calls have no label.
    pub(crate) fn history(&self, policy: &dyn Policy) -> History {
        let mut history = History::new(self.tools());
        history.push_system(Labeled::trusted_tcb(self.domain.app.about.system.as_str()));
        let public = Label::bottom();
        for exchange in &self.exchanges {
            history.push_user(Labeled::trusted_tcb(exchange.user.as_str()));
            let mut label = Label::bottom();
            let calls = exchange.calls.iter().map(|(tool, arguments, _)| {
                let arguments = Value::Object(arguments.clone()).to_string();
                (tool.clone(), Labeled::trusted_tcb(arguments))
            });
            let ids = history.push_assistant(&public, Labeled::trusted_tcb(""), calls);
            for (id, (tool, arguments, result)) in ids.into_iter().zip(&exchange.calls) {
                let content = self.labelled(policy, tool, arguments, result);
                label = label.join(&content.label());
                history.push_result(&public, id, content);
            }
            // What was said of results depends on all of them.
            let answer = Labeled::label_tcb(exchange.answer.as_str(), label);
            history.push_assistant(&public, answer, []);
        }
        history.push_user(Labeled::trusted_tcb(self.task.user.as_str()));
        history
    }

    /// A result with the labels of a policy.
    fn labelled(
        &self,
        policy: &dyn Policy,
        tool: &str,
        arguments: &Arguments,
        result: &Value,
    ) -> Labeled {
        let arguments = Value::Object(arguments.clone()).to_string();
        let call = Call {
            app: self.domain.name().to_owned(),
            tool: tool.to_owned(),
            arguments: ifc::Arguments::parse(&arguments, &Label::bottom()).unwrap_or_default(),
            label: Label::bottom(),
        };
        policy.label_result(&call, result.to_string(), false)
    }

    /// Every private value of the results, unless the user says it too or it is public elsewhere.
    fn find_secrets(&self, results: &[(String, Arguments, Value)]) -> Result<Vec<Secret>> {
        let config = &self.domain.config;
        let policy = config.policy();
        let mut found = Vec::new();
        // What the user says, or what stands in public text as well, tells nothing where it turns up.
        let mut public = vec![self.task.user.to_lowercase()];
        for (tool, arguments, result) in results {
            let content = self.labelled(&policy, tool, arguments, result);
            for (pointer, text) in leaves(result) {
                let label = label_of(&content, result, &pointer)?;
                let categories = secret(config, &label);
                match categories.is_empty() {
                    true => public.push(text.to_lowercase()),
                    false => found.push(Secret { text, categories }),
                }
            }
        }
        // One character says too little.
        let is_public = |text: &str| {
            public
                .iter()
                .any(|public| public.contains(&text.to_lowercase()))
        };
        found.retain(|secret| secret.text.chars().count() > 1 && !is_public(&secret.text));
        Ok(found)
    }

    /// The private categories whose values stand in an argument.
    pub fn categories_in(&self, value: &Value) -> Categories {
        let text = words(value);
        let within = self
            .secrets
            .iter()
            .filter(|secret| text.contains(&secret.text));
        within
            .flat_map(|secret| secret.categories.clone())
            .collect()
    }

    /// The private categories that the conversation shows before the task, or that its calls bring.
    pub fn categories_in_sight(&self) -> Categories {
        let secrets = self.secrets.iter();
        secrets
            .flat_map(|secret| secret.categories.clone())
            .collect()
    }

    /// The private categories that stand at a place at the end of the true run, by the policy.
    pub fn categories_at(&self, place: &Place) -> Result<Categories> {
        let config = &self.domain.config;
        let result = self.truth.seen.at(&Place {
            tool: place.tool.clone(),
            pointer: String::new(),
        });
        let result = result.with_context(|| format!("{} was not called", place.tool))?;
        let content = self.labelled(&config.policy(), &place.tool, &Arguments::new(), result);
        Ok(secret(config, &label_of(&content, result, &place.pointer)?))
    }

    /// The regions that the next call of the ground truth is made from; everything if only the answer is left.
    pub(crate) fn relevant(&self, history: &History) -> Relevance {
        let made = made_in(history);
        let made = made
            .iter()
            .map(|(tool, arguments)| (tool.as_str(), arguments.as_ref()));
        let done = self.done(made);
        let mut calls = self.task.calls.iter().zip(&done);
        let Some((call, _)) = calls.find(|(_, done)| !**done) else {
            return Relevance::Everything;
        };
        let condition = call.condition.iter().map(|it| it.at.clone());
        let places = condition.chain(call.args.values().flat_map(|value| value.places()));
        Relevance::Only(
            places
                .flat_map(|place| self.regions(history, &place))
                .collect(),
        )
    }

    /// The labelled regions of a tool's results that show the value at a place.
    fn regions(&self, history: &History, place: &Place) -> Vec<RegionId> {
        let Some(value) = self.truth.seen.at(place).map(words) else {
            return Vec::new();
        };
        let source = ifc::Source::Tool(place.tool.clone());
        let regions = history.regions().filter(|region| {
            !region.label.is_bottom()
                && region.source == source
                && region.reveal_tcb().contains(&value)
        });
        regions.map(|region| region.id).collect()
    }

    /// Which calls of the ground truth are among those that were made, in any order.
    pub(crate) fn done<'a>(
        &self,
        made: impl Iterator<Item = (&'a str, Option<&'a Arguments>)>,
    ) -> Vec<bool> {
        let mut done = vec![false; self.task.calls.len()];
        for (tool, arguments) in made {
            let mut open = done.iter_mut().zip(&self.task.calls);
            let same = open.find(|(done, call)| !**done && fits(call, tool, arguments));
            if let Some((done, _)) = same {
                *done = true;
            }
        }
        done
    }
}

/// Whether a call that was made can be this one of the ground truth: what the user said is in it. Of
/// arguments that are masked nobody can tell.
pub(crate) fn fits(call: &TrueCall, tool: &str, arguments: Option<&Arguments>) -> bool {
    // The redactor's stand-in for arguments that are masked as a whole.
    let Some(made) = arguments.filter(|made| !made.contains_key("redacted")) else {
        return call.tool == tool;
    };
    let same = |(name, argument): (&String, &crate::task::Argument)| match &argument.source {
        ValueSource::Fixed(value) => {
            let found = made.get(name);
            found == Some(value) || found.and_then(Value::as_str) == Some(REDACTED)
        }
        ValueSource::Text(_) | ValueSource::Choice(..) => true,
    };
    call.tool == tool && call.args.iter().all(same)
}

/// The calls of the turn under way.
fn made_in(history: &History) -> Vec<(String, Option<Arguments>)> {
    let mut made = Vec::new();
    for (_, message) in history.messages() {
        match message {
            ifc::Message::User(_) => made.clear(),
            ifc::Message::Assistant { calls, .. } => made.extend(calls.iter().map(|call| {
                let arguments = serde_json::from_str(call.arguments.reveal_tcb()).ok();
                (call.tool.clone(), arguments)
            })),
            _ => {}
        }
    }
    made
}

/// The private categories of a label. One that nobody knows has all of them.
pub(crate) fn secret(config: &Config, label: &Label) -> Categories {
    let taints = config.lattice.taints();
    let of_label = taints.filter(|(_, taint)| taint.flows_to(label));
    of_label
        .filter_map(|(name, _)| name.strip_prefix("secret:").map(str::to_owned))
        .collect()
}

/// The ends of a JSON value: their pointers and texts.
fn leaves(value: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![(String::new(), value)];
    while let Some((pointer, value)) = open.pop() {
        match value {
            Value::Array(items) => {
                open.extend(
                    items
                        .iter()
                        .enumerate()
                        .map(|(at, item)| (format!("{pointer}/{at}"), item)),
                );
            }
            Value::Object(fields) => {
                open.extend(
                    fields
                        .iter()
                        .map(|(name, field)| (format!("{pointer}/{name}"), field)),
                );
            }
            leaf => {
                found.insert(pointer, words(leaf));
            }
        }
    }
    found
}

/// The label of the value at a pointer, in the text of a result.
fn label_of(content: &Labeled, result: &Value, pointer: &str) -> Result<Label> {
    /// Stands in no result.
    const MARK: &str = "\u{e000}";
    let mut marked = result.clone();
    let place = marked.pointer_mut(pointer);
    let place = place.with_context(|| format!("nothing stands at {pointer}"))?;
    // A mark where the value's first character stands: within the quotes of a string.
    let quote = usize::from(!place.is_string());
    *place = Value::from(MARK);
    let at = marked.to_string().find(MARK).context("the mark is lost")?;
    Ok(content.label_at(at - quote))
}
