//! The network in training (RTBAS §7.2): a projection, LSTM layers over the regions in order, one logit per region.

use std::collections::HashMap;

use anyhow::{Context, Result};
use candle_core::{Device, Tensor, Var};
use candle_nn::rnn::{LSTM, LSTMConfig, RNN};
use candle_nn::{Init, VarBuilder};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) features: usize,
    /// Units of the linear layer with `tanh` before the LSTM; `None` without one.
    pub(super) projection: Option<usize>,
    /// Layers of the LSTM: 2 in the paper; without any it is a logistic regression.
    pub(super) layers: usize,
    pub(super) hidden: usize,
}

/// All weights by name, in the layout of PyTorch: `projection.weight` (projection × features),
/// `weight_ih_l0` (4·hidden × input; gates i, f, g, o), `weight_hh_l0`, `bias_ih_l0` (there is one bias),
/// and so on, `output.weight` (1 × hidden) and `output.bias`.
pub(super) struct Network {
    pub(super) shape: Shape,
    /// In a fixed order, so that training is repeatable.
    vars: Vec<(String, Var)>,
    projection: Option<(Tensor, Tensor)>,
    layers: Vec<LSTM>,
    output: (Tensor, Tensor),
}

/// What is dropped while training.
pub(super) struct Dropout<'a> {
    /// The probability that a feature is dropped from a step, in all of its regions.
    pub(super) features: f32,
    /// The probability that a unit is dropped.
    pub(super) units: f32,
    pub(super) random: &'a mut fastrand::Rng,
}

impl Network {
    /// A network with small random weights.
    pub(super) fn new(shape: Shape, random: &mut fastrand::Rng) -> Result<Self> {
        let mut vars: Vec<(String, Var)> = Vec::new();
        let mut add = |name: &str, dims: &[usize], bound: f32, fixed: &[f32]| -> Result<()> {
            let count = dims.iter().product();
            let mut values: Vec<f32> = Vec::with_capacity(count);
            for at in 0..count {
                // Drawn even where it is not used, so that the seed gives the same weights elsewhere.
                let drawn = (random.f32() * 2.0 - 1.0) * bound;
                values.push(fixed.get(at).map_or(drawn, |fixed| *fixed));
            }
            let tensor = Tensor::from_vec(values, dims, &Device::Cpu)?;
            vars.push((name.to_owned(), Var::from_tensor(&tensor)?));
            Ok(())
        };
        let mut width = shape.features;
        if let Some(units) = shape.projection {
            add("projection.weight", &[units, width], bound(width), &[])?;
            add("projection.bias", &[units], 0.0, &[])?;
            width = units;
        }
        for layer in 0..shape.layers {
            let (gates, hidden) = (4 * shape.hidden, shape.hidden);
            let ih = format!("weight_ih_l{layer}");
            add(&ih, &[gates, width], bound(hidden), &[])?;
            let hh = format!("weight_hh_l{layer}");
            add(&hh, &[gates, hidden], bound(hidden), &[])?;
            // A forget gate that is open at first lets the gradient through many regions.
            let forget = |at: usize| f32::from(u8::from(at / hidden == 1));
            let bias: Vec<f32> = (0..gates).map(forget).collect();
            add(&format!("bias_ih_l{layer}"), &[gates], 0.0, &bias)?;
            width = hidden;
        }
        add("output.weight", &[1, width], bound(width), &[])?;
        add("output.bias", &[1], 0.0, &[])?;
        Self::from_vars(shape, vars)
    }

    fn from_vars(shape: Shape, vars: Vec<(String, Var)>) -> Result<Self> {
        let tensors = vars
            .iter()
            .map(|(name, var)| (name.clone(), var.as_tensor().clone()));
        let tensors: HashMap<String, Tensor> = tensors.collect();
        let find = |name: &str| -> Result<Tensor> {
            let found = tensors.get(name);
            let found = found.with_context(|| format!("no weight is named {name}"))?;
            Ok(found.clone())
        };
        let projection = match shape.projection {
            Some(_) => Some((find("projection.weight")?, find("projection.bias")?)),
            None => None,
        };
        let output = (find("output.weight")?, find("output.bias")?);
        let builder = VarBuilder::from_tensors(tensors, candle_core::DType::F32, &Device::Cpu);
        let mut width = shape.projection.unwrap_or(shape.features);
        let mut layers = Vec::new();
        for layer_idx in 0..shape.layers {
            let config = LSTMConfig {
                layer_idx,
                // One bias: two would only be added.
                b_hh_init: None,
                b_ih_init: Some(Init::Const(0.0)),
                ..LSTMConfig::default()
            };
            layers.push(LSTM::new(width, shape.hidden, config, builder.clone())?);
            width = shape.hidden;
        }
        Ok(Self {
            shape,
            vars,
            projection,
            layers,
            output,
        })
    }

