//! Where an app is looked for, and how it is started.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use config::Config;

use crate::configuration::Examples;
use crate::terminal::Terminal;
use crate::{configuration, paths};

#[derive(Debug, Args)]
pub(super) struct Place {
    /// The configuration [default: $SLUICE_CONFIG, ./sluice.toml, then the user's configuration folder].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Start without these sandbox layers if the kernel lacks them.
    #[arg(long, value_name = "LAYER", value_delimiter = ',')]
    pub(super) allow_degraded: Vec<String>,
}

impl Place {
    /// The configuration as it is now.
    pub(super) fn open(&self) -> Result<Config> {
        configuration::open(self.config.as_deref(), Terminal::attended())
    }

    /// The file into which an app is written. One of the working folder has to be trusted before: the app is started once
    /// under what else it says.
    pub(super) fn file(&self) -> Result<PathBuf> {
        match configuration::find(self.config.as_deref())? {
            // An `mcpServers` file has no place for rules, and the other program would start what is added.
            Some(found) if found.path().extension().is_some_and(|kind| kind == "json") => {
                bail!(
                    "{} is another program's; name a sluice.toml with --config",
                    found.shown.display()
                )
            }
            Some(found) => {
                found.open(Examples::MayFail, Terminal::attended())?;
                Ok(found.path().to_owned())
            }
            None => paths::user_config().context("no home directory; name a file with --config"),
        }
    }
}
