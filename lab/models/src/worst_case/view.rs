//! What a redacted JSON text still shows.

use ifc::REDACTED;
use serde_json::Value;

/// Reads JSON in which redaction may have replaced whole values, which then stand without quotes.
pub fn parse(text: &str) -> Option<Value> {
    let mut repaired = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    while let Some(c) = rest.chars().next() {
        if !in_string && let Some(after) = rest.strip_prefix(REDACTED) {
            repaired.push('"');
            repaired.push_str(REDACTED);
            repaired.push('"');
            rest = after;
            continue;
        }
        // An escape and what it escapes pass together, so that `\"` does not end a string.
        let taken = if in_string && c == '\\' { 2 } else { 1 };
        in_string ^= c == '"';
        let end = rest
            .char_indices()
            .nth(taken)
            .map_or(rest.len(), |(at, _)| at);
        let (head, tail) = rest.split_at(end);
        repaired.push_str(head);
        rest = tail;
    }
    serde_json::from_str(&repaired).ok()
}

/// Every string that a result shows: those of its JSON, or the text itself.
pub(super) fn strings(content: &str) -> Vec<String> {
    let mut found = Vec::new();
    match parse(content) {
        Some(value) => collect(&value, &mut found),
        None => found.push(content.to_owned()),
    }
    found
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, found)),
        _ => {}
    }
}

/// The first string under a key of this name, at any depth.
pub(super) fn field(value: &Value, name: &str) -> Option<String> {
    field_but(value, name, None)
}

/// The same, passing over one value.
pub(super) fn field_but(value: &Value, name: &str, not: Option<&str>) -> Option<String> {
    match value {
        Value::Object(fields) => fields
            .get(name)
            .and_then(Value::as_str)
            .filter(|found| Some(*found) != not)
            .map(str::to_owned)
            .or_else(|| {
                fields
                    .values()
                    .find_map(|inner| field_but(inner, name, not))
            }),
        Value::Array(items) => items.iter().find_map(|item| field_but(item, name, not)),
        _ => None,
    }
}

/// Sentences of a text, blanks made single. A number before a dot is an item's, not a sentence.
pub(super) fn sentences(text: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    for paragraph in text.replace('\r', "").split("\n\n") {
        let mut sentence = String::new();
        for word in paragraph.split_whitespace() {
            let bare = word.trim_end_matches(['.', ')']);
            if sentence.is_empty() && !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit()) {
                continue;
            }
            if !sentence.is_empty() {
                sentence.push(' ');
            }
            sentence.push_str(word);
            if word.ends_with(['.', '!', '?', ':']) {
                sentences.push(std::mem::take(&mut sentence));
            }
        }
        if !sentence.is_empty() {
            sentences.push(sentence);
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacted_json_is_still_read() {
        let text = r#"{"a":[redacted],"b":["x [redacted] \" y",[redacted]],"c":1}"#;
        let value = parse(text).unwrap();
        assert_eq!(value["a"], REDACTED);
        assert_eq!(value["b"][0], "x [redacted] \" y");
        assert_eq!(value["b"][1], REDACTED);
        assert_eq!(parse(REDACTED), Some(Value::from(REDACTED)));
        assert_eq!(parse("no json"), None);
    }

    #[test]
    fn sentences_end_at_marks_and_blank_lines() {
        assert_eq!(
            sentences("Dear Anna\n\nfirst one,\nover 4.5 EUR. Steps:\n1. Go!\n2. Stop"),
            [
                "Dear Anna",
                "first one, over 4.5 EUR.",
                "Steps:",
                "Go!",
                "2. Stop"
            ]
            .map(|s| s.trim_start_matches("2. "))
        );
    }
}
