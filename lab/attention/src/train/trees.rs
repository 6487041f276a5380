//! Gradient-boosted trees over the features of each region by itself: histograms, logistic loss, Newton steps.
//!
//! They do not go into the product. They tell how much is in the features, whatever the classifier makes of them.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::learner::{Learner, Part, Scorer, sigmoid};
use crate::examples::{Example, Truth};

/// How trees are grown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forest {
    /// Its name in tables.
    pub name: String,
    /// The features to use; all that there are when empty.
    pub columns: Vec<String>,
    /// Trees at most.
    pub trees: usize,
    /// Questions from the root to a leaf.
    pub depth: usize,
    /// What each tree adds of its step.
    pub rate: f64,
    /// The share of the features that a tree may ask about.
    pub share: f64,
    /// The least weight (sum of p·(1 - p)) of a leaf.
    pub leaf: f64,
    /// What makes small leaves cautious.
    pub ridge: f64,
    /// Trees without a better loss on the validation part before it stops.
    pub patience: usize,
    /// Of the choice of features.
    pub seed: u64,
}

impl Forest {
    /// The defaults on these features.
    #[must_use]
    pub fn new(columns: Vec<String>, seed: u64) -> Self {
        Self {
            name: "boosted trees".to_owned(),
            columns,
            trees: 300,
            depth: 4,
            rate: 0.1,
            share: 0.2,
            leaf: 2.0,
            ridge: 1.0,
            patience: 30,
            seed,
        }
    }
}

/// Values of a feature are told apart by so many bounds, so that a bin fits a byte.
const BINS: usize = 64;
/// A question must lower the loss by more than rounding.
const LEAST_GAIN: f64 = 1e-6;

/// One question: is the feature above the bound?
#[derive(Clone, Copy, Debug, PartialEq)]
struct Question {
    column: usize,
    /// Rows in a bin above this one go right.
    bin: u8,
    bound: f32,
}

/// A complete tree, level by level: the children of node n are 2n+1 and 2n+2. Without a question all go left.
#[derive(Clone, Debug, PartialEq)]
struct Tree {
    questions: Vec<Option<Question>>,
    leaves: Vec<f64>,
}

impl Tree {
    fn value(&self, row: &[f32]) -> f64 {
        let mut node = 0;
        while let Some(question) = self.questions.get(node) {
            let right = question.is_some_and(|question| {
                row.get(question.column)
                    .is_some_and(|value| *value > question.bound)
            });
            node = 2 * node + 1 + usize::from(right);
        }
        let leaf = self.leaves.get(node - self.questions.len());
        leaf.copied().unwrap_or_default()
    }
}

struct Grown {
    columns: Arc<[String]>,
    offset: f64,
    trees: Vec<Tree>,
}

impl Learner for Forest {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn fit(&self, part: &Part<'_>) -> Result<Box<dyn Scorer>> {
        let first = part.fit.first().context("there is no step to learn from")?;
        let columns: Arc<[String]> = match self.columns.is_empty() {
            true => Arc::clone(&first.columns),
            false => self.columns.clone().into(),
        };
        let fit = Rows::of(part.fit, &columns, part.truth)?;
        let valid = Rows::of(part.valid, &columns, part.truth)?;
        let dependent = fit.truth.iter().filter(|truth| **truth).count() as f64;
        let rest = fit.truth.len() as f64 - dependent;
        ensure!(
            dependent > 0.0 && rest > 0.0 && !valid.truth.is_empty(),
            "both kinds of regions are needed to learn from, and some to stop by"
        );
        let mut grown = Grown {
            columns,
            offset: (dependent / rest).ln(),
            trees: Vec::new(),
        };
        let table = Table::of(&fit.rows, grown.columns.len());
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut scores = vec![grown.offset; fit.rows.len()];
        let mut checked = vec![grown.offset; valid.rows.len()];
        let (mut best, mut kept) = (loss(&checked, &valid.truth), 0);
        for count in 1..=self.trees {
            let tree = self.grow(&table, &scores, &fit.truth, &mut random);
            for (score, row) in scores.iter_mut().zip(&fit.rows) {
                *score += tree.value(row);
            }
            for (score, row) in checked.iter_mut().zip(&valid.rows) {
                *score += tree.value(row);
            }
            grown.trees.push(tree);
            let now = loss(&checked, &valid.truth);
            if now < best {
                (best, kept) = (now, count);
            }
            if count >= kept + self.patience {
                break;
            }
        }
        grown.trees.truncate(kept);
        Ok(Box::new(grown))
    }
}

impl Scorer for Grown {
    fn score(&self, example: &Example) -> Result<Vec<f64>> {
        let example = example.with_columns(&self.columns)?;
        let value = |row: &Vec<f32>| {
            let trees = self.trees.iter().map(|tree| tree.value(row));
            self.offset + trees.sum::<f64>()
        };
        Ok(example.features.iter().map(value).collect())
    }
}

