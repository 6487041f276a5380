//! Why an installation fails.

use std::path::PathBuf;

use super::store::StoreError;
use super::tree::TreeError;
use crate::FindError;

/// Why nothing was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// There is no package manager.
    #[error("there is no '{name}' in PATH, which installs such packages; install it first")]
    NoManager {
        /// Which.
        name: &'static str,
    },
    /// The package manager itself cannot run in a spoke.
    #[error("the package manager cannot run in a spoke: {0}")]
    Manager(#[from] FindError),
    /// Its settings cannot be asked for.
    #[error("'{program}' does not tell its settings: {reason}", program = program.display())]
    Settings {
        /// The package manager.
        program: PathBuf,
        /// Why.
        reason: String,
    },
    /// It names no registry over HTTP.
    #[error("the settings of '{program}' name no registry", program = program.display())]
    NoRegistry {
        /// The package manager.
        program: PathBuf,
    },
    /// What is asked for is no package of a registry.
    #[error(
        "'{requirement}' is no package of a registry: files, folders and addresses are not installed"
    )]
    Requirement {
        /// What was asked for.
        requirement: String,
    },
    /// Programs of packages would run where a secret is.
    #[error(
        "the index is asked with a secret, and programs of packages would run beside it; leave out --scripts"
    )]
    SecretBesideScripts,
    /// The build spoke does not run.
    #[error("the build spoke: {0}")]
    Spoke(String),
    /// The package manager failed.
    #[error("the package manager failed{}", refused_hosts(refused))]
    Failed {
        /// The end of what it said: many lines, and scripts of packages may have written them. Whoever shows it tells them
        /// from its own words.
        said: String,
        /// Hosts that it may not reach.
        refused: Vec<String>,
    },
    /// The package has no program that could be started.
    #[error("the package {package} {what}")]
    NoProgram {
        /// Which.
        package: String,
        /// What is wrong.
        what: String,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The installed tree.
    #[error("what was installed is not kept: {0}")]
    Tree(#[from] TreeError),
}

fn refused_hosts(hosts: &[String]) -> String {
    match hosts.is_empty() {
        true => String::new(),
        false => format!(
            " (it tried to reach {}, which no setting of yours names as a registry)",
            hosts.join(", ")
        ),
    }
}
