//! From the features of a step's regions to probabilities.

use super::columns::Columns;
use super::features::RegionFeatures;
use super::lstm::{Network, sigmoid};

/// Standardised features are clipped to this magnitude, in training and in use: outliers would only
/// make the gradient unstable.
pub const MAX_Z_SCORE: f32 = 8.0;

/// A trained classifier (RTBAS §7.2), as it is stored in a file of weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Classifier {
    /// What it is, and where it comes from.
    pub about: About,
    /// The features that it reads, in order.
    pub columns: Columns,
    /// How they are standardised.
    pub normalisation: Normalisation,
    /// The network.
    pub network: Network,
    /// From its logits to probabilities.
    pub platt: Platt,
    /// For each per cent of [`RECALLS`], the probability from which on regions must count as
    /// relevant to find so much of all that are, on held-out data.
    pub thresholds: Vec<f32>,
    /// The default target recall, in per cent.
    pub target_recall: u8,
}

/// Recalls, in per cent, that a classifier has thresholds for.
pub const RECALLS: std::ops::RangeInclusive<u8> = 50..=99;

/// The default per cent of the relevant regions to find, in training and in evaluation. It was chosen by looking at AgentDojo's closed loop, so figures of that loop are in
/// sample for this choice. A region that is missed costs context, never security.
pub const TARGET_RECALL: u8 = 70;

/// The thresholds of a [`Classifier`]: [`threshold`] for each of [`RECALLS`].
pub fn thresholds(relevant: &[f32]) -> Vec<f32> {
    RECALLS.map(|recall| threshold(relevant, recall)).collect()
}

/// The probability from which on regions must count as relevant to find `recall` per cent of the
/// relevant regions of held-out data. `relevant` holds their probabilities, in any order. If it is
/// empty, the threshold is 0 and everything is relevant.
pub fn threshold(relevant: &[f32], recall: u8) -> f32 {
    let mut descending = relevant.to_vec();
    descending.sort_unstable_by(|a, b| b.total_cmp(a));
    // Rounded up: the target is the least that is to be found.
    let found = (descending.len() * usize::from(recall)).div_ceil(100);
    let last = found.checked_sub(1).and_then(|last| descending.get(last));
    last.copied().unwrap_or(0.0)
}

/// Where a classifier comes from.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Its name, such as `paper` or `best`.
    pub name: String,
    /// The SHA-256 of the language model's file: attention of another model means something else.
    pub model: String,
    /// The SHA-256 of the training data.
    pub data: String,
    /// The command that made it.
    pub command: String,
}

/// Mean and standard deviation of each feature in the training data.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalisation {
    /// Of each feature.
    pub mean: Vec<f32>,
    /// Of each feature; 0 for one that was constant, from which nothing could be learned: its
    /// standardised value is always 0.
    pub std_dev: Vec<f32>,
}

/// Platt scaling: the probability is `σ(slope · logit + intercept)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Platt {
    /// Above 0, so that the ranking of regions stays.
    pub slope: f32,
    /// Added to the scaled logit.
    pub intercept: f32,
}

impl Default for Platt {
    /// The uncalibrated sigmoid.
    fn default() -> Self {
        Self {
            slope: 1.0,
            intercept: 0.0,
        }
    }
}

