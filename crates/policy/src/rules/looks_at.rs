//! The arguments that a condition looks at.

use std::collections::BTreeSet;

use cedar_policy::Policy;
use serde_json::Value;

/// The arguments on which a condition depends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum LooksAt {
    /// All of them, or it is not known.
    #[default]
    All,
    /// These.
    Only(BTreeSet<String>),
}

impl LooksAt {
    pub(crate) fn contains(&self, argument: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(argument),
        }
    }

    /// The arguments that any of these conditions looks at.
    pub(crate) fn of<'a>(policies: impl IntoIterator<Item = &'a Policy>) -> Self {
        let mut names = BTreeSet::new();
        for policy in policies {
            // The strict reading: an argument that conditions look at belongs to the control part.
            let Ok(json) = policy.to_json() else {
                return Self::All;
            };
            if !collect(&json, &mut names) {
                return Self::All;
            }
        }
        Self::Only(names)
    }
}

/// Adds each argument that is read from `context.arguments`; false if the context or all arguments are used as a whole.
fn collect(json: &Value, names: &mut BTreeSet<String>) -> bool {
    match json {
        Value::Object(object) => {
            // In Cedar's JSON, `a.b` is `{".": {"left": a, "attr": "b"}}`, and `a has b` the same with "has".
            for operator in [".", "has"] {
                let Some(access) = object.get(operator) else {
                    continue;
                };
                let (Some(left), Some(attribute)) = (access.get("left"), access.get("attr")) else {
                    return false;
                };
                let Some(attribute) = attribute.as_str() else {
                    return false;
                };
                if is_arguments(left) {
                    names.insert(attribute.to_owned());
                    return true;
                }
                // Other members of the context do not depend on arguments.
                if is_context(left) {
                    return attribute != "arguments" || operator == "has";
                }
            }
            // The context as a value, as in a comparison, depends on every argument.
            !is_context(json) && object.values().all(|value| collect(value, names))
        }
        Value::Array(items) => items.iter().all(|item| collect(item, names)),
        _ => true,
    }
}

fn is_arguments(json: &Value) -> bool {
    json.get(".").is_some_and(|access| {
        access.get("left").is_some_and(is_context)
            && access.get("attr").and_then(Value::as_str) == Some("arguments")
    })
}

fn is_context(json: &Value) -> bool {
    json.get("Var").and_then(Value::as_str) == Some("context")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(condition: &str) -> LooksAt {
        let text = format!("forbid (principal, action, resource) when {{ {condition} }};");
        let policy: Policy = text.parse().expect(&text);
        LooksAt::of([&policy])
    }

    fn only(names: &[&str]) -> LooksAt {
        LooksAt::Only(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_condition_looks_at_the_arguments_that_it_names() {
        for (condition, expected) in [
            ("context.untrusted", only(&[])),
            ("context.arguments.to == \"a\"", only(&["to"])),
            ("context.arguments has body", only(&["body"])),
            (
                "context has arguments && context.arguments has body",
                only(&["body"]),
            ),
            (
                "context.arguments has cc && context.arguments.cc.contains(\"a\") || context.secret",
                only(&["cc"]),
            ),
            (
                "if context.arguments.a then context[\"arguments\"].b else !context.arguments[\"c d\"]",
                only(&["a", "b", "c d"]),
            ),
            (
                "[context.arguments.a, {x: context.arguments.b}.x].contains(1)",
                only(&["a", "b"]),
            ),
        ] {
            assert_eq!(of(condition), expected, "{condition}");
        }
    }

    #[test]
    fn one_that_uses_all_of_them_at_once_looks_at_all() {
        for condition in [
            "context == context",
            "context.arguments == context.arguments",
            "{x: context}.x.arguments.a",
            "(if context.secret then context else context).arguments.body == \"\"",
        ] {
            assert_eq!(of(condition), LooksAt::All, "{condition}");
        }
    }
}
