//! Labels of 400 regions that were read one by one, "by hand".
//!
//! No person made them. The readers were two separate runs of one language model that followed a written guideline, and a
//! third reading of the same kind decided where they differ: see `data/hand/README.md`. Two runs of one model share its
//! mistakes, so their agreement is weaker evidence than that of two people.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

/// A region of a step, by the step's id and the region's number.
pub type Pair = (String, u32);

/// A step that was read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Sampled {
    /// The step.
    pub step: String,
    /// The probability with which it was drawn.
    pub probability: f64,
    /// Its regions that were read.
    pub regions: Vec<Pick>,
}

/// A region that was read. Half of them share a word with the step's call where there are enough.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Pick {
    /// Its number in the step's history.
    pub region: u32,
    /// The regions of its kind that were drawn in this step.
    pub drawn: usize,
    /// All regions of its kind in this step.
    pub of: usize,
}

#[derive(Deserialize)]
struct Answer {
    step: String,
    region: u32,
    dependent: bool,
}

/// The sample: 25 steps of each suite.
pub fn sample() -> Result<Vec<Sampled>> {
    lines(include_str!("../../data/hand/sample.jsonl")).context("sample.jsonl")
}

/// Whether each step depends on the region, as both readers say, or the third where they differ.
///
/// # Errors
/// A line is wrong, or a disagreement is not decided.
pub fn builtin() -> Result<BTreeMap<Pair, bool>> {
    let [mut labels, second] = passes()?;
    let decided = answers(include_str!("../../data/hand/adjudicated.jsonl"))?;
    for (pair, label) in &mut labels {
        if second.get(pair) != Some(label) {
            *label = *decided
                .get(pair)
                .with_context(|| format!("{pair:?} is not decided"))?;
        }
    }
    Ok(labels)
}

fn passes() -> Result<[BTreeMap<Pair, bool>; 2]> {
    Ok([
        answers(include_str!("../../data/hand/pass-1.jsonl"))?,
        answers(include_str!("../../data/hand/pass-2.jsonl"))?,
    ])
}

/// The sampling weight of each pair: the inverse of its probability of being drawn.
pub fn weights(sample: &[Sampled]) -> BTreeMap<Pair, f64> {
    let pairs = sample.iter().flat_map(|sampled| {
        sampled.regions.iter().map(|pick| {
            // The probability of the step, times that of the region within its kind.
            let probability = sampled.probability * pick.drawn as f64 / pick.of as f64;
            ((sampled.step.clone(), pick.region), 1.0 / probability)
        })
    });
    pairs.collect()
}

/// How far the two readers agree.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// Pairs that both have answered.
    pub pairs: usize,
    /// The fraction of them with the same answer.
    pub raw: f64,
    /// Cohen's kappa: agreement beyond chance.
    pub kappa: f64,
}

/// Compares the two readers.
pub fn agreement() -> Result<Agreement> {
    let [first, second] = passes()?;
    let both = first
        .iter()
        .filter_map(|(pair, one)| Some((*one, *second.get(pair)?)));
    let both: Vec<(bool, bool)> = both.collect();
    let part = |test: &dyn Fn(bool, bool) -> bool| {
        let count = both
            .iter()
            .filter(|(one, other)| test(*one, *other))
            .count();
        count as f64 / both.len() as f64
    };
    let raw = part(&|one, other| one == other);
    let (one, other) = (part(&|one, _| one), part(&|_, other| other));
    let chance = one * other + (1.0 - one) * (1.0 - other);
    Ok(Agreement {
        pairs: both.len(),
        raw,
        kappa: (raw - chance) / (1.0 - chance),
    })
}

fn answers(text: &str) -> Result<BTreeMap<Pair, bool>> {
    let answers = lines::<Answer>(text)?.into_iter();
    Ok(answers
        .map(|it| ((it.step, it.region), it.dependent))
        .collect())
}

fn lines<T: for<'de> Deserialize<'de>>(text: &str) -> Result<Vec<T>> {
    let each = (1..).zip(text.lines());
    each.map(|(line, json)| serde_json::from_str(json).with_context(|| format!("line {line}")))
        .collect()
}
