//! The places of a result that the rules of a tool do not cover, for the author of the rules.

use std::collections::BTreeSet;

use ifc::Arguments;
use serde_json::Value;

use super::results::ResultLabels;
use super::rule::LabelRule;
use super::when::Met;
use crate::formats::{Document, Kind, Node};

/// Most listed places.
const MOST: usize = 50;

/// A place of a result that has the most restrictive label, since no rule gives it another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unnamed {
    /// The byte at which it begins.
    pub offset: usize,
    /// Its path, `$.mails[0].body`; `$` if the text cannot be read. The app chose the keys.
    pub path: String,
    /// Why no rule counts.
    pub reason: String,
}

impl ResultLabels {
    /// The first 50 places of the result of a call that no rule covers: values without a rule that counts, or not of the
    /// form of their rule, and keys that no rule names. Empty for a tool whose results have one label.
    #[must_use]
    pub fn unnamed(&self, arguments: &Arguments, text: &str) -> Vec<Unnamed> {
        if self.rules().is_empty() {
            return Vec::new();
        }
        let document = match Document::parse(text, self.format()) {
            Ok(document) => document,
            Err(error) => {
                let format = self.format().name();
                return vec![Unnamed {
                    offset: error.offset,
                    path: "$".to_owned(),
                    reason: format!("the text is not {format} to every reader: {error}"),
                }];
            }
        };
        let Ok(values) = document.values() else {
            return vec![Unnamed {
                offset: 0,
                path: "$".to_owned(),
                reason: "its values cannot be told apart".to_owned(),
            }];
        };
        self.walk(arguments, &document, &values)
    }

    fn walk(
        &self,
        arguments: &Arguments,
        document: &Document<'_>,
        values: &[&Value],
    ) -> Vec<Unnamed> {
        let met = self.met(arguments);
        let names: BTreeSet<&str> = self.named().collect();
        let selected: Vec<BTreeSet<usize>> = self
            .rules()
            .iter()
            .map(|rule| {
                let values = rule.path.select(document.value());
                values
                    .map(|value| std::ptr::from_ref(value).addr())
                    .collect()
            })
            .collect();
        let mut found = Vec::new();
        // For each node so far, whether a rule covers what is inside of it.
        let mut covers: Vec<bool> = Vec::new();
        for (node, value) in document.nodes().iter().zip(values) {
            if found.len() == MOST {
                break;
            }
            let covered = node.parent.and_then(|at| covers.get(at).copied());
            let covered = covered.unwrap_or(false);
            let address = std::ptr::from_ref(*value).addr();
            let selecting = self.rules().iter().zip(&selected).zip(&met);
            let selecting = selecting.filter(|((_, selected), _)| selected.contains(&address));
            let selecting = selecting.map(|((rule, _), met)| (rule, *met));
            let rules: Vec<(&LabelRule, Met)> = selecting
                .clone()
                .filter(|(_, met)| *met != Met::No)
                .collect();
            let of_rule = !rules.is_empty();
            let mut list = |offset: usize, reason: Option<String>| {
                found.extend(reason.map(|reason| Unnamed {
                    offset,
                    path: path(document, node),
                    reason,
                }));
            };
            if let Some(key) = &node.key {
                let is_known = covered || names.contains(document.slice(&key.inner));
                list(
                    key.span.start,
                    unnamed_key(&rules, document, node, is_known),
                );
            }
            let is_leaf = !matches!(node.kind, Kind::Array | Kind::Object);
            // A container without a rule is structure.
            let reason = match unformed_value(&rules, document, node) {
                None if is_leaf && !of_rule && !covered => Some(match selecting.count() {
                    0 => "no rule selects this value".to_owned(),
                    _ => "no rule that selects this value counts for this call".to_owned(),
                }),
                reason => reason,
            };
            list(node.span.start, reason);
            covers.push(covered || of_rule);
        }
        found
    }
}

