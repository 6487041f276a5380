//! Scorers to compare with: they learn no more than a threshold, or how frequent dependencies are.

use anyhow::{Context, Result};

use super::learner::{Learner, Part, Scorer};
use crate::examples::Example;

/// What scores without learning. Labels decide by themselves; the others get a threshold.
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
    /// The labels by values and rules, taken as answers.
    WeakLabels,
}

impl Learner for Baseline {
    fn name(&self) -> String {
        match self {
            Self::Column { name, .. } => name.clone(),
            Self::Recency => "recency".to_owned(),
            Self::WeakLabels => "weak labels".to_owned(),
        }
    }

    fn learns(&self) -> bool {
        self.decides().is_none()
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
            Self::WeakLabels => {
                let number = |label: &bool| f64::from(u8::from(*label));
                Ok(example.weak.iter().map(number).collect())
            }
        }
    }

    fn decides(&self) -> Option<f64> {
        match self {
            Self::WeakLabels => Some(HALF),
            Self::Column { .. } | Self::Recency => None,
        }
    }
}

/// Between the answers 0 and 1.
const HALF: f64 = 0.5;

/// Every region alike: the more frequent answer of the part that it learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Majority;

/// One answer to everything.
struct Always(bool);

impl Learner for Majority {
    fn name(&self) -> String {
        "majority".to_owned()
    }

    fn fit(&self, part: &Part<'_>) -> Result<Box<dyn Scorer>> {
        let labels = part.fit.iter().chain(part.valid);
        let labels = labels.flat_map(|example| part.truth.of(example)).flatten();
        let (dependent, others): (Vec<bool>, Vec<bool>) = labels.partition(|label| *label);
        Ok(Box::new(Always(dependent.len() > others.len())))
    }
}

impl Scorer for Always {
    fn score(&self, example: &Example) -> Result<Vec<f64>> {
        Ok(vec![f64::from(u8::from(self.0)); example.regions.len()])
    }

    fn decides(&self) -> Option<f64> {
        Some(HALF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::Truth;
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
    }

    #[test]
    fn the_majority_is_that_of_the_labels_that_it_saw() {
        let mut examples = with_memory(3, 2, 1);
        for (example, labels) in examples.iter_mut().zip([[true; 3], [false; 3], [true; 3]]) {
            example.weak = labels.into_iter().take(example.regions.len()).collect();
            example.weak.resize(example.regions.len(), labels[0]);
        }
        let said = |fit: &[&Example]| {
            let part = Part {
                fit,
                valid: &[],
                truth: Truth::Weak,
            };
            Majority.fit(&part).unwrap().score(&examples[0]).unwrap()
        };
        assert_eq!(said(&[&examples[0], &examples[2]]), [1.0, 1.0]);
        assert_eq!(said(&[&examples[1]]), [0.0, 0.0]);
        assert_eq!(said(&[]), [0.0, 0.0]);
    }
}
