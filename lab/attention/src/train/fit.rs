//! Fits a network: minibatches of padded steps, weighted cross-entropy, AdamW, early stopping.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor, Var};
use candle_nn::optim::{AdamW, Optimizer, ParamsAdamW};
use screen::attention::{Network as Exported, Normalisation};

use super::learner::{Dataset, Learner, Scorer};
use super::network::{Dropout, Network, Shape};
use crate::examples::Example;

/// How a network is made and trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Hyperparameters {
    /// The name in tables.
    pub name: String,
    /// The features, in order.
    pub columns: Vec<String>,
    /// Units of a projection before the LSTM; `None` without one.
    pub projection: Option<usize>,
    /// Layers of the LSTM; 0 for a logistic regression.
    pub layers: usize,
    /// Units of each layer.
    pub hidden: usize,
    /// The largest weight of the rarer class. It is weighted so that both classes count the same, up to this.
    pub max_class_weight: f64,
    /// Column subsampling: the probability that a feature is dropped from a step.
    pub feature_dropout: f32,
    /// The probability that a unit is dropped.
    pub dropout: f32,
    /// AdamW's learning rate.
    pub learning_rate: f64,
    /// AdamW's weight decay.
    pub weight_decay: f64,
    /// Steps in a minibatch.
    pub batch_size: usize,
    /// The most epochs.
    pub epochs: usize,
    /// Epochs without a lower validation loss before training stops.
    pub patience: usize,
    /// Of the initial weights, the order of minibatches, and dropout.
    pub seed: u64,
}

impl Hyperparameters {
    /// The classifier of RTBAS §7.2.
    pub fn paper(columns: Vec<String>, seed: u64) -> Self {
        Self {
            name: "paper".to_owned(),
            columns,
            projection: None,
            layers: 2,
            hidden: 32,
            max_class_weight: 10.0,
            feature_dropout: 0.0,
            dropout: 0.1,
            learning_rate: 3e-3,
            weight_decay: 1e-3,
            batch_size: 32,
            epochs: 60,
            patience: 8,
            seed,
        }
    }

    /// The same LSTM over several hundred features, with a projection and more regularisation. Dropping half of the
    /// features is what helps most on suites that it has not seen.
    pub fn best(columns: Vec<String>, seed: u64) -> Self {
        Self {
            name: "best".to_owned(),
            projection: Some(32),
            feature_dropout: 0.5,
            dropout: 0.3,
            learning_rate: 2e-3,
            weight_decay: 3e-2,
            ..Self::paper(columns, seed)
        }
    }
}

/// A longer gradient is clipped: a single odd minibatch must not throw the weights away.
const MAX_GRADIENT_NORM: f64 = 1.0;

/// A trained network.
pub struct Trained {
    pub(super) network: Network,
    /// The features that it reads, in order.
    pub columns: Arc<[String]>,
    /// How they are standardised.
    pub normalisation: Normalisation,
    /// Epochs until the lowest validation loss.
    pub epochs: usize,
    /// That loss.
    pub loss: f64,
}

/// A dataset as the network reads it.
struct Prepared {
    columns: Arc<[String]>,
    normalisation: Normalisation,
    train: Vec<Rows>,
    validation: Vec<Rows>,
}

impl Learner for Hyperparameters {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn fit(&self, dataset: &Dataset<'_>) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(self.train(dataset, &mut |_| {})?))
    }
}

impl Hyperparameters {
    /// Trains; `progress` gets the validation loss after each epoch.
    ///
    /// # Errors
    /// There is nothing to learn from or to stop by, or a feature is missing.
    pub fn train(&self, dataset: &Dataset<'_>, progress: &mut dyn FnMut(f64)) -> Result<Trained> {
        ensure!(self.batch_size > 0, "a minibatch needs a step");
        let prepared = self.prepare(dataset)?;
        let weight = positive_weight(&prepared.train, self.max_class_weight)?;
        let mut random = fastrand::Rng::with_seed(self.seed);
        let shape = Shape {
            features: prepared.columns.len(),
            projection: self.projection,
            layers: self.layers,
            hidden: self.hidden,
        };
        let network = Network::new(shape, &mut random)?;
        let settings = ParamsAdamW {
            lr: self.learning_rate,
            weight_decay: self.weight_decay,
            ..ParamsAdamW::default()
        };
        let mut optimizer = AdamW::new(network.vars(), settings)?;
        let (mut best, mut loss, mut epochs) = (network.weights()?, f64::INFINITY, 0);
        for epoch in 1..=self.epochs {
            self.epoch(
                &network,
                &mut optimizer,
                &prepared.train,
                weight,
                &mut random,
            )?;
            let now = mean_loss(&network, &prepared.validation, weight)?;
            progress(now);
            if now < loss {
                (best, loss, epochs) = (network.weights()?, now, epoch);
            }
            // `epochs` is the best one so far, and stays 0 while no loss is a number.
            if epoch >= epochs + self.patience {
                break;
            }
        }
        ensure!(
            loss.is_finite(),
            "the validation loss is not finite: the learning rate is too high"
        );
        // Early stopping: the weights are those of the lowest validation loss, not the last ones.
        network.restore(&best)?;
        Ok(Trained {
            network,
            columns: prepared.columns,
            normalisation: prepared.normalisation,
            epochs,
            loss,
        })
    }

