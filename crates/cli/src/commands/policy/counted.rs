//! Which label rules count for a call, where that depends on its arguments.

use hub::trace::escape;
use ifc::Arguments;
use policy::{Met, ResultLabels};
use serde_json::{Value, json};

use super::shown::short;

/// A rule with conditions on the call's arguments.
pub(super) struct Counted {
    rule: String,
    place: Option<String>,
    when: String,
    met: Met,
}

/// The rules with conditions, and what these say of a call.
pub(super) fn counted(rules: &ResultLabels, arguments: &Arguments) -> Vec<Counted> {
    let conditions = rules.conditions(arguments).map(|(rule, met)| {
        let place = rule.place.as_ref();
        let when: Vec<String> = rule.when.iter().map(ToString::to_string).collect();
        Counted {
            rule: rule.path.as_str().to_owned(),
            place: place.map(|place| short(&place.file, place.line)),
            when: when.join(" and "),
            met,
        }
    });
    conditions.collect()
}

impl Counted {
    /// One line.
    pub(super) fn as_text(&self) -> String {
        let place = self.place.as_ref();
        let place = place.map(|it| format!(" ({it})")).unwrap_or_default();
        let what = match self.met {
            Met::Yes => "counts",
            Met::No => "does not count",
            Met::Unknown => {
                "may count or not, and so all that it selects has the most restrictive label"
            }
        };
        escape(&format!(
            "the rule for {}{place} {what}: when {}",
            self.rule, self.when
        ))
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
