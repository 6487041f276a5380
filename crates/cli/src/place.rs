//! Options that several commands share: the configuration, and the sandbox layers that may be missing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use config::Config;
use sandbox::Layer;

use crate::configuration::{self, Examples, Found};
use crate::terminal::Terminal;

/// The configuration that a command reads.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigFile {
    /// Read this configuration [default: $SLUICE_CONFIG, ./sluice.toml, then the one in your
    /// configuration folder].
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
}

/// The same for commands that start apps.
#[derive(Debug, Args)]
pub(crate) struct Place {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Start apps although the kernel lacks these sandbox layers, separated by commas (see `sluice
    /// doctor`) [default: none may be missing].
    #[arg(long, value_name = "LAYER", value_delimiter = ',')]
    allow_degraded: Vec<Layer>,
}

impl ConfigFile {
    /// Opens it. Its trust is asked for at a terminal, unless `json` says that a program reads the output.
    pub(crate) fn open(&self, json: bool) -> Result<Config> {
        configuration::open(self.config.as_deref(), !json && Terminal::attended())
    }
}

impl Place {
    /// The sandbox layers that may be missing.
    pub(crate) fn layers(&self) -> BTreeSet<Layer> {
        self.allow_degraded.iter().copied().collect()
    }

    /// The file whose apps a command changes. A file of the working folder has to be trusted first, because an app is started
    /// under the rest of it.
    pub(crate) fn writable(&self) -> Result<Found> {
        match configuration::find(self.file.config.as_deref())? {
            // An `mcpServers` file has no place for rules, and the other program would start what is added.
            Some(found) if found.is_of_another_program() => {
                bail!(
                    "{} belongs to another program; name a sluice.toml with --config",
                    found.shown.display()
                )
            }
            Some(found) => {
                found.open(Examples::MayFail, Terminal::attended())?;
                Ok(found)
            }
            None => Found::own().context("no home directory; name a file with --config"),
        }
    }
}
