//! A trained classifier as numbers: what the file of weights is made from.

use anyhow::{Context, Result, ensure};

use super::learner::{Calibration, Scorer, sigmoid};
use super::normal::Normal;
use crate::examples::Example;

/// The shape of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Features of a region.
    pub features: usize,
    /// What they are projected to before the LSTM, by a linear layer and `tanh`; `None` without one.
    pub projection: Option<usize>,
    /// Layers of the LSTM: 2 in the paper; without any it is a logistic regression.
    pub layers: usize,
    /// Units of each layer.
    pub hidden: usize,
}

/// A matrix or vector with its name in PyTorch.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// `projection.weight` (projection × features), `projection.bias`, for each layer `weight_ih_l0`
    /// (4·hidden × input; gates i, f, g, o), `weight_hh_l0` (4·hidden × hidden), `bias_ih_l0` (there is one bias),
    /// then `output.weight` (1 × width) and `output.bias`.
    pub name: String,
    /// Row by row.
    pub values: Vec<f32>,
}

/// A classifier: features are made normal, projected, read in order by the LSTM, and each region's logit made a
/// probability by the calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The features, in order.
    pub columns: Vec<String>,
    /// How they are made normal; deviations are cut at [`FARTHEST`](screen::attention::FARTHEST) spreads.
    pub normal: Normal,
    /// The shape.
    pub shape: Shape,
    /// All weights.
    pub weights: Vec<Weight>,
    /// Probability and thresholds.
    pub calibration: Calibration,
    /// The screener's thresholds for each recall, of the validation part.
    pub thresholds: Vec<f32>,
    /// What made the features.
    pub extractor: String,
    /// The digest of the header of the examples that it was trained on.
    pub examples: String,
}

impl Model {
    /// The logits of regions in order: a readable reference, one region at a time.
    ///
    /// # Errors
    /// When a weight is missing or has another size, or the features are others.
    pub fn logits(&self, rows: &[Vec<f32>]) -> Result<Vec<f64>> {
        let mut inputs: Vec<Vec<f32>> = Vec::new();
        for row in rows {
            inputs.push(self.normal.apply(row)?);
        }
        if self.shape.projection.is_some() {
            let (weight, bias) = (
                self.weight("projection.weight")?,
                self.weight("projection.bias")?,
            );
            for input in &mut inputs {
                let sums = product(weight, input, bias)?;
                *input = sums.into_iter().map(f32::tanh).collect();
            }
        }
        for layer in 0..self.shape.layers {
            self.layer(layer, &mut inputs)?;
        }
        let (weight, bias) = (self.weight("output.weight")?, self.weight("output.bias")?);
        let logit = |input: &Vec<f32>| -> Result<f64> {
            let sums = product(weight, input, bias)?;
            Ok(f64::from(*sums.first().context("no output")?))
        };
        inputs.iter().map(logit).collect()
    }

    /// Replaces each input by the hidden state after it.
    fn layer(&self, layer: usize, inputs: &mut [Vec<f32>]) -> Result<()> {
        let hidden = self.shape.hidden;
        let ih = self.weight(&format!("weight_ih_l{layer}"))?;
        let hh = self.weight(&format!("weight_hh_l{layer}"))?;
        let bias = self.weight(&format!("bias_ih_l{layer}"))?;
        ensure!(bias.len() == 4 * hidden, "layer {layer} has another size");
        let logistic = |x: f32| sigmoid(f64::from(x)) as f32;
        let (mut state, mut cell) = (vec![0.0; hidden], vec![0.0_f32; hidden]);
        for input in inputs {
            let sums = product(hh, &state, &product(ih, input, bias)?)?;
            let mut gates = sums.chunks(hidden);
            let mut gate = || gates.next().unwrap_or_default().iter();
            let (i, f, g, o) = (gate(), gate(), gate(), gate());
            for (cell, ((i, f), g)) in cell.iter_mut().zip(i.zip(f).zip(g)) {
                *cell = logistic(*f) * *cell + logistic(*i) * g.tanh();
            }
            let output = o.zip(&cell).map(|(o, cell)| logistic(*o) * cell.tanh());
            state = output.collect();
            input.clone_from(&state);
        }
        Ok(())
    }

    pub(super) fn weight(&self, name: &str) -> Result<&[f32]> {
        let found = self.weights.iter().find(|weight| weight.name == name);
        let found = found.with_context(|| format!("the weights lack {name}"))?;
        Ok(&found.values)
    }
}

/// A matrix, row by row, times a vector, plus a vector.
fn product(matrix: &[f32], vector: &[f32], plus: &[f32]) -> Result<Vec<f32>> {
    ensure!(
        !vector.is_empty() && matrix.len() == vector.len() * plus.len(),
        "a matrix of {} numbers does not fit {} inputs and {} outputs",
        matrix.len(),
        vector.len(),
        plus.len()
    );
    let rows = matrix.chunks(vector.len()).zip(plus);
    let sum = |(row, plus): (&[f32], &f32)| {
        let products = row.iter().zip(vector).map(|(a, b)| a * b);
        plus + products.sum::<f32>()
    };
    Ok(rows.map(sum).collect())
}

impl Scorer for Model {
    fn score(&self, example: &Example) -> Result<Vec<f64>> {
        let columns = self.columns.clone().into();
        self.logits(&example.with_columns(&columns)?.features)
    }
}
