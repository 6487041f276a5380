//! Fits a network: minibatches of padded steps, weighted cross-entropy, AdamW, and a stop when other user tasks
//! are not predicted better.

use std::sync::Arc;

use anyhow::{Result, ensure};
use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor, Var};
use candle_nn::optim::{AdamW, Optimizer, ParamsAdamW};
use serde::{Deserialize, Serialize};

use super::learner::{Learner, Part, Scorer};
use super::model::Shape;
use super::network::{Dropout, Network};
use super::normal::Normal;
use crate::examples::{Example, Truth};

/// How a network is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its name in tables.
    pub name: String,
    /// The features to use; all that there are when empty.
    pub columns: Vec<String>,
    /// What they are projected to before the LSTM; `None` for no such layer.
    pub projection: Option<usize>,
    /// Layers of the LSTM; 0 for a logistic regression.
    pub layers: usize,
    /// Units of each layer.
    pub hidden: usize,
    /// A dependent region counts as much as it takes for both kinds to count the same together, but at
    /// most so much more than another one; 1 for each as it comes.
    pub balance: f64,
    /// The share of the features to hide while training, the same ones in all regions of a step.
    pub blind: f32,
    /// The share of units to drop while training.
    pub dropout: f32,
    /// AdamW's learning rate.
    pub rate: f64,
    /// AdamW's weight decay.
    pub decay: f64,
    /// Steps of a minibatch.
    pub batch: usize,
    /// Passes over the examples at most.
    pub epochs: usize,
    /// Passes without a better loss on the validation part before it stops.
    pub patience: usize,
    /// Of the weights, the order of minibatches, and what is dropped.
    pub seed: u64,
}

impl Recipe {
    /// The classifier of RTBAS §7.2, on these features (its six, for the paper's configuration).
    #[must_use]
    pub fn paper(columns: Vec<String>, seed: u64) -> Self {
        Self {
            name: "paper (LSTM)".to_owned(),
            columns,
            projection: None,
            layers: 2,
            hidden: 32,
            balance: 10.0,
            blind: 0.0,
            dropout: 0.1,
            rate: 3e-3,
            decay: 1e-3,
            batch: 32,
            epochs: 60,
            patience: 8,
            seed,
        }
    }

    /// The same LSTM over several hundred features: they are projected first, more is dropped, and half
    /// of them are hidden, which is what helps most on suites that it has not seen.
    #[must_use]
    pub fn best(columns: Vec<String>, seed: u64) -> Self {
        Self {
            name: "best (LSTM)".to_owned(),
            projection: Some(32),
            blind: 0.5,
            dropout: 0.3,
            rate: 2e-3,
            decay: 3e-2,
            ..Self::paper(columns, seed)
        }
    }
}

/// A gradient that is longer is cut: a single odd minibatch must not throw the weights away.
const LONGEST_GRADIENT: f64 = 1.0;

/// What a network is fitted to and stopped by.
struct Prepared {
    columns: Arc<[String]>,
    normal: Normal,
    fit: Vec<Rows>,
    valid: Vec<Rows>,
}

/// A trained network.
pub struct Trained {
    pub(super) network: Network,
    /// The features that it reads, in order.
    pub columns: Arc<[String]>,
    /// How they are made normal.
    pub normal: Normal,
    /// Passes until the best loss on the validation part.
    pub epochs: usize,
    /// That loss.
    pub loss: f64,
}

impl Learner for Recipe {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn fit(&self, part: &Part<'_>) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(self.train(part, &mut |_| {})?))
    }
}

impl Recipe {
    /// Trains, and says after each pass the loss on the validation part.
    ///
    /// # Errors
    /// When there is nothing to learn or to stop by, or the features are not there.
    pub fn train(&self, part: &Part<'_>, progress: &mut dyn FnMut(f64)) -> Result<Trained> {
        ensure!(self.batch > 0, "a minibatch needs a step");
        let Prepared {
            columns,
            normal,
            fit,
            valid,
        } = self.prepare(part)?;
        let balance = balance(&fit, self.balance)?;
        let mut random = fastrand::Rng::with_seed(self.seed);
        let shape = Shape {
            features: columns.len(),
            projection: self.projection,
            layers: self.layers,
            hidden: self.hidden,
        };
        let network = Network::new(shape, &mut random)?;
        let settings = ParamsAdamW {
            lr: self.rate,
            weight_decay: self.decay,
            ..ParamsAdamW::default()
        };
        let mut optimizer = AdamW::new(network.vars(), settings)?;
        let (mut best, mut loss, mut epochs) = (network.weights()?, f64::INFINITY, 0);
        for epoch in 1..=self.epochs {
            self.pass(&network, &mut optimizer, &fit, balance, &mut random)?;
            let now = mean_loss(&network, &valid, balance)?;
            progress(now);
            if now < loss {
                (best, loss, epochs) = (network.weights()?, now, epoch);
            }
            if epoch >= epochs + self.patience {
                break;
            }
        }
        ensure!(
            loss.is_finite(),
            "the loss on the validation part is not finite: it has no labels, or the rate is too high"
        );
        network.set(&best)?;
        Ok(Trained {
            network,
            columns,
            normal,
            epochs,
            loss,
        })
    }

