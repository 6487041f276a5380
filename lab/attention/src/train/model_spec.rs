//! The models of the tables.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, Result, bail, ensure};

use super::baselines::{Baseline, Majority};
use super::fit::Hyperparameters;
use super::learner::Learner;
use crate::examples::Header;

/// The six features of RTBAS §7.2.
pub const PAPER: [&str; 6] = [
    "all.sum", "all.mean", "all.q20", "all.q50", "all.q80", "all.q99",
];
/// Groups of features, by the beginning of their names up to a dot: all but those that reveal the suite, which are
/// lengths, counts and distances.
const BEST: [&str; 12] = [
    "all",
    "values",
    "argument",
    "text",
    "head",
    "place.newest",
    "place.same-tool",
    "place.from-tool",
    "place.from-user",
    "place.from-assistant",
    "place.from-hub",
    "place.from-system",
];
/// The paper's score of a region: its largest saliency over that of the whole input (§3.3).
const RAW: &str = "all.peak";
/// The part of the call's values that occur in the region.
const VALUES: &str = "text.here";

/// A network and its features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSpec {
    /// The classifier of RTBAS §7.2 on its six features.
    Paper,
    /// The same with a projection, on several hundred features.
    Best,
}

impl ModelSpec {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Paper, Self::Best];

    /// How its network is made, for features with this header.
    pub fn hyperparameters(self, header: &Header, seed: u64) -> Result<Hyperparameters> {
        Ok(match self {
            Self::Paper => Hyperparameters::paper(in_groups(header, &PAPER)?, seed),
            Self::Best => Hyperparameters::best(in_groups(header, &BEST)?, seed),
        })
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paper => "paper",
            Self::Best => "best",
        })
    }
}

impl FromStr for ModelSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "paper" => Self::Paper,
            "best" => Self::Best,
            _ => bail!("there is no model {text}; use paper or best"),
        })
    }
}

/// The columns of these groups, in the order of the header.
fn in_groups(header: &Header, groups: &[&str]) -> Result<Vec<String>> {
    let within = |column: &str, group: &str| {
        let rest = column.strip_prefix(group);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    for group in groups {
        ensure!(
            header.columns.iter().any(|column| within(column, group)),
            "no feature is named {group} or begins with {group} and a dot; extract the features anew"
        );
    }
    let columns = header.columns.iter();
    let chosen = columns.filter(|column| groups.iter().any(|group| within(column, group)));
    Ok(chosen.cloned().collect())
}

/// The baselines that these features allow.
pub fn baselines(header: &Header) -> Vec<Box<dyn Learner>> {
    let mut all: Vec<Box<dyn Learner>> = Vec::new();
    for (name, column) in [("raw score", RAW), ("value match", VALUES)] {
        if header.columns.iter().any(|own| own == column) {
            all.push(Box::new(Baseline::Column {
                name: name.to_owned(),
                column: column.to_owned(),
            }));
        }
    }
    all.push(Box::new(Baseline::Recency));
    all.push(Box::new(Majority));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_full_words() {
        let columns = ["head.1.2.share", "head.11.2.share", "text.run", "headless"];
        let header = Header::new("m", &columns.map(str::to_owned));
        let columns = |groups: &[&str]| in_groups(&header, groups);
        let expected = ["head.1.2.share", "text.run"];
        assert_eq!(columns(&["head.1", "text"]).unwrap(), expected);
        assert_eq!(columns(&["head"]).unwrap().len(), 2);
        assert!(columns(&["head", "place"]).is_err());
        assert!(ModelSpec::Paper.hyperparameters(&header, 1).is_err());
    }
}