/// The mean cross-entropy.
fn loss(scores: &[f64], truth: &[bool]) -> f64 {
    let each = scores.iter().zip(truth).map(|(score, truth)| {
        let toward = if *truth { -score } else { *score };
        toward.max(0.0) + (-toward.abs()).exp().ln_1p()
    });
    each.sum::<f64>() / truth.len().max(1) as f64
}

/// Labelled regions.
struct Rows {
    rows: Vec<Vec<f32>>,
    truth: Vec<bool>,
}

impl Rows {
    fn of(examples: &[&Example], columns: &Arc<[String]>, truth: Truth) -> Result<Self> {
        let (mut rows, mut labels) = (Vec::new(), Vec::new());
        for example in examples {
            let selected = example.with_columns(columns)?;
            for (row, label) in selected.features.into_iter().zip(truth.of(example)) {
                let Some(label) = label else { continue };
                rows.push(row);
                labels.push(label);
            }
        }
        Ok(Self {
            rows,
            truth: labels,
        })
    }
}

/// Features by column, as bins.
struct Table(Vec<Binned>);

struct Binned {
    /// The bin of each row.
    bins: Vec<u8>,
    /// Bin b holds the values above bound b-1 up to bound b.
    bounds: Vec<f32>,
}

impl Table {
    fn of(rows: &[Vec<f32>], columns: usize) -> Self {
        let column = |at: usize| {
            let values: Vec<f32> = rows.iter().filter_map(|row| row.get(at).copied()).collect();
            let bounds = bounds(&values);
            let bin = |value: &f32| bounds.partition_point(|bound| bound < value) as u8;
            Binned {
                bins: values.iter().map(bin).collect(),
                bounds,
            }
        };
        Self((0..columns).map(column).collect())
    }
}

/// Between the values where there are few, else between their quantiles.
fn bounds(values: &[f32]) -> Vec<f32> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f32::total_cmp);
    let mut distinct = sorted.clone();
    distinct.dedup();
    let chosen: Vec<f32> = match distinct.len() <= BINS {
        true => distinct.clone(),
        false => {
            let place = |at: usize| sorted.get(at * sorted.len() / BINS).copied();
            (0..BINS).filter_map(place).collect()
        }
    };
    let between = |value: &f32| {
        let next = distinct.partition_point(|other| other <= value);
        let next = distinct.get(next)?;
        // The mean of two neighbours may round to the upper one.
        Some(((value + next) / 2.0).min(next.next_down()).max(*value))
    };
    let mut bounds: Vec<f32> = chosen.iter().filter_map(between).collect();
    bounds.dedup();
    bounds
}

/// Gradient and curvature, summed.
#[derive(Clone, Copy, Default)]
struct Sums {
    gradient: f64,
    curve: f64,
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.gradient += other.gradient;
        self.curve += other.curve;
    }

    fn less(self, other: Self) -> Self {
        Self {
            gradient: self.gradient - other.gradient,
            curve: self.curve - other.curve,
        }
    }

    /// How much the best step lowers the loss, times two.
    fn gain(self, ridge: f64) -> f64 {
        self.gradient * self.gradient / (self.curve + ridge)
    }
}

impl Forest {
    fn grow(
        &self,
        table: &Table,
        scores: &[f64],
        truth: &[bool],
        random: &mut fastrand::Rng,
    ) -> Tree {
        let sums = |(score, truth): (&f64, &bool)| {
            let p = sigmoid(*score);
            Sums {
                gradient: p - f64::from(u8::from(*truth)),
                curve: p * (1.0 - p),
            }
        };
        let rows: Vec<Sums> = scores.iter().zip(truth).map(sums).collect();
        let count = (table.0.len() as f64 * self.share).ceil().max(1.0) as usize;
        let mut columns = random.choose_multiple(0..table.0.len(), count);
        columns.sort_unstable();
        // The place of each row among the nodes of the level.
        let mut place = vec![0_usize; rows.len()];
        let mut questions: Vec<Option<Question>> = Vec::new();
        for level in 0..self.depth {
            let found = self.level(table, &columns, &rows, &place, 1 << level);
            let asked = found.iter().flatten();
            let asked: std::collections::BTreeSet<usize> = asked.map(|one| one.column).collect();
            let mut next: Vec<usize> = place.iter().map(|node| 2 * node).collect();
            for column in asked {
                let bins = table.0.get(column).map_or(&[][..], |binned| &binned.bins);
                for ((next, node), bin) in next.iter_mut().zip(&place).zip(bins) {
                    let question = found.get(*node).copied().flatten();
                    if question.is_some_and(|one| one.column == column && *bin > one.bin) {
                        *next += 1;
                    }
                }
            }
            place = next;
            questions.extend(found);
        }
        let mut leaves = vec![Sums::default(); 1 << self.depth];
        for (row, node) in rows.iter().zip(&place) {
            if let Some(leaf) = leaves.get_mut(*node) {
                leaf.add(*row);
            }
        }
        let step = |sums: &Sums| -self.rate * sums.gradient / (sums.curve + self.ridge);
        Tree {
            questions,
            leaves: leaves.iter().map(step).collect(),
        }
    }

