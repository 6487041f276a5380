//! Baselines: they learn no more than a threshold, or the base rate.

use anyhow::{Context, Result};

use super::learner::{Dataset, Learner, Scorer};
use crate::examples::Example;

/// A scorer that learns no more than a threshold.
#[derive(Clone, Debug, PartialEq)]
pub enum Baseline {
    /// One feature as it is, such as the largest saliency in the region over that of all regions (§3.3).
    Column {
        /// Its name in tables.
        name: String,
        /// The feature.
        column: String,
    },
    /// The newest regions; how many is chosen on the validation set.
    Recency,
}

/// Between the predictions 0 and 1.
const HALF: f64 = 0.5;

impl Learner for Baseline {
    fn name(&self) -> String {
        match self {
            Self::Column { name, .. } => name.clone(),
            Self::Recency => "recency".to_owned(),
        }
    }

    fn fit(&self, _: &Dataset<'_>) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(self.clone()))
    }
}

impl Scorer for Baseline {
    fn score(&self, example: &Example) -> Result<Vec<f64>> {
        let regions = example.regions.len();
        match self {
            Self::Column { column, .. } => {
                let at = example.columns.iter().position(|name| name == column);
                let at = at.with_context(|| format!("no feature is named {column}"))?;
                let value = |row: &Vec<f32>| row.get(at).copied().map(f64::from);
                let values: Option<Vec<f64>> = example.features.iter().map(value).collect();
                values.context("a region lacks a feature")
            }
            Self::Recency => {
                // The newest has 1, the one before it 1/2, and so on: comparable between steps of different lengths.
                let age = |at: usize| (regions - at) as f64;
                Ok((0..regions).map(|at| 1.0 / age(at)).collect())
            }
        }
    }
}

/// Predicts the more frequent label of the dataset for every region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Majority;

/// One prediction for everything.
struct Constant(bool);

impl Learner for Majority {
    fn name(&self) -> String {
        "majority".to_owned()
    }

    fn fit(&self, dataset: &Dataset<'_>) -> Result<Box<dyn Scorer>> {
        let examples = dataset.train.iter().chain(dataset.validation);
        let labels = examples.flat_map(|example| &example.weak);
        let (positives, negatives): (Vec<&bool>, Vec<&bool>) = labels.partition(|label| **label);
        Ok(Box::new(Constant(positives.len() > negatives.len())))
    }
}

impl Scorer for Constant {
    fn score(&self, example: &Example) -> Result<Vec<f64>> {
        Ok(vec![f64::from(u8::from(self.0)); example.regions.len()])
    }

    fn own_threshold(&self) -> Option<f64> {
        Some(HALF)
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
            column: "all.mean".to_owned(),
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
        for (example, label) in examples.iter_mut().zip([true, false, true]) {
            example.weak.fill(label);
        }
        let predicted = |train: &[&Example]| {
            let dataset = Dataset {
                train,
                validation: &[],
            };
            Majority.fit(&dataset).unwrap().score(&examples[0]).unwrap()
        };
        assert_eq!(predicted(&[&examples[0], &examples[2]]), [1.0, 1.0]);
        assert_eq!(predicted(&[&examples[1]]), [0.0, 0.0]);
        assert_eq!(predicted(&[]), [0.0, 0.0]);
    }
}
