//! Whether a rule accepts the values of an argument.

use std::collections::BTreeMap;

use ifc::{ArgumentPath, Call, Label, Labeled, Results};
use serde_json::Value;

use super::accepts::{Accept, AcceptedValues, Among};
use super::app::{AppRules, ArgumentLimit};
use crate::labels::Single;

/// The data on which a decision about values may depend.
pub(crate) struct Known<'a> {
    pub(crate) apps: &'a BTreeMap<String, AppRules>,
    pub(crate) results: &'a Results<'a>,
    /// The label of the call's control part.
    pub(crate) control: &'a Label,
    /// The limit of its tool.
    pub(crate) limit: &'a Label,
}

impl Accept {
    /// Whether it accepts the values of a data argument, given as canonical JSON text. The values at all of its places count
    /// as one list.
    pub(super) fn accepts(&self, places: &[&str], known: &Known<'_>) -> bool {
        self.takes(places, |values| match &self.values {
            AcceptedValues::Form(form) => values.iter().all(|text| form.matches_json(text)),
            AcceptedValues::Among(among) => among.has(values, known),
        })
    }

    /// Whether it accepts these values by a form that spells nothing. A few letters are no sentence, but those of many values
    /// or calls are.
    fn has_form(&self, places: &[&str]) -> bool {
        self.takes(places, |values| match &self.values {
            AcceptedValues::Form(form) => values
                .iter()
                .all(|text| form.matches_json(text) && form.spells(text.trim_matches('"')) == 0),
            AcceptedValues::Among(_) => false,
        })
    }

    fn takes(&self, places: &[&str], all: impl Fn(&[&str]) -> bool) -> bool {
        // The text is canonical, so a list begins with its bracket.
        if let [text] = places
            && !text.starts_with('[')
        {
            return all(places);
        }
        let mut values = Vec::new();
        for text in places {
            let Some(of_place) = items(text) else {
                return false;
            };
            values.extend(of_place);
        }
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        // `many = 1` accepts a single value, and no list of one.
        self.many > 1 && (1..=self.many).contains(&values.len()) && all(&values)
    }
}

impl ArgumentLimit {
    /// Whether all values of this data argument are of a form that is accepted there and spells nothing.
    pub(crate) fn has_form(&self, call: &Call, path: &ArgumentPath) -> bool {
        let values = call.arguments.at(path).filter(|values| !values.is_empty());
        values.is_some_and(|values| {
            let texts: Vec<&str> = values.iter().map(Labeled::reveal_tcb).collect();
            self.accepts.iter().any(|accept| accept.has_form(&texts))
        })
    }
}

/// The elements of a list, or the value itself, as JSON text. `None` if an element is no text, boolean or whole number, since
/// other numbers are rounded by reading them.
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
    /// Whether all of these values are among the known ones.
    fn has(&self, texts: &[&str], known: &Known<'_>) -> bool {
        let values = texts.iter().map(|text| serde_json::from_str(text).ok());
        let Some(values) = values.collect::<Option<Vec<Value>>>() else {
            return false;
        };
        let Some(mut wanted) = values.iter().map(Single::of).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let app = known.apps.get(&self.app);
        let Some(tool) = app.and_then(|app| app.tool(&self.tool)) else {
            return false;
        };
        // The user has named this place, so a value of a checked form counts, whoever chose it.
        let limit = self.labelled.as_ref().unwrap_or(known.limit);
        let limit = limit.join(&Label::forms());
        // Nothing above the control part, since whether the user is asked would tell of it.
        let limit = limit.meet(known.control);
        // Each result once, for all values: a conversation may have 32 MiB of them.
        for result in known.results.of(&self.app, &self.tool, &limit) {
            #[cfg(test)]
            tests::PARSED.with(|parsed| parsed.set(parsed.get() + 1));
            tool.result.take_known(&result, &self.path, &mut wanted);
            if wanted.is_empty() {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::PathBuf;

    use ifc::{Effect, History};

    use super::super::app::ToolRule;
    use super::*;
    use crate::labels::{LabelRule, ResultLabels};
    use crate::place::Place;

    thread_local! {
        /// How often a result was parsed.
        pub(super) static PARSED: Cell<usize> = const { Cell::new(0) };
    }

    /// An app whose only tool returns a list of names, all of them trusted.
    fn contacts() -> AppRules {
        let names = LabelRule::new("$[*]".parse().unwrap(), Label::bottom());
        let list = ToolRule {
            effect: Effect::Read,
            limit: Label::top(),
            place: None,
            carries: Label::bottom(),
            audience: None,
            parameters: None,
            arguments: BTreeMap::new(),
            select: None,
            approvers: None,
            once: None,
            destinations: None,
            poll: false,
            after: None,
            counted: None,
            conditions: None,
            result: ResultLabels::new(vec![names], None, Some(Label::bottom())),
        };
        AppRules {
            tools: BTreeMap::from([("list".to_owned(), list)]),
            other_tools: None,
            answer: Label::top(),
            addresses: Label::bottom(),
            has_conditions: false,
            claims: None,
        }
    }

    #[test]
    fn each_result_is_parsed_once_for_all_values_of_a_list() {
        let bottom = Label::bottom();
        let apps = BTreeMap::from([("contacts".to_owned(), contacts())]);
        let mut history = History::new(Vec::new());
        let results = ["[\"a\",\"b\"]", "[]", "no list", "[\"c\",\"a\"]", "[\"d\"]"];
        for text in results {
            let call = ("contacts__list".to_owned(), Labeled::trusted_tcb("{}"));
            for id in history.push_assistant(&bottom, Labeled::trusted_tcb(""), [call]) {
                history.push_result(&bottom, id, Labeled::trusted_tcb(text));
            }
        }
        let known = Known {
            apps: &apps,
            results: &Results::new(&history, &bottom),
            control: &bottom,
            limit: &bottom,
        };
        let accept = Accept {
            values: AcceptedValues::Among(Among {
                app: "contacts".to_owned(),
                tool: "list".to_owned(),
                path: "$[*]".parse().unwrap(),
                labelled: None,
            }),
            many: 32,
            limit: bottom.clone(),
            place: Place {
                file: PathBuf::new(),
                line: 1,
            },
        };
        for (list, accepted, parsed) in [
            // They stand in several results, and what comes after the last of them need not be read.
            ("[\"c\",\"a\",\"b\",\"a\"]", true, 4),
            ("\"b\"", true, 1),
            ("[\"a\",\"e\",\"d\"]", false, 5),
            // What is no value to look for is found without a look.
            ("[\"a\",true]", false, 0),
        ] {
            PARSED.with(|count| count.set(0));
            assert_eq!(accept.accepts(&[list], &known), accepted, "{list}");
            assert_eq!(PARSED.with(Cell::get), parsed, "{list}");
        }
    }
}
