//! Features of zero mean and unit spread, so that one learning rate fits them all.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::examples::Example;

/// Mean and spread of each feature over the regions of the training part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Normal {
    /// Of each feature.
    pub mean: Vec<f32>,
    /// What a deviation from the mean is divided by.
    pub spread: Vec<f32>,
}

/// A feature that varies less is constant.
const CONSTANT: f64 = 1e-9;
/// Farther from the mean, in spreads, a value says no more: it would only swing the gradient.
pub const FARTHEST: f32 = 8.0;

impl Normal {
    /// Of these examples.
    ///
    /// # Errors
    /// When they have no region, or differ in their columns.
    pub fn of(examples: &[&Example]) -> Result<Self> {
        let width = examples.first().map_or(0, |example| example.columns.len());
        let rows = examples.iter().flat_map(|example| &example.features);
        let count = rows.clone().count() as f64;
        ensure!(count > 0.0, "there is no region to learn from");
        ensure!(
            rows.clone().all(|row| row.len() == width),
            "the examples differ in their features: extract them with one setting"
        );
        let mut mean = vec![0.0; width];
        for row in rows.clone() {
            for (sum, value) in mean.iter_mut().zip(row) {
                *sum += f64::from(*value) / count;
            }
        }
        let mut square = vec![0.0; width];
        for row in rows {
            for ((sum, mean), value) in square.iter_mut().zip(&mean).zip(row) {
                *sum += (f64::from(*value) - mean).powi(2) / count;
            }
        }
        let spread = |square: &f64| match square.sqrt() {
            spread if spread > CONSTANT => spread as f32,
            _ => 1.0,
        };
        Ok(Self {
            spread: square.iter().map(spread).collect(),
            mean: mean.iter().map(|mean| *mean as f32).collect(),
        })
    }

    /// One region's features, made normal.
    ///
    /// # Errors
    /// When there are more or fewer features.
    pub fn apply(&self, row: &[f32]) -> Result<Vec<f32>> {
        ensure!(
            row.len() == self.mean.len(),
            "a region has {} features, not {}: the classifier was trained on others",
            row.len(),
            self.mean.len()
        );
        let each = row.iter().zip(&self.mean).zip(&self.spread);
        let normal = |((value, mean), spread): ((&f32, &f32), &f32)| {
            ((value - mean) / spread).clamp(-FARTHEST, FARTHEST)
        };
        Ok(each.map(normal).collect())
    }
}
