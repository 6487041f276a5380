//! Attention and GIF side by side.

use std::collections::BTreeSet;

use agentdojo::report::table;
use anyhow::{Context, Result};
use screen::attention::Classifier;
use serde::Serialize;

use super::flow::RegionFlow;
use super::scored::{Plan, Scored};
use crate::examples::{Example, Labels};
use crate::figures::median;
use crate::tables::cross::{Prediction, judge};
use crate::tables::metrics::{Confusion, NAMES, RESAMPLES, Ranking, ScoredPair, intervals};
use crate::train::baselines::Baseline;
use crate::train::learner::Scorer;
use crate::train::model_spec::{RAW, VALUES};

/// Everything about one sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Steps that were scored.
    pub steps: usize,
    /// Steps of the sample that were left out: unreadable, too long, or without a region that is seen.
    pub left_out: usize,
    /// Products of a step.
    pub products: usize,
    /// Of the sample and the vectors.
    pub seed: u64,
    /// One for each kind of labels.
    pub tables: Vec<Table>,
    /// What a step costs.
    pub cost: Cost,
}

/// All scorers by the same labels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// The labels.
    pub labels: Labels,
    /// Regions that have one.
    pub pairs: usize,
    /// The steps that they are of.
    pub steps: usize,
    /// The fraction of them that is dependent, by weight.
    pub positives: f64,
    /// The recall of attention at its own threshold, at which false positives are counted.
    pub recall: f64,
    /// The scorers.
    pub rows: Vec<Row>,
}

/// One scorer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub scorer: String,
    /// The area under the ROC curve.
    pub auroc: Option<f64>,
    /// Its 95 % interval, by a bootstrap over user tasks.
    pub interval: Option<(f64, f64)>,
    /// The mean of the areas of each suite alone.
    pub within_suites: Option<f64>,
    /// The fraction of independent regions above the threshold that finds [`Table::recall`].
    pub false_positives: Option<f64>,
}

/// Medians over the steps. Nothing is in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Tokens of the history.
    pub tokens: f64,
    /// Seconds of attention: one forward pass, and a backward pass of the draft's rows.
    pub attention: f64,
    /// Seconds of GIF: one forward pass, and a backward pass of all rows for each product.
    pub gif: f64,
    /// All seconds of GIF over all of attention.
    pub ratio: f64,
}

impl Report {
    /// Judges what was scored.
    pub(super) fn new(
        plan: &Plan,
        classifier: &Classifier,
        scored: &[Scored],
        left_out: usize,
    ) -> Result<Self> {
        let examples: Vec<Example> = scored.iter().map(|one| one.example.clone()).collect();
        let scorers = scorers(scored, plan.products)?;
        let tables = [Labels::Hand, Labels::HandElseWeak].map(|labels| {
            let threshold = f64::from(classifier.threshold());
            Table::new(labels, &examples, &scorers, threshold, plan.seed)
        });
        Ok(Self {
            steps: scored.len(),
            left_out,
            products: plan.products,
            seed: plan.seed,
            tables: tables.into_iter().collect::<Result<_>>()?,
            cost: Cost::new(scored).context("no step could be read")?,
        })
    }

    /// As tables.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} steps ({} left out: unreadable, too long, or no region in sight), {} products, seed {}.\n\
             `best` was trained on weak labels of these very steps; GIF and the raw score learn nothing.\n",
            self.steps, self.left_out, self.products, self.seed
        );
        for table in &self.tables {
            text.push_str(&table.text());
        }
        let Cost {
            tokens,
            attention,
            gif,
            ratio,
        } = self.cost;
        text.push_str(&format!(
            "\nMedian step: {tokens:.0} tokens; attention {attention:.1} s (a forward pass, and back through the draft's rows), \
             GIF {gif:.1} s (a forward pass, and {} times back through all rows). In all GIF takes {ratio:.1} times as long.\n",
            self.products
        ));
        text
    }
}

/// The scores of all regions of a step.
type Scores = Vec<f64>;