    fn prepare(&self, dataset: &Dataset<'_>) -> Result<Prepared> {
        let columns: Arc<[String]> = self.columns.clone().into();
        let select = |examples: &[&Example]| -> Result<Vec<Example>> {
            let some = examples
                .iter()
                .filter(|example| !example.regions.is_empty());
            some.map(|example| example.with_columns(&columns)).collect()
        };
        let (train, validation) = (select(dataset.train)?, select(dataset.validation)?);
        ensure!(
            !validation.is_empty(),
            "there are no user tasks left to stop by"
        );
        // From the training set alone: what training stops by must be as new to the network as what it is measured with.
        let normalisation = standardisation(&train)?;
        let rows = |examples: Vec<Example>| -> Vec<Rows> {
            let rows = examples.into_iter();
            rows.map(|example| Rows::new(&example, &normalisation))
                .collect()
        };
        Ok(Prepared {
            train: rows(train),
            validation: rows(validation),
            columns,
            normalisation,
        })
    }

    fn epoch(
        &self,
        network: &Network,
        optimizer: &mut AdamW,
        train: &[Rows],
        positive_weight: f64,
        random: &mut fastrand::Rng,
    ) -> Result<()> {
        let vars = network.vars();
        for batch in self.batches(train, random) {
            let dropout = Dropout {
                features: self.feature_dropout,
                units: self.dropout,
                random,
            };
            let (sum, weight) = weighted_loss(network, &batch, positive_weight, Some(dropout))?;
            let mut gradient = (sum / weight)?.backward()?;
            clip(&mut gradient, &vars)?;
            optimizer.step(&gradient)?;
        }
        Ok(())
    }

    /// Steps of similar length together, so that little is padded; then the minibatches in random order.
    fn batches<'a>(&self, rows: &'a [Rows], random: &mut fastrand::Rng) -> Vec<Vec<&'a Rows>> {
        let mut order: Vec<&Rows> = rows.iter().collect();
        // The sort below is stable, so steps of one length meet others in each epoch.
        random.shuffle(&mut order);
        order.sort_by_key(|rows| rows.features.len());
        let batches = order.chunks(self.batch_size);
        let mut batches: Vec<Vec<&Rows>> = batches.map(<[&Rows]>::to_vec).collect();
        random.shuffle(&mut batches);
        batches
    }
}

impl Trained {
    /// All weights by name, rows of matrices one after the other, in the layout of PyTorch.
    pub fn weights(&self) -> Result<Vec<(String, Vec<f32>)>> {
        self.network.weights()
    }

    /// The same network as the screener computes it.
    pub fn export(&self) -> Result<Exported> {
        let (shape, weights) = (self.network.shape, self.weights()?);
        let find = |name: &str| {
            let found = weights.iter().find(|(own, _)| own == name);
            found.map(|(_, values)| values.clone())
        };
        Exported::from_weights(
            shape.features,
            shape.projection.is_some(),
            shape.layers,
            find,
        )
        .context("the weights do not fit the screener's network")
    }
}

impl Scorer for Trained {
    fn score(&self, example: &Example) -> Result<Vec<f64>> {
        if example.regions.is_empty() {
            return Ok(Vec::new());
        }
        let example = example.with_columns(&self.columns)?;
        let rows = Rows::new(&example, &self.normalisation);
        let logits = self.network.logits(&padded(&[&rows])?, None)?;
        let logits: Vec<f32> = logits.flatten_all()?.to_vec1()?;
        Ok(logits.into_iter().map(f64::from).collect())
    }
}

/// A feature that varies less is constant.
const CONSTANT: f64 = 1e-9;

/// Mean and standard deviation of each feature over all regions.
pub(super) fn standardisation(examples: &[Example]) -> Result<Normalisation> {
    let width = examples.first().map_or(0, |example| example.columns.len());
    let rows = || examples.iter().flat_map(|example| &example.features);
    let count = rows().count() as f64;
    ensure!(count > 0.0, "there is no region to learn from");
    // Rounding gives a constant a deviation, so that values are compared, too.
    let mut varies = vec![false; width];
    for (row, next) in rows().zip(rows().skip(1)) {
        for (varies, (value, next)) in varies.iter_mut().zip(row.iter().zip(next)) {
            *varies |= value != next;
        }
    }
    let mut mean = vec![0.0; width];
    for row in rows() {
        for (sum, value) in mean.iter_mut().zip(row) {
            *sum += f64::from(*value) / count;
        }
    }
    let mut variance = vec![0.0; width];
    for row in rows() {
        for ((sum, mean), value) in variance.iter_mut().zip(&mean).zip(row) {
            *sum += (f64::from(*value) - mean).powi(2) / count;
        }
    }
    let std_dev = |(variance, varies): (&f64, &bool)| match variance.sqrt() {
        deviation if *varies && deviation > CONSTANT => deviation as f32,
        // Its weights get no gradient and keep their random values: they must never have an effect.
        _ => 0.0,
    };
    Ok(Normalisation {
        std_dev: variance.iter().zip(&varies).map(std_dev).collect(),
        mean: mean.iter().map(|mean| *mean as f32).collect(),
    })
}

