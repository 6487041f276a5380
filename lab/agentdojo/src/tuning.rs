//! How the attention screener of a run was tuned.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use hub::trace::escape;
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
    /// The command that trained the weights, as they say themselves.
    pub command: String,
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
            command: classifier.about.command,
        })
    }

    /// A short identifier.
    #[must_use]
    pub fn tag(&self) -> String {
        format!("{}, {} %", self.weights, self.recall)
    }

    /// The caveat of figures on these suites: the weights have learned from recorded runs of
    /// the same tasks, unless their command left the suite out. `None` if it left all of them out.
    #[must_use]
    pub fn caveat(&self, suites: &BTreeSet<String>) -> Option<String> {
        let left_out = self.left_out();
        let is_out = |suite: &&String| left_out.contains(suite.as_str());
        let (out, learned): (Vec<&String>, Vec<&String>) = suites.iter().partition(is_out);
        let list = |names: Vec<&String>| {
            let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
            names.join(", ")
        };
        match (learned.is_empty(), out.is_empty()) {
            (true, _) => None,
            (false, true) => Some("trained on these suites' recorded runs".to_owned()),
            (false, false) => Some(format!(
                "trained on the recorded runs of {}, not of {}",
                list(learned),
                list(out)
            )),
        }
    }

    /// The suites of each `--without SUITE` of the command.
    fn left_out(&self) -> BTreeSet<&str> {
        let words: Vec<&str> = self.command.split_whitespace().collect();
        // An unknown or older command names no suite, so that the caveat stays.
        let pairs = words.windows(2).filter_map(|pair| match pair {
            ["--without", suite] => Some(*suite),
            _ => None,
        });
        pairs.collect()
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A file of weights may be anybody's: what it says must not steer a terminal.
        let command = escape(&self.command);
        write!(
            f,
            "weights {} by `{command}`, recall {} %",
            self.weights, self.recall
        )
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
        assert!(digest.starts_with(&shipped.weights), "{shipped}");
        assert_eq!(shipped.weights.len(), DIGITS);
        let own = Classifier::from_bytes(WEIGHTS).unwrap();
        assert_eq!(
            (shipped.recall, &shipped.command),
            (own.target_recall, &own.about.command)
        );
        // Another recall is another tuning, and so are other weights.
        let eager = Tuning::of(WEIGHTS, Some(90)).unwrap();
        assert_eq!((eager.recall, &eager.weights), (90, &shipped.weights));
        let mut about = own.about.clone();
        about.command.push_str(" --without banking");
        let other = Classifier { about, ..own }.to_bytes().unwrap();
        let other = Tuning::of(&other, None).unwrap();
        assert_ne!(other.weights, shipped.weights);
        assert!(other.to_string().contains(" --without banking`"), "{other}");
        assert!(Tuning::of(b"no weights", None).is_err());
    }

    #[test]
    fn figures_on_suites_that_were_learned_from_say_so() {
        let caveat = |command: &str, suites: &[&str]| {
            let tuning = Tuning {
                weights: "1a2b3c4d5e6f".to_owned(),
                recall: 70,
                command: command.to_owned(),
            };
            tuning.caveat(&suites.iter().map(|it| (*it).to_owned()).collect())
        };
        let train = "sluice-lab screener train --seed 1";
        let all = Some("trained on these suites' recorded runs".to_owned());
        assert_eq!(caveat(train, &["banking", "slack"]), all);
        let without = format!("{train} --without banking --without slack");
        assert_eq!(caveat(&without, &["banking"]), None);
        assert_eq!(caveat(&without, &["banking", "slack"]), None);
        assert_eq!(caveat(&without, &["travel"]), all);
        let some = "trained on the recorded runs of travel, not of banking";
        let found = caveat(&without, &["banking", "travel"]);
        assert_eq!(found.as_deref(), Some(some));
    }

    #[test]
    fn a_command_does_not_steer_the_terminal() {
        let tuning = Tuning {
            weights: "1a2b3c4d5e6f".to_owned(),
            recall: 70,
            command: "train \u{1b}[2J\nattention: all is well".to_owned(),
        };
        let said = tuning.to_string();
        assert!(!said.contains(char::is_control), "{said:?}");
    }
}