/// Why no rule counts for a key: it is not of the form of its rules, or no rule names it.
fn unnamed_key(
    rules: &[(&LabelRule, Met)],
    document: &Document<'_>,
    node: &Node,
    is_known: bool,
) -> Option<String> {
    let mut own = rules.iter().filter(|(rule, _)| rule.key.is_some());
    let unformed = own.clone().find(|(rule, _)| !rule.has_key(document, node));
    match unformed {
        Some((rule, _)) => Some(format!(
            "the key is not of the form of the rule for {}",
            rule.path.as_str()
        )),
        None if own.next().is_none() && !is_known => Some("no rule spells out this key".to_owned()),
        None => None,
    }
}

/// Why a value has the most restrictive label although rules select it.
fn unformed_value(
    rules: &[(&LabelRule, Met)],
    document: &Document<'_>,
    node: &Node,
) -> Option<String> {
    rules.iter().find_map(|(rule, met)| {
        let why = match met {
            Met::Unknown => "it cannot be told whether this call meets the conditions of",
            _ => unformed(rule, document, node)?,
        };
        Some(format!("{why} the rule for {}", rule.path.as_str()))
    })
}

/// Whether the value, or an element of the list in it, is not of the form of a rule that counts.
fn unformed(rule: &LabelRule, document: &Document<'_>, node: &Node) -> Option<&'static str> {
    let form = rule.form.as_ref()?;
    let Some(list) = rule.list.filter(|_| node.kind != Kind::Null) else {
        return (!form.matches(document, node)).then_some("it is not of the form of");
    };
    let Some(pieces) = list.pieces(document, node) else {
        return Some("it is not a list as it is for");
    };
    let mut elements = pieces.iter().filter(|piece| piece.is_element);
    let unformed = elements.any(|piece| !form.matches_element(document, &piece.span));
    unformed.then_some("an element of it is not of the form of")
}

/// The path of a node. Written only for listed places, since a key of a megabyte is in the path of each value below it.
fn path(document: &Document<'_>, node: &Node) -> String {
    let parent = |node: &&Node| document.nodes().get(node.parent?);
    let mut steps: Vec<&Node> = std::iter::successors(Some(node), parent).collect();
    // The root has no step.
    steps.pop();
    let mut path = "$".to_owned();
    for step in steps.iter().rev() {
        let Some(key) = &step.key else {
            path.push_str(&format!("[{}]", step.index));
            continue;
        };
        let name = document.name(key);
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match !name.is_empty() && name.chars().all(plain) {
            true => path.push_str(&format!(".{name}")),
            false => path.push_str(&format!("[{}]", Value::from(name))),
        }
    }
    #[cfg(test)]
    tests::WRITTEN.with(|written| written.set(written.get() + path.len()));
    path
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ifc::Label;

    use super::*;
    use crate::LabelPath;

    thread_local! {
        /// Bytes of paths that were written.
        pub(super) static WRITTEN: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn a_path_is_written_for_a_place_that_is_listed_alone() {
        let rule = |path: &str| LabelRule::new(LabelPath::parse(path).unwrap(), Label::bottom());
        let labels = ResultLabels::new(vec![rule("$.*[0]"), rule("$.known")], None, None);
        let (key, values) = ("k".repeat(10_000), vec!["1"; 1_000].join(","));
        let text = format!("{{\"known\":1,\"{key}\":[[{values}],{{\"b c\":2}}]}}");
        let found = labels.unnamed(&Arguments::none(), &text);
        let paths: Vec<&str> = found.iter().map(|it| it.path.as_str()).collect();
        let (outer, inner) = (format!("$.{key}"), format!("$.{key}[1][\"b c\"]"));
        // The key, and then a key with its value.
        assert_eq!(paths, [&outer, &inner, &inner]);
        let written = WRITTEN.with(Cell::get);
        assert_eq!(written, paths.iter().map(|path| path.len()).sum::<usize>());
    }
}
