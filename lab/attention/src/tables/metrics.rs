//! How good scores and decisions are. Every figure counts a pair by its weight.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// One region of one step: what is true, and what was said of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The number of its step.
    pub step: usize,
    /// The number of its user task: steps of one are near copies of each other, and no independent evidence.
    pub task: usize,
    /// Does the call depend on the region?
    pub truth: bool,
    /// How probable the scorer holds it, 0 to 1.
    pub score: f64,
    /// Is it above the threshold for the fewest mistakes?
    pub chosen: bool,
    /// Is it above the threshold for the target recall?
    pub kept: bool,
    /// How many pairs this one stands for.
    pub weight: f64,
}

/// Weights of decisions by what is true.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Confusion {
    /// Dependent, and said so.
    pub hits: f64,
    /// Independent, but said to be dependent.
    pub alarms: f64,
    /// Dependent, but said to be independent.
    pub misses: f64,
    /// Independent, and said so.
    pub rest: f64,
}

impl Confusion {
    /// Counts `(truth, decision, weight)`.
    pub fn of(decisions: impl Iterator<Item = (bool, bool, f64)>) -> Self {
        let mut all = Self::default();
        for (truth, said, weight) in decisions {
            match (truth, said) {
                (true, true) => all.hits += weight,
                (false, true) => all.alarms += weight,
                (true, false) => all.misses += weight,
                (false, false) => all.rest += weight,
            }
        }
        all
    }

    /// The share that is right.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        share(self.hits + self.rest, self.alarms + self.misses)
    }

    /// The share of those said to be dependent that are.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        share(self.hits, self.alarms)
    }

    /// The share of the dependent ones that was found.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        share(self.hits, self.misses)
    }

    /// The harmonic mean of precision and recall; 0 when nothing was found.
    #[must_use]
    pub fn f1(&self) -> Option<f64> {
        share(2.0 * self.hits, self.alarms + self.misses)
    }

    /// The share said to be dependent: what stays in sight.
    #[must_use]
    pub fn said(&self) -> Option<f64> {
        share(self.hits + self.alarms, self.misses + self.rest)
    }
}

/// `None` when there is nothing to have a share of.
fn share(part: f64, rest: f64) -> Option<f64> {
    (part + rest > 0.0).then(|| part / (part + rest))
}

/// What is true with its weight, from the highest score down; equal scores are one group.
pub struct Ranking(Vec<Ranked>);

struct Ranked {
    task: usize,
    truth: bool,
    weight: f64,
    /// Is the next one's score lower?
    last: bool,
}

impl Ranking {
    /// Sorts pairs by their score.
    #[must_use]
    pub fn new(pairs: &[Pair]) -> Self {
        let mut sorted: Vec<&Pair> = pairs.iter().collect();
        sorted.sort_by(|a, b| b.score.total_cmp(&a.score));
        let next = sorted.iter().skip(1).map(|pair| Some(pair.score));
        let next = next.chain([None]);
        let ranked = sorted.iter().zip(next).map(|(pair, next)| Ranked {
            task: pair.task,
            truth: pair.truth,
            weight: pair.weight,
            last: next != Some(pair.score),
        });
        Self(ranked.collect())
    }

    /// The curve of (share of the independent, share of the dependent) above each threshold, from (0, 0).
    #[cfg(test)]
    fn roc(&self) -> Vec<(f64, f64)> {
        let (dependent, independent) = self.totals(|_| 1.0);
        let mut curve = vec![(0.0, 0.0)];
        if dependent == 0.0 || independent == 0.0 {
            return curve;
        }
        self.walk(
            |_| 1.0,
            |before, here| {
                curve.push((
                    (before.1 + here.1) / independent,
                    (before.0 + here.0) / dependent,
                ));
            },
        );
        curve
    }

    /// Are not all scores one? Who says the same of everything has no order to be judged by.
    fn orders(&self) -> bool {
        self.0.iter().filter(|one| one.last).count() > 1
    }

