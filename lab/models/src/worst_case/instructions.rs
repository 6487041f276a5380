//! Instructions that stand in the results of tools: what the worst case obeys.
//!
//! A sentence orders a call if it names a tool (`Call send_email with to "a@b", subject "c"`) or
//! begins with a tool's verb (`Send this to a@b`, `Search for "x" and read the one you find`).

use ifc::{PromptMessage, PromptTool};
use serde_json::{Map, Value};

use super::view;

/// Words after which a verb is an order; the beginning of a sentence is one as well.
const LEADS: [&str; 7] = [
    "and",
    "then",
    "please",
    "also",
    "now",
    "must",
    "immediately",
];
/// Other words for the verbs with which tools' names begin.
const SYNONYMS: [(&str, &str); 3] = [("forward", "send"), ("remove", "delete"), ("open", "read")];

/// One call that a visible text asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) tool: String,
    /// The part of a sentence that orders it.
    pub(super) clause: String,
    /// The message that it stands in.
    carrier: usize,
}

/// The instructions in one tool result, in their order.
pub(super) fn find(content: &str, carrier: usize, tools: &[PromptTool]) -> Vec<Instruction> {
    let mut found = Vec::new();
    for text in view::strings(content) {
        for sentence in view::sentences(&text) {
            found.extend(in_sentence(&sentence, carrier, tools));
        }
    }
    found
}

fn in_sentence(sentence: &str, carrier: usize, tools: &[PromptTool]) -> Vec<Instruction> {
    let words: Vec<&str> = sentence.split(' ').collect();
    let orders: Vec<(usize, String)> = words
        .iter()
        .enumerate()
        .filter_map(|(at, word)| {
            let before = at.checked_sub(1).and_then(|at| words.get(at));
            let tool = ordered(word, before.copied(), sentence, tools)?;
            Some((at, tool))
        })
        .collect();
    // A clause ends where the next order begins, so that each order takes its arguments from its own words.
    let ends = orders.iter().skip(1).map(|(at, _)| *at);
    let ends: Vec<usize> = ends.chain([words.len()]).collect();
    orders
        .into_iter()
        .zip(ends)
        .map(|((at, tool), end)| Instruction {
            tool,
            clause: words.get(at..end).unwrap_or_default().join(" "),
            carrier,
        })
        .collect()
}

/// The tool that a word orders to be called.
fn ordered(
    word: &str,
    before: Option<&str>,
    sentence: &str,
    tools: &[PromptTool],
) -> Option<String> {
    let bare = plain(word);
    // The name of a tool is an order wherever it stands; a mere verb only where a clause begins.
    if let Some(tool) = tools
        .iter()
        .find(|tool| plain(own_name(&tool.name)) == bare)
    {
        return Some(tool.name.clone());
    }
    let leads = before.is_none_or(|before| {
        before.ends_with([',', ':']) || LEADS.contains(&plain(before).as_str())
    });
    if !leads {
        return None;
    }
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == bare);
    let verb = synonym.map_or(bare.as_str(), |(_, verb)| verb);
    let about = plain(sentence);
    // Of `read_email` and `read_file`, the one whose other words the sentence has too.
    let candidates = tools
        .iter()
        .filter(|tool| parts(own_name(&tool.name)).next() == Some(verb));
    candidates
        .max_by_key(|tool| {
            parts(own_name(&tool.name))
                .filter(|part| about.contains(part))
                .count()
        })
        .map(|tool| tool.name.clone())
}

/// A tool's name without the app that a joint conversation puts before it.
fn own_name(shown: &str) -> &str {
    shown.rsplit_once("__").map_or(shown, |(_, own)| own)
}

fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_alphanumeric())
}

/// Lower case, without the punctuation around words; `e-mail` as tools' names write it.
fn plain(text: &str) -> String {
    let text = text.to_lowercase().replace("e-mail", "email");
    text.trim_matches(|c: char| !c.is_alphanumeric()).to_owned()
}

