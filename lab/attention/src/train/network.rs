//! The paper's classifier: a projection, LSTM layers over the regions in order, one logit for each region.

use std::collections::HashMap;

use anyhow::{Context, Result};
use candle_core::{Device, Tensor, Var};
use candle_nn::rnn::{LSTM, LSTMConfig, RNN};
use candle_nn::{Init, VarBuilder};

use super::model::Shape;

/// All weights by name, in the layout of PyTorch: `projection.weight` (projection × features),
/// `weight_ih_l0` (4·hidden × input; gates i, f, g, o), `weight_hh_l0`, `bias_ih_l0` (there is one bias),
/// and so on, `output.weight` (1 × hidden) and `output.bias`.
pub(super) struct Network {
    shape: Shape,
    /// In a fixed order, so that training is repeatable.
    vars: Vec<(String, Var)>,
    projection: Option<(Tensor, Tensor)>,
    layers: Vec<LSTM>,
    output: (Tensor, Tensor),
}

/// What is dropped while training.
pub(super) struct Dropout<'a> {
    /// Of the features, the same ones in all regions of a step: what is left must do.
    pub(super) blind: f32,
    /// Of the units.
    pub(super) share: f32,
    pub(super) random: &'a mut fastrand::Rng,
}

impl Network {
    /// A network with small random weights.
    pub(super) fn new(shape: Shape, random: &mut fastrand::Rng) -> Result<Self> {
        let mut vars: Vec<(String, Var)> = Vec::new();
        let mut add = |name: String, dims: &[usize], bound: f32, rows: &[f32]| -> Result<()> {
            let count = dims.iter().product();
            let mut values: Vec<f32> = Vec::with_capacity(count);
            for at in 0..count {
                let drawn = (random.f32() * 2.0 - 1.0) * bound;
                values.push(rows.get(at).map_or(drawn, |fixed| *fixed));
            }
            let tensor = Tensor::from_vec(values, dims, &Device::Cpu)?;
            vars.push((name, Var::from_tensor(&tensor)?));
            Ok(())
        };
        let mut width = shape.features;
        if let Some(units) = shape.projection {
            add(
                "projection.weight".into(),
                &[units, width],
                bound(width),
                &[],
            )?;
            add("projection.bias".into(), &[units], 0.0, &[])?;
            width = units;
        }
        for layer in 0..shape.layers {
            let (gates, hidden) = (4 * shape.hidden, shape.hidden);
            add(
                format!("weight_ih_l{layer}"),
                &[gates, width],
                bound(hidden),
                &[],
            )?;
            add(
                format!("weight_hh_l{layer}"),
                &[gates, hidden],
                bound(hidden),
                &[],
            )?;
            // A forget gate that is open at first lets the gradient through many regions.
            let forget = |at: usize| f32::from(u8::from(at / hidden == 1));
            let bias: Vec<f32> = (0..gates).map(forget).collect();
            add(format!("bias_ih_l{layer}"), &[gates], 0.0, &bias)?;
            width = hidden;
        }
        add("output.weight".into(), &[1, width], bound(width), &[])?;
        add("output.bias".into(), &[1], 0.0, &[])?;
        Self::of(shape, vars)
    }

