//! The scopes of trust: values, texts, or all text of some writers; and the irreversible calls that each covers.

use crate::json::{Json, Kind};
use crate::{ArgumentPath, Arguments, Call, Effect, Labeled, Rule, Source, Writer};

/// How much of the texts of a question the user vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The values of the call that stand in them.
    Values,
    /// The texts.
    Texts,
    /// All text of their writers.
    Writers,
}

/// What the user vouches for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Trusted {
    /// These parts of a text of this source, in this order; a value is one part.
    Parts(Source, Vec<String>),
    /// All text of a writer.
    Writer(Writer),
}

/// The irreversible calls that trust covers. The question names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Final {
    /// Calls of this tool with these control arguments, by value.
    Same(String, Labeled),
    /// Calls whose control arguments have only values that stand in these texts, which the user has read or written, and
    /// the flags of the call that was shown. A call without values is covered only if it is of the same tool.
    Named {
        /// The tool.
        tool: String,
        /// The flags.
        flags: Vec<String>,
        /// The texts.
        texts: Vec<Labeled>,
    },
}

impl Final {
    /// This call and its like.
    pub(crate) fn same(call: &Call, rule: &Rule) -> Self {
        let control = call.arguments.by_value(rule.arguments.keys());
        Self::Same(call.tool.clone(), Labeled::trusted_tcb(control))
    }

    /// Calls with values that these texts name, and flags as in this call.
    pub(crate) fn named(call: &Call, rule: &Rule, texts: Vec<Labeled>) -> Self {
        Self::Named {
            tool: call.tool.clone(),
            flags: flags(&call.arguments, rule),
            texts,
        }
    }

    /// Whether it covers a call under its rule.
    pub(crate) fn covers(&self, call: &Call, rule: &Rule) -> bool {
        match self {
            _ if rule.effect < Effect::Irreversible => true,
            Self::Same(..) => *self == Self::same(call, rule),
            Self::Named {
                tool,
                flags: shown,
                texts,
            } => {
                let texts = texts.iter().map(Labeled::reveal_tcb);
                let stands = |value: &String| texts.clone().any(|it| has_word(it, value));
                let values = values(&call.arguments, rule);
                values.iter().all(stands)
                    && flags(&call.arguments, rule) == *shown
                    && (*tool == call.tool || !values.is_empty())
            }
        }
    }
}

/// The strings and numbers of a call's control arguments, names of members included, since a map can be keyed by
/// recipients. An argument with data inside counts as a whole.
pub(crate) fn values(arguments: &Arguments, rule: &Rule) -> Vec<String> {
    let is_data = |name: &str| rule.arguments.contains_key(&ArgumentPath::of(name));
    let mut values = Vec::new();
    for (_, value) in arguments.iter().filter(|(name, _)| !is_data(name)) {
        // Values are canonical, so this does not fail.
        let Ok(json) = Json::read(value.reveal_tcb()) else {
            values.push(value.reveal_tcb().to_owned());
            continue;
        };
        for node in json.nodes() {
            values.extend(node.key.as_ref().map(|key| json.name(key).to_owned()));
            match node.kind {
                Kind::String => values.extend(json.string(node)),
                Kind::Number => values.push(json.slice(&node.span).to_owned()),
                _ => {}
            }
        }
    }
    values
}

/// The booleans and nulls of a call's control arguments, with the names of their arguments and members. No text names such a
/// value as a word of its own.
fn flags(arguments: &Arguments, rule: &Rule) -> Vec<String> {
    let is_data = |name: &str| rule.arguments.contains_key(&ArgumentPath::of(name));
    let mut flags = Vec::new();
    for (name, value) in arguments.iter().filter(|(name, _)| !is_data(name)) {
        // What is no JSON is one of the values.
        let Ok(json) = Json::read(value.reveal_tcb()) else {
            continue;
        };
        for node in json.nodes() {
            if let Kind::Boolean | Kind::Null = node.kind {
                let key = node.key.as_ref().map_or("", |key| json.name(key));
                flags.push(format!("{name} {key} {}", json.slice(&node.span)));
            }
        }
    }
    flags
}

/// Whether a value stands in a text as a word of its own: `bob@x.org` does not stand in `rob-bob@x.org.example`, and `12`
/// not in `112.50`.
fn has_word(text: &str, value: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || "@_-+%/\\".contains(c);
    let value = value.trim();
    let mut found = text.match_indices(value).map(|(at, _)| {
        let before = text.get(..at).unwrap_or_default().chars().next_back();
        let mut after = text.get(at + value.len()..).unwrap_or_default().chars();
        let goes_on = match after.next() {
            // A full stop ends a sentence, and "example.org.evil" goes on.
            Some('.' | ',' | ':' | '\'') => after.next().is_some_and(joins),
            next => next.is_some_and(joins),
        };
        !(before.is_some_and(|c| joins(c) || ".,".contains(c)) || goes_on)
    });
    value.is_empty() || found.any(|is_word| is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stands_in_a_text_as_a_word_of_its_own() {
        let text = "Pay 98.70 to DE89 3704, ask bob@x.org. Not 1200 or -5.";
        for (value, expected) in [
            ("bob@x.org", true),
            ("DE89 3704", true),
            (" ", true),
            ("ob@x.org", false),
            ("bob@x", false),
            ("x.org", false),
            ("b\u{43e}b@x.org", false),
            ("98.70", true),
            ("98", false),
            ("70", false),
            ("120", false),
            ("5", false),
        ] {
            assert_eq!(has_word(text, value), expected, "{value:?}");
        }
    }
}
