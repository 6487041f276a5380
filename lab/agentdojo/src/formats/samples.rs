//! Texts that PyYAML and Python wrote, with what they themselves read there, and where.

use std::collections::BTreeMap;

use policy::Format;
use policy::formats::{Document, Kind};
use serde_json::Value;

use super::{Python, Yaml};

struct Sample {
    format: String,
    text: String,
    value: Value,
    /// Path, first byte, one past the last byte if that is known.
    leaves: Vec<(Vec<Value>, usize, Option<usize>)>,
}

impl Sample {
    fn parse(line: &str) -> Self {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        let number = |value: &Value| value.as_u64().map(|number| number as usize);
        let leaf = |leaf: &Value| {
            let path = leaf[0].as_array().unwrap().clone();
            (path, number(&leaf[1]).unwrap(), number(&leaf[2]))
        };
        Self {
            format: text("format"),
            text: text("text"),
            value: line["value"].clone(),
            leaves: line["leaves"]
                .as_array()
                .unwrap()
                .iter()
                .map(leaf)
                .collect(),
        }
    }
}

/// What is refused although PyYAML or Python writes it: format and reason, and how often.
type Refused = BTreeMap<(String, &'static str), usize>;

/// Reads every sample; each that is accepted has the same value and the same spans.
fn check(samples: &str) -> (usize, Refused) {
    let mut refused = Refused::new();
    let mut total = 0;
    let mut wrong = Vec::new();
    for line in samples.lines() {
        let sample = Sample::parse(line);
        let format = match sample.format.as_str() {
            "yaml" => Format::Other(&Yaml),
            _ => Format::Other(&Python),
        };
        total += 1;
        let document = match Document::parse(&sample.text, format) {
            Ok(document) => document,
            Err(error) => {
                *refused.entry((sample.format, error.message)).or_default() += 1;
                continue;
            }
        };
        document.values().unwrap();
        if !same(document.value(), &sample.value) {
            wrong.push(format!(
                "{}\n{}\n{}",
                sample.text,
                document.value(),
                sample.value
            ));
        } else if let Some(place) = misplaced(&document, &sample) {
            wrong.push(format!("{place} of {}", sample.text));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {total}: {}",
        wrong.len(),
        wrong.join("\n---\n")
    );
    (total, refused)
}

/// Equal but for how a float is written.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        // Numbers and words that YAML 1.1 and 1.2 read differently are text here.
        (Value::String(text), Value::Bool(_) | Value::Number(_)) => !text.is_empty(),
        (a, b) => a == b,
    }
}

/// The first value that does not stand where it should.
fn misplaced(document: &Document<'_>, sample: &Sample) -> Option<String> {
    let leaves = document
        .nodes()
        .iter()
        .filter(|node| !matches!(node.kind, Kind::Array | Kind::Object));
    let leaves: Vec<_> = leaves.collect();
    if leaves.len() != sample.leaves.len() {
        return Some(format!("{} values", leaves.len()));
    }
    leaves
        .iter()
        .zip(&sample.leaves)
        .find_map(|(ours, (path, start, end))| {
            let expected = *start..end.unwrap_or(ours.span.end);
            (ours.span != expected)
                .then(|| format!("{path:?} at {:?}, not {expected:?}", ours.span))
        })
}

#[test]
fn what_pyyaml_and_python_write_is_read_as_they_read_it() {
    let (total, refused) = check(include_str!("../../tests/samples/samples.jsonl"));
    assert!(total > 800, "{total}");
    let shown: Vec<String> = refused
        .iter()
        .map(|((format, reason), count)| format!("{count} of {total}: {format}: {reason}"))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

/// For results of recorded runs, made by `tests/samples/generate.py RECORDED.json`.
#[test]
#[ignore = "reads the file that SLUICE_SAMPLES names"]
fn samples_of_the_environment() {
    let path = std::env::var("SLUICE_SAMPLES").unwrap();
    let (total, refused) = check(&std::fs::read_to_string(path).unwrap());
    assert!(refused.is_empty(), "of {total}: {refused:?}");
}
