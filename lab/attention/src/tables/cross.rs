//! Cross-validation: each region is scored by what was learned from other user tasks, or from other suites.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use screen::attention::TARGET_RECALL;

use super::metrics::ScoredPair;
use crate::examples::{Example, Labels};
use crate::train::calibration::Calibration;
use crate::train::learner::{Dataset, Learner, Scorer, labelled_scores, scores};

/// What is held out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldOut {
    /// A fifth of the user tasks in each fold: all steps of one are in the same fold, for all models and attacks.
    UserTasks,
    /// One suite in each fold.
    Suites,
}

/// How cross-validation is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// What is held out together.
    pub held_out: HeldOut,
    /// Of the folds.
    pub seed: u64,
}

const FOLDS: usize = 5;

/// The part of the user tasks outside a fold that is for early stopping and calibration. With fewer, the threshold
/// rests on a few tasks.
pub const VALIDATION: f64 = 0.2;

/// The prediction for a region, by a scorer that saw nothing of its fold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The example's index.
    pub example: usize,
    /// The region's index in the example.
    pub region: usize,
    /// The probability of a dependency, by the calibration of its fold. Within a fold it ranks as the scorer does;
    /// regions of different folds are ranked by different scales, so the AUROC of all folds together is another than
    /// that of the scores as they are.
    pub score: f64,
    /// Whether it is above the threshold for accuracy, or the scorer's own threshold.
    pub predicted: bool,
}

/// The fold of each example.
///
/// # Errors
/// There are fewer groups than folds.
pub fn folds(examples: &[Example], held_out: HeldOut, seed: u64) -> Result<Vec<usize>> {
    let fold_of: BTreeMap<(&str, &str), usize> = match held_out {
        HeldOut::Suites => {
            let suites: BTreeSet<&str> = examples.iter().map(|one| one.suite.as_str()).collect();
            ensure!(suites.len() > 1, "to leave a suite out there must be two");
            let index: BTreeMap<&str, usize> = suites.into_iter().zip(0..).collect();
            let fold = |one: &Example| index.get(one.suite.as_str()).copied().unwrap_or_default();
            examples
                .iter()
                .map(|one| (one.group(), fold(one)))
                .collect()
        }
        HeldOut::UserTasks => {
            let groups: BTreeSet<(&str, &str)> = examples.iter().map(Example::group).collect();
            ensure!(
                groups.len() >= FOLDS,
                "{} user tasks make no {FOLDS} folds",
                groups.len()
            );
            // Stratified: suite by suite, dealt like cards, so that each fold has its part of each suite.
            let mut random = fastrand::Rng::with_seed(seed);
            let groups: Vec<(&str, &str)> = groups.into_iter().collect();
            let mut dealt = Vec::new();
            for suite in groups.chunk_by(|a, b| a.0 == b.0) {
                let mut tasks = suite.to_vec();
                random.shuffle(&mut tasks);
                dealt.extend(tasks);
            }
            dealt.into_iter().zip((0..FOLDS).cycle()).collect()
        }
    };
    let fold = |one: &Example| fold_of.get(&one.group()).copied();
    let all: Option<Vec<usize>> = examples.iter().map(fold).collect();
    all.context("an example has no fold")
}

/// Splits examples by user task into a training set and a validation set with this part of the tasks of each suite
/// (at least one, where a suite has two).
pub fn split<'a>(
    examples: &[&'a Example],
    validation: f64,
    seed: u64,
) -> (Vec<&'a Example>, Vec<&'a Example>) {
    let groups: BTreeSet<(&str, &str)> = examples.iter().map(|one| one.group()).collect();
    let groups: Vec<(&str, &str)> = groups.into_iter().collect();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut chosen: BTreeSet<(&str, &str)> = BTreeSet::new();
    // Suite by suite, so that every suite is in both parts.
    for suite in groups.chunk_by(|a, b| a.0 == b.0) {
        let mut tasks = suite.to_vec();
        random.shuffle(&mut tasks);
        // A suite with one task keeps it for training.
        let count = (tasks.len() as f64 * validation).round().max(1.0) as usize;
        chosen.extend(tasks.iter().take(count.min(tasks.len() - 1)));
    }
    let in_validation = |one: &&Example| chosen.contains(&one.group());
    let (validation, train) = examples.iter().partition(|one| in_validation(one));
    (train, validation)
}

