//! Starting an app once, to see whether it runs and what it offers. Nothing of it is called.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use config::{App, Config};
use ifc::Monitor;
use server::Gate;
use tokio::sync::mpsc;
use wire::ToolDescription;

use crate::compose::Options;
use crate::{app_setup, login, tried};

/// Events of a start that are kept. An app that makes more has told enough.
const EVENTS: usize = 256;

/// What an app did when it was started.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Its tools, in its own words.
    pub(crate) tools: Vec<ToolDescription>,
    /// Places that it tried to reach and may not, in its own words, each with the reason and what to write.
    pub(crate) tried: BTreeMap<String, String>,
}

/// Starts an app of a configuration as a session would, and ends it again.
///
/// # Errors
/// It does not start, or its tools are not those that the configuration has rules for. The error names what it tried to
/// reach before that.
pub(crate) async fn start(config: &Config, app: &App, options: &Options) -> Result<Trial> {
    let layers = &options.allow_degraded;
    let setup = app_setup::of(app, login::token_port(app, layers)?, layers)?;
    // A monitor of its own: no grant of a session counts here, and nobody is asked.
    let gate = Gate::new(Monitor::new(), Arc::new(config.policy()));
    let (sender, events) = mpsc::channel(EVENTS);
    let opened = setup.open(&gate, sender).await;
    // The spoke ends here, with the app in it.
    let opened = opened.map(|spoke| spoke.tools().to_vec());
    let tried = tried::refused(events);
    match opened {
        Ok(tools) => Ok(Trial { tools, tried }),
        Err(error) if tried.is_empty() => Err(error.into()),
        Err(error) => Err(error).context(format!(
            "before it ended it tried to reach what it may not: {}",
            tried::words(&tried)
        )),
    }
}
