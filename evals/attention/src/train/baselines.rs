//! Scorers to compare with: they learn nothing but the threshold that everyone gets.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::learner::{Learner, Part, Scorer};
use crate::examples::Example;

/// What scores without learning.
#[derive(Clone, Debug, PartialEq)]
pub enum Baseline {
    /// One feature as it is, such as the largest saliency in the region over that of all regions (§3.3).
    Column {
        /// Its name in tables.
        name: String,
        /// The feature.
        column: String,
    },
    /// The newest regions; how many is chosen on the training part.
    Recency,
    /// Every region alike: the more frequent answer.
    Majority,
    /// The labels by values and rules, taken as answers.
    WeakLabels,
    /// Answers that were computed before, such as a judge's.
    Answers(Answers),
}

/// Scores of steps by their identifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// The name in tables.
    pub name: String,
    /// For each step one score per region.
    pub scores: Arc<BTreeMap<String, Vec<f64>>>,
}

impl Learner for Baseline {
    fn name(&self) -> String {
        match self {
            Self::Column { name, .. } => name.clone(),
            Self::Recency => "recency".to_owned(),
            Self::Majority => "majority".to_owned(),
            Self::WeakLabels => "weak labels".to_owned(),
            Self::Answers(answers) => answers.name.clone(),
        }
    }

    fn fit(&self, _: &Part<'_>) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(self.clone()))
    }
}

impl Scorer for Baseline {
    fn score(&self, example: &Example) -> Result<Vec<f64>> {
        let regions = example.regions.len();
        match self {
            Self::Column { column, .. } => {
                let place = example.columns.iter().position(|name| name == column);
                let place = place.with_context(|| format!("no feature is named {column}"))?;
                let value = |row: &Vec<f32>| row.get(place).copied().map(f64::from);
                let values: Option<Vec<f64>> = example.features.iter().map(value).collect();
                values.context("a region lacks a feature")
            }
            Self::Recency => {
                let older = |at: usize| (regions - at) as f64;
                Ok((0..regions).map(|at| 1.0 / older(at)).collect())
            }
            Self::Majority => Ok(vec![0.0; regions]),
            Self::WeakLabels => {
                let number = |label: &bool| f64::from(u8::from(*label));
                Ok(example.weak.iter().map(number).collect())
            }
            Self::Answers(answers) => {
                let scores = answers.scores.get(&example.step);
                let name = &answers.name;
                let missing = || format!("{name} has no answer for step {}", example.step);
                scores.cloned().with_context(missing)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::synthetic::with_memory;

    #[test]
    fn baselines_score_what_they_say() {
        let examples = with_memory(2, 3, 1);
        let example = &examples[1];
        let column = Baseline::Column {
            name: "raw".to_owned(),
            column: "f1".to_owned(),
        };
        let expected: Vec<f64> = example
            .features
            .iter()
            .map(|row| f64::from(row[1]))
            .collect();
        assert_eq!(column.score(example).unwrap(), expected);
        let recency = Baseline::Recency.score(example).unwrap();
        assert_eq!(recency.last(), Some(&1.0));
        assert!(recency.is_sorted());
        let answers = |scores: &[(&str, Vec<f64>)]| {
            let scores = scores
                .iter()
                .map(|(step, scores)| (step.to_string(), scores.clone()));
            Baseline::Answers(Answers {
                name: "judge".to_owned(),
                scores: Arc::new(scores.collect()),
            })
        };
        let judge = answers(&[("step 1", vec![0.0, 1.0, 0.5])]);
        assert_eq!(judge.score(example).unwrap(), [0.0, 1.0, 0.5]);
        assert!(judge.score(&examples[0]).is_err(), "not asked about");
    }
}
