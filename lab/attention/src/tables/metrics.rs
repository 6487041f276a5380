//! Metrics of scores and predictions. Each counts a pair by its weight.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// A region of a step with its label and its prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredPair {
    /// The index of its step.
    pub step: usize,
    /// The index of its user task: steps of one are near copies of each other, and no independent evidence.
    pub task: usize,
    /// Whether the call depends on the region.
    pub label: bool,
    /// The predicted probability.
    pub score: f64,
    /// Whether it is above the threshold for accuracy.
    pub predicted: bool,
    /// Whether it is above the threshold for the target recall.
    pub kept: bool,
    /// The sampling weight.
    pub weight: f64,
}

/// The confusion matrix, in weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Confusion {
    /// Dependent, and predicted so.
    pub true_positives: f64,
    /// Independent, but predicted to be dependent.
    pub false_positives: f64,
    /// Dependent, but predicted to be independent.
    pub false_negatives: f64,
    /// Independent, and predicted so.
    pub true_negatives: f64,
}

impl Confusion {
    /// Counts `(label, prediction, weight)`.
    pub fn of(predictions: impl Iterator<Item = (bool, bool, f64)>) -> Self {
        let mut all = Self::default();
        for (label, predicted, weight) in predictions {
            match (label, predicted) {
                (true, true) => all.true_positives += weight,
                (false, true) => all.false_positives += weight,
                (true, false) => all.false_negatives += weight,
                (false, false) => all.true_negatives += weight,
            }
        }
        all
    }

    /// The fraction of correct predictions.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        let right = self.true_positives + self.true_negatives;
        ratio(right, self.false_positives + self.false_negatives)
    }

    /// The fraction of positive predictions that are correct.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        ratio(self.true_positives, self.false_positives)
    }

    /// The fraction of positives that are predicted.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        ratio(self.true_positives, self.false_negatives)
    }

    /// The harmonic mean of precision and recall; 0 without a true positive.
    #[must_use]
    pub fn f1(&self) -> Option<f64> {
        let errors = self.false_positives + self.false_negatives;
        ratio(2.0 * self.true_positives, errors)
    }

    /// The fraction of positive predictions: what stays in sight.
    #[must_use]
    pub fn positive_rate(&self) -> Option<f64> {
        let positive = self.true_positives + self.false_positives;
        ratio(positive, self.false_negatives + self.true_negatives)
    }
}

/// `None` of nothing.
fn ratio(part: f64, rest: f64) -> Option<f64> {
    (part + rest > 0.0).then(|| part / (part + rest))
}

/// Labels with their weights, from the highest score down; equal scores are one group.
pub struct Ranking(Vec<Ranked>);

struct Ranked {
    task: usize,
    label: bool,
    weight: f64,
    /// Whether the next one's score is lower.
    ends_group: bool,
}

/// The weight of positives and of negatives.
type Sums = (f64, f64);

impl Ranking {
    /// Sorts pairs by their score.
    #[must_use]
    pub fn new(pairs: &[ScoredPair]) -> Self {
        let mut sorted: Vec<&ScoredPair> = pairs.iter().collect();
        sorted.sort_by(|a, b| b.score.total_cmp(&a.score));
        let next = sorted.iter().skip(1).map(|pair| Some(pair.score));
        let next = next.chain([None]);
        let ranked = sorted.iter().zip(next).map(|(pair, next)| Ranked {
            task: pair.task,
            label: pair.label,
            weight: pair.weight,
            ends_group: next != Some(pair.score),
        });
        Self(ranked.collect())
    }

    /// A scorer that gives all regions the same score has no ranking to be judged by.
    fn has_order(&self) -> bool {
        self.0.iter().filter(|one| one.ends_group).count() > 1
    }

    /// The area under the ROC curve: the probability that a positive ranks above a negative, with equal scores counted
    /// half. Each user task's pairs count `times(task)`. `None` without pairs of both classes and different scores.
    pub fn auroc(&self, times: impl Fn(usize) -> f64 + Copy) -> Option<f64> {
        let (positives, negatives) = self.totals(times);
        let mut above = 0.0;
        self.for_each_group(times, |before, here| {
            // Each negative counts the positives above it, and half of those with its own score.
            above += here.1 * (before.0 + here.0 / 2.0);
        });
        let is_defined = self.has_order() && positives > 0.0 && negatives > 0.0;
        is_defined.then(|| above / (positives * negatives))
    }

    fn totals(&self, times: impl Fn(usize) -> f64) -> Sums {
        let mut totals = (0.0, 0.0);
        for one in &self.0 {
            add(&mut totals, one, &times);
        }
        totals
    }