    /// How probably a dependent pair is above an independent one, where equal scores are half above; with each
    /// user task's pairs counted `times(task)`. `None` unless there are pairs of both kinds and different scores.
    pub fn auroc(&self, times: impl Fn(usize) -> f64 + Copy) -> Option<f64> {
        let (dependent, independent) = self.totals(times);
        let mut above = 0.0;
        self.walk(times, |before, here| {
            above += here.1 * (before.0 + here.0 / 2.0);
        });
        let defined = self.orders() && dependent > 0.0 && independent > 0.0;
        defined.then(|| above / (dependent * independent))
    }

    /// The mean precision over the dependent pairs, each at the threshold of its own score. `None` without
    /// any, or without different scores.
    pub fn average_precision(&self, times: impl Fn(usize) -> f64 + Copy) -> Option<f64> {
        let (dependent, _) = self.totals(times);
        let mut sum = 0.0;
        self.walk(times, |before, here| {
            if here.0 > 0.0 {
                let hits = before.0 + here.0;
                sum += here.0 * hits / (hits + before.1 + here.1);
            }
        });
        (self.orders() && dependent > 0.0).then(|| sum / dependent)
    }

    fn totals(&self, times: impl Fn(usize) -> f64) -> (f64, f64) {
        let mut totals = (0.0, 0.0);
        for one in &self.0 {
            add(&mut totals, one, &times);
        }
        totals
    }

    /// Calls back for each group of equal scores with the weights (dependent, independent) above it and in it.
    fn walk(&self, times: impl Fn(usize) -> f64, mut group: impl FnMut((f64, f64), (f64, f64))) {
        let (mut before, mut here) = ((0.0, 0.0), (0.0, 0.0));
        for one in &self.0 {
            add(&mut here, one, &times);
            if one.last {
                group(before, here);
                before = (before.0 + here.0, before.1 + here.1);
                here = (0.0, 0.0);
            }
        }
    }
}

fn add(sums: &mut (f64, f64), one: &Ranked, times: &impl Fn(usize) -> f64) {
    let weight = one.weight * times(one.task);
    match one.truth {
        true => sums.0 += weight,
        false => sums.1 += weight,
    }
}

/// Pairs whose scores are between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// The lower bound, within.
    pub from: f64,
    /// The upper bound, outside but for the last.
    pub to: f64,
    /// The weight of its pairs.
    pub weight: f64,
    /// Their mean score.
    pub score: f64,
    /// The share that is dependent.
    pub dependent: f64,
}

/// As many bins as the calibration is told by.
pub const BINS: usize = 10;

/// Bins of equal width that hold anything.
pub fn reliability(pairs: &[Pair], times: impl Fn(usize) -> f64) -> Vec<Bin> {
    let mut sums = [(0.0, 0.0, 0.0); BINS];
    for pair in pairs {
        let place = ((pair.score * BINS as f64) as usize).min(BINS - 1);
        if let Some((weight, score, dependent)) = sums.get_mut(place) {
            let counts = pair.weight * times(pair.task);
            *weight += counts;
            *score += counts * pair.score;
            *dependent += if pair.truth { counts } else { 0.0 };
        }
    }
    let bins = sums.iter().enumerate().map(|(at, sums)| Bin {
        from: at as f64 / BINS as f64,
        to: (at + 1) as f64 / BINS as f64,
        weight: sums.0,
        score: sums.1 / sums.0,
        dependent: sums.2 / sums.0,
    });
    bins.filter(|bin| bin.weight > 0.0).collect()
}

/// The expected calibration error: how far score and share are apart, on average over the pairs.
#[must_use]
pub fn calibration_error(bins: &[Bin]) -> Option<f64> {
    let total: f64 = bins.iter().map(|bin| bin.weight).sum();
    let apart = |bin: &Bin| bin.weight * (bin.score - bin.dependent).abs();
    (total > 0.0).then(|| bins.iter().map(apart).sum::<f64>() / total)
}

