//! Cross-validates models and baselines: what `sluice-lab screener eval` prints.

use anyhow::{Result, ensure};

use super::learner::Learner;
use super::model_spec::{ModelSpec, baselines};
use crate::examples::{Example, Header, Labels};
use crate::tables::cross::{HeldOut, Plan, cross_validate, judge};
use crate::tables::metrics::ScoredPair;
use crate::tables::report::Report;

/// What is evaluated, and how.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The models; the baselines come by themselves.
    pub models: Vec<ModelSpec>,
    /// What is held out together: a user task, a suite.
    pub held_out: Vec<HeldOut>,
    /// The labels that predictions are compared with: one report for each of these and of `held_out`.
    pub labels: Vec<Labels>,
    /// Of folds, weights and resamples.
    pub seed: u64,
}

/// One report for each way to hold out and each kind of labels.
pub fn evaluate(
    header: &Header,
    examples: &[Example],
    evaluation: &Evaluation,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for held_out in &evaluation.held_out {
        let plan = Plan {
            held_out: *held_out,
            seed: evaluation.seed,
        };
        let mut learners: Vec<Box<dyn Learner>> = Vec::new();
        for model in &evaluation.models {
            learners.push(Box::new(model.hyperparameters(header, evaluation.seed)?));
        }
        learners.extend(baselines(header));
        // All learn from the weak labels, so the predictions are the same for both kinds of labels.
        let mut predictions = Vec::new();
        for learner in &learners {
            let predicted = cross_validate(examples, &plan, &**learner, progress)?;
            predictions.push((learner.name(), predicted));
        }
        for labels in &evaluation.labels {
            let judged = predictions.iter();
            let judged: Vec<(String, Vec<ScoredPair>)> = judged
                .map(|(name, predicted)| (name.clone(), judge(examples, predicted, *labels)))
                .collect();
            ensure!(
                judged.iter().all(|(_, pairs)| !pairs.is_empty()),
                "no region has a label to judge by: extract the steps of the sample too, or judge by the weak labels"
            );
            reports.push(Report::new(plan, *labels, examples, &judged));
        }
    }
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::synthetic::with_memory;

    #[test]
    fn models_and_baselines_are_evaluated_whatever_is_held_out() {
        let examples = with_memory(200, 6, 1);
        let header = Header::new("m", &examples[0].columns);
        let mut evaluation = Evaluation {
            models: vec![ModelSpec::Paper],
            held_out: vec![HeldOut::UserTasks, HeldOut::Suites],
            labels: vec![Labels::Weak],
            seed: 1,
        };
        let reports = evaluate(&header, &examples, &evaluation, &mut |_| {}).unwrap();
        assert_eq!(reports.len(), 2);
        let names = |report: &Report| -> Vec<String> {
            report.pooled().map(|row| row.scorer.clone()).collect()
        };
        assert_eq!(names(&reports[0]), ["paper", "recency", "majority"]);
        let network = reports[0].pooled().next().unwrap().metrics;
        assert!(network.auroc.unwrap() > 0.6, "{network:?}");
        evaluation.labels = vec![Labels::Hand];
        assert!(evaluate(&header, &examples, &evaluation, &mut |_| {}).is_err());
    }
}
