//! Learners by name, such as `lstm:all`, `lstm:head+text` or `paper`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, Result, bail, ensure};

use super::baselines::{Baseline, Majority};
use super::fit::Recipe;
use super::learner::Learner;
use crate::examples::Header;

/// Which features a learner sees.
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
/// All but what tells a network which suite it is in: how long, how many and how far.
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
/// The part of the call's values that stand in the region.
pub const VALUES: &str = "text.here";

impl Features {
    /// The names of the columns.
    ///
    /// # Errors
    /// When one of the paper's was not extracted, or nothing has such a name.
    pub fn of(&self, header: &Header) -> Result<Vec<String>> {
        match self {
            Self::Paper => {
                for name in PAPER {
                    ensure!(
                        header.columns.iter().any(|column| column == name),
                        "the feature {name} was not extracted: extract the paper's too"
                    );
                }
                Ok(PAPER.map(str::to_owned).to_vec())
            }
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

/// What learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The paper's classifier.
    Paper,
    /// The same with a projection, for many features.
    Lstm,
}

/// The learners of the usual table, by name.
pub const USUAL: [&str; 4] = ["paper", "best", "lstm:head", "lstm:text"];

/// What learns from which features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// The learner.
    pub kind: Kind,
    /// The features.
    pub features: Features,
}

impl Contender {
    /// The learner, for features with this header.
    ///
    /// # Errors
    /// When features are missing.
    pub fn learner(&self, header: &Header, seed: u64) -> Result<Box<dyn Learner>> {
        Ok(Box::new(self.recipe(header, seed)?))
    }

    /// How its network is made.
    ///
    /// # Errors
    /// When features are missing.
    pub fn recipe(&self, header: &Header, seed: u64) -> Result<Recipe> {
        let columns = self.features.of(header)?;
        let recipe = match self.kind {
            Kind::Paper => Recipe::paper(columns, seed),
            Kind::Lstm => Recipe::best(columns, seed),
        };
        Ok(Recipe {
            name: self.to_string(),
            ..recipe
        })
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Paper if self.features == Features::Paper => return f.write_str("paper"),
            Kind::Lstm if self.features == Features::Best => return f.write_str("best"),
            Kind::Paper => "paper",
            Kind::Lstm => "lstm",
        };
        let features = match &self.features {
            Features::Paper => "paper".to_owned(),
            Features::Best => "best".to_owned(),
            Features::All => "all".to_owned(),
            Features::Groups(groups) => groups.join("+"),
        };
        write!(f, "{kind}:{features}")
    }
}

impl FromStr for Contender {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, features) = match text {
            "paper" => ("paper", "paper"),
            "best" => ("lstm", "best"),
            _ => text.split_once(':').unwrap_or((text, "all")),
        };
        let kind = match kind {
            "paper" => Kind::Paper,
            "lstm" => Kind::Lstm,
            _ => bail!("{text} is no learner: write paper, best, or lstm with :FEATURES"),
        };
        let features = match features {
            "paper" => Features::Paper,
            "best" => Features::Best,
            "all" => Features::All,
            _ => Features::Groups(features.split('+').map(str::to_owned).collect()),
        };
        Ok(Self { kind, features })
    }
}

/// The baselines that these features allow; the weak labels only where they are not the truth themselves.
#[must_use]
pub fn baselines(header: &Header, weak: bool) -> Vec<Box<dyn Learner>> {
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
    if weak {
        all.push(Box::new(Baseline::WeakLabels));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["paper", "best", "lstm:all", "lstm:head+text", "paper:all"] {
            let contender: Contender = name.parse().unwrap();
            assert_eq!(contender.to_string(), name);
        }
        assert_eq!(
            "lstm:best".parse::<Contender>().unwrap().to_string(),
            "best"
        );
        assert!(USUAL.iter().all(|name| name.parse::<Contender>().is_ok()));
        assert!("forest".parse::<Contender>().is_err());
    }

    #[test]
    fn groups_are_whole_words() {
        let columns = ["head.1.2.share", "head.11.2.share", "text.run", "headless"];
        let header = Header::new("m", &columns.map(str::to_owned));
        let of = |names: &[&str]| {
            let groups = names.iter().map(|name| (*name).to_owned());
            Features::Groups(groups.collect()).of(&header)
        };
        assert_eq!(
            of(&["head.1", "text"]).unwrap(),
            ["head.1.2.share", "text.run"]
        );
        assert_eq!(of(&["head"]).unwrap().len(), 2);
        assert!(of(&["head", "place"]).is_err());
        assert!(Features::Paper.of(&header).is_err());
    }
}
