//! The arguments of `sluice serve`.

use std::net::SocketAddr;

use anyhow::Result;
use clap::Args;
use config::Config;

use crate::place::Place;

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  sluice serve
  sluice serve --config /etc/sluice/sluice.toml --json
  sluice serve --check

The configuration says where it listens and keeps its state ([service], [state], [telemetry], [tenant.NAME]); see
docs/operations.md. Agents need a token: `sluice token new NAME --role agent`. SIGHUP and changes of the files reload the rules;
SIGTERM lets running requests end first. SLUICE_LOG says what is logged.")]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(super) place: Place,
    /// Listen at this address [default: `[service] listen`, 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Check whether the configuration can be served, and serve nothing. The exit code is 1 if it cannot.
    #[arg(long)]
    pub(super) check: bool,
    /// Take the secret of the configuration in the place of another one that the store was used with: conversations of before
    /// are not found.
    #[arg(long)]
    pub(super) new_secret: bool,
    /// Print a line of JSON once it serves: where each front is.
    #[arg(long)]
    pub(super) json: bool,
}

impl Serve {
    /// The configuration. A reload reads it again, and asks no question about trust.
    pub(super) fn config(&self, attended: bool) -> Result<Config> {
        let mut config = self.place.file.open(!attended)?;
        if let Some(listen) = self.listen {
            config.service.listen = listen;
        }
        Ok(config)
    }
}
