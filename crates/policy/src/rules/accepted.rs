//! Whether the values of an argument are such as its rule accepts.

use std::collections::BTreeMap;

use ifc::{Label, Results};
use serde_json::Value;

use super::accepts::{Accept, AcceptedValues, Among};
use super::app::AppRules;
use crate::labels::Single;

/// What a decision about values may rest on.
pub(crate) struct Known<'a> {
    pub(crate) apps: &'a BTreeMap<String, AppRules>,
    pub(crate) results: &'a Results<'a>,
    /// The label of the call's control part.
    pub(crate) control: &'a Label,
    /// The limit of its tool.
    pub(crate) limit: &'a Label,
}

impl Accept {
    /// Whether it accepts the values of a data argument, given as canonical JSON text: those at each of its
    /// places count together as one list.
    pub(super) fn accepts(&self, places: &[&str], known: &Known<'_>) -> bool {
        let one = |text: &str| match &self.values {
            AcceptedValues::Form(form) => form.matches_json(text),
            AcceptedValues::Among(among) => among.has(text, known),
        };
        // The text is canonical, so a list begins with its bracket.
        if let [text] = places
            && !text.starts_with('[')
        {
            return one(text);
        }
        let mut values = Vec::new();
        for text in places {
            let Some(of_place) = items(text) else {
                return false;
            };
            values.extend(of_place);
        }
        // `many = 1` accepts a single value, and no list of one.
        self.many > 1
            && (1..=self.many).contains(&values.len())
            && values.iter().all(|text| one(text))
    }
}

/// The elements of a list, or the value itself, as they are written. `None` for what is no text, word or whole
/// number: other numbers are rounded by reading them.
fn items(text: &str) -> Option<Vec<String>> {
    if !text.starts_with('[') {
        return Some(vec![text.to_owned()]);
    }
    let Ok(Value::Array(items)) = serde_json::from_str(text) else {
        return None;
    };
    let text = |item: &Value| match item {
        Value::String(_) | Value::Bool(_) => Some(item.to_string()),
        Value::Number(number) => number.as_i64().map(|whole| whole.to_string()),
        _ => None,
    };
    items.iter().map(text).collect()
}

impl Among {
    fn has(&self, text: &str, known: &Known<'_>) -> bool {
        let Ok(value) = serde_json::from_str::<Value>(text) else {
            return false;
        };
        let (Some(app), Some(value)) = (known.apps.get(&self.app), Single::of(&value)) else {
            return false;
        };
        let Some(tool) = app.tool(&self.tool) else {
            return false;
        };
        let limit = self.labelled.as_ref().unwrap_or(known.limit);
        // Nothing above the control part: that the user is asked, or not, would tell of it.
        let limit = limit.meet(known.control);
        let mut results = known.results.of(&self.app, &self.tool, &limit);
        results.any(|result| tool.result.stood(&result, &self.path, &value))
    }
}
