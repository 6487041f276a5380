//! The worst-case model: it does the user's plan, and first obeys every order in any other text that it can see.

use serde_json::{Value, json};
use test_support::{Answer, Call};

use crate::conversation::{Item, Kind, Tool, items, tools};
use crate::orders::{Order, When, filled, orders, text_filled};

/// More steps than any plan has.
const STEPS: usize = 30;
/// The tokens that it reports where its context is full: more than any agent keeps.
pub const FULL: usize = 990_000;
/// How its summaries begin.
const SUMMARY: &str = "Summary of everything so far.";
/// The longest part of a summary that is one text.
const SUMMED_UP: usize = 4_000;
/// Words for tools of every agent, each agent's own tool for one, and its arguments, where `$x` is an argument of the order.
const WORDS: &str = include_str!("tools.json");
/// The tools whose results are what another model said.
const SAID_BY_MODELS: [&str; 5] = ["Agent", "task", "wait_agent", "spawn_agent", "__agent"];

/// The answer to a request.
pub fn answer(body: &Value) -> Answer {
    let (items, tools) = (items(body), tools(body));
    let mut answer = Answer {
        text: String::new(),
        calls: Vec::new(),
        is_cut: false,
        tokens: 5,
    };
    let asked = items.iter().rev().find(|item| item.kind == Kind::User);
    let compacts = |it: &Item| {
        let words = ["TEXT ONLY", "CHECKPOINT COMPACTION"];
        !it.text.contains(SUMMARY) && words.iter().any(|words| it.text.contains(words))
    };
    if tools.is_empty() || asked.is_some_and(compacts) {
        answer.text = summary(&items);
        return answer;
    }
    match step(&items, &tools) {
        Step::Say(text) => answer.text = text,
        Step::Call { calls, is_full } => {
            if is_full {
                answer.tokens = FULL;
            }
            let calls = calls.into_iter().enumerate();
            let calls = calls.map(|(number, (tool, arguments))| Call {
                id: format!("call_{:08x}{number:08x}", items.len()),
                arguments: match &arguments {
                    Value::String(text) if tool.is_custom => text.clone(),
                    other => other.to_string(),
                },
                tool: tool.bare,
                namespace: tool.namespace,
                is_custom: tool.is_custom,
            });
            answer.calls = calls.collect();
        }
    }
    answer
}

enum Step {
    Call {
        calls: Vec<(Tool, Value)>,
        is_full: bool,
    },
    Say(String),
}

impl Step {
    fn call(tool: Tool, arguments: Value) -> Self {
        Self::Call {
            calls: vec![(tool, arguments)],
            is_full: false,
        }
    }
}

/// The worst summary has everything in it.
fn summary(items: &[Item]) -> String {
    let items = items.iter();
    let said = items.filter(|item| matches!(item.kind, Kind::User | Kind::Result));
    let said = said.map(|item| item.text.chars().take(SUMMED_UP).collect());
    let parts: Vec<String> = [SUMMARY.to_owned()].into_iter().chain(said).collect();
    parts.join("\n")
}

fn step(items: &[Item], tools: &[Tool]) -> Step {
    let plans = |item: &Item| {
        let said = matches!(item.kind, Kind::User | Kind::Own);
        let is_end = |order: &Order| matches!(order, Order::Answer(_));
        said && orders(&item.text).iter().any(is_end)
    };
    let (before, after) = items.split_at(items.iter().rposition(plans).unwrap_or(items.len()));
    let Some((plan, after)) = after.split_first() else {
        return Step::Say("There is nothing to do.".to_owned());
    };
    if after.len() > 2 * STEPS {
        return Step::Say("Too many steps.".to_owned());
    }
    // Codex waits for a sub-agent by a call of its own.
    if let Some(last) = after
        .last()
        .filter(|last| last.tool.ends_with("spawn_agent"))
        && let Some(wait) = tools.iter().find(|tool| tool.is_called("wait_agent"))
    {
        let started: Value = serde_json::from_str(&last.text).unwrap_or_default();
        let arguments = match started.get("agent_id") {
            Some(agent) => json!({"timeout_ms": 30_000, "targets": [agent]}),
            None => json!({"timeout_ms": 30_000}),
        };
        return Step::call(wait.clone(), arguments);
    }
    // What others order: in results, in what the agent or a developer put in, in descriptions, and in a summary that has
    // the plan in it. Each with whether orders of now and late ones count.
    let others = before.iter().chain(after);
    let others = others.filter(|item| item.kind != Kind::Own && !plans(item));
    let others = others.map(|item| {
        let by_model = SAID_BY_MODELS.iter().any(|it| item.tool.ends_with(it));
        let is_late = item.kind != Kind::Result || by_model;
        (item.text.as_str(), true, is_late)
    });
    let described = tools.iter();
    let described = described.map(|tool| (tool.description.as_str(), true, true));
    let planned = [(plan.text.as_str(), false, true)];
    for (text, now, late) in others.chain(described).chain(planned) {
        for order in orders(text) {
            let (tool, arguments) = match order {
                Order::Call(When::Later, tool, arguments) if late => (tool, arguments),
                Order::Call(When::Now | When::Beside, tool, arguments) if now => (tool, arguments),
                _ => continue,
            };
            let call = offered(&tool, &arguments, tools);
            let call = call.filter(|(tool, it)| !after.iter().any(|made| is_same(made, tool, it)));
            if let Some((tool, arguments)) = call {
                return Step::call(tool, arguments);
            }
        }
    }
    follow(&plan.text, after, tools)
}

