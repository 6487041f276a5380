//! `sluice version`, `sluice completions` and `sluice man`: what is installed beside the program, and what it is.

use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use clap::Args;
use clap_complete::Shell;
use serde::Serialize;

use crate::exit::Exit;
use crate::json_lines::show;
use crate::terminal::print;

/// What a report of a fault has to say of the program.
#[derive(Debug, Serialize)]
struct About {
    version: &'static str,
    /// `unknown` in a debug build and in a build without git.
    commit: &'static str,
    target: &'static str,
    features: Vec<&'static str>,
    /// The version of Landlock that this kernel has; 0 without any.
    landlock_abi: u32,
}

impl About {
    fn here() -> Self {
        let features = [("attention", cfg!(feature = "attention"))];
        let features = features.into_iter().filter(|(_, is_on)| *is_on);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("SLUICE_BUILD"),
            target: env!("SLUICE_TARGET"),
            features: features.map(|(name, _)| name).collect(),
            landlock_abi: sandbox::landlock_abi(),
        }
    }
}

/// One line, for `sluice -V`.
pub(crate) static SHORT: LazyLock<String> = LazyLock::new(|| {
    let About {
        version, commit, ..
    } = About::here();
    format!("{version} ({commit})")
});

/// For `sluice --version`.
pub(crate) static LONG: LazyLock<String> = LazyLock::new(|| {
    let about = About::here();
    let features = match about.features.is_empty() {
        true => "none".to_owned(),
        false => about.features.join(", "),
    };
    let abi = match about.landlock_abi {
        0 => "this kernel has no Landlock".to_owned(),
        abi => format!("Landlock ABI {abi}"),
    };
    format!(
        "{}\ncommit:   {}\ntarget:   {}\nfeatures: {features}\nsandbox:  {abi}",
        about.version, about.commit, about.target
    )
});

#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Print JSON on one line.
    #[arg(long)]
    json: bool,
}

/// Prints what `sluice --version` prints.
pub(crate) fn version(args: &Version) -> Result<Exit> {
    show(args.json, &About::here(), &format!("sluice {}", *LONG))?;
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell that reads them.
    shell: Shell,
}

/// Prints the completions of the whole command line `root`.
pub(crate) fn completions(args: &Completions, mut root: clap::Command) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut root, "sluice", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// An existing folder.
    folder: PathBuf,
}

/// Writes a manual page for each command of `root` that is not hidden.
pub(crate) fn man(args: &Man, root: clap::Command) -> Result<Exit> {
    let pages = clap_mangen::generate_to(root, &args.folder);
    pages.with_context(|| format!("cannot write into {}", args.folder.display()))?;
    Ok(Exit::Done)
}