/// The figures of one scorer on some pairs; `None` where one is not defined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Right decisions.
    pub accuracy: Option<f64>,
    /// Right ones of those said to be dependent.
    pub precision: Option<f64>,
    /// Found ones of the dependent.
    pub recall: Option<f64>,
    /// Their harmonic mean.
    pub f1: Option<f64>,
    /// The area under the ROC curve.
    pub auroc: Option<f64>,
    /// The area under the curve of precision and recall.
    pub average_precision: Option<f64>,
    /// The expected calibration error.
    pub calibration_error: Option<f64>,
    /// Recall at the threshold for the target recall.
    pub kept_recall: Option<f64>,
    /// Accuracy there.
    pub kept_accuracy: Option<f64>,
    /// The share of regions that stays in sight there.
    pub kept: Option<f64>,
}

/// The names of the figures, in the order of [`Figures::list`].
pub const NAMES: [&str; 10] = [
    "accuracy",
    "precision",
    "recall",
    "F1",
    "AUROC",
    "AP",
    "ECE",
    "recall@",
    "accuracy@",
    "kept@",
];

impl Figures {
    /// All figures, each user task's pairs counted `times(task)`.
    pub fn of(pairs: &[Pair], ranking: &Ranking, times: impl Fn(usize) -> f64 + Copy) -> Self {
        let weight = |pair: &Pair| pair.weight * times(pair.task);
        let chosen = pairs
            .iter()
            .map(|pair| (pair.truth, pair.chosen, weight(pair)));
        let chosen = Confusion::of(chosen);
        let kept = pairs
            .iter()
            .map(|pair| (pair.truth, pair.kept, weight(pair)));
        let kept = Confusion::of(kept);
        Self {
            accuracy: chosen.accuracy(),
            precision: chosen.precision(),
            recall: chosen.recall(),
            f1: chosen.f1(),
            auroc: ranking.auroc(times),
            average_precision: ranking.average_precision(times),
            calibration_error: calibration_error(&reliability(pairs, times)),
            kept_recall: kept.recall(),
            kept_accuracy: kept.accuracy(),
            kept: kept.said(),
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
            self.average_precision,
            self.calibration_error,
            self.kept_recall,
            self.kept_accuracy,
            self.kept,
        ]
    }
}

/// How many steps of one weight each tell as much as these, by the weights of their pairs (Kish): the square of the
/// sum over the sum of squares. 0 without any.
#[must_use]
pub fn effective_steps(pairs: &[Pair]) -> f64 {
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

/// 95 % intervals of the figures in the order of [`NAMES`], by drawing user tasks again and again.
#[must_use]
pub fn intervals(pairs: &[Pair], seed: u64, draws: usize) -> Vec<Option<(f64, f64)>> {
    let tasks: BTreeSet<usize> = pairs.iter().map(|pair| pair.task).collect();
    let tasks: Vec<usize> = tasks.into_iter().collect();
    let Some(last) = tasks.last() else {
        return vec![None; NAMES.len()];
    };
    let ranking = Ranking::new(pairs);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut drawn: Vec<Vec<f64>> = vec![Vec::with_capacity(draws); NAMES.len()];
    let mut times = vec![0.0; last + 1];
    for _ in 0..draws {
        times.fill(0.0);
        for _ in 0..tasks.len() {
            let task = random.choice(&tasks).and_then(|task| times.get_mut(*task));
            if let Some(times) = task {
                *times += 1.0;
            }
        }
        let times = |task: usize| times.get(task).copied().unwrap_or_default();
        let figures = Figures::of(pairs, &ranking, times);
        for (values, value) in drawn.iter_mut().zip(figures.list()) {
            values.extend(value);
        }
    }
    drawn.into_iter().map(middle).collect()
}

/// The bounds that leave out 2.5 % at either end.
fn middle(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let out = (values.len() as f64 * 0.025) as usize;
    let high = values.len().checked_sub(out + 1)?;
    Some((*values.get(out)?, *values.get(high)?))
}

#[cfg(test)]
mod tests;