    /// The logits (batch × regions) of steps whose regions are given one after the other, each batch × features.
    pub(super) fn logits(
        &self,
        regions: &[Tensor],
        mut dropout: Option<Dropout<'_>>,
    ) -> Result<Tensor> {
        let mut inputs = regions.to_vec();
        if let Some(dropout) = &mut dropout {
            drop_features(&mut inputs, dropout)?;
        }
        if let Some((weight, bias)) = &self.projection {
            for input in &mut inputs {
                *input = input.matmul(&weight.t()?)?.broadcast_add(bias)?.tanh()?;
            }
        }
        for layer in &self.layers {
            drop_units(&mut inputs, &mut dropout)?;
            let batch = inputs.first().context("a step without regions")?.dim(0)?;
            let mut state = layer.zero_state(batch)?;
            for input in &mut inputs {
                state = layer.step(input, &state)?;
                *input = state.h.clone();
            }
        }
        drop_units(&mut inputs, &mut dropout)?;
        let (weight, bias) = &self.output;
        let weight = weight.t()?;
        let logit = |input: &Tensor| input.matmul(&weight)?.broadcast_add(bias);
        let logits: Vec<Tensor> = inputs.iter().map(logit).collect::<Result<_, _>>()?;
        Ok(Tensor::cat(&logits, 1)?)
    }

    pub(super) fn vars(&self) -> Vec<Var> {
        self.vars.iter().map(|(_, var)| var.clone()).collect()
    }

    /// A copy of all weights, by name.
    pub(super) fn weights(&self) -> Result<Vec<(String, Vec<f32>)>> {
        let copy = |(name, var): &(String, Var)| -> Result<(String, Vec<f32>)> {
            Ok((name.clone(), var.flatten_all()?.to_vec1()?))
        };
        self.vars.iter().map(copy).collect()
    }

    pub(super) fn restore(&self, weights: &[(String, Vec<f32>)]) -> Result<()> {
        // `weights` has the same fixed order.
        for ((_, var), (_, values)) in self.vars.iter().zip(weights) {
            var.set(&Tensor::from_slice(values, var.shape(), &Device::Cpu)?)?;
        }
        Ok(())
    }
}

/// The usual bound of uniform initial weights.
fn bound(inputs: usize) -> f32 {
    1.0 / (inputs.max(1) as f32).sqrt()
}

fn drop_units(inputs: &mut [Tensor], dropout: &mut Option<Dropout<'_>>) -> Result<()> {
    let Some(Dropout { units, random, .. }) = dropout else {
        return Ok(());
    };
    if *units <= 0.0 {
        return Ok(());
    }
    for input in inputs {
        let mask = dropout_mask(input, *units, random)?;
        *input = input.mul(&mask)?;
    }
    Ok(())
}

/// Column subsampling: one mask for all regions of a step.
fn drop_features(inputs: &mut [Tensor], dropout: &mut Dropout<'_>) -> Result<()> {
    let Some(first) = inputs.first() else {
        return Ok(());
    };
    if dropout.features <= 0.0 {
        return Ok(());
    }
    let mask = dropout_mask(first, dropout.features, dropout.random)?;
    for input in inputs {
        *input = input.mul(&mask)?;
    }
    Ok(())
}

/// 0 with this probability, and otherwise the factor that keeps the expected sum.
fn dropout_mask(like: &Tensor, probability: f32, random: &mut fastrand::Rng) -> Result<Tensor> {
    let scale = 1.0 / (1.0 - probability);
    let draw = |_| match random.f32() < probability {
        true => 0.0,
        false => scale,
    };
    let mask: Vec<f32> = (0..like.elem_count()).map(draw).collect();
    Ok(Tensor::from_vec(mask, like.shape(), like.device())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_that_is_dropped_is_dropped_in_all_regions_of_its_step() {
        let (steps, features) = (8, 50);
        let region = |value: f32| {
            let values = vec![value; steps * features];
            Tensor::from_vec(values, (steps, features), &Device::Cpu).unwrap()
        };
        let mut inputs = [region(1.0), region(3.0)];
        let mut dropout = Dropout {
            features: 0.25,
            units: 0.0,
            random: &mut fastrand::Rng::with_seed(1),
        };
        drop_features(&mut inputs, &mut dropout).unwrap();
        let [first, second] = inputs.map(|input| input.to_vec2::<f32>().unwrap());
        let dropped = |row: &Vec<f32>| row.iter().filter(|value| **value == 0.0).count();
        let all: usize = first.iter().map(dropped).sum();
        assert!((70..130).contains(&all), "{all} of {}", steps * features);
        assert_ne!(first[0], first[1], "each step has its own mask");
        for (first, second) in first.iter().flatten().zip(second.iter().flatten()) {
            assert!(*first == 0.0 || (*first - 1.0 / 0.75).abs() < 1e-6);
            assert!((second - 3.0 * first).abs() < 1e-5);
        }
    }
}
