//! A trace record for people: one line, and one more for each cause, memory or source in it.

use serde_json::{Map, Value};

use super::{Record, escape};

/// Characters of one text on a line; the exported trace has all of it.
const TEXT: usize = 160;

/// What a continued line is set in by.
const INSET: usize = 21;

/// The record as text without a trailing newline: its kind, and the members of its event by name. Empty members are
/// left out. `start_ms` is the first record's time.
///
/// A trace may come from anywhere: each of its texts, names and labels included, is escaped by itself, so that it can
/// neither steer the terminal nor begin a line.
pub fn show(record: &Record, start_ms: u64) -> String {
    let seconds = record.at_ms.saturating_sub(start_ms) as f64 / 1000.0;
    let conversation = match &record.conversation {
        Some(name) => format!("[{}] ", safe(name)),
        None => String::new(),
    };
    // An event is an object with a kind (`Event` derives it so).
    let event = serde_json::to_value(&record.event).unwrap_or_default();
    let nothing = Map::new();
    let event = event.as_object().unwrap_or(&nothing);
    let kind = event.get("kind").and_then(Value::as_str);
    let kind = kind.unwrap_or_default().replace('_', " ");
    let (mut line, mut more) = (Vec::new(), String::new());
    // `saliency` shows the scores.
    let members = event
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "kind" | "scores"));
    for (name, value) in members {
        match value {
            Value::Array(values) if values.iter().any(Value::is_object) => {
                let values = values.iter().map(|value| shown(name, value));
                more.extend(values.map(|value| format!("\n{:INSET$}{name}: {value}", "")));
            }
            value if says_nothing(name, value) => {}
            value => line.push(format!("{} {}", name.replace('_', " "), shown(name, value))),
        }
    }
    format!(
        "{seconds:>8.2}s  {conversation}{kind:<10} {}{more}",
        line.join(", ")
    )
}

fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => safe(text),
        Value::Array(names) if is_label(name) => {
            let names: Vec<String> = names
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            set(&names)
        }
        Value::Array(values) => {
            let values = values.iter().map(|value| shown("", value));
            values.collect::<Vec<_>>().join(", ")
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .filter(|(name, value)| !says_nothing(name, value));
            let members =
                members.map(|(name, value)| format!("{} {}", safe(name), shown(name, value)));
            members.collect::<Vec<_>>().join(", ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Whether a member of an event says nothing. An empty label does.
pub fn says_nothing(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(values) => values.is_empty() && !is_label(name),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Whether a member of an event is a label, by its name.
pub fn is_label(name: &str) -> bool {
    matches!(
        name,
        "label" | "limit" | "excess" | "before" | "after" | "above"
    )
}

/// A label as a set, escaped.
pub(super) fn set(names: &[String]) -> String {
    if names.is_empty() {
        return "{trusted, public}".to_owned();
    }
    let names: Vec<String> = names.iter().map(|name| safe(name)).collect();
    format!("{{{}}}", names.join(", "))
}

/// One line of foreign text, escaped and shortened.
fn safe(text: &str) -> String {
    let start: String = text.chars().take(TEXT).collect();
    let mut line = escape(&start);
    if text.chars().nth(TEXT).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_and_its_causes() {
        let record = r#"{"version":2,"sequence":1,"at_ms":1500,"conversation":"c1","event":{"kind":"asked","step":2,
            "flow":{"call":{"app":"mail","tool":"send","arguments":"{\"to\":\"a\\nb\"}","label":["untrusted:web"]}},
            "rule":"send","limit":[],"effect":"write","excess":["untrusted:web"],"causes":[{"region":4,
            "source":"result of fetch","excerpt":"x","label":["untrusted:web"]}],"ran":null}}"#;
        let record: Record = serde_json::from_str(record).unwrap();
        assert_eq!(
            show(&record, 250),
            "    1.25s  [c1] asked      step 2, flow call app mail, tool send, arguments {\"to\":\"a\\nb\"}, \
             label {untrusted:web}, rule send, limit {trusted, public}, effect write, excess {untrusted:web}\n\
             \u{20}                    causes: region 4, source result of fetch, excerpt x, label {untrusted:web}"
        );
        assert_eq!(safe(&"x".repeat(500)).chars().count(), TEXT + 1);
    }
}
