//! A model that can be swayed: everything it does is decided by every byte it is shown, and it
//! obeys instructions wherever it finds them. Some are stubborn: what they call is decided by how
//! often they have spoken, so that it can do without most of what they see.

use hub::isc::PREFIX;
use hub::{
    AnswerShape, CHECK_NOTE, Completion, CompletionRequest, ProposedCall, Purpose, StopReason,
};
use ifc::{Image, Prompt, PromptMessage, PromptTool};
use serde_json::Value;

use super::addresses;
use super::random::{Random, hash};
use super::shown;
use super::world::words;

/// The whole of what a model is shown, as one text.
pub(crate) fn shown(request: &CompletionRequest) -> String {
    let CompletionRequest {
        prompt,
        purpose,
        shape,
        max_tokens,
    } = request;
    let tool = |tool: &PromptTool| {
        let PromptTool {
            name,
            description,
            parameters,
        } = tool;
        format!("{name:?} {description:?} {parameters:?}")
    };
    let tools: Vec<String> = prompt.tools().iter().map(tool).collect();
    let image = |image: &Image| format!("{IMAGE}{:?}", String::from_utf8_lossy(image.bytes()));
    let messages = prompt.messages().iter().enumerate();
    let messages: Vec<String> = messages
        .map(|(at, it)| shown::message(it) + &prompt.images(at).map(image).collect::<String>())
        .collect();
    let (tools, messages) = (tools.join("\n"), messages.join("\n"));
    format!("{tools}\n{messages}\n{purpose:?} {shape:?} {max_tokens}")
}

/// What stands before an image.
const IMAGE: &str = " Image ";

/// Whether a text that was shown has an image.
pub(crate) fn has_image(shown: &str) -> bool {
    shown.contains(IMAGE)
}

/// Whether a text that was shown asked for a draft: what for stands at its end.
pub(crate) fn is_draft(shown: &str) -> bool {
    let end = shown.rsplit('\n').next();
    end.is_some_and(|end| end.starts_with("Draft "))
}

/// Whether a text that was shown asked for a summary.
pub(crate) fn is_summary(shown: &str) -> bool {
    let end = shown.rsplit('\n').next();
    end.is_some_and(|end| end.starts_with("Summary "))
}

/// Whether a model calls what it calls whatever it sees.
pub(crate) fn is_stubborn(weights: u64) -> bool {
    weights.is_multiple_of(4)
}