/// Each scorer with its scores, step by step: attention first.
fn scorers(scored: &[Scored], products: usize) -> Result<Vec<(String, Vec<Scores>)>> {
    let best = |one: &Scored| one.attention.iter().copied().map(f64::from).collect();
    let mut all = vec![(
        "attention, best".to_owned(),
        scored.iter().map(best).collect(),
    )];
    for (name, column) in [("attention, raw score", RAW), ("value match", VALUES)] {
        let baseline = Baseline::Column {
            name: name.to_owned(),
            column: column.to_owned(),
        };
        let scores = scored.iter().map(|one| baseline.score(&one.example));
        all.push((name.to_owned(), scores.collect::<Result<_>>()?));
    }
    // With one product as well, for what the cheapest estimate is worth. A set, since `products` may be 1.
    for products in BTreeSet::from([1, products]) {
        for (at, name) in RegionFlow::NAMES.into_iter().enumerate() {
            let score = |one: &Scored| {
                let regions = one.spans.iter().map(|span| one.flow.region(span, products));
                regions.filter_map(|flow| flow.0.get(at).copied()).collect()
            };
            let name = format!("GIF, {name}, products: {products}");
            all.push((name, scored.iter().map(score).collect()));
        }
    }
    Ok(all)
}

impl Table {
    fn new(
        labels: Labels,
        examples: &[Example],
        scorers: &[(String, Vec<Scores>)],
        threshold: f64,
        seed: u64,
    ) -> Result<Self> {
        let judged: Vec<(&String, Vec<ScoredPair>)> = scorers
            .iter()
            .map(|(name, scores)| (name, pairs(examples, scores, labels, threshold)))
            .collect();
        // Attention with the shipped weights: its own threshold sets the recall at which all are compared.
        let (_, first) = judged.first().context("there is no scorer")?;
        let outcomes = |predicted: fn(&ScoredPair) -> bool| {
            Confusion::of(
                first
                    .iter()
                    .map(|pair| (pair.label, predicted(pair), pair.weight)),
            )
        };
        let recall = outcomes(|pair| pair.kept).recall();
        let recall = recall.context("no region of the sample has a positive label")?;
        let suites: BTreeSet<&str> = examples.iter().map(|one| one.suite.as_str()).collect();
        let row = |(name, pairs): &(&String, Vec<ScoredPair>)| {
            let auroc = |pairs: &[ScoredPair]| Ranking::new(pairs).auroc(|_| 1.0);
            let within = suites.iter().filter_map(|suite| {
                let of = |pair: &&ScoredPair| {
                    let example = examples.get(pair.step);
                    example.is_some_and(|example| example.suite == *suite)
                };
                auroc(&pairs.iter().filter(of).copied().collect::<Vec<_>>())
            });
            let within: Vec<f64> = within.collect();
            let place = NAMES.iter().position(|name| *name == "AUROC");
            let intervals = intervals(pairs, seed, RESAMPLES);
            Row {
                scorer: (*name).clone(),
                auroc: auroc(pairs),
                interval: place.and_then(|place| intervals.get(place).copied().flatten()),
                within_suites: (!within.is_empty())
                    .then(|| within.iter().sum::<f64>() / within.len() as f64),
                false_positives: false_positives(pairs, recall),
            }
        };
        let steps: BTreeSet<usize> = first.iter().map(|pair| pair.step).collect();
        Ok(Self {
            labels,
            pairs: first.len(),
            steps: steps.len(),
            positives: outcomes(|pair| pair.label)
                .positive_rate()
                .unwrap_or_default(),
            recall,
            rows: judged.iter().map(row).collect(),
        })
    }

