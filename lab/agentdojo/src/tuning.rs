//! How the attention screener of a run was tuned.

use std::sync::Arc;

use screen::attention::{AttentionScreener, Classifier, WeightsError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex::hex;

/// Hex digits of a digest: enough to identify weights, few enough to compare by eye.
const DIGITS: usize = 12;

/// An attention screener, and what its rows say of it.
#[derive(Debug, Clone)]
pub struct Tuned {
    /// The screener.
    pub screener: Arc<AttentionScreener>,
    /// How it was tuned.
    pub tuning: Tuning,
}

/// What decides how an attention screener screens, beside its model. Rows of different tunings are
/// different experiments.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// The first 12 hex digits of the SHA-256 of the weights' file.
    pub weights: String,
    /// The part of the dependencies that it is to find, in per cent.
    pub recall: u8,
}

impl Tuning {
    /// The tuning by these weights, for this recall instead of their own.
    ///
    /// # Errors
    /// The bytes are no weights.
    pub fn of(weights: &[u8], recall: Option<u8>) -> Result<Self, WeightsError> {
        let classifier = Classifier::from_bytes(weights)?;
        let digits = hex(&Sha256::digest(weights));
        Ok(Self {
            weights: digits.chars().take(DIGITS).collect(),
            recall: recall.unwrap_or(classifier.target_recall),
        })
    }

    /// A short identifier.
    #[must_use]
    pub fn tag(&self) -> String {
        format!("{}, {} %", self.weights, self.recall)
    }
}

#[cfg(test)]
mod tests {
    use screen::attention::WEIGHTS;

    use super::*;

    #[test]
    fn weights_say_where_they_come_from() {
        let shipped = Tuning::of(WEIGHTS, None).unwrap();
        let digest = hex(&Sha256::digest(WEIGHTS));
        assert!(digest.starts_with(&shipped.weights), "{shipped:?}");
        assert_eq!(shipped.weights.len(), DIGITS);
        let own = Classifier::from_bytes(WEIGHTS).unwrap();
        assert_eq!(shipped.recall, own.target_recall);
        // Another recall is another tuning, and so are other weights.
        let eager = Tuning::of(WEIGHTS, Some(90)).unwrap();
        assert_eq!((eager.recall, &eager.weights), (90, &shipped.weights));
        let mut about = own.about.clone();
        about.command.push_str(" --without banking");
        let other = Classifier { about, ..own }.to_bytes().unwrap();
        let other = Tuning::of(&other, None).unwrap();
        assert_ne!(other.weights, shipped.weights);
        assert!(Tuning::of(b"no weights", None).is_err());
    }
}
