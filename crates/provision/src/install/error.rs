//! Errors of installations.

use std::path::PathBuf;

use super::store::StoreError;
use super::tree::TreeError;
use crate::FindError;

/// Why nothing was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// There is no package manager.
    #[error(
        "there is no '{0}' in PATH, which installs such packages; install it first (on Debian: `apt install npm` or `apt install python3-pip`)"
    )]
    NoManager(&'static str),
    /// There is no Python of the requested version.
    #[error(
        "there is no Python {0} with pip in PATH, of uv or of pyenv; install it, or leave out '--python' to use python3"
    )]
    NoPython(String),
    /// The package manager itself cannot run in a spoke.
    #[error("the package manager cannot run in a spoke: {0}")]
    Manager(#[from] FindError),
    /// Its settings cannot be read.
    #[error("'{program}' does not print its settings: {reason}", program = program.display())]
    Settings {
        /// The package manager.
        program: PathBuf,
        /// Why.
        reason: String,
    },
    /// It names no registry.
    #[error("the settings of '{}' name no registry", .0.display())]
    NoRegistry(PathBuf),
    /// Not a package of a registry.
    #[error("'{0}' is no package of a registry: files, folders and addresses are not installed")]
    Requirement(String),
    /// Programs of packages would run where a secret is.
    #[error(
        "the index needs a secret, and programs of packages could read it; leave out --scripts"
    )]
    SecretBesideScripts,
    /// The build spoke does not run.
    #[error("the build spoke: {0}")]
    Spoke(String),
    /// The package manager failed.
    #[error("the package manager failed{}", refused_hosts(refused))]
    Failed {
        /// The end of its output, of many lines. Scripts of packages may have written it.
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
    #[error("the installed package was refused: {0}")]
    Tree(#[from] TreeError),
}

fn refused_hosts(hosts: &[String]) -> String {
    if hosts.is_empty() {
        return String::new();
    }
    let hosts = hosts.join(", ");
    format!(" (it tried to reach {hosts}, which no setting of yours names as a registry)")
}