    fn text(&self) -> String {
        let mut text = format!(
            "\nJudged by {}: {} pairs of {} steps, {:.1} % dependent. In per cent; FP@: independent regions above the threshold \
             that finds {:.1} % of the dependent, as `best` does with its own.\n",
            self.labels,
            self.pairs,
            self.steps,
            self.positives * 100.0,
            self.recall * 100.0
        );
        let head = ["scorer", "AUROC", "95 %", "mean of suites", "FP@"];
        let percent = |value: Option<f64>| {
            value.map_or("–".to_owned(), |value| format!("{:.1}", value * 100.0))
        };
        let cells = |row: &Row| {
            let bounds = |(low, high)| format!("{:.0}–{:.0}", low * 100.0, high * 100.0);
            vec![
                row.scorer.clone(),
                percent(row.auroc),
                row.interval.map_or("–".to_owned(), bounds),
                percent(row.within_suites),
                percent(row.false_positives),
            ]
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(cells).collect();
        text.push_str(&table(1, &head, &rows));
        text
    }
}

/// The labelled regions with their scores; those above the threshold are kept.
fn pairs(
    examples: &[Example],
    scores: &[Scores],
    labels: Labels,
    threshold: f64,
) -> Vec<ScoredPair> {
    let predictions = scores.iter().enumerate().flat_map(|(example, scores)| {
        scores
            .iter()
            .enumerate()
            .map(move |(region, score)| Prediction {
                example,
                region,
                score: *score,
                predicted: *score >= threshold,
                kept: *score >= threshold,
            })
    });
    judge(examples, &predictions.collect::<Vec<_>>(), labels)
}

/// The fraction of independent regions at or above the highest score from which on so much of the
/// dependent is found; `None` without both.
fn false_positives(pairs: &[ScoredPair], recall: f64) -> Option<f64> {
    let mut sorted: Vec<&ScoredPair> = pairs.iter().collect();
    sorted.sort_by(|a, b| b.score.total_cmp(&a.score));
    let weight = |pairs: &[&ScoredPair], label: bool| {
        let of = pairs.iter().filter(|pair| pair.label == label);
        of.map(|pair| pair.weight).sum::<f64>()
    };
    let (positives, negatives) = (weight(&sorted, true), weight(&sorted, false));
    let (mut found, mut wrong) = (0.0, 0.0);
    // No threshold parts equal scores.
    for equal in sorted.chunk_by(|a, b| a.score == b.score) {
        found += weight(equal, true);
        wrong += weight(equal, false);
        // Sums of weights in another order differ in their last bits.
        if found >= recall * positives - 1e-9 * positives {
            break;
        }
    }
    (positives > 0.0 && negatives > 0.0).then(|| wrong / negatives)
}

impl Cost {
    fn new(scored: &[Scored]) -> Option<Self> {
        let of = |value: fn(&Scored) -> f64| scored.iter().map(value).collect::<Vec<f64>>();
        let tokens = of(|one| one.cost.tokens as f64);
        let attention = of(|one| one.cost.attention.as_secs_f64());
        let gif = of(|one| one.cost.flow.as_secs_f64());
        Some(Self {
            tokens: median(&tokens)?,
            attention: median(&attention)?,
            gif: median(&gif)?,
            ratio: gif.iter().sum::<f64>() / attention.iter().sum::<f64>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn false_positives_are_counted_at_the_recall_that_is_asked_for() {
        let pair = |(score, label, weight): (f64, bool, f64)| ScoredPair {
            step: 0,
            task: 0,
            label,
            score,
            predicted: false,
            kept: false,
            weight,
        };
        let pairs = [
            (0.9, true, 1.0),
            (0.8, false, 1.0),
            (0.7, true, 2.0),
            (0.7, false, 1.0),
            (0.2, false, 2.0),
            (0.1, true, 1.0),
        ];
        let pairs = pairs.map(pair);
        assert_eq!(false_positives(&pairs, 0.25), Some(0.0));
        // Equal scores are above a threshold together.
        assert_eq!(false_positives(&pairs, 0.5), Some(0.5));
        assert_eq!(false_positives(&pairs, 0.75), Some(0.5));
        assert_eq!(false_positives(&pairs, 0.8), Some(1.0));
        assert_eq!(false_positives(&pairs[1..2], 0.8), None);
    }
}
