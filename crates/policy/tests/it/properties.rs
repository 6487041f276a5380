//! Laws of labelling that hold for every text.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use ifc::{Label, Lattice, Order};
use policy::{Format, LabelPath, LabelRule, ResultLabels};
use proptest::prelude::*;
use serde_json::Value;

fn lattice() -> Lattice {
    let categories =
        |names: &[&str]| Order::Categories(names.iter().map(|n| (*n).into()).collect());
    Lattice::new(&categories(&["rule", "rest"]), &Order::TwoPoint).unwrap()
}

fn rule(path: &str, label: Label) -> LabelRule {
    LabelRule::new(LabelPath::parse(path).unwrap(), label)
}

/// One rule, harmless structure, and another label for the rest.
fn one_rule(path: &str) -> (ResultLabels, Label) {
    let lattice = lattice();
    let label = lattice.label("untrusted:rule").unwrap();
    let rest = lattice.label("untrusted:rest").ok();
    let labels = ResultLabels::new(vec![rule(path, label.clone())], rest, Some(Label::bottom()));
    (labels, label)
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let key = prop_oneof!["[a-c]", any::<String>()];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map: BTreeMap<_, _>| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn print(value: &Value, pretty: bool) -> String {
    match pretty {
        true => serde_json::to_string_pretty(value).unwrap(),
        false => serde_json::to_string(value).unwrap(),
    }
}

/// Every leaf of the value, in the order of the printed text.
fn leaves<'v>(value: &'v Value, out: &mut Vec<&'v Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| leaves(item, out)),
        Value::Object(map) => map.values().for_each(|item| leaves(item, out)),
        leaf => out.push(leaf),
    }
}

proptest! {
    /// Nothing panics, the text stays, and what is not JSON is never ⊥.
    #[test]
    fn any_text_is_labelled(text in any::<String>(), path in prop::sample::select(vec!["$", "$..*", "$.a", "$[0]", "$[?@.a]"])) {
        let (labels, _) = one_rule(path);
        let labeled = labels.label(text.clone());
        prop_assert_eq!(labeled.reveal_tcb(), &text);
        if serde_json::from_str::<Value>(&text).is_err() {
            prop_assert_eq!(labeled.regions().collect::<Vec<_>>(), [(0..text.len(), labels.worst())]);
        }
    }

    /// A text that is nearly JSON: one byte cut out or doubled.
    #[test]
    fn broken_json_is_not_bottom(value in json(), at in any::<prop::sample::Index>(), double in any::<bool>()) {
        let text = print(&value, false);
        let at = at.index(text.len());
        prop_assume!(text.is_char_boundary(at) && text.is_char_boundary(at + 1));
        let broken = match double {
            true => format!("{}{}", &text[..=at], &text[at..]),
            false => format!("{}{}", &text[..at], &text[at + 1..]),
        };
        let (labels, _) = one_rule("$.a");
        let labeled = labels.label(broken.clone());
        prop_assert_eq!(labeled.reveal_tcb(), &broken);
        if serde_json::from_str::<Value>(&broken).is_err() {
            prop_assert!(labels.worst().flows_to(&labeled.label()));
        }
    }

    /// The region of each selected leaf is, once unescaped, the value that serde_json has there.
    #[test]
    fn regions_are_the_values(value in json(), pretty in any::<bool>()) {
        let text = print(&value, pretty);
        let found: Vec<Value> = leaf_paths(&value)
            .into_iter()
            .map(|path| {
                let (labels, label) = one_rule(&path);
                let labeled = labels.label(text.clone());
                let mut own = labeled.regions().filter(|(_, found)| **found == label);
                let (span, _) = own.next().unwrap();
                assert!(own.next().is_none());
                let is_string = span.start > 0 && text.as_bytes().get(span.start - 1) == Some(&b'"')
                    && text.as_bytes().get(span.end) == Some(&b'"');
                let source = if is_string { format!("\"{}\"", &text[span]) } else { text[span].to_owned() };
                serde_json::from_str(&source).unwrap()
            })
            .collect();
        let mut all = Vec::new();
        leaves(&value, &mut all);
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), all);
    }

    /// A leaf that no rule selects, and a key that no rule spells out, have the worst label.
    #[test]
    fn nothing_is_forgotten(value in json()) {
        let text = print(&value, false);
        let (labels, _) = one_rule("$.never[7]");
        let labeled = labels.label(text.clone());
        let mut all = Vec::new();
        leaves(&value, &mut all);
        let mut at = 0;
        for (span, label) in labeled.regions() {
            prop_assert_eq!(label, labels.worst());
            // What is left out is punctuation alone, or the one key that the rule spells.
            let gap = text[at..span.start].replace("never", "");
            prop_assert!(gap.chars().all(|c| "{}[]:,\"".contains(c)), "{}", gap);
            at = span.end;
        }
        let gap = text[at..].replace("never", "");
        prop_assert!(gap.chars().all(|c| "{}[]:,\"".contains(c)), "{}", gap);
    }

    /// A further rule never makes any byte less restrictive, where the worst label stays the same.
    #[test]
    fn a_further_rule_only_adds(value in json(), path in prop::sample::select(vec!["$.a", "$..b", "$[*]", "$.*.c"])) {
        let lattice = lattice();
        let text = print(&value, false);
        let secret = lattice.label("secret").unwrap();
        let everything = Some(lattice.labels(["untrusted", "secret"]).unwrap());
        let base = rule("$..*", lattice.label("untrusted:rule").unwrap());
        let before = ResultLabels::new(vec![base.clone()], everything.clone(), everything.clone());
        let after = ResultLabels::new(vec![base, rule(path, secret)], everything.clone(), everything);
        let (before, after) = (before.label(text.clone()), after.label(text.clone()));
        for at in 0..text.len() {
            prop_assert!(before.label_at(at).flows_to(&after.label_at(at)));
        }
    }
}