    fn of(shape: Shape, vars: Vec<(String, Var)>) -> Result<Self> {
        let tensors = vars
            .iter()
            .map(|(name, var)| (name.clone(), var.as_tensor().clone()));
        let tensors: HashMap<String, Tensor> = tensors.collect();
        let find = |name: &str| -> Result<Tensor> {
            let found = tensors
                .get(name)
                .with_context(|| format!("no weight is named {name}"))?;
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
            blind(&mut inputs, dropout)?;
        }
        if let Some((weight, bias)) = &self.projection {
            for input in &mut inputs {
                *input = input.matmul(&weight.t()?)?.broadcast_add(bias)?.tanh()?;
            }
        }
        for layer in &self.layers {
            drop_some(&mut inputs, &mut dropout)?;
            let batch = inputs.first().context("a step without regions")?.dim(0)?;
            let mut state = layer.zero_state(batch)?;
            for input in &mut inputs {
                state = layer.step(input, &state)?;
                *input = state.h.clone();
            }
        }
        drop_some(&mut inputs, &mut dropout)?;
        let (weight, bias) = &self.output;
        let weight = weight.t()?;
        let logit = |input: &Tensor| input.matmul(&weight)?.broadcast_add(bias);
        let logits: Vec<Tensor> = inputs.iter().map(logit).collect::<Result<_, _>>()?;
        Ok(Tensor::cat(&logits, 1)?)
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
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

    /// Goes back to a copy.
    pub(super) fn set(&self, weights: &[(String, Vec<f32>)]) -> Result<()> {
        for ((_, var), (_, values)) in self.vars.iter().zip(weights) {
            var.set(&Tensor::from_slice(values, var.shape(), &Device::Cpu)?)?;
        }
        Ok(())
    }
}

/// The usual bound of uniform weights: the inverse of the root of what is summed.
fn bound(inputs: usize) -> f32 {
    1.0 / (inputs.max(1) as f32).sqrt()
}

/// Sets a share of the values to 0 and scales the others, so that the sum stays.
fn drop_some(inputs: &mut [Tensor], dropout: &mut Option<Dropout<'_>>) -> Result<()> {
    let Some(Dropout { share, random, .. }) = dropout else {
        return Ok(());
    };
    if *share <= 0.0 {
        return Ok(());
    }
    for input in inputs {
        let mask = mask(input, *share, random)?;
        *input = input.mul(&mask)?;
    }
    Ok(())
}

/// Hides a share of the features of each step, the same ones in all of its regions.
fn blind(inputs: &mut [Tensor], dropout: &mut Dropout<'_>) -> Result<()> {
    let Some(first) = inputs.first() else {
        return Ok(());
    };
    if dropout.blind <= 0.0 {
        return Ok(());
    }
    let mask = mask(first, dropout.blind, dropout.random)?;
    for input in inputs {
        *input = input.mul(&mask)?;
    }
    Ok(())
}

/// 0 for a share of the values of a tensor like this one; for the others what keeps the sum.
fn mask(like: &Tensor, share: f32, random: &mut fastrand::Rng) -> Result<Tensor> {
    let kept = 1.0 / (1.0 - share);
    let draw = |_| if random.f32() < share { 0.0 } else { kept };
    let mask: Vec<f32> = (0..like.elem_count()).map(draw).collect();
    Ok(Tensor::from_vec(mask, like.shape(), like.device())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_of_a_step_is_hidden_in_all_of_its_regions() {
        let (steps, features) = (8, 50);
        let region = |value: f32| {
            let values = vec![value; steps * features];
            Tensor::from_vec(values, (steps, features), &Device::Cpu).unwrap()
        };
        let mut inputs = [region(1.0), region(3.0)];
        let mut dropout = Dropout {
            blind: 0.25,
            share: 0.0,
            random: &mut fastrand::Rng::with_seed(1),
        };
        blind(&mut inputs, &mut dropout).unwrap();
        let [first, second] = inputs.map(|input| input.to_vec2::<f32>().unwrap());
        let hidden = |row: &Vec<f32>| row.iter().filter(|value| **value == 0.0).count();
        let all: usize = first.iter().map(hidden).sum();
        assert!((70..130).contains(&all), "{all} of {}", steps * features);
        assert_ne!(first[0], first[1], "each step is blinded in another way");
        for (first, second) in first.iter().flatten().zip(second.iter().flatten()) {
            assert!(*first == 0.0 || (*first - 1.0 / 0.75).abs() < 1e-6);
            assert!((second - 3.0 * first).abs() < 1e-5);
        }
    }
}
