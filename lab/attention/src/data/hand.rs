//! Labels of a sample that was read one by one, "by hand": reading them, and how far two readers agree.
//!
//! No person made them. The readers were two separate runs of one language model that followed a written
//! guideline, and a third reading of the same kind settled where they differ: see `data/hand/README.md`.
//! Two runs of one model share its mistakes, so their agreement is weaker evidence than that of two people.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::sample::{Sampled, fraction};

/// A region of a step, by the step's id and the region's number.
pub type Pair = (String, u32);

/// One answer of a reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandLabel {
    /// The step.
    pub step: String,
    /// The region's number.
    pub region: u32,
    /// Its letter in the sheet.
    pub letter: char,
    /// Whether the step depends on it.
    pub dependent: bool,
    /// From 1, a guess, to 3, certain.
    pub confidence: u8,
    /// Why, in a few words.
    pub note: String,
}

/// The sample that is in the repository.
///
/// # Errors
/// A line is wrong.
pub fn sample() -> Result<Vec<Sampled>> {
    lines("sample.jsonl", include_str!("../../data/hand/sample.jsonl"))
}

/// The labels that are in the repository: what both passes say, or the adjudication.
///
/// # Errors
/// A file is wrong, or a disagreement is not settled.
pub fn builtin(sample: &[Sampled]) -> Result<BTreeMap<Pair, bool>> {
    let [first, second] = passes(sample)?;
    let last = include_str!("../../data/hand/adjudicated.jsonl");
    let last = answers("adjudicated.jsonl", last, sample)?;
    settled(&first, &second, &last)
}

/// The two passes that are in the repository.
///
/// # Errors
/// A line is wrong, or an answer is missing.
pub fn passes(sample: &[Sampled]) -> Result<[BTreeMap<Pair, HandLabel>; 2]> {
    let first = include_str!("../../data/hand/pass-1.jsonl");
    let second = include_str!("../../data/hand/pass-2.jsonl");
    Ok([
        pass("pass-1.jsonl", first, sample)?,
        pass("pass-2.jsonl", second, sample)?,
    ])
}

/// The answers of one pass: each question of the sample once, in any order.
///
/// # Errors
/// A line is wrong, answers what was not asked or was answered already, or an answer is missing.
pub fn pass(file: &str, text: &str, sample: &[Sampled]) -> Result<BTreeMap<Pair, HandLabel>> {
    let found = answers(file, text, sample)?;
    match asked(sample).keys().find(|pair| !found.contains_key(*pair)) {
        None => Ok(found),
        Some((step, region)) => bail!("{file} has no answer for region {region} of {step}; add it"),
    }
}

/// The answers in a file, which need not be all; used for adjudication.
///
/// # Errors
/// A line is wrong, or answers what was not asked or was answered already.
pub fn answers(file: &str, text: &str, sample: &[Sampled]) -> Result<BTreeMap<Pair, HandLabel>> {
    let asked = asked(sample);
    let mut found = BTreeMap::new();
    for (line, label) in (1..).zip(lines::<HandLabel>(file, text)?) {
        let place = format!("{file}, line {line}");
        let pair = (label.step.clone(), label.region);
        let Some(letter) = asked.get(&pair) else {
            bail!(
                "{place}: region {} of {} is not asked; remove it",
                pair.1,
                pair.0
            );
        };
        // The letter is what the reader saw in the sheet: with another letter the answer is about another region.
        ensure!(
            *letter == label.letter,
            "{place}: region {} has the letter {letter}; correct it",
            pair.1
        );
        ensure!(
            (1..=3).contains(&label.confidence),
            "{place}: the confidence is not 1, 2 or 3"
        );
        ensure!(
            found.insert(pair, label).is_none(),
            "{place}: this region has been answered before; remove it"
        );
    }
    Ok(found)
}