    /// Visits each group of equal scores with what is above it and what is in it.
    fn for_each_group(&self, times: impl Fn(usize) -> f64, mut visit: impl FnMut(Sums, Sums)) {
        let (mut before, mut here) = ((0.0, 0.0), (0.0, 0.0));
        for one in &self.0 {
            add(&mut here, one, &times);
            if one.ends_group {
                visit(before, here);
                before = (before.0 + here.0, before.1 + here.1);
                here = (0.0, 0.0);
            }
        }
    }
}

fn add(sums: &mut Sums, one: &Ranked, times: &impl Fn(usize) -> f64) {
    let weight = one.weight * times(one.task);
    match one.label {
        true => sums.0 += weight,
        false => sums.1 += weight,
    }
}

/// The metrics of one scorer; `None` where one is not defined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// At the threshold for accuracy, as the next three.
    pub accuracy: Option<f64>,
    /// Right ones of the positive predictions.
    pub precision: Option<f64>,
    /// Predicted ones of the positives.
    pub recall: Option<f64>,
    /// Their harmonic mean.
    pub f1: Option<f64>,
    /// The area under the ROC curve.
    pub auroc: Option<f64>,
    /// Recall at the threshold for the target recall.
    pub kept_recall: Option<f64>,
    /// Accuracy there.
    pub kept_accuracy: Option<f64>,
    /// The fraction of regions that stays in sight there.
    pub kept: Option<f64>,
}

/// The names of the metrics, in the order of [`Metrics::list`].
pub const NAMES: [&str; 8] = [
    "accuracy",
    "precision",
    "recall",
    "F1",
    "AUROC",
    "recall@",
    "accuracy@",
    "kept@",
];

impl Metrics {
    /// All metrics, each user task's pairs counted `times(task)`.
    pub fn of(
        pairs: &[ScoredPair],
        ranking: &Ranking,
        times: impl Fn(usize) -> f64 + Copy,
    ) -> Self {
        let confusion = |predicted: fn(&ScoredPair) -> bool| {
            let weight = |pair: &ScoredPair| pair.weight * times(pair.task);
            let pairs = pairs.iter();
            Confusion::of(pairs.map(|pair| (pair.label, predicted(pair), weight(pair))))
        };
        let accurate = confusion(|pair| pair.predicted);
        let kept = confusion(|pair| pair.kept);
        Self {
            accuracy: accurate.accuracy(),
            precision: accurate.precision(),
            recall: accurate.recall(),
            f1: accurate.f1(),
            auroc: ranking.auroc(times),
            kept_recall: kept.recall(),
            kept_accuracy: kept.accuracy(),
            kept: kept.positive_rate(),
        }
    }

    /// In the order of [`NAMES`].
    #[must_use]
    pub fn list(&self) -> [Option<f64>; NAMES.len()] {
        [
            self.accuracy,
            self.precision,
            self.recall,
            self.f1,
            self.auroc,
            self.kept_recall,
            self.kept_accuracy,
            self.kept,
        ]
    }
}

/// The effective sample size in steps (Kish), by the weights of their pairs: the square of the sum over the sum of
/// squares. 0 without any.
#[must_use]
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

/// Resamples of the bootstrap: each bound of an interval of 95 % then rests on 25 of them.
pub(crate) const RESAMPLES: usize = 1000;

/// 95 % confidence intervals of the metrics in the order of [`NAMES`]: a cluster bootstrap over user tasks.
#[must_use]
pub fn intervals(pairs: &[ScoredPair], seed: u64, resamples: usize) -> Vec<Option<(f64, f64)>> {
    let tasks: BTreeSet<usize> = pairs.iter().map(|pair| pair.task).collect();
    let tasks: Vec<usize> = tasks.into_iter().collect();
    let Some(last) = tasks.last() else {
        return vec![None; NAMES.len()];
    };
    let ranking = Ranking::new(pairs);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut samples: Vec<Vec<f64>> = vec![Vec::with_capacity(resamples); NAMES.len()];
    let mut times = vec![0.0; last + 1];
    for _ in 0..resamples {
        times.fill(0.0);
        // Tasks are drawn with replacement, and the pairs of one count as often as it was drawn: they are near copies,
        // so drawing pairs would make intervals too narrow.
        for _ in 0..tasks.len() {
            let task = random.choice(&tasks).and_then(|task| times.get_mut(*task));
            if let Some(times) = task {
                *times += 1.0;
            }
        }
        let times = |task: usize| times.get(task).copied().unwrap_or_default();
        let metrics = Metrics::of(pairs, &ranking, times);
        for (values, value) in samples.iter_mut().zip(metrics.list()) {
            // A resample with one class only has no AUROC, and no part in its interval.
            values.extend(value);
        }
    }
    samples.into_iter().map(percentile_interval).collect()
}

/// The bounds that leave out 2.5 % at either end.
fn percentile_interval(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let tail = (values.len() as f64 * 0.025) as usize;
    let high = values.len().checked_sub(tail + 1)?;
    Some((*values.get(tail)?, *values.get(high)?))
}

#[cfg(test)]
mod tests;
