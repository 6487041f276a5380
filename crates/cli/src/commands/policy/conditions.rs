//! Rules of results with conditions, and the words for labels and places.

use hub::trace::escape;
use ifc::Arguments;
use policy::{Met, Place, ResultLabels};
use serde_json::{Value, json};

/// A rule for results with conditions on the call's arguments, and whether they are met.
pub(super) struct Condition {
    pub(super) rule: String,
    pub(super) place: Option<String>,
    pub(super) when: String,
    pub(super) met: Met,
}

/// The rules with conditions, and what these say of a call.
pub(super) fn conditions(rules: &ResultLabels, arguments: &Arguments) -> Vec<Condition> {
    let conditions = rules.conditions(arguments).map(|(rule, met)| {
        let when: Vec<String> = rule.when.iter().map(ToString::to_string).collect();
        Condition {
            rule: rule.path.as_str().to_owned(),
            place: rule.place.as_ref().map(short),
            when: when.join(" and "),
            met,
        }
    });
    conditions.collect()
}

impl Condition {
    /// One line.
    pub(super) fn as_text(&self) -> String {
        let place = self.place.as_ref().map(|it| format!(" ({it})"));
        let what = match self.met {
            Met::Yes => "counts",
            Met::No => "does not count",
            Met::Unknown => {
                "may count or not, and so all that it selects has the most restrictive label"
            }
        };
        let (rule, place, when) = (&self.rule, place.unwrap_or_default(), &self.when);
        escape(&format!("the rule for {rule}{place} {what}: when {when}"))
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "kind": "condition",
            "rule": self.rule,
            "place": self.place,
            "when": self.when,
            "counts": match self.met {
                Met::Yes => "yes",
                Met::No => "no",
                Met::Unknown => "unknown",
            },
        })
    }
}

/// A place by the name of its file alone.
pub(super) fn short(place: &Place) -> String {
    let name = place.file.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}:{}", place.line)
}

/// A label as a set.
pub(super) fn set(names: &[String]) -> String {
    match names {
        [] => "{trusted, public}".to_owned(),
        [any] if any == "any" => "anything".to_owned(),
        names => format!("{{{}}}", names.join(", ")),
    }
}