/// The sampling weight of each pair: the inverse of its probability of being drawn.
#[must_use]
pub fn weights(sample: &[Sampled]) -> BTreeMap<Pair, f64> {
    let pairs = sample.iter().flat_map(|sampled| {
        sampled.regions.iter().map(|pick| {
            // The probability of the region within its kind, times that of the step.
            let region = fraction(pick.drawn, pick.of);
            let weight = 1.0 / (sampled.probability * region);
            ((sampled.step.clone(), pick.region), weight)
        })
    });
    pairs.collect()
}

/// How far two passes agree.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// Pairs that both have answered.
    pub pairs: usize,
    /// The fraction of them with the same answer.
    pub raw: f64,
    /// Cohen's kappa: agreement beyond chance; 1 where nothing else was possible.
    pub kappa: f64,
    /// What they do not agree about.
    pub disagreements: Vec<Pair>,
}

/// Compares two passes.
#[must_use]
pub fn agreement(
    first: &BTreeMap<Pair, HandLabel>,
    second: &BTreeMap<Pair, HandLabel>,
) -> Agreement {
    let both: Vec<(&Pair, bool, bool)> = first
        .iter()
        .filter_map(|(pair, one)| Some((pair, one.dependent, second.get(pair)?.dependent)))
        .collect();
    let count = |test: &dyn Fn(bool, bool) -> bool| {
        both.iter()
            .filter(|(_, one, other)| test(*one, *other))
            .count()
    };
    let of = both.len();
    let raw = fraction(count(&|one, other| one == other), of);
    let (one, other) = (
        fraction(count(&|one, _| one), of),
        fraction(count(&|_, other| other), of),
    );
    let chance = one * other + (1.0 - one) * (1.0 - other);
    // Where both readers gave one answer throughout, kappa would be 0 / 0.
    let kappa = if chance < 1.0 {
        (raw - chance) / (1.0 - chance)
    } else {
        1.0
    };
    let differ = both.iter().filter(|(_, one, other)| one != other);
    Agreement {
        pairs: of,
        raw,
        kappa,
        disagreements: differ.map(|(pair, ..)| (*pair).clone()).collect(),
    }
}

/// The labels that count: what both passes say, and the adjudication where they differ.
///
/// # Errors
/// A disagreement is not adjudicated, or something else is.
pub fn settled(
    first: &BTreeMap<Pair, HandLabel>,
    second: &BTreeMap<Pair, HandLabel>,
    adjudicated: &BTreeMap<Pair, HandLabel>,
) -> Result<BTreeMap<Pair, bool>> {
    // An adjudication of what nobody disputes would have no effect, so it is a mistake in the file.
    let open = agreement(first, second).disagreements;
    if let Some((step, region)) = adjudicated.keys().find(|pair| !open.contains(pair)) {
        bail!(
            "adjudicated.jsonl answers region {region} of {step}, about which both passes agree; remove it"
        );
    }
    let mut found = BTreeMap::new();
    for (pair, label) in first.iter().filter(|(pair, _)| second.contains_key(*pair)) {
        let last = match open.contains(pair) {
            false => label,
            true => adjudicated.get(pair).with_context(|| {
                let (step, region) = pair;
                format!("adjudicated.jsonl has no answer for region {region} of {step}; add it")
            })?,
        };
        found.insert(pair.clone(), last.dependent);
    }
    Ok(found)
}

fn asked(sample: &[Sampled]) -> BTreeMap<Pair, char> {
    let pairs = sample.iter().flat_map(|sampled| {
        let picks = sampled.regions.iter();
        picks.map(|pick| ((sampled.step.clone(), pick.region), pick.letter))
    });
    pairs.collect()
}

fn lines<T: for<'de> Deserialize<'de>>(file: &str, text: &str) -> Result<Vec<T>> {
    let each = (1..).zip(text.lines()).map(|(line, json)| {
        serde_json::from_str(json).with_context(|| format!("{file}, line {line}: correct it"))
    });
    each.collect()
}