/// A prediction for every region, each by a scorer that saw nothing of its fold, with thresholds of that scorer's own
/// validation set.
pub fn cross_validate(
    examples: &[Example],
    plan: &Plan,
    learner: &dyn Learner,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Prediction>> {
    let fold_of = folds(examples, plan.held_out, plan.seed)?;
    let count = fold_of.iter().max().map_or(0, |last| last + 1);
    let mut all = Vec::new();
    for fold in 0..count {
        let name = format!("{}, fold {} of {count}", learner.name(), fold + 1);
        progress(&name);
        let rest = examples.iter().zip(&fold_of);
        let rest = rest.filter(|(_, own)| **own != fold);
        let rest: Vec<&Example> = rest.map(|(example, _)| example).collect();
        let (train, validation) = split(&rest, VALIDATION, plan.seed.wrapping_add(fold as u64));
        let dataset = Dataset {
            train: &train,
            validation: &validation,
        };
        let predictor = Predictor::fit(learner, &dataset);
        let predictor = predictor.with_context(|| name.clone())?;
        let test = examples.iter().zip(&fold_of).enumerate();
        for (index, (example, _)) in test.filter(|(_, (_, own))| **own == fold) {
            let predicted = predictor.predict(index, example);
            all.extend(predicted.with_context(|| name.clone())?);
        }
    }
    all.sort_by_key(|prediction| (prediction.example, prediction.region));
    Ok(all)
}

/// A scorer and its decision thresholds.
struct Predictor {
    scorer: Box<dyn Scorer>,
    /// `None` for a scorer with a threshold of its own.
    calibration: Option<Calibration>,
}

impl Predictor {
    fn fit(learner: &dyn Learner, dataset: &Dataset<'_>) -> Result<Self> {
        let scorer = learner.fit(dataset)?;
        let calibration = match scorer.own_threshold() {
            Some(_) => None,
            None => {
                let scored = labelled_scores(&*scorer, dataset.validation)?;
                Some(Calibration::fit(&scored, TARGET_RECALL)?)
            }
        };
        Ok(Self {
            scorer,
            calibration,
        })
    }

    /// The predictions for the regions of the example with this index.
    fn predict(&self, index: usize, example: &Example) -> Result<Vec<Prediction>> {
        let scores = scores(&*self.scorer, example)?.into_iter().enumerate();
        let predict = |(region, score)| {
            let (score, predicted) = match &self.calibration {
                None => {
                    let threshold = self.scorer.own_threshold().unwrap_or_default();
                    (score, score >= threshold)
                }
                Some(calibration) => {
                    let score = calibration.probability(score);
                    (score, score >= calibration.accuracy_threshold)
                }
            };
            Prediction {
                example: index,
                region,
                score,
                predicted,
            }
        };
        Ok(scores.map(predict).collect())
    }
}

/// The predictions beside these labels, where a region has one.
pub fn judge(examples: &[Example], predictions: &[Prediction], labels: Labels) -> Vec<ScoredPair> {
    let tasks: BTreeSet<(&str, &str)> = examples.iter().map(Example::group).collect();
    let tasks: BTreeMap<(&str, &str), usize> = tasks.into_iter().zip(0..).collect();
    let mut all = Vec::new();
    for of_example in predictions.chunk_by(|a, b| a.example == b.example) {
        let first = of_example.first();
        let Some(example) = first.and_then(|first| examples.get(first.example)) else {
            continue;
        };
        let task = tasks.get(&example.group()).copied().unwrap_or_default();
        let (truth, weights) = (labels.of(example), labels.weights(example));
        for prediction in of_example {
            let Some(label) = truth.get(prediction.region).copied().flatten() else {
                continue;
            };
            all.push(ScoredPair {
                step: prediction.example,
                task,
                label,
                score: prediction.score,
                predicted: prediction.predicted,
                weight: weights.get(prediction.region).copied().unwrap_or(1.0),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::metrics::Metrics;
    use crate::train::baselines::Baseline;
    use crate::train::synthetic::with_memory;

    fn plan(held_out: HeldOut) -> Plan {
        Plan { held_out, seed: 1 }
    }

    #[test]
    fn no_user_task_and_no_suite_is_in_two_folds() {
        let examples = with_memory(400, 2, 1);
        let disjoint = |held_out: HeldOut, key: fn(&Example) -> (&str, &str)| {
            let fold_of = folds(&examples, held_out, 3).unwrap();
            let pairs = examples.iter().zip(&fold_of);
            let pairs: BTreeSet<_> = pairs.map(|(one, fold)| (key(one), *fold)).collect();
            let keys: BTreeSet<_> = pairs.iter().map(|(key, _)| *key).collect();
            assert_eq!(keys.len(), pairs.len());
            fold_of
        };
        let fold_of = disjoint(HeldOut::UserTasks, Example::group);
        // Each fold has two of the ten tasks of each suite.
        for fold in 0..5 {
            let own = examples.iter().zip(&fold_of);
            let own = own.filter(|(_, own)| **own == fold);
            let own: BTreeSet<_> = own.map(|(one, _)| one.group()).collect();
            let suites: BTreeSet<_> = own.iter().map(|group| group.0).collect();
            assert_eq!((own.len(), suites.len()), (8, 4));
        }
        disjoint(HeldOut::Suites, |one| (&one.suite, ""));
        assert!(folds(&examples[..4], HeldOut::UserTasks, 3).is_err());
    }

    #[test]
    fn the_validation_set_has_tasks_of_its_own_from_every_suite() {
        let examples = with_memory(400, 2, 1);
        let (train, validation) = split(&examples.iter().collect::<Vec<_>>(), 0.2, 9);
        let groups = |examples: &[&Example]| -> BTreeSet<(String, String)> {
            let owned = |(suite, task): (&str, &str)| (suite.to_owned(), task.to_owned());
            examples.iter().map(|one| owned(one.group())).collect()
        };
        let (train, validation) = (groups(&train), groups(&validation));
        assert!(train.is_disjoint(&validation));
        assert_eq!((train.len(), validation.len()), (32, 8));
    }

    /// Remembers the steps that it saw, and gives the label of each of their regions away.
    struct Cheat;

    struct Remembered(BTreeSet<String>);

    impl Learner for Cheat {
        fn name(&self) -> String {
            "cheat".to_owned()
        }
        fn fit(&self, dataset: &Dataset<'_>) -> Result<Box<dyn Scorer>> {
            let seen = dataset.train.iter().chain(dataset.validation);
            Ok(Box::new(Remembered(
                seen.map(|one| one.step.clone()).collect(),
            )))
        }
    }

    impl Scorer for Remembered {
        fn score(&self, example: &Example) -> Result<Vec<f64>> {
            let known = self.0.contains(&example.step);
            let score = |label: &bool| f64::from(u8::from(*label && known));
            Ok(example.weak.iter().map(score).collect())
        }
    }

    #[test]
    fn nothing_of_a_fold_is_seen_by_its_scorer() {
        let examples = with_memory(200, 2, 1);
        for held_out in [HeldOut::UserTasks, HeldOut::Suites] {
            let found = cross_validate(&examples, &plan(held_out), &Cheat, &mut |_| {}).unwrap();
            let regions: usize = examples.iter().map(|one| one.regions.len()).sum();
            assert_eq!(found.len(), regions, "each region is scored once");
            let first = found[0].score;
            // One scorer differs from the next, but none gives a label away.
            assert!(found.iter().all(|it| (it.score - first).abs() < 0.05));
        }
    }

    /// Why a score that learns nothing has one AUROC here and another where it is ranked as it is.
    #[test]
    fn calibration_keeps_the_order_of_a_fold_and_not_that_of_all() {
        let examples = with_memory(400, 2, 1);
        let raw = Baseline::Column {
            name: "raw".to_owned(),
            column: "all.sum".to_owned(),
        };
        let held_out = HeldOut::UserTasks;
        let found = cross_validate(&examples, &plan(held_out), &raw, &mut |_| {}).unwrap();
        let as_it_is: Vec<Prediction> = found
            .iter()
            .map(|it| Prediction {
                score: raw.score(&examples[it.example]).unwrap()[it.region],
                ..*it
            })
            .collect();
        let fold_of = folds(&examples, held_out, plan(held_out).seed).unwrap();
        let auroc = |predictions: &[Prediction], fold: Option<usize>| {
            let pairs = judge(&examples, predictions, Labels::Weak);
            let of = |pair: &&ScoredPair| fold.is_none_or(|fold| fold_of[pair.step] == fold);
            Metrics::of(&pairs.iter().filter(of).copied().collect::<Vec<_>>()).auroc
        };
        for fold in 0..5 {
            assert_eq!(auroc(&found, Some(fold)), auroc(&as_it_is, Some(fold)));
        }
        assert_ne!(auroc(&found, None), auroc(&as_it_is, None));
    }

    #[test]
    fn hand_labels_judge_by_their_weights_and_other_regions_are_left_out() {
        let mut examples = with_memory(200, 2, 1);
        for example in &mut examples {
            example.hand[0] = Some(!example.weak[0]);
            example.weight[0] = 2.5;
        }
        let found = cross_validate(&examples, &plan(HeldOut::Suites), &Cheat, &mut |_| {});
        let judged = judge(&examples, &found.unwrap(), Labels::Hand);
        assert_eq!(judged.len(), 200);
        for pair in judged {
            assert_eq!(pair.label, !examples[pair.step].weak[0]);
            assert_eq!(pair.weight, 2.5);
        }
    }
}