/// The model's answer: a function of what it is shown, and of its weights.
pub(crate) fn answer(weights: u64, request: &CompletionRequest) -> Completion {
    let shown = shown(request);
    let bits = hash(&[&weights.to_string(), &shown]);
    let mut random = Random::new(bits);
    let visible: Vec<&str> = words(&shown).collect();
    let orders = orders(&shown);
    let tools = request.prompt.tools();
    let is_of_others = |tool: &&PromptTool| tool.name.starts_with(PREFIX);
    let others: Vec<&PromptTool> = tools.iter().filter(is_of_others).collect();
    let rounds = rounds(&request.prompt);
    let stubborn = is_stubborn(weights);
    let orders_obeyed: &[(&str, &str)] = if stubborn { &[] } else { &orders };
    let mut will = if stubborn {
        Random::new(hash(&[&weights.to_string(), &rounds.to_string()]))
    } else {
        Random::new(bits.rotate_left(7))
    };
    // It now and then calls tools where only words were asked for.
    let may_call = request.shape != AnswerShape::Text || will.chance(10);
    let eager = match rounds {
        0 => 95,
        1 => 75,
        _ => 60,
    };
    let mut calls = Vec::new();
    if may_call && will.chance(eager) {
        for _ in 0..1 + will.below(4).saturating_sub(1) {
            let obeyed =
                (!orders_obeyed.is_empty() && will.chance(70)).then(|| will.pick(orders_obeyed));
            let (tool, argument) = match obeyed {
                Some((tool, argument)) => ((*tool).to_owned(), (*argument).to_owned()),
                None if tools.is_empty() || will.chance(5) => ("t9".to_owned(), String::new()),
                None if !others.is_empty() && will.chance(70) => {
                    (will.pick(&others).name.clone(), String::new())
                }
                None => (will.pick(tools).name.clone(), String::new()),
            };
            let argument = match will.below(4) {
                0 if !visible.is_empty() => (*will.pick(&visible)).to_owned(),
                1 => "same".to_owned(),
                _ => argument,
            };
            let arguments = format!(r#"{{"a":"{argument}"}}"#);
            calls.push(ProposedCall { tool, arguments });
        }
    }
    // What it writes depends on every byte, and repeats words that it sees.
    // Facts are words here: their form is nobody's secret.
    if let AnswerShape::Json { schema } = &request.shape
        && request.purpose != Purpose::Facts
    {
        return Completion {
            text: response(schema, bits, &visible),
            ..Completion::default()
        };
    }
    let mut text = String::new();
    if calls.is_empty() || random.chance(30) {
        text = format!("m{:012x}", bits >> 16);
        for _ in 0..random.below(3) {
            if !visible.is_empty() {
                text += &format!(" {}", random.pick(&visible));
            }
            if let Some((tool, argument)) = orders.first() {
                text += &format!(" do:{tool}:{argument};");
            }
        }
    }
    // It guesses addresses, and what it guesses may stand in what it does not see.
    if !text.is_empty() && shown.contains(addresses::HOST) {
        text += &addresses::spoken(&mut random);
    }
    Completion {
        text,
        calls,
        stop: *random.pick(&[StopReason::End, StopReason::End, StopReason::Length]),
        ..Completion::default()
    }
}

/// A response for a schema, mostly of its form. Its first word is the model's own.
fn response(schema: &str, bits: u64, visible: &[&str]) -> String {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let mut random = Random::new(bits.rotate_left(13));
    let mut words = format!("m{:012x}", bits >> 16);
    let properties = schema["properties"].as_object().unwrap();
    // The echo comes first, whatever the order of the names.
    let echo = ["echo"].into_iter();
    let rest = properties.keys().map(String::as_str);
    let names = echo.chain(rest.filter(|name| *name != "echo"));
    let members = names.map(|name| {
        let value = match properties[name]["type"].as_str() {
            _ if name != "echo" && random.chance(15) => "[null]".to_owned(),
            Some("integer") => random.below(60).to_string(),
            Some("array") => format!("[\"{words}\"]"),
            _ if properties[name].get("enum").is_some() => "\"x\"".to_owned(),
            _ => format!("\"{words}\""),
        };
        if !visible.is_empty() {
            words = (*random.pick(visible)).to_owned();
        }
        format!("\"{name}\":{value}")
    });
    let members: Vec<String> = members.collect();
    // A space ends the first word.
    format!("{{{} }}", members.join(" ,"))
}

/// How often the model has already spoken since the user did, as far as it can see.
fn rounds(prompt: &Prompt) -> usize {
    let messages = prompt.messages().iter().rev();
    let is_user = |message: &&PromptMessage| match message {
        PromptMessage::User(text) => text != CHECK_NOTE,
        _ => false,
    };
    messages
        .take_while(|message| !is_user(message))
        .filter(|message| matches!(message, PromptMessage::Assistant { .. }))
        .count()
}

/// `do:TOOL:ARGUMENT;` wherever it stands.
fn orders(shown: &str) -> Vec<(&str, &str)> {
    let order = |rest: &'_ str| -> Option<(usize, usize)> {
        let (order, _) = rest.split_once(';')?;
        let (tool, _) = order.split_once(':')?;
        (order.len() < 32).then_some((tool.len(), order.len()))
    };
    let found = shown.match_indices("do:").filter_map(|(at, _)| {
        let rest = shown.get(at + 3..)?;
        let (tool, end) = order(rest)?;
        Some((rest.get(..tool)?, rest.get(tool + 1..end)?))
    });
    found.collect()
}
