//! Tasks and attacks as they are written, and the plans that they come to in a world.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::world::World;

/// What a customer asks for, and what the best agent does; or what a stranger writes, and what obeying it does.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    pub(super) id: String,
    /// The customer who is signed in.
    #[serde(default)]
    pub(super) customer: String,
    pub(super) say: String,
    steps: Vec<Step>,
    #[serde(default)]
    answer: String,
    /// What the customer says after the answer, and so on.
    #[serde(default)]
    then: Vec<Turn>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    say: String,
    steps: Vec<Step>,
    answer: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    tool: String,
    arguments: Map<String, Value>,
    /// Values that decide whether it is made.
    #[serde(rename = "if", default)]
    decides: Vec<String>,
}

#[derive(Deserialize)]
struct Tasks {
    task: Vec<Task>,
}

/// The tasks of the suite.
pub(super) fn tasks() -> Result<Vec<Task>> {
    let read: Tasks = toml::from_str(include_str!("../../service/tasks.toml"))?;
    Ok(read.task)
}

/// The attacks of the suite.
pub(super) fn attacks() -> Result<Vec<Task>> {
    let read: Tasks = toml::from_str(include_str!("../../service/attacks.toml"))?;
    Ok(read.task)
}

/// The calls that a task takes in a world, and what has to be seen for each.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub(super) calls: Vec<Planned>,
    pub(super) turns: Vec<Answered>,
}

#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) needs: Vec<Needed>,
}

/// A message of the customer, and its answer.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    pub(super) say: String,
    /// How many of the calls come before the answer.
    pub(super) calls: usize,
    pub(super) answer: String,
    pub(super) needs: Vec<Needed>,
}

/// A value of an earlier result.
#[derive(Debug, Clone)]
pub(super) struct Needed {
    /// The call whose result has it.
    pub(super) call: usize,
    /// As it stands in the result's JSON.
    pub(super) json: String,
    /// The argument that it is for; none if it decides over the call.
    pub(super) argument: Option<String>,
}

impl Plan {
    /// Makes every call once, in a copy of the world.
    pub(super) fn of(task: &Task, world: &World) -> Result<Self> {
        let (mut plan, mut world, mut results) = (Self::default(), world.clone(), Vec::new());
        let first = (&task.say, &task.steps, &task.answer);
        let then = task.then.iter().map(|it| (&it.say, &it.steps, &it.answer));
        for (say, steps, answer) in std::iter::once(first).chain(then) {
            for step in steps {
                let mut needs = Vec::new();
                let arguments = step.arguments.iter().map(|(name, value)| {
                    let value = match value.as_str() {
                        Some(text) => filled(text, &results, Some(name), &mut needs)?,
                        None => value.clone(),
                    };
                    anyhow::Ok((name.clone(), value))
                });
                let arguments = arguments.collect::<Result<_>>()?;
                for value in &step.decides {
                    filled(value, &results, None, &mut needs)?;
                }
                results.push(world.call(&step.tool, &arguments)?);
                let tool = step.tool.clone();
                plan.calls.push(Planned {
                    tool,
                    arguments,
                    needs,
                });
            }
            let mut needs = Vec::new();
            let answer = filled(answer, &results, None, &mut needs)?;
            plan.turns.push(Answered {
                say: say.clone(),
                calls: plan.calls.len(),
                answer: plain(&answer),
                needs,
            });
        }
        Ok(plan)
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// A text with the values of earlier results in it. A text that is one placeholder is that value.
fn filled(
    text: &str,
    results: &[Value],
    argument: Option<&String>,
    needs: &mut Vec<Needed>,
) -> Result<Value> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (place, after) = after.split_once('}').context("a placeholder has no end")?;
        let (call, pointer) = place.split_at(place.find('/').unwrap_or(place.len()));
        let call: usize = call.parse()?;
        let value = results.get(call).and_then(|it| it.pointer(pointer));
        let value = value.with_context(|| format!("there is no value at {place}"))?;
        let (json, argument) = (value.to_string(), argument.cloned());
        needs.push(Needed {
            call,
            json,
            argument,
        });
        if before.is_empty() && after.is_empty() && out.is_empty() {
            return Ok(value.clone());
        }
        out = out + before + &plain(value);
        rest = after;
    }
    Ok(Value::String(out + rest))
}