    /// The features that it reads, made normal.
    fn prepare(&self, part: &Part<'_>) -> Result<Prepared> {
        let first = part.fit.first();
        let columns: Arc<[String]> = match (self.columns.is_empty(), first) {
            (true, Some(example)) => Arc::clone(&example.columns),
            _ => self.columns.clone().into(),
        };
        let select = |examples: &[&Example]| -> Result<Vec<Example>> {
            let some = examples
                .iter()
                .filter(|example| !example.regions.is_empty());
            some.map(|example| example.with_columns(&columns)).collect()
        };
        let (fit, valid) = (select(part.fit)?, select(part.valid)?);
        ensure!(!valid.is_empty(), "there are no user tasks left to stop by");
        let normal = Normal::of(&fit.iter().collect::<Vec<_>>())?;
        let rows = |examples: &[Example]| -> Result<Vec<Rows>> {
            let rows = examples
                .iter()
                .map(|example| Rows::of(example, &normal, part.truth));
            rows.collect()
        };
        Ok(Prepared {
            fit: rows(&fit)?,
            valid: rows(&valid)?,
            columns,
            normal,
        })
    }

    /// Learns from each example once.
    fn pass(
        &self,
        network: &Network,
        optimizer: &mut AdamW,
        fit: &[Rows],
        balance: f64,
        random: &mut fastrand::Rng,
    ) -> Result<()> {
        let vars = network.vars();
        for batch in self.batches(fit, random) {
            let dropout = Dropout {
                blind: self.blind,
                share: self.dropout,
                random,
            };
            let (sum, weight) = weighed(network, &batch, balance, Some(dropout))?;
            if weight > 0.0 {
                let mut gradient = (sum / weight)?.backward()?;
                shorten(&mut gradient, &vars)?;
                optimizer.step(&gradient)?;
            }
        }
        Ok(())
    }

    /// Steps of similar length together, so that little is padded; then the minibatches in random order.
    fn batches<'a>(&self, rows: &'a [Rows], random: &mut fastrand::Rng) -> Vec<Vec<&'a Rows>> {
        let mut order: Vec<&Rows> = rows.iter().collect();
        random.shuffle(&mut order);
        order.sort_by_key(|rows| rows.features.len());
        let mut batches: Vec<Vec<&Rows>> =
            order.chunks(self.batch).map(<[&Rows]>::to_vec).collect();
        random.shuffle(&mut batches);
        batches
    }
}

impl Trained {
    /// The shape of the network.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.network.shape()
    }

    /// All weights by name, rows of matrices one after the other, in the layout of PyTorch.
    ///
    /// # Errors
    /// When they cannot be copied.
    pub fn weights(&self) -> Result<Vec<(String, Vec<f32>)>> {
        self.network.weights()
    }
}

impl Scorer for Trained {
    fn score(&self, example: &Example) -> Result<Vec<f64>> {
        if example.regions.is_empty() {
            return Ok(Vec::new());
        }
        let example = example.with_columns(&self.columns)?;
        let rows = Rows::of(&example, &self.normal, Truth::Weak)?;
        let logits = self.network.logits(&padded(&[&rows])?, None)?;
        let logits: Vec<f32> = logits.flatten_all()?.to_vec1()?;
        Ok(logits.into_iter().map(f64::from).collect())
    }
}

/// A step's normal features, and what is true.
struct Rows {
    features: Vec<Vec<f32>>,
    truth: Vec<Option<bool>>,
}

impl Rows {
    fn of(example: &Example, normal: &Normal, truth: Truth) -> Result<Self> {
        let features = example.features.iter().map(|row| normal.apply(row));
        Ok(Self {
            features: features.collect::<Result<_>>()?,
            truth: truth.of(example),
        })
    }
}

