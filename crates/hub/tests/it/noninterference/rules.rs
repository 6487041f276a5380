//! The policy of a world, and of the unprotected agent.

use std::sync::Arc;

use ifc::{
    ArgumentPath, Call, Effect, Exceeded, Label, Labeled, Policy, PolicyError, Results, Rule, Sink,
};

use super::data::{CONTROL, DATA, is_of_form};
use super::random::hash;
use super::world::{Accepts, Field, ToolSpec, World};

/// The policy of a world: what stands in its tools.
pub(crate) struct Rules(pub(crate) World);

/// The limit of a call, by the tests' own reading of the world.
pub(crate) fn limit<'a>(spec: &'a ToolSpec, call: &Call) -> Option<&'a Label> {
    let odd = hash(&[&looked_at(spec, call)]) % 2 == 1;
    let limit = spec.limit.as_ref()?;
    Some(if odd { &spec.odd_limit } else { limit })
}

/// What of a call its rule looks at: not what an argument only carries.
fn looked_at(spec: &ToolSpec, call: &Call) -> String {
    match (&spec.data_limit, call.arguments.get(CONTROL)) {
        (Some(_), Some(control)) => control.reveal_tcb().to_owned(),
        _ => call.arguments.to_json(),
    }
}

/// What is wrong with a call's arguments, if they are not what its tool takes. The words tell of all that it has.
fn wrong(spec: &ToolSpec, call: &Call) -> Option<String> {
    let is_wrong = hash(&[&looked_at(spec, call), "kind"]).is_multiple_of(WRONG);
    // Most worlds are about what was read.
    let is_wrong = is_wrong && spec.effect != Effect::Read;
    is_wrong.then(|| format!("wrong {:x}", hash(&[&call.arguments.to_json()])))
}

/// One call in so many that writes has arguments that its tool does not take.
const WRONG: u64 = 16;

impl Rules {
    fn of_call(&self, results: &Results<'_>, call: &Call) -> Result<Rule, PolicyError> {
        let spec = self.0.tool(call);
        let found = spec.and_then(|spec| Some((spec, limit(spec, call)?)));
        let (spec, limit) = found.ok_or_else(|| PolicyError("no rule".to_owned()))?;
        if let Some(why) = wrong(spec, call) {
            return Err(PolicyError(why));
        }
        Ok(Rule {
            same_by: None,
            counted: None,
            limit: limit.clone(),
            effect: spec.effect,
            name: format!("{}.limit", call.tool),
            always_ask: spec.always_ask,
            approvers: None,
            exceeded: Exceeded::Ask,
            arguments: (spec.data_limit.iter())
                .map(|limit| {
                    let more = self.accepted(results, call, spec);
                    (
                        self.0.nests.path(),
                        limit.join(&more.unwrap_or(Label::bottom())),
                    )
                })
                .collect(),
        })
    }

    /// What the data argument may have besides, if its value is accepted.
    fn accepted(&self, results: &Results<'_>, call: &Call, spec: &ToolSpec) -> Option<Label> {
        let (values, more) = spec.accepts.as_ref()?;
        let word = call.arguments.get(DATA)?.reveal_tcb().trim_matches('"');
        let accepted = match values {
            Accepts::Form => is_of_form(word),
            Accepts::Among => {
                let tools = self.0.tools.iter();
                let mut read = tools.flat_map(|it| results.of(it.app, &it.name, &call.label));
                read.any(|result| {
                    let text = result.reveal_tcb();
                    let mut places = text.match_indices(word);
                    places.any(|(at, word)| result.knows(at..at + word.len()))
                })
            }
        };
        accepted.then(|| more.clone())
    }
}

/// A rule with this limit, if there is one.
fn limited(name: &str, effect: Effect, limit: Option<&Label>) -> Result<Rule, PolicyError> {
    let limit = limit.ok_or_else(|| PolicyError("no rule".to_owned()))?;
    Ok(Rule::asking(name, effect, limit.clone()))
}

