//! The engine against PyTorch's autograd in f64 (`lab/attention/python/reference.py`).
use std::{path::PathBuf, sync::Arc};

use saliency::{CACHE_BYTES, Engine, Model, Observer, Row, gguf::Gguf};
use serde_json::Value;

/// The issue asks for this.
const RELATIVE: f64 = 1e-3;
/// Of the largest number in the row.
const ABSOLUTE: f64 = 1e-4;

/// `None`, after a loud line, where the model is not pulled.
fn engine() -> Option<Engine> {
    let path = super::model()?;
    let model = Model::from_gguf(&Gguf::open(&path).unwrap()).unwrap();
    Some(Engine::new(Arc::new(model), CACHE_BYTES).unwrap())
}

fn golden(name: &str) -> Value {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().unwrap().iter();
    list.map(|number| number.as_f64().unwrap()).collect()
}

fn tokens(value: &Value) -> Vec<u32> {
    numbers(value)
        .into_iter()
        .map(|number| number as u32)
        .collect()
}

/// Each number within a thousandth, or within a ten-thousandth of the largest beside it: where a sum
/// cancels out, its relative error says nothing.
fn compare(what: &str, found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected
        .iter()
        .fold(0.0_f64, |most, number| most.max(number.abs()));
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(
            error <= RELATIVE * expected.abs() + ABSOLUTE * largest,
            "{what}, {at}: {found} is not {expected}"
        );
    }
}

/// Keeps the rows that a golden file has.
struct Keep {
    wanted: Vec<(usize, usize, usize)>,
    kept: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Observer for Keep {
    fn row(&mut self, row: Row<'_>) {
        let key = (row.output, row.layer, row.head);
        if let Some(at) = self.wanted.iter().position(|wanted| *wanted == key) {
            self.kept[at] = (row.attention.to_vec(), row.gradient.to_vec());
        }
    }
}

fn check(name: &str) {
    let Some(engine) = engine() else { return };
    let golden = golden(name);
    let (history, output) = (tokens(&golden["history"]), tokens(&golden["output"]));
    let saliency = crate::saliency(&engine, &history, &output).unwrap();
    compare("loss", &saliency.losses, &numbers(&golden["losses"]));
    let sums: Vec<f32> = saliency.rows.iter().map(|row| row.iter().sum()).collect();
    compare("sum of a row", &sums, &numbers(&golden["row_sums"]));
    if let Some(rows) = golden["saliency"].as_array() {
        for (row, expected) in rows.iter().enumerate() {
            compare(
                &format!("row {row}"),
                &saliency.rows[row],
                &numbers(expected),
            );
        }
    }
    for (row, top) in golden["top"].as_array().unwrap().iter().enumerate() {
        for entry in top.as_array().unwrap() {
            let at = entry[0].as_u64().unwrap() as usize;
            let found = saliency.rows[row][at];
            compare(
                &format!("top of row {row}, {at}"),
                &[found],
                &[entry[1].as_f64().unwrap()],
            );
        }
    }
    let rows = golden["rows"].as_array().unwrap();
    let key = |row: &Value, name: &str| row[name].as_u64().unwrap() as usize;
    let mut keep = Keep {
        wanted: rows
            .iter()
            .map(|row| (key(row, "output"), key(row, "layer"), key(row, "head")))
            .collect(),
        kept: vec![(Vec::new(), Vec::new()); rows.len()],
    };
    // The second time from the cache.
    assert_eq!(engine.cached(&history), history.len() - 1);
    engine.observe(&history, &output, &mut keep).unwrap();
    for (row, (attention, gradient)) in rows.iter().zip(&keep.kept) {
        compare("attention", attention, &numbers(&row["attention"]));
        compare("gradient", gradient, &numbers(&row["gradient"]));
    }
}

#[test]
fn a_short_history_is_as_autograd_has_it() {
    check("tiny.json");
}

#[test]
fn a_history_of_some_blocks_is_as_autograd_has_it() {
    check("medium.json");
}

#[test]
fn a_long_history_is_as_autograd_has_it() {
    check("long.json");
}
