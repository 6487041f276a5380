//! What the command line calls: train the classifier, evaluate everything.

use anyhow::{Result, ensure};
use screen::attention::TARGET_RECALL;

use super::baselines::{Answers, Baseline};
use super::contender::{Contender, baselines};
use super::learner::Learner;
use crate::examples::{Example, Header, Truth};
use crate::tables::cross::{Held, Plan, Split, cross_validate, held_out, judge};
use crate::tables::report::Report;

/// What is evaluated, and how.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// What learns.
    pub contenders: Vec<Contender>,
    /// Answers computed before, such as a judge's: where they are, only the steps that all of them have count.
    pub answers: Vec<Answers>,
    /// How it is held out: by user task, and one suite left out.
    pub splits: Vec<Split>,
    /// Which labels are learned.
    pub learned: Truth,
    /// Which labels the figures are about: one report for each split and each of these.
    pub judged: Vec<Truth>,
    /// The target recall, in per cent.
    pub recall: u8,
    /// Of folds, weights and draws.
    pub seed: u64,
}

/// As many folds of user tasks as usual.
pub const FOLDS: usize = 5;

impl Evaluation {
    /// The usual one of these learners.
    #[must_use]
    pub fn new(contenders: Vec<Contender>, seed: u64) -> Self {
        Self {
            contenders,
            answers: Vec::new(),
            splits: vec![Split::UserTasks { folds: FOLDS }, Split::Suites],
            learned: Truth::Weak,
            judged: vec![Truth::Weak],
            recall: TARGET_RECALL,
            seed,
        }
    }
}

/// One report for each split and truth.
///
/// # Errors
/// When a learner fails, or there is nothing to judge by.
pub fn evaluate(
    header: &Header,
    examples: &[Example],
    evaluation: &Evaluation,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for split in &evaluation.splits {
        let plan = |judged| Plan {
            judged,
            recall: evaluation.recall,
            ..Plan::new(*split, evaluation.learned, evaluation.seed)
        };
        // What is learned is the same whatever judges it.
        let mut learned = Vec::new();
        for contender in &evaluation.contenders {
            let learner = contender.learner(header, evaluation.seed)?;
            let said = held_out(examples, &plan(evaluation.learned), &*learner, progress)?;
            learned.push((learner.name(), said));
        }
        for judged in &evaluation.judged {
            let plan = plan(*judged);
            let mut scorers: Scored = Vec::new();
            for (name, said) in &learned {
                scorers.push((name.clone(), judge(examples, said, *judged)));
            }
            for baseline in baselines(header, *judged != Truth::Weak) {
                let held = cross_validate(examples, &plan, &*baseline, progress)?;
                scorers.push((baseline.name(), held));
            }
            ensure!(
                scorers.iter().all(|(_, held)| !held.is_empty()),
                "no region has a label to judge by: extract the steps of the sample too, or judge by the weak labels"
            );
            reports.push(Report::new(plan, examples, &scorers));
            for answers in &evaluation.answers {
                progress(&format!("{}: the steps that it answered", answers.name));
                reports.push(answered(examples, &plan, answers, &scorers, progress)?);
            }
        }
    }
    Ok(reports)
}

type Scored = Vec<(String, Vec<Held>)>;

/// The same scorers beside answers computed before, on the steps that have them.
fn answered(
    examples: &[Example],
    plan: &Plan,
    answers: &Answers,
    scorers: &Scored,
    progress: &mut dyn FnMut(&str),
) -> Result<Report> {
    let has = |example: &Example| answers.scores.contains_key(&example.step);
    // Where each example is in the shorter list.
    let mut place = Vec::new();
    let mut some = Vec::new();
    for example in examples {
        place.push(has(example).then_some(some.len()));
        some.extend(has(example).then(|| example.clone()));
    }
    let mut all: Scored = Vec::new();
    for (name, held) in scorers {
        let own = held.iter().filter_map(|held| {
            let example = place.get(held.example).copied().flatten()?;
            let mut held = *held;
            (held.example, held.pair.step) = (example, example);
            Some(held)
        });
        all.push((name.clone(), own.collect()));
    }
    let learner = Baseline::Answers(answers.clone());
    let held = cross_validate(&some, plan, &learner, progress)?;
    all.push((learner.name(), held));
    Ok(Report::new(*plan, &some, &all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::synthetic::with_memory;

    #[test]
    fn trees_and_baselines_are_evaluated_with_every_split() {
        let examples = with_memory(200, 2, 1);
        let header = Header::new("m", &examples[0].columns);
        let mut evaluation = Evaluation::new(vec!["trees:f0".parse().unwrap()], 1);
        let some = examples.iter().step_by(2);
        let some = some.map(|one| (one.step.clone(), vec![0.5; one.regions.len()]));
        evaluation.answers = vec![Answers {
            name: "judge".to_owned(),
            scores: std::sync::Arc::new(some.collect()),
        }];
        let reports = evaluate(&header, &examples, &evaluation, &mut |_| {}).unwrap();
        assert_eq!(reports.len(), 4);
        let names = |report: &Report| -> Vec<String> {
            report.pooled().map(|row| row.scorer.clone()).collect()
        };
        assert_eq!(names(&reports[0]), ["trees:f0", "recency", "majority"]);
        assert_eq!(
            names(&reports[1]),
            ["trees:f0", "recency", "majority", "judge"]
        );
        // All on the same steps.
        assert!(reports[1].pooled().all(|row| row.steps == 100));
        let trees = reports[0].pooled().next().unwrap().figures;
        assert!(trees.auroc.unwrap() > 0.6, "{trees:?}");
        // A judge that was asked about four steps so far, and says that everything is relevant.
        let four = examples.iter().take(4);
        let four = four.map(|one| (one.step.clone(), vec![1.0; one.regions.len()]));
        evaluation.answers[0].scores = std::sync::Arc::new(four.collect());
        for report in evaluate(&header, &examples, &evaluation, &mut |_| {}).unwrap() {
            let Some(judge) = report.pooled().find(|row| row.scorer == "judge") else {
                continue;
            };
            let figures = judge.figures;
            assert_eq!(
                (judge.steps, figures.recall, figures.kept),
                (4, Some(1.0), Some(1.0))
            );
            assert_eq!((figures.kept_recall, figures.auroc), (Some(1.0), None));
        }
        evaluation.judged = vec![Truth::Hand];
        assert!(evaluate(&header, &examples, &evaluation, &mut |_| {}).is_err());
    }
}