/// Why a classifier cannot be used. The screener then answers "everything".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClassifierError {
    /// Its parts do not fit each other.
    #[error("the classifier's {0} do not fit; train it again")]
    Sizes(&'static str),
    /// A number is not finite, or out of range.
    #[error("the classifier's {0} cannot be used; train it again")]
    Value(&'static str),
    /// A region has other features.
    #[error("a region has {found} features, not {wanted}; extract the classifier's own columns")]
    Features {
        /// Features of the region.
        found: usize,
        /// Columns of the classifier.
        wanted: usize,
    },
    /// The result is no probability.
    #[error("the classifier overflows; train it with smaller weights")]
    Overflow,
}

impl Classifier {
    /// The probability that the draft depends on it, for every region. They must be all regions
    /// that are seen, in order.
    ///
    /// # Errors
    /// [`ClassifierError`]; treat it as "everything is relevant".
    pub fn scores(&self, regions: &[RegionFeatures]) -> Result<Vec<f32>, ClassifierError> {
        let wanted = self.columns.len();
        // Also here, since the fields are public: where sizes do not fit, the loops would end early
        // and give numbers all the same.
        if !self.network.fits(wanted) {
            return Err(ClassifierError::Sizes("layers"));
        }
        let inputs = regions.iter().map(|region| match region.values.len() {
            found if found == wanted => Ok(self.normalisation.apply(&region.values)),
            found => Err(ClassifierError::Features { found, wanted }),
        });
        let inputs: Vec<Vec<f32>> = inputs.collect::<Result<_, _>>()?;
        let logits = self.network.logits(&inputs);
        let scores = logits.into_iter().map(|logit| {
            let score = sigmoid(self.platt.slope * logit + self.platt.intercept);
            let checked = score.is_finite().then_some(score);
            checked.ok_or(ClassifierError::Overflow)
        });
        scores.collect()
    }

    /// A region of this probability or more is relevant, to find `target_recall`.
    pub fn threshold(&self) -> f32 {
        // Without a threshold, everything is relevant.
        self.threshold_for(self.target_recall).unwrap_or(0.0)
    }

    /// The threshold that finds so many per cent of the relevant regions; `None` outside
    /// [`RECALLS`].
    pub fn threshold_for(&self, recall: u8) -> Option<f32> {
        let index = recall.checked_sub(*RECALLS.start())?;
        self.thresholds.get(usize::from(index)).copied()
    }

    /// Whether it can be used.
    pub fn check(&self) -> Result<(), ClassifierError> {
        let features = self.columns.len();
        let Normalisation { mean, std_dev } = &self.normalisation;
        if mean.len() != features || std_dev.len() != features {
            return Err(ClassifierError::Sizes("means and deviations"));
        }
        if !self.network.fits(features) {
            return Err(ClassifierError::Sizes("layers"));
        }
        // A negative deviation would turn a feature round. NaN fails this comparison too.
        if !std_dev.iter().all(|deviation| *deviation >= 0.0) {
            return Err(ClassifierError::Value("deviations"));
        }
        if self.thresholds.len() != RECALLS.len() {
            return Err(ClassifierError::Sizes("thresholds"));
        }
        let are_probabilities = self.thresholds.iter().all(|it| (0.0..=1.0).contains(it));
        // To find more, the threshold must be lower. Weights in which it is not were not made by
        // the training.
        let descend = self.thresholds.is_sorted_by(|a, b| a >= b);
        if !are_probabilities || !descend || !RECALLS.contains(&self.target_recall) {
            return Err(ClassifierError::Value("thresholds"));
        }
        // A negative slope would call the most relevant regions the least.
        if self.platt.slope.is_nan() || self.platt.slope <= 0.0 {
            return Err(ClassifierError::Value("calibration"));
        }
        if !self.numbers().iter().all(|number| number.is_finite()) {
            return Err(ClassifierError::Value("weights"));
        }
        Ok(())
    }

    /// Every number, in the order of the file.
    pub(crate) fn numbers(&self) -> Vec<f32> {
        // `Header::read` takes them in this order.
        let Platt { slope, intercept } = self.platt;
        let mut numbers = vec![slope, intercept];
        numbers.extend(&self.thresholds);
        let Network {
            projection,
            layers,
            head,
        } = &self.network;
        numbers.extend(&self.normalisation.mean);
        numbers.extend(&self.normalisation.std_dev);
        if let Some(linear) = projection {
            numbers.extend(linear.weights.iter().chain(&linear.bias));
        }
        for layer in layers {
            let input = layer.input.weights.iter().chain(&layer.input.bias);
            numbers.extend(input.chain(&layer.recurrent));
        }
        numbers.extend(head.weights.iter().chain(&head.bias));
        numbers
    }
}

impl Normalisation {
    /// The z-scores of a region's features, clipped to [`MAX_Z_SCORE`].
    pub fn apply(&self, features: &[f32]) -> Vec<f32> {
        let each = features.iter().zip(&self.mean).zip(&self.std_dev);
        let scores = each.map(|((value, mean), std_dev)| match *std_dev > 0.0 {
            true => ((value - mean) / std_dev).clamp(-MAX_Z_SCORE, MAX_Z_SCORE),
            // Not simply 0: what is not finite must stay so, and be refused.
            false => (value - mean) * 0.0,
        });
        scores.collect()
    }
}
