//! What results show, and what arguments follow from it.

use std::collections::BTreeMap;

use ifc::REDACTED;
use serde_json::Value;

use crate::app::Arguments;
use crate::task::{Argument, Piece, Place, TrueCall, ValueSource, pieces, words};

/// The newest result of each tool, as far as it is seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(BTreeMap<String, Value>);

impl Seen {
    pub(crate) fn saw(&mut self, tool: &str, result: Value) {
        self.0.insert(tool.to_owned(), result);
    }

    /// What stands at a place; `None` if it is masked, or nothing does.
    pub(crate) fn at(&self, place: &Place) -> Option<&Value> {
        let value = self.0.get(&place.tool)?.pointer(&place.pointer)?;
        let hidden = value.as_str().is_some_and(|text| text.contains(REDACTED));
        (!hidden).then_some(value)
    }

    /// A text with what stands at its places.
    pub(crate) fn text(&self, text: &str) -> Option<Value> {
        let pieces = pieces(text).ok()?;
        // A place alone keeps its JSON type: an amount stays a number.
        if let [Piece::At(place)] = pieces.as_slice() {
            return self.at(place).cloned();
        }
        let mut filled = String::new();
        for piece in pieces {
            match piece {
                Piece::Words(words) => filled.push_str(&words),
                Piece::At(place) => filled.push_str(&words(self.at(&place)?)),
            }
        }
        Some(Value::from(filled))
    }

    pub(crate) fn argument(&self, argument: &Argument) -> Option<Value> {
        match &argument.source {
            ValueSource::Fixed(value) => Some(value.clone()),
            ValueSource::Text(text) => self.text(text),
            ValueSource::Choice(at, cases) => cases.get(&words(self.at(at)?)).cloned(),
        }
    }

    /// Whether a call is to be made; `None` if nobody can tell.
    pub(crate) fn wants(&self, call: &TrueCall) -> Option<bool> {
        match &call.condition {
            None => Some(true),
            Some(condition) => Some(self.at(&condition.at)?.as_f64()? > condition.above),
        }
    }

    /// All arguments of a call. Of those that nobody can tell, `instead` is the value.
    pub(crate) fn arguments(&self, call: &TrueCall, instead: Option<&str>) -> Option<Arguments> {
        let mut all = Arguments::new();
        for (name, argument) in &call.args {
            let value = self
                .argument(argument)
                .or_else(|| instead.map(Value::from))?;
            all.insert(name.clone(), value);
        }
        Some(all)
    }

    /// Every value at the end of every result, with the name of its field, that is seen.
    pub(crate) fn leaves(&self) -> Vec<(String, Value)> {
        let mut found = Vec::new();
        for result in self.0.values() {
            leaves("", result, &mut found);
        }
        found.retain(|(_, value)| !value.as_str().is_some_and(|text| text.contains(REDACTED)));
        found
    }
}

fn leaves(name: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| leaves(name, item, found)),
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, field)| leaves(name, field, found)),
        Value::Null => {}
        leaf => found.push((name.to_owned(), leaf.clone())),
    }
}