/// A step's standardised features, and its labels.
struct Rows {
    features: Vec<Vec<f32>>,
    labels: Vec<bool>,
}

impl Rows {
    fn new(example: &Example, normalisation: &Normalisation) -> Self {
        let features = example.features.iter();
        Self {
            features: features.map(|row| normalisation.apply(row)).collect(),
            labels: example.weak.clone(),
        }
    }
}

/// The weight of a positive, so that both classes count the same, or nearly.
fn positive_weight(rows: &[Rows], max: f64) -> Result<f64> {
    let labels = || rows.iter().flat_map(|rows| &rows.labels);
    let all = labels().count() as f64;
    let positives = labels().filter(|label| **label).count() as f64;
    ensure!(
        positives > 0.0 && positives < all,
        "{positives} of {all} regions to learn from are dependent: both kinds are needed"
    );
    Ok(((all - positives) / positives).clamp(1.0 / max, max))
}

/// The regions of several steps side by side: one tensor (steps × features) for each position, zero where a step has
/// no region any more.
fn padded(steps: &[&Rows]) -> Result<Vec<Tensor>> {
    let lengths = steps.iter().map(|rows| rows.features.len());
    let longest = lengths.max().unwrap_or(0);
    let first = steps.iter().find_map(|rows| rows.features.first());
    let zeros = vec![0.0; first.map_or(0, Vec::len)];
    let position = |at: usize| -> Result<Tensor> {
        let rows = steps
            .iter()
            .map(|rows| rows.features.get(at).unwrap_or(&zeros));
        let values: Vec<f32> = rows.flatten().copied().collect();
        let shape = (steps.len(), zeros.len());
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
    };
    (0..longest).map(position).collect()
}

/// The weighted cross-entropy summed over the regions of some steps, and the sum of the weights. Padding follows all
/// regions of its step, so it changes no other logit, and it weighs nothing.
fn weighted_loss(
    network: &Network,
    steps: &[&Rows],
    positive_weight: f64,
    dropout: Option<Dropout<'_>>,
) -> Result<(Tensor, f64)> {
    let regions = padded(steps)?;
    let logits = network.logits(&regions, dropout)?;
    let (mut targets, mut weights) = (Vec::new(), Vec::new());
    for rows in steps {
        for at in 0..regions.len() {
            let label = rows.labels.get(at);
            targets.push(if label == Some(&true) { 1.0_f32 } else { 0.0 });
            weights.push(match label {
                Some(true) => positive_weight as f32,
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

/// Steps of similar length in one batch, where no gradient is needed.
const EVALUATION_BATCH: usize = 64;

fn mean_loss(network: &Network, rows: &[Rows], positive_weight: f64) -> Result<f64> {
    let mut order: Vec<&Rows> = rows.iter().collect();
    order.sort_by_key(|rows| rows.features.len());
    let (mut sum, mut weight) = (0.0, 0.0);
    for steps in order.chunks(EVALUATION_BATCH) {
        let (loss, weights) = weighted_loss(network, steps, positive_weight, None)?;
        sum += f64::from(loss.to_scalar::<f32>()?);
        weight += weights;
    }
    Ok(sum / weight)
}

/// Scales a gradient down to [`MAX_GRADIENT_NORM`].
fn clip(gradient: &mut GradStore, vars: &[Var]) -> Result<()> {
    let mut square = 0.0;
    for var in vars {
        if let Some(part) = gradient.get(var) {
            square += f64::from(part.sqr()?.sum_all()?.to_scalar::<f32>()?);
        }
    }
    let norm = square.sqrt();
    if norm > MAX_GRADIENT_NORM {
        for var in vars {
            if let Some(part) = gradient.get(var) {
                let part = (part * (MAX_GRADIENT_NORM / norm))?;
                gradient.insert(var, part);
            }
        }
    }
    Ok(())
}

/// The scores of several examples in one padded batch.
#[cfg(test)]
pub(super) fn scores_together(trained: &Trained, examples: &[&Example]) -> Result<Vec<f64>> {
    let rows: Vec<Rows> = examples
        .iter()
        .map(|example| Rows::new(example, &trained.normalisation))
        .collect();
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
