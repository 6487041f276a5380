//! `sluice --version`, `sluice completions` and `sluice man`: what the program is, and what is installed beside it.

use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use clap::Args;
use clap_complete::Shell;

use crate::exit::Exit;
use crate::terminal::print;

/// One line, for `sluice -V`. The commit is `unknown` in a debug build and in a build without git.
pub(crate) const SHORT: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("SLUICE_BUILD"), ")");

/// For `sluice --version`: what a report of a fault has to say of the program.
pub(crate) static LONG: LazyLock<String> = LazyLock::new(|| {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("SLUICE_BUILD"));
    let target = env!("SLUICE_TARGET");
    let features = match cfg!(feature = "attention") {
        true => "attention",
        false => "none",
    };
    let abi = match sandbox::landlock_abi() {
        0 => "this kernel has no Landlock".to_owned(),
        abi => format!("Landlock ABI {abi}"),
    };
    format!(
        "{version}\ncommit:   {commit}\ntarget:   {target}\nfeatures: {features}\nsandbox:  {abi}"
    )
});

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
    /// The folder. It is made if it is not there.
    folder: PathBuf,
}

/// Writes a manual page for each command of `root` that is not hidden.
pub(crate) fn man(args: &Man, root: clap::Command) -> Result<Exit> {
    let made = std::fs::create_dir_all(&args.folder);
    let pages = made.and_then(|()| clap_mangen::generate_to(root, &args.folder));
    pages.with_context(|| format!("cannot write into {}", args.folder.display()))?;
    Ok(Exit::Done)
}