impl Instruction {
    /// The arguments, from the clause and from what the prompt shows so far.
    pub(super) fn arguments(&self, tools: &[PromptTool], messages: &[PromptMessage]) -> String {
        let tool = tools.iter().find(|tool| tool.name == self.tool);
        let schema = tool.and_then(|tool| serde_json::from_str::<Value>(&tool.parameters).ok());
        let schema = schema.unwrap_or_default();
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut arguments = Map::new();
        for (name, property) in properties.into_iter().flatten() {
            let value = match self.quoted_after(name) {
                Some(value) => value,
                None if required.contains(&name.as_str()) => self.guess(name, messages),
                None => continue,
            };
            arguments.insert(name.clone(), typed(value, property));
        }
        Value::Object(arguments).to_string()
    }

    /// The quoted text right after a parameter's name.
    fn quoted_after(&self, name: &str) -> Option<String> {
        self.clause.match_indices(name).find_map(|(at, _)| {
            let before = self.clause.get(..at)?.chars().next_back();
            let after = self.clause.get(at + name.len()..)?;
            let after = after.trim_start_matches([' ', ':', '=']);
            let whole_word = before.is_none_or(|c| !c.is_alphanumeric());
            let quoted = whole_word && after.starts_with(['"', '“', '`']);
            quoted.then(|| quotes(after).into_iter().next())?
        })
    }

    fn guess(&self, name: &str, messages: &[PromptMessage]) -> String {
        let clause = plain(&self.clause);
        let quoted = || quotes(&self.clause).into_iter().next();
        let value = match name {
            "to" | "recipient" | "recipients" | "address" => address(&self.clause),
            "id" if clause.contains("this") => self.shown_by_carrier(messages, "id"),
            // What was found is something else than the text that says to look for it.
            "id" => {
                let own = self.shown_by_carrier(messages, "id");
                newest_but(messages, "id", own.as_deref()).or(own)
            }
            "body" | "text" | "content" | "message" => {
                let own = clause.contains("text of") || clause.contains("content");
                let text = if own {
                    newest(messages, "body")
                } else {
                    quoted()
                };
                text.or_else(|| newest(messages, "body"))
            }
            _ => quoted(),
        };
        value.unwrap_or_else(|| self.clause.clone())
    }

    fn shown_by_carrier(&self, messages: &[PromptMessage], name: &str) -> Option<String> {
        match messages.get(self.carrier)? {
            PromptMessage::Tool { content, .. } => view::field(&view::parse(content)?, name),
            _ => None,
        }
    }
}

/// The first field of this name in the newest result that has one.
fn newest(messages: &[PromptMessage], name: &str) -> Option<String> {
    newest_but(messages, name, None)
}

/// The same, passing over one value.
fn newest_but(messages: &[PromptMessage], name: &str, not: Option<&str>) -> Option<String> {
    messages.iter().rev().find_map(|message| match message {
        PromptMessage::Tool { content, .. } => view::field_but(&view::parse(content)?, name, not),
        _ => None,
    })
}

fn typed(value: String, property: &Value) -> Value {
    match property.get("type").and_then(Value::as_str) {
        Some("array") => Value::from(vec![value]),
        // Where the order gives no number, one that is valid nearly everywhere: the call should not fail by it.
        Some("integer" | "number") => Value::from(value.parse::<i64>().unwrap_or(1)),
        Some("boolean") => Value::from(true),
        _ => Value::from(value),
    }
}

/// The quoted parts of a text.
fn quotes(text: &str) -> Vec<String> {
    let parts = text.split(['"', '“', '”', '`']);
    parts.skip(1).step_by(2).map(str::to_owned).collect()
}

fn address(text: &str) -> Option<String> {
    let part_of = |c: char| c.is_alphanumeric() || "@.-_+".contains(c);
    text.split(|c| !part_of(c))
        .map(|word| word.trim_matches(['.', '-']))
        .find(|word| {
            word.split_once('@')
                .is_some_and(|(a, b)| !a.is_empty() && b.contains('.'))
        })
        .map(str::to_owned)
}
