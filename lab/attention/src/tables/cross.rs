//! Cross-validation: each region is scored by what was learned from other user tasks, or from other suites.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use screen::attention::TARGET_RECALL;
use serde::{Deserialize, Serialize};

use super::metrics::Pair;
use crate::examples::{Example, Truth};
use crate::train::learner::{Calibration, Learner, Part, Scorer, scored, scores};

/// What is held out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// So many folds; all steps of a user task are in one, whatever model and attack.
    UserTasks {
        /// How many.
        folds: usize,
    },
    /// One fold for each suite.
    Suites,
}

/// How cross-validation is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is held out together.
    pub split: Split,
    /// Which labels are learned.
    pub learned: Truth,
    /// Which labels the figures are about.
    pub judged: Truth,
    /// The recall that the threshold for masking is chosen for, in per cent.
    pub recall: u8,
    /// The share of the user tasks in the training part by which a learner stops and is calibrated.
    pub valid: f64,
    /// Of the folds.
    pub seed: u64,
}

/// The share of user tasks to stop and calibrate by: with fewer the threshold hangs on a few tasks.
pub const VALID: f64 = 0.2;

impl Plan {
    /// Learns and judges by these labels, with the defaults otherwise.
    #[must_use]
    pub fn new(split: Split, truth: Truth, seed: u64) -> Self {
        Self {
            split,
            learned: truth,
            judged: truth,
            recall: TARGET_RECALL,
            valid: VALID,
            seed,
        }
    }
}

/// What was said of a region by a scorer that saw nothing of its fold. One that decides by itself has one answer for
/// both thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said {
    /// The example, by its place in the list.
    pub example: usize,
    /// The region, by its place in the example.
    pub region: usize,
    /// How probable a dependency is.
    pub score: f64,
    /// Is it above the threshold for the fewest mistakes?
    pub chosen: bool,
    /// Is it above the threshold for the target recall?
    pub kept: bool,
}

/// The score of a region out of fold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// The example, by its place in the list.
    pub example: usize,
    /// The region, by its place in the example.
    pub region: usize,
    /// What was said, and what is true.
    pub pair: Pair,
}

/// The fold of each example.
///
/// # Errors
/// When there are fewer groups than folds.
pub fn folds(examples: &[Example], split: Split, seed: u64) -> Result<Vec<usize>> {
    let fold_of: BTreeMap<(&str, &str), usize> = match split {
        Split::Suites => {
            let suites: BTreeSet<&str> = examples.iter().map(|one| one.suite.as_str()).collect();
            ensure!(suites.len() > 1, "to leave a suite out there must be two");
            let place: BTreeMap<&str, usize> = suites.into_iter().zip(0..).collect();
            let fold = |one: &Example| place.get(one.suite.as_str()).copied().unwrap_or_default();
            examples
                .iter()
                .map(|one| (one.group(), fold(one)))
                .collect()
        }
        Split::UserTasks { folds } => {
            let groups: BTreeSet<(&str, &str)> = examples.iter().map(Example::group).collect();
            ensure!(
                folds > 1 && groups.len() >= folds,
                "{} user tasks make no {folds} folds",
                groups.len()
            );
            // Suite by suite, dealt like cards, so that each fold has its part of each suite.
            let mut random = fastrand::Rng::with_seed(seed);
            let groups: Vec<(&str, &str)> = groups.into_iter().collect();
            let mut dealt = Vec::new();
            for suite in groups.chunk_by(|a, b| a.0 == b.0) {
                let mut tasks = suite.to_vec();
                random.shuffle(&mut tasks);
                dealt.extend(tasks);
            }
            dealt.into_iter().zip((0..folds).cycle()).collect()
        }
    };
    let fold = |one: &Example| fold_of.get(&one.group()).copied();
    let all: Option<Vec<usize>> = examples.iter().map(fold).collect();
    all.context("an example has no fold")
}

/// Parts examples by user task: the share `valid` of the tasks of each suite (one at least, where a suite has two)
/// comes second.
#[must_use]
pub fn part<'a>(
    examples: &[&'a Example],
    valid: f64,
    seed: u64,
) -> (Vec<&'a Example>, Vec<&'a Example>) {
    let groups: BTreeSet<(&str, &str)> = examples.iter().map(|one| one.group()).collect();
    let groups: Vec<(&str, &str)> = groups.into_iter().collect();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut held: BTreeSet<(&str, &str)> = BTreeSet::new();
    for suite in groups.chunk_by(|a, b| a.0 == b.0) {
        let mut tasks = suite.to_vec();
        random.shuffle(&mut tasks);
        let count = (tasks.len() as f64 * valid).round().max(1.0) as usize;
        held.extend(tasks.iter().take(count.min(tasks.len() - 1)));
    }
    let (valid, fit) = examples.iter().partition(|one| held.contains(&one.group()));
    (fit, valid)
}

