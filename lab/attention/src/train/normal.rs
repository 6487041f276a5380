//! Features of zero mean and unit spread, so that one learning rate fits them all.

use anyhow::{Result, ensure};
use screen::attention::FARTHEST;

use crate::examples::Example;

/// Mean and spread of each feature over the regions of the training part.
#[derive(Clone, Debug, PartialEq)]
pub struct Normal {
    /// Of each feature.
    pub mean: Vec<f32>,
    /// What a deviation from the mean is divided by; 0 for a constant, which gets no gradient: its weights stay as
    /// they were drawn, and would be noise wherever it is another one.
    pub spread: Vec<f32>,
}

/// A feature that varies less is constant.
const CONSTANT: f64 = 1e-9;

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
        let mut varies = vec![false; width];
        for (one, other) in rows.clone().zip(rows.clone().skip(1)) {
            for (varies, (one, other)) in varies.iter_mut().zip(one.iter().zip(other)) {
                *varies |= one != other;
            }
        }
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
        let spread = |(square, varies): (&f64, &bool)| match square.sqrt() {
            spread if *varies && spread > CONSTANT => spread as f32,
            _ => 0.0,
        };
        Ok(Self {
            spread: square.iter().zip(&varies).map(spread).collect(),
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
        let normal = |((value, mean), spread): ((&f32, &f32), &f32)| match *spread > 0.0 {
            true => ((value - mean) / spread).clamp(-FARTHEST, FARTHEST),
            false => 0.0,
        };
        Ok(each.map(normal).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::synthetic::with_memory;

    #[test]
    fn a_constant_is_nothing_whatever_it_is_later() {
        let mut examples = with_memory(30, 3, 1);
        for row in examples.iter_mut().flat_map(|one| &mut one.features) {
            // Rounding in the sum of so many must not make it vary.
            row[1] = 12_345.678;
        }
        let normal = Normal::of(&examples.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(normal.spread[1], 0.0);
        let row = [normal.mean[0] + normal.spread[0], 7.0, normal.mean[2]];
        let made = normal.apply(&row).unwrap();
        assert!((made[0] - 1.0).abs() < 1e-6);
        assert_eq!(made[1..], [0.0, 0.0]);
    }
}