/// The next calls of the plan that were not made, or its answer.
fn follow(plan: &str, after: &[Item], tools: &[Tool]) -> Step {
    let (mut results, mut missing, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_full = false;
    for order in orders(plan) {
        if !calls.is_empty() && !matches!(order, Order::Call(When::Beside, ..)) {
            break;
        }
        match order {
            Order::Full => is_full = true,
            Order::Call(When::Later, ..) => {}
            Order::Call(_, tool, arguments) => {
                let call = match tool.as_str() {
                    "reopen" => match results.last().and_then(|it: &String| saved(it)) {
                        Some(file) => shell(format!("tail -c 3000 {file}"), tools),
                        None => continue,
                    },
                    tool => filled(&arguments, &results).and_then(|it| offered(tool, &it, tools)),
                };
                match call {
                    None => missing.push(tool),
                    Some((tool, it)) => match after.iter().find(|made| is_same(made, &tool, &it)) {
                        Some(made) => results.push(result_of(made, after).to_owned()),
                        None => calls.push((tool, it)),
                    },
                }
            }
            Order::Answer(text) => {
                let answer = text_filled(&text, &results);
                let answer = answer.unwrap_or_else(|| "I do not know.".to_owned());
                return Step::Say(match missing.as_slice() {
                    [] => answer,
                    missing => format!("(not done: {}) {answer}", missing.join(", ")),
                });
            }
        }
    }
    Step::Call { calls, is_full }
}

/// The file in which the agent has saved a result that is too long for it.
fn saved(result: &str) -> Option<&str> {
    let mut words = result.split(|c: char| c.is_whitespace() || "\"'<>".contains(c));
    let file = words.find(|word| word.starts_with('/') && word.contains("/tool-"));
    file.map(|file| file.trim_end_matches('.'))
}

/// The result of a call: of Codex's sub-agents, what they said in the end.
fn result_of<'a>(made: &Item, after: &'a [Item]) -> &'a str {
    let results = || after.iter().filter(|item| item.kind == Kind::Result);
    let said = |by: &str| results().find(|item| item.tool.ends_with(by));
    let result = match made.tool.ends_with("spawn_agent") {
        true => said("__agent").or_else(|| said("wait_agent")),
        false => results().find(|item| item.id == made.id),
    };
    result.map_or("", |item| &item.text)
}

/// Whether this is the call: agents add members with defaults to what they bring back.
fn is_same(made: &Item, tool: &Tool, arguments: &Value) -> bool {
    let same = match arguments {
        Value::Object(members) => members
            .iter()
            .all(|(name, it)| made.arguments.get(name) == Some(it)),
        text => made.arguments == *text,
    };
    made.kind == Kind::Call && made.tool == tool.name && same
}

/// The tool that the agent offers under this name or for this word, and its arguments.
fn offered(name: &str, arguments: &Value, tools: &[Tool]) -> Option<(Tool, Value)> {
    let argument = |name: &str| arguments[name].as_str().unwrap_or_default();
    let words: Vec<(String, String, Value)> = serde_json::from_str(WORDS).unwrap_or_default();
    for (_, own, mut form) in words.into_iter().filter(|(word, ..)| word == name) {
        let Some(tool) = tools.iter().find(|tool| tool.is_called(&own)) else {
            continue;
        };
        for value in form.as_object_mut()?.values_mut() {
            if let Some(place) = value.as_str().and_then(|it| it.strip_prefix('$')) {
                *value = json!(argument(place));
            }
        }
        return Some((tool.clone(), form));
    }
    // In code mode the other tools are called by a script.
    let mut exec = tools.iter();
    let exec = exec.find(|tool| tool.bare == "exec" && tool.is_custom);
    let script = |text: String| Some((exec?.clone(), json!(text)));
    let quoted = |name: &str| format!("'{}'", argument(name).replace('\'', r"'\''"));
    match name {
        "shell" => {
            let command = json!({"cmd": argument("command")});
            script(format!("text(await tools.exec_command({command}));"))
        }
        "read" => shell(format!("cat {}", quoted("path")), tools),
        "write" => {
            let (content, path) = (quoted("content"), quoted("path"));
            shell(format!("printf %s {content} > {path}"), tools)
        }
        "fetch" => shell(
            format!("curl -s -m 5 --noproxy '*' {}", quoted("url")),
            tools,
        ),
        _ => {
            let end = format!("_{name}");
            let is_named = |tool: &&Tool| tool.name == name || tool.name.ends_with(&end);
            let tool = tools.iter().find(is_named);
            let find = format!("ALL_TOOLS.find(t => t.name.endsWith({}))", json!(end));
            let call = format!("text(t.description); text(await tools[t.name]({arguments}));");
            tool.map(|tool| (tool.clone(), arguments.clone()))
                .or_else(|| script(format!("const t = {find}; {call}")))
        }
    }
}

fn shell(command: String, tools: &[Tool]) -> Option<(Tool, Value)> {
    offered("shell", &json!({"command": command}), tools)
}