/// The scores of all regions with a label, each by a scorer that saw nothing of its fold, with thresholds of that
/// scorer's own validation part.
///
/// # Errors
/// When a learner or a scorer fails.
pub fn cross_validate(
    examples: &[Example],
    plan: &Plan,
    learner: &dyn Learner,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Held>> {
    let said = held_out(examples, plan, learner, progress)?;
    Ok(judge(examples, &said, plan.judged))
}

/// What is said of every region, each by a scorer that saw nothing of its fold: the part of cross-validation that
/// is the same whatever judges it.
///
/// # Errors
/// When a learner or a scorer fails.
pub fn held_out(
    examples: &[Example],
    plan: &Plan,
    learner: &dyn Learner,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Said>> {
    let fold_of = match learner.learns() {
        true => folds(examples, plan.split, plan.seed)?,
        false => vec![0; examples.len()],
    };
    let count = fold_of.iter().max().map_or(0, |last| last + 1);
    let mut all = Vec::new();
    for fold in 0..count {
        let name = learner.name();
        progress(&format!("{name}: fold {} of {count}", fold + 1));
        let rest = examples
            .iter()
            .zip(&fold_of)
            .filter(|(_, own)| **own != fold);
        let rest: Vec<&Example> = rest.map(|(example, _)| example).collect();
        let (fit, valid) = part(&rest, plan.valid, plan.seed.wrapping_add(fold as u64));
        let part = Part {
            fit: &fit,
            valid: &valid,
            truth: plan.learned,
        };
        let context = || format!("{name}, fold {} of {count}", fold + 1);
        let decider = Decider::new(learner, &part, plan.recall).with_context(context)?;
        let tested = examples.iter().zip(&fold_of).enumerate();
        for (example, (one, _)) in tested.filter(|(_, (_, own))| **own == fold) {
            all.extend(decider.say(example, one).with_context(context)?);
        }
    }
    all.sort_by_key(|said| (said.example, said.region));
    Ok(all)
}

/// A scorer, and what makes decisions of its scores.
struct Decider {
    scorer: Box<dyn Scorer>,
    by: By,
}

enum By {
    /// Its own threshold.
    Itself(f64),
    /// What the validation part shows.
    Calibration(Calibration),
}

impl Decider {
    fn new(learner: &dyn Learner, part: &Part<'_>, recall: u8) -> Result<Self> {
        let scorer = learner.fit(part)?;
        let by = match scorer.decides() {
            Some(threshold) => By::Itself(threshold),
            None => {
                let known = scored(&*scorer, part.valid, part.truth)?;
                By::Calibration(Calibration::of(&known, recall)?)
            }
        };
        Ok(Self { scorer, by })
    }

    /// What it says of the regions of an example, which has this place in the list.
    fn say(&self, place: usize, example: &Example) -> Result<Vec<Said>> {
        let scores = scores(&*self.scorer, example)?.into_iter().enumerate();
        let say = |(region, score)| {
            let (score, chosen, kept) = match &self.by {
                By::Itself(threshold) => (score, score >= *threshold, score >= *threshold),
                By::Calibration(calibration) => {
                    let score = calibration.probability(score);
                    let (chosen, kept) = (score >= calibration.accurate, calibration.keeps(score));
                    (score, chosen, kept)
                }
            };
            Said {
                example: place,
                region,
                score,
                chosen,
                kept,
            }
        };
        Ok(scores.map(say).collect())
    }
}

/// What was said beside what is true, where that is known.
#[must_use]
pub fn judge(examples: &[Example], said: &[Said], judged: Truth) -> Vec<Held> {
    let tasks: BTreeSet<(&str, &str)> = examples.iter().map(Example::group).collect();
    let tasks: BTreeMap<(&str, &str), usize> = tasks.into_iter().zip(0..).collect();
    let mut all = Vec::new();
    for of_example in said.chunk_by(|a, b| a.example == b.example) {
        let example = of_example
            .first()
            .and_then(|said| examples.get(said.example));
        let Some(example) = example else { continue };
        let task = tasks.get(&example.group()).copied().unwrap_or_default();
        let (truths, weights) = (judged.of(example), judged.weights(example));
        for said in of_example {
            let Some(truth) = truths.get(said.region).copied().flatten() else {
                continue;
            };
            let weight = weights.get(said.region).copied().unwrap_or(1.0);
            all.push(Held {
                example: said.example,
                region: said.region,
                pair: Pair {
                    step: said.example,
                    task,
                    truth,
                    score: said.score,
                    chosen: said.chosen,
                    kept: said.kept,
                    weight,
                },
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::baselines::{Baseline, Majority};
    use crate::train::synthetic::with_memory;

    #[test]
    fn no_user_task_and_no_suite_is_in_two_folds() {
        let examples = with_memory(400, 2, 1);
        let parted = |split: Split, key: fn(&Example) -> (&str, &str)| {
            let fold_of = folds(&examples, split, 3).unwrap();
            let pairs = examples.iter().zip(&fold_of);
            let pairs: BTreeSet<_> = pairs.map(|(one, fold)| (key(one), *fold)).collect();
            let keys: BTreeSet<_> = pairs.iter().map(|(key, _)| *key).collect();
            assert_eq!(keys.len(), pairs.len());
            fold_of
        };
        let fold_of = parted(Split::UserTasks { folds: 5 }, Example::group);
        // Each fold has two of the ten tasks of each suite.
        for fold in 0..5 {
            let own = examples
                .iter()
                .zip(&fold_of)
                .filter(|(_, own)| **own == fold);
            let own: BTreeSet<_> = own.map(|(one, _)| one.group()).collect();
            let suites: BTreeSet<_> = own.iter().map(|group| group.0).collect();
            assert_eq!((own.len(), suites.len()), (8, 4));
        }
        parted(Split::Suites, |one| (&one.suite, ""));
        assert!(folds(&examples, Split::UserTasks { folds: 41 }, 3).is_err());
    }

    #[test]
    fn the_validation_part_has_tasks_of_its_own_from_every_suite() {
        let examples = with_memory(400, 2, 1);
        let (fit, valid) = part(&examples.iter().collect::<Vec<_>>(), 0.2, 9);
        let groups = |examples: &[&Example]| -> BTreeSet<(String, String)> {
            let owned = |(suite, task): (&str, &str)| (suite.to_owned(), task.to_owned());
            examples.iter().map(|one| owned(one.group())).collect()
        };
        let (fit, valid) = (groups(&fit), groups(&valid));
        assert!(fit.is_disjoint(&valid));
        assert_eq!((fit.len(), valid.len()), (32, 8));
    }

    /// Remembers the steps that it saw, and gives each region of them away.
    struct Cheat;

    struct Remembered(BTreeSet<String>);

    impl Learner for Cheat {
        fn name(&self) -> String {
            "cheat".to_owned()
        }
        fn fit(&self, part: &Part<'_>) -> Result<Box<dyn Scorer>> {
            let seen = part.fit.iter().chain(part.valid);
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
        for split in [Split::UserTasks { folds: 5 }, Split::Suites] {
            let plan = Plan::new(split, Truth::Weak, 1);
            let held = cross_validate(&examples, &plan, &Cheat, &mut |_| {}).unwrap();
            let regions: usize = examples.iter().map(|one| one.regions.len()).sum();
            assert_eq!(held.len(), regions, "each region is scored once");
            let first = held[0].pair.score;
            // One scorer differs from the next, but none gives a region away.
            assert!(
                held.iter()
                    .all(|held| (held.pair.score - first).abs() < 0.05)
            );
        }
    }

    #[test]
    fn labels_as_answers_need_no_folds() {
        // Of one user task: no folds can be made, and none are needed.
        let examples = with_memory(1, 2, 1);
        let plan = Plan::new(Split::UserTasks { folds: 5 }, Truth::Weak, 1);
        let said = held_out(&examples, &plan, &Baseline::WeakLabels, &mut |_| {}).unwrap();
        assert_eq!(said.len(), examples[0].regions.len());
        for (said, truth) in said.iter().zip(&examples[0].weak) {
            let score = f64::from(u8::from(*truth));
            assert_eq!(
                (said.score, said.chosen, said.kept),
                (score, *truth, *truth)
            );
        }
        let held = judge(&examples, &said, Truth::Weak);
        assert!(held.iter().all(|held| held.pair.chosen == held.pair.truth));
        // What is learned needs them.
        for learner in [&Baseline::Recency as &dyn Learner, &Majority] {
            assert!(held_out(&examples, &plan, learner, &mut |_| {}).is_err());
        }
    }

    #[test]
    fn hand_labels_are_judged_by_their_weights_and_others_left_out() {
        let mut examples = with_memory(200, 2, 1);
        for example in &mut examples {
            example.hand[0] = Some(!example.weak[0]);
            example.weight[0] = 2.5;
        }
        let plan = Plan {
            judged: Truth::Hand,
            ..Plan::new(Split::Suites, Truth::Weak, 1)
        };
        let held = cross_validate(&examples, &plan, &Cheat, &mut |_| {}).unwrap();
        assert_eq!(held.len(), 200);
        for held in held {
            assert_eq!(held.pair.truth, !examples[held.example].weak[0]);
            assert_eq!((held.region, held.pair.weight), (0, 2.5));
        }
    }
}