/// How much more a dependent region counts, so that both kinds count the same together, or nearly.
fn balance(rows: &[Rows], most: f64) -> Result<f64> {
    let labels = rows.iter().flat_map(|rows| rows.truth.iter().flatten());
    let all = labels.clone().count() as f64;
    let dependent = labels.filter(|label| **label).count() as f64;
    ensure!(
        dependent > 0.0 && dependent < all,
        "{dependent} of {all} regions to learn from are dependent: both kinds are needed"
    );
    Ok(((all - dependent) / dependent).clamp(1.0 / most, most))
}

/// The regions of several steps side by side: one tensor (steps × features) for each place, zero where a step has
/// no region any more.
fn padded(steps: &[&Rows]) -> Result<Vec<Tensor>> {
    let longest = steps
        .iter()
        .map(|rows| rows.features.len())
        .max()
        .unwrap_or(0);
    let width = steps
        .iter()
        .find_map(|rows| rows.features.first())
        .map_or(0, Vec::len);
    let zeros = vec![0.0; width];
    let place = |at: usize| -> Result<Tensor> {
        let rows = steps
            .iter()
            .map(|rows| rows.features.get(at).unwrap_or(&zeros));
        let values: Vec<f32> = rows.flatten().copied().collect();
        Ok(Tensor::from_vec(
            values,
            (steps.len(), width),
            &Device::Cpu,
        )?)
    };
    (0..longest).map(place).collect()
}

/// The cross-entropy summed over the labelled regions of some steps by weight, and the sum of the weights. What is
/// padded follows all regions of its step, so it changes no other logit, and it weighs nothing.
fn weighed(
    network: &Network,
    steps: &[&Rows],
    balance: f64,
    dropout: Option<Dropout<'_>>,
) -> Result<(Tensor, f64)> {
    let regions = padded(steps)?;
    let logits = network.logits(&regions, dropout)?;
    let (mut targets, mut weights) = (Vec::new(), Vec::new());
    for rows in steps {
        for at in 0..regions.len() {
            let label = rows.truth.get(at).copied().flatten();
            targets.push(if label == Some(true) { 1.0_f32 } else { 0.0 });
            weights.push(match label {
                Some(true) => balance as f32,
                Some(false) => 1.0,
                None => 0.0,
            });
        }
    }
    let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
    let targets = Tensor::from_vec(targets, logits.shape(), &Device::Cpu)?;
    let weights = Tensor::from_vec(weights, logits.shape(), &Device::Cpu)?;
    // max(x, 0) - x·y + ln(1 + e^-|x|) does not overflow.
    let soft = (logits.abs()?.neg()?.exp()? + 1.0)?.log()?;
    let loss = ((logits.relu()? - (&logits * targets)?)? + soft)?;
    Ok(((loss * weights)?.sum_all()?, sum))
}

/// Steps of similar length in one go.
const EVALUATED: usize = 64;

fn mean_loss(network: &Network, rows: &[Rows], balance: f64) -> Result<f64> {
    let mut order: Vec<&Rows> = rows.iter().collect();
    order.sort_by_key(|rows| rows.features.len());
    let (mut sum, mut weight) = (0.0, 0.0);
    for steps in order.chunks(EVALUATED) {
        let (loss, weights) = weighed(network, steps, balance, None)?;
        sum += f64::from(loss.to_scalar::<f32>()?);
        weight += weights;
    }
    Ok(sum / weight)
}

/// Cuts a gradient to its longest length.
fn shorten(gradient: &mut GradStore, vars: &[Var]) -> Result<()> {
    let mut square = 0.0;
    for var in vars {
        if let Some(part) = gradient.get(var) {
            square += f64::from(part.sqr()?.sum_all()?.to_scalar::<f32>()?);
        }
    }
    let length = square.sqrt();
    if length > LONGEST_GRADIENT {
        for var in vars {
            if let Some(part) = gradient.get(var) {
                let part = (part * (LONGEST_GRADIENT / length))?;
                gradient.insert(var, part);
            }
        }
    }
    Ok(())
}

/// The scores of several examples in one padded batch.
#[cfg(test)]
pub(super) fn scores_together(trained: &Trained, examples: &[&Example]) -> Result<Vec<f64>> {
    let rows = examples
        .iter()
        .map(|example| Rows::of(example, &trained.normal, Truth::Weak));
    let rows: Vec<Rows> = rows.collect::<Result<_>>()?;
    let logits = trained
        .network
        .logits(&padded(&rows.iter().collect::<Vec<_>>())?, None)?;
    let mut all = Vec::new();
    for (rows, logits) in rows.iter().zip(logits.to_vec2::<f32>()?) {
        let own = logits.into_iter().take(rows.features.len());
        all.extend(own.map(f64::from));
    }
    Ok(all)
}