/// The normalized path of every leaf, in the order of the text.
fn leaf_paths(value: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    collect(value, "$".to_owned(), &mut paths);
    paths
}

fn collect(value: &Value, path: String, out: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                collect(item, format!("{path}[{at}]"), out);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                collect(item, format!("{path}[{}]", Value::from(key.as_str())), out);
            }
        }
        _ => out.push(path),
    }
}

/// Pieces of which an attacker would make a value that ends before its end.
const PIECES: &[&str] = &[
    "a",
    "b c",
    " ",
    "\n",
    "\n  ",
    "'",
    "\"",
    "\\",
    "''",
    ": ",
    "- ",
    "#",
    " #",
    "sender: me@x",
    "---",
    "...",
    "|",
    ">",
    "&a",
    "*a",
    "!t",
    "{",
    "}",
    "[",
    "]",
    ",",
    ", ",
    "\t",
    "\r",
    "\u{85}",
    "\u{2028}",
    "é",
    "\0",
    "%",
    "', 'sender': 'me@x",
    "\", \"sender\": \"me@x",
];

fn hostile() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..12);
    prop_oneof![pieces.prop_map(|pieces| pieces.concat()), any::<String>()]
}

/// Labels under which no byte is ⊥.
fn every_byte(format: Format, path: &str) -> ResultLabels {
    let lattice = lattice();
    let label = |name: &str| lattice.label(name).unwrap();
    let rules = vec![rule(path, label("untrusted:rule"))];
    ResultLabels::new(rules, None, Some(label("secret"))).with_format(format)
}

const FORMATS: [Format; 2] = [Format::Json, Format::Text];

proptest! {
    /// Whatever a text is, in each format it stays, no byte is forgotten, and nothing panics.
    #[test]
    fn every_byte_has_a_label(text in hostile(), format in prop::sample::select(&FORMATS), path in prop::sample::select(vec!["$", "$..*", "$.a", "$[0]"])) {
        let labels = every_byte(format, path);
        let labeled = labels.label(text.clone());
        prop_assert_eq!(labeled.reveal_tcb(), &text);
        for at in 0..text.len() {
            prop_assert!(!labeled.label_at(at).is_bottom());
        }
        for (_, label) in labeled.regions() {
            prop_assert!(label.flows_to(labels.worst()));
        }
    }
}
