//! Models by name, such as `paper`, `best`, `lstm:all` or `lstm:head+text`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, Result, bail, ensure};

use super::baselines::{Baseline, Majority};
use super::fit::Hyperparameters;
use super::learner::Learner;
use crate::examples::Header;

/// Which features a model sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Features {
    /// The six of RTBAS §7.2.
    Paper,
    /// [`BEST`].
    Best,
    /// All that were extracted.
    All,
    /// Those whose names begin with one of these words, up to a dot: `head`, `text`, `values`, `head.15`.
    Groups(Vec<String>),
}

/// The six features of RTBAS §7.2.
pub const PAPER: [&str; 6] = [
    "all.sum", "all.mean", "all.q20", "all.q50", "all.q80", "all.q99",
];
/// All but the features that reveal the suite: lengths, counts and distances.
pub const BEST: [&str; 12] = [
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
pub const RAW: &str = "all.peak";
/// The part of the call's values that occur in the region.
pub const VALUES: &str = "text.here";

/// The models of the usual table.
pub const USUAL: [&str; 4] = ["paper", "best", "lstm:head", "lstm:text"];

impl Features {
    /// The names of the columns.
    ///
    /// # Errors
    /// A feature was not extracted.
    pub fn columns(&self, header: &Header) -> Result<Vec<String>> {
        match self {
            Self::Paper => in_groups(header, &PAPER),
            Self::Best => in_groups(header, &BEST),
            Self::All => Ok(header.columns.clone()),
            Self::Groups(groups) => {
                let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
                in_groups(header, &groups)
            }
        }
    }
}

/// The columns of these groups, in the order of the header.
fn in_groups(header: &Header, groups: &[&str]) -> Result<Vec<String>> {
    let within = |column: &str, group: &str| {
        let rest = column.strip_prefix(group);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    // A name that matches nothing is refused: a slip in it would silently train on fewer features.
    for group in groups {
        ensure!(
            header.columns.iter().any(|column| within(column, group)),
            "no feature is named {group} or begins with {group} and a dot"
        );
    }
    let columns = header.columns.iter();
    let chosen = columns.filter(|column| groups.iter().any(|group| within(column, group)));
    Ok(chosen.cloned().collect())
}

/// The architecture of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// The paper's classifier.
    Paper,
    /// The same with a projection, for many features.
    Lstm,
}

/// An architecture and its features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSpec {
    /// The architecture.
    pub architecture: Architecture,
    /// The features.
    pub features: Features,
}

impl ModelSpec {
    /// How its network is made, for features with this header.
    ///
    /// # Errors
    /// A feature is missing.
    pub fn hyperparameters(&self, header: &Header, seed: u64) -> Result<Hyperparameters> {
        let columns = self.features.columns(header)?;
        let hyperparameters = match self.architecture {
            Architecture::Paper => Hyperparameters::paper(columns, seed),
            Architecture::Lstm => Hyperparameters::best(columns, seed),
        };
        Ok(Hyperparameters {
            name: self.to_string(),
            ..hyperparameters
        })
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let architecture = match (self.architecture, &self.features) {
            (Architecture::Paper, Features::Paper) => return f.write_str("paper"),
            (Architecture::Lstm, Features::Best) => return f.write_str("best"),
            (Architecture::Paper, _) => "paper",
            (Architecture::Lstm, _) => "lstm",
        };
        let features = match &self.features {
            Features::Paper => "paper".to_owned(),
            Features::Best => "best".to_owned(),
            Features::All => "all".to_owned(),
            Features::Groups(groups) => groups.join("+"),
        };
        write!(f, "{architecture}:{features}")
    }
}

impl FromStr for ModelSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (architecture, features) = match text {
            "paper" => ("paper", "paper"),
            "best" => ("lstm", "best"),
            _ => text.split_once(':').unwrap_or((text, "all")),
        };
        let architecture = match architecture {
            "paper" => Architecture::Paper,
            "lstm" => Architecture::Lstm,
            _ => bail!("there is no model {text}: write paper, best, or lstm with :FEATURES"),
        };
        let features = match features {
            "paper" => Features::Paper,
            "best" => Features::Best,
            "all" => Features::All,
            _ => Features::Groups(features.split('+').map(str::to_owned).collect()),
        };
        Ok(Self {
            architecture,
            features,
        })
    }
}

/// The baselines that these features allow.
#[must_use]
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
    all.push(Box::new(Baseline::WeakLabels));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["paper", "best", "lstm:all", "lstm:head+text", "paper:all"] {
            let model: ModelSpec = name.parse().unwrap();
            assert_eq!(model.to_string(), name);
        }
        let best: ModelSpec = "lstm:best".parse().unwrap();
        assert_eq!(best.to_string(), "best");
        assert!(USUAL.iter().all(|name| name.parse::<ModelSpec>().is_ok()));
        assert!("forest".parse::<ModelSpec>().is_err());
    }

    #[test]
    fn groups_are_whole_words() {
        let columns = ["head.1.2.share", "head.11.2.share", "text.run", "headless"];
        let header = Header::new("m", &columns.map(str::to_owned));
        let columns = |names: &[&str]| {
            let groups = names.iter().map(|name| (*name).to_owned());
            Features::Groups(groups.collect()).columns(&header)
        };
        assert_eq!(
            columns(&["head.1", "text"]).unwrap(),
            ["head.1.2.share", "text.run"]
        );
        assert_eq!(columns(&["head"]).unwrap().len(), 2);
        assert!(columns(&["head", "place"]).is_err());
        assert!(Features::Paper.columns(&header).is_err());
    }
}