    /// The best question of each node of a level.
    fn level(
        &self,
        table: &Table,
        columns: &[usize],
        rows: &[Sums],
        place: &[usize],
        nodes: usize,
    ) -> Vec<Option<Question>> {
        let mut totals = vec![Sums::default(); nodes];
        for (row, node) in rows.iter().zip(place) {
            if let Some(total) = totals.get_mut(*node) {
                total.add(*row);
            }
        }
        let mut best: Vec<(f64, Option<Question>)> = vec![(LEAST_GAIN, None); nodes];
        // One bin more than bounds.
        let mut histogram = vec![Sums::default(); nodes * (BINS + 1)];
        for column in columns {
            let Some(binned) = table.0.get(*column) else {
                continue;
            };
            histogram.fill(Sums::default());
            for ((row, node), bin) in rows.iter().zip(place).zip(&binned.bins) {
                if let Some(sums) = histogram.get_mut(node * (BINS + 1) + usize::from(*bin)) {
                    sums.add(*row);
                }
            }
            let nodes = histogram.chunks(BINS + 1).zip(&totals).zip(&mut best);
            for ((sums, total), best) in nodes {
                let mut left = Sums::default();
                for ((bin, bound), sums) in (0_u8..).zip(&binned.bounds).zip(sums) {
                    left.add(*sums);
                    let right = total.less(left);
                    if left.curve < self.leaf || right.curve < self.leaf {
                        continue;
                    }
                    let apart = left.gain(self.ridge) + right.gain(self.ridge);
                    let gain = apart - total.gain(self.ridge);
                    if gain > best.0 {
                        let question = Question {
                            column: *column,
                            bin,
                            bound: *bound,
                        };
                        *best = (gain, Some(question));
                    }
                }
            }
        }
        best.into_iter().map(|(_, question)| question).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::learner::scored;
    use crate::train::synthetic::with_memory;

    #[test]
    fn bins_and_bounds_sort_rows_alike() {
        for values in [
            vec![1.0, 2.0, 2.0, 5.0],
            (0..1000).map(|at| (at * at % 331) as f32).collect(),
        ] {
            let rows: Vec<Vec<f32>> = values.iter().map(|value| vec![*value]).collect();
            let table = Table::of(&rows, 1);
            let binned = &table.0[0];
            assert!(binned.bounds.len() < BINS + 1 && binned.bounds.is_sorted());
            for (value, bin) in values.iter().zip(&binned.bins) {
                for (at, bound) in (0_u8..).zip(&binned.bounds) {
                    assert_eq!(*bin > at, value > bound);
                }
            }
        }
        assert_eq!(bounds(&[1.0, 2.0, 2.0, 5.0]), [1.5, 3.5]);
        assert!(bounds(&[3.0; 9]).is_empty(), "a constant tells nothing");
    }

    #[test]
    fn the_first_question_is_the_one_computed_by_hand() {
        let forest = Forest {
            depth: 1,
            rate: 1.0,
            share: 1.0,
            leaf: 0.0,
            ridge: 0.0,
            ..Forest::new(Vec::new(), 1)
        };
        let rows = [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0], [3.0, 0.0]].map(Vec::from);
        let truth = [false, false, true, true];
        let tree = forest.grow(
            &Table::of(&rows, 2),
            &[0.0; 4],
            &truth,
            &mut fastrand::Rng::with_seed(1),
        );
        let question = tree.questions[0].unwrap();
        assert_eq!((question.column, question.bound), (0, 1.5));
        // From p = 1/2 the gradient of two rows is ∓1 and the curvature 1/2.
        assert_eq!(tree.leaves, [-2.0, 2.0]);
        assert_eq!(tree.value(&[1.4, 9.0]), -2.0);
    }

    #[test]
    fn boosting_finds_an_interaction_that_no_line_parts() {
        // Dependent where the signs of two features differ.
        let relabelled = |mut example: Example| {
            let rows = example.features.iter();
            example.weak = rows.map(|row| (row[0] > 0.0) != (row[1] > 1.0)).collect();
            example
        };
        let examples: Vec<Example> = with_memory(900, 4, 1).into_iter().map(relabelled).collect();
        let all: Vec<&Example> = examples.iter().collect();
        let part = Part {
            fit: &all[..500],
            valid: &all[500..700],
            truth: Truth::Weak,
        };
        let forest = Forest {
            share: 1.0,
            ..Forest::new(Vec::new(), 1)
        };
        let accuracy = || {
            let scorer = forest.fit(&part).unwrap();
            let all = scored(&*scorer, &all[700..], Truth::Weak).unwrap();
            let right = all.iter().filter(|(score, truth)| (*score > 0.0) == *truth);
            right.count() as f64 / all.len() as f64
        };
        let found = accuracy();
        assert!(found > 0.93, "{found}");
        assert_eq!(found, accuracy(), "repeatable");
    }
}
