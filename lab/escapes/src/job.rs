//! What a stand-in hub is told, and what it answers.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Row;

/// The program that holds the product's hub.
pub(crate) const PRODUCT_HUB: &str = "escapes-hub";

/// Who makes the attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// A spoke process that was taken over.
    Spoke,
    /// The same, where it sees no folder but one of programs, beside another spoke of the same hub.
    Programs,
    /// A hostile app below the spoke process of the product.
    App,
    /// The same, where it may reach a name: against the product's hub, which stands at the other end.
    NamedApp,
    /// A spoke process that was taken over, by frames with the product's hub.
    Frames,
}

impl Who {
    /// The program that starts the spoke, beside `hostile`.
    pub(crate) fn program(self, hostile: &Path) -> PathBuf {
        match self {
            Self::Spoke | Self::Programs | Self::App => hostile.to_owned(),
            Self::NamedApp | Self::Frames => hostile.with_file_name(PRODUCT_HUB),
        }
    }
}

/// Under which user the hub runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hub {
    /// Root.
    Root,
    /// Any other.
    OrdinaryUser,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Who makes the attempts.
    pub who: Who,
    /// The weaker sandbox in which they are made, by its name; `None` for the product's.
    pub weaker: Option<String>,
    /// The spoke binary of the product.
    pub spoke: PathBuf,
    /// Only these attempts are made, if any are named.
    pub only: Vec<String>,
}

/// What a run showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// One row for each attempt, and for each look from outside.
    pub rows: Vec<Row>,
    /// Layers that were not in force, by name.
    pub given_up: Vec<String>,
    /// Whether a control group bounds all of the spoke, or why not.
    pub whole_spoke: String,
}
