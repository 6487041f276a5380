//! Values of an argument for which its limit is higher: those of a strict form, and those that stood in a
//! known place.

use std::collections::BTreeMap;

use ifc::{Label, Results};
use serde_json::Value;

use super::app::AppRules;
use crate::labels::{Form, LabelPath};
use crate::place::Place;

/// Values of a data argument, and a limit for them: `{ form = "digits(6)", limit = ["untrusted"] }`.
///
/// Whoever influences such a value chooses one of a few, and says nothing by it. What the value *reveals* is
/// not less: six digits are all of a one-time code, so a limit that admits a secret lets it pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    /// Which values.
    pub values: AcceptedValues,
    /// Most values of a list of them, or of all places of a path; 1 is a value alone, and no list.
    pub many: usize,
    /// Their limit, joined with the argument's own.
    pub limit: Label,
    /// Where it is written.
    pub place: Place,
}

/// Which values an [`Accept`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcceptedValues {
    /// Those of a form that cannot spell words.
    Form(Form),
    /// Those that stood somewhere.
    Among(Among),
}

/// Values that stood, in this conversation, at a place of a tool's results.
///
/// A value is among them if the label of its own text, and that of the call whose result it is in, flow to
/// [`Among::labelled`] and to the label of the control part of the call that is decided on. So a value that a
/// stranger wrote into the same list is not among them, and which values are depends on no text
/// above the control part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Among {
    /// The app that has the tool.
    pub app: String,
    /// The tool.
    pub tool: String,
    /// Where in its results: texts and whole numbers.
    pub path: LabelPath,
    /// The label that they have at most; `None` is the limit of the tool whose argument it is.
    pub labelled: Option<Label>,
}

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
        let limit = limit.meet(known.control);
        let mut results = known.results.of(&self.app, &self.tool, &limit);
        results.any(|result| tool.result.stood(&result, &self.path, &value))
    }
}

/// A value that can be looked for: what has one way to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Single<'v> {
    Text(&'v str),
    Whole(i64),
}

impl<'v> Single<'v> {
    /// `None` for other values, and for an empty text, which every list can be without.
    pub(crate) fn of(value: &'v Value) -> Option<Self> {
        match value {
            Value::String(text) if !text.is_empty() => Some(Self::Text(text)),
            Value::Number(number) => number.as_i64().map(Self::Whole),
            _ => None,
        }
    }
}