fn denying(rule: Rule) -> Rule {
    Rule {
        exceeded: Exceeded::Deny,
        ..rule
    }
}

/// The unprotected agent (Algorithm 1): nothing is labelled, and nothing is limited.
pub(crate) struct Unlimited;

impl Policy for Unlimited {
    fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
        limited("unlimited", Effect::Read, Some(&Label::top())).map(denying)
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        Labeled::trusted_tcb(result)
    }
}

impl Policy for Rules {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        self.rule_after(&Results::none(), sink)
    }

    fn rule_after(&self, results: &Results<'_>, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let world = &self.0;
        match sink {
            Sink::Call(call) => self.of_call(results, call),
            Sink::Answer(_) => limited("answer.limit", Effect::Read, world.answer_limit.as_ref()),
            Sink::MemoryWrite(_) => {
                limited("memory.limit", Effect::Write, world.memory_limit.as_ref()).map(denying)
            }
            Sink::Address(_) => limited(
                "answer.addresses",
                Effect::Read,
                world.address_limit.as_ref(),
            )
            .map(denying),
            Sink::Delivery(delivery) => {
                let service = self.0.services.iter();
                let mut named = service.filter(|service| service.name == delivery.functionality);
                let service = named.next();
                let service = service.ok_or_else(|| PolicyError("no rule".to_owned()))?;
                Ok(service.rule(delivery.stage))
            }
            _ => Err(PolicyError("no rule".to_owned())),
        }
    }

    fn data_arguments(&self, app: &str, tool: &str) -> Vec<ArgumentPath> {
        let mut tools = self.0.tools.iter();
        let spec = tools.find(|spec| spec.app == app && spec.name == tool);
        let has_data = spec.is_some_and(|spec| spec.data_limit.is_some());
        has_data.then(|| self.0.nests.path()).into_iter().collect()
    }

    fn parameters(&self, app: &str, tool: &str) -> Option<Arc<str>> {
        let mut tools = self.0.tools.iter();
        let spec = tools.find(|spec| spec.app == app && spec.name == tool)?;
        // The user has rules for what both sides have.
        let is_declared = spec.only.is_none() && hash(&[app, tool]).is_multiple_of(2);
        is_declared.then(|| r#"{"type":"object","properties":{"a":{}}}"#.into())
    }

    fn check_arguments(&self, call: &Call) -> Result<(), String> {
        let spec = self.0.tool(call);
        spec.and_then(|spec| wrong(spec, call)).map_or(Ok(()), Err)
    }

    /// Labels the values of the tool's fields, in place. An error is as restrictive as all of them.
    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        let Some(spec) = self.0.tool(call) else {
            return Labeled::unknown(result);
        };
        if is_error {
            let all = spec.fields.iter().flat_map(Field::labels);
            return Labeled::label_tcb(result, all.collect());
        }
        let arguments = call.arguments.to_json();
        let mut regions = Vec::new();
        let mut at = 0;
        for line in result.split_inclusive('\n') {
            let whole = line.trim_end_matches('\n');
            let field = spec.fields.iter().find_map(|field| {
                let [plain, member] =
                    [format!("{}: ", field.name), format!(",\"{}\":", field.name)];
                let value = whole
                    .strip_prefix(&plain)
                    .or_else(|| whole.strip_prefix(&member))?;
                Some((field, at + whole.len() - value.len(), value))
            });
            if let Some((field, mut start, value)) = field {
                // A part owns the bar before it, and the first may be empty: even an empty text
                // above the limit is a region.
                for (part, text) in value.split(['|', '\t']).enumerate() {
                    let end = start + text.len() + usize::from(part > 0);
                    regions.push((start..end, field.part(part, &arguments)));
                    start = end;
                }
            }
            at += line.len();
        }
        Labeled::with_regions_tcb(result, regions).unwrap()
    }
}
