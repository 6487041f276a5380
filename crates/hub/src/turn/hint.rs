//! Where a value seems to come from: a guess at the prompt that makes it again.
//!
//! It chooses which label is tried first, and no more: whatever the guess is, a value has the label of the prompt that
//! has made it. A good guess saves completions.

use ifc::{History, Label};
use serde_json::Value;

/// Words and numbers of a value that are looked for; the others of a long text would cost time and say little more.
const MAX_LOOKED_FOR: usize = 32;

/// Shorter words stand anywhere.
const MIN_WORD: usize = 4;

/// The label of the texts that have what stands in a value, given as JSON, word for word: of each string and number
/// the first text above `floor` that has all of it, and if none has, the same of each of its longer words.
pub(super) fn quoted(history: &History, value: &str, floor: &Label) -> Label {
    let leaves = leaves(value);
    // What flows to `floor` is shown in any case, and needs no higher label.
    let first = |text: &str| {
        let mut above = history.regions().filter(|it| !it.label.flows_to(floor));
        above
            .find(|region| region.reveal_tcb().contains(text))
            .map(|region| region.label)
    };
    let mut left = MAX_LOOKED_FOR;
    let mut found = floor.clone();
    for leaf in &leaves {
        let words = leaf
            .split_whitespace()
            .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        let words = words.filter(|word| word.chars().count() >= MIN_WORD);
        // First as it stands: a word of it alone may come from anywhere.
        let whole = Some(first(leaf)).filter(|_| left > 0);
        left = left.saturating_sub(1);
        match whole.flatten() {
            Some(label) => found = found.join(label),
            None => {
                for word in words.take(left) {
                    left = left.saturating_sub(1);
                    found = first(word).map_or(found.clone(), |label| found.join(label));
                }
            }
        }
    }
    found
}

/// The strings and numbers in a value, given as JSON, but for empty strings.
pub(super) fn leaves(value: &str) -> Vec<String> {
    let value: Value = serde_json::from_str(value).unwrap_or_default();
    let mut leaves = Vec::new();
    collect(&value, &mut leaves);
    leaves
}

fn collect(value: &Value, leaves: &mut Vec<String>) {
    match value {
        Value::String(text) if !text.is_empty() => leaves.push(text.clone()),
        Value::Number(number) => leaves.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, leaves)),
        Value::Object(members) => members.values().for_each(|it| collect(it, leaves)),
        Value::String(_) | Value::Bool(_) | Value::Null => {}
    }
}
