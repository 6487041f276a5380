//! What the command line calls: train the classifier, evaluate everything.

use anyhow::{Result, ensure};
use screen::attention::TARGET_RECALL;

use super::contender::{Contender, baselines};
use crate::examples::{Example, Header, Truth};
use crate::tables::cross::{Held, Plan, Split, cross_validate, held_out, judge};
use crate::tables::report::Report;

/// What is evaluated, and how.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// What learns.
    pub contenders: Vec<Contender>,
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
        }
    }
    Ok(reports)
}

type Scored = Vec<(String, Vec<Held>)>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::synthetic::with_memory;

    #[test]
    fn networks_and_baselines_are_evaluated_with_every_split() {
        let examples = with_memory(200, 2, 1);
        let header = Header::new("m", &examples[0].columns);
        let mut evaluation = Evaluation::new(vec!["lstm:f0".parse().unwrap()], 1);
        let reports = evaluate(&header, &examples, &evaluation, &mut |_| {}).unwrap();
        assert_eq!(reports.len(), 2);
        let names = |report: &Report| -> Vec<String> {
            report.pooled().map(|row| row.scorer.clone()).collect()
        };
        assert_eq!(names(&reports[0]), ["lstm:f0", "recency", "majority"]);
        let network = reports[0].pooled().next().unwrap().figures;
        assert!(network.auroc.unwrap() > 0.6, "{network:?}");
        evaluation.judged = vec![Truth::Hand];
        assert!(evaluate(&header, &examples, &evaluation, &mut |_| {}).is_err());
    }
}
