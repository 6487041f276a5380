//! Metrics of scores and predictions. Each counts a pair by its weight.

use std::collections::BTreeMap;

use serde::Serialize;

/// A region of a step with its label and its prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredPair {
    /// The index of its step.
    pub step: usize,
    /// The index of its user task.
    pub task: usize,
    /// Whether the call depends on the region.
    pub label: bool,
    /// The predicted probability.
    pub score: f64,
    /// Whether it is above the threshold for accuracy.
    pub predicted: bool,
    /// The sampling weight.
    pub weight: f64,
}

/// The metrics of one scorer; `None` where one is not defined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// The fraction of correct predictions, at the threshold for accuracy.
    pub accuracy: Option<f64>,
    /// The area under the ROC curve: the probability that a positive ranks above a negative, with equal scores counted
    /// half. `None` without pairs of both classes and different scores.
    pub auroc: Option<f64>,
}

impl Metrics {
    /// The metrics of these pairs.
    pub fn of(pairs: &[ScoredPair]) -> Self {
        let all = weight(pairs, |_| true);
        let right = weight(pairs, |pair| pair.predicted == pair.label);
        Self {
            accuracy: (all > 0.0).then(|| right / all),
            auroc: auroc(pairs),
        }
    }
}

fn weight(pairs: &[ScoredPair], counts: impl Fn(&ScoredPair) -> bool) -> f64 {
    let counted = pairs.iter().filter(|pair| counts(pair));
    counted.map(|pair| pair.weight).sum()
}

fn auroc(pairs: &[ScoredPair]) -> Option<f64> {
    let mut sorted = pairs.to_vec();
    sorted.sort_by(|a, b| b.score.total_cmp(&a.score));
    let (mut groups, mut positives, mut negatives, mut above) = (0, 0.0, 0.0, 0.0);
    for group in sorted.chunk_by(|a, b| a.score == b.score) {
        let here = weight(group, |pair| pair.label);
        let below = weight(group, |pair| !pair.label);
        // Each negative counts the positives above it, and half of those with its own score.
        above += below * (positives + here / 2.0);
        (groups, positives, negatives) = (groups + 1, positives + here, negatives + below);
    }
    let is_defined = groups > 1 && positives > 0.0 && negatives > 0.0;
    is_defined.then(|| above / (positives * negatives))
}

/// The effective sample size in steps (Kish), by the weights of their pairs: the square of the sum over the sum of
/// squares. 0 without any.
pub fn effective_steps(pairs: &[ScoredPair]) -> f64 {
    let mut steps: BTreeMap<usize, f64> = BTreeMap::new();
    for pair in pairs {
        *steps.entry(pair.step).or_default() += pair.weight;
    }
    let sum: f64 = steps.values().sum();
    let squares: f64 = steps.values().map(|weight| weight * weight).sum();
    if squares > 0.0 {
        sum * sum / squares
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests;
