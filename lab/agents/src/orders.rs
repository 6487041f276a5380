//! What the scripted model does: orders in the user's text, and in any other that it reads.
//!
//! `%%TOOL {json}%%` is a call, `%%~TOOL {json}%%` one that is not made where a tool has just returned it, but where the
//! same text comes back later (a summary, the answer of a sub-agent), and `%%+TOOL {json}%%` one that is made in one answer
//! with the call before it. `%%answer TEXT%%` is the last message of a plan, and
//! `%%full%%` says in the next answer that the model's context is full,
//! and `%%reopen {}%%` reads the end of the file in which the agent has saved the last result. In arguments and answers `${N/WORDS}` is the word
//! that follows WORDS in the result of the plan's N-th call, and `${N}` is all of that result.

use serde_json::{Deserializer, Value};

const MARK: &str = "%%";

/// When a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Now,
    Later,
    /// In one answer with the call before it.
    Beside,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Order {
    /// With the tool and the arguments.
    Call(When, String, Value),
    Answer(String),
    Full,
}

/// The orders of a text, in their order.
pub(crate) fn orders(text: &str) -> Vec<Order> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some((_, after)) = rest.split_once(MARK) {
        rest = after;
        let word = |c: char| c.is_ascii_alphanumeric() || "~+_./-".contains(c);
        let (verb, after) = after.split_at(after.find(|c| !word(c)).unwrap_or(after.len()));
        let order = match verb {
            "answer" => after.split_once(MARK).map(|(text, after)| {
                let order = Order::Answer(text.trim().to_owned());
                (order, after)
            }),
            "full" => after.strip_prefix(MARK).map(|after| (Order::Full, after)),
            _ => call(verb, after),
        };
        if let Some((order, after)) = order {
            found.push(order);
            rest = after;
        }
    }
    found
}

/// A call, whose arguments may stand in a text with JSON's escapes, once or twice.
fn call<'a>(verb: &str, text: &'a str) -> Option<(Order, &'a str)> {
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    let plain = values.next()?.ok().and_then(|arguments| {
        let after = text.get(values.byte_offset()..)?.strip_prefix(MARK)?;
        Some((arguments, after))
    });
    let (arguments, after) = plain.or_else(|| {
        let (escaped, after) = text.split_once(MARK)?;
        let levels = [unescaped(escaped), unescaped(&unescaped(escaped))];
        let mut read = levels.iter().map(|it| serde_json::from_str(it));
        Some((read.find_map(Result::ok)?, after))
    })?;
    let (when, tool) = match verb.split_at_checked(1)? {
        ("~", tool) => (When::Later, tool),
        ("+", tool) => (When::Beside, tool),
        _ => (When::Now, verb),
    };
    Some((Order::Call(when, tool.to_owned(), arguments), after))
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (_, false) => out.push(letter),
            (_, true) => match letters.next() {
                Some('n') => out.push('\n'),
                Some(next) => out.push(next),
                None => {}
            },
        }
    }
    out
}

/// A value with the places for results filled, or none if a result lacks what is wanted: nothing is made up.
pub(crate) fn filled(value: &Value, results: &[String]) -> Option<Value> {
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, it)| Some((name.clone(), filled(it, results)?)));
            members.collect::<Option<_>>().map(Value::Object)
        }
        Value::String(text) => text_filled(text, results).map(Value::String),
        other => Some(other.clone()),
    }
}

/// The same for a text. The plan of a sub-agent is filled by the sub-agent.
pub(crate) fn text_filled(text: &str, results: &[String]) -> Option<String> {
    if text.contains(MARK) {
        return Some(text.to_owned());
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (place, after) = after.split_once('}')?;
        let (number, words) = place.split_once('/').unwrap_or((place, ""));
        let result = results.get(number.parse::<usize>().ok()?)?;
        let value = match words {
            "" => result.as_str(),
            _ => {
                let (_, found) = result.split_once(words)?;
                let end = found.find(|c: char| c.is_whitespace() || "\"'\\<>,;()[]".contains(c));
                found.split_at(end.unwrap_or(found.len())).0
            }
        };
        out = out + before + value;
        rest = after;
    }
    Some(out + rest)
}
