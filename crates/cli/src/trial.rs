//! Starting an app once, to see whether it runs and what it offers. Nothing of it is called.

use std::sync::Arc;

use anyhow::Result;
use config::{App, Config};
use ifc::Monitor;
use server::Gate;
use tokio::sync::mpsc;
use wire::ToolDescription;

use crate::compose::{self, Options};

/// What an app did when it was started.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Its tools, in its own words.
    pub(crate) tools: Vec<ToolDescription>,
}

/// Starts an app of a configuration as a session would, and ends it again.
///
/// # Errors
/// It does not start, or its tools are not those that the configuration has rules for.
pub(crate) async fn start(config: &Config, app: &App, options: &Options) -> Result<Trial> {
    let setup = compose::app(app, options)?;
    let gate = Gate::new(Monitor::new(), Arc::new(config.policy()));
    // What it connects to is recorded by sessions.
    let (sender, _) = mpsc::channel(1);
    let spoke = setup.open(&gate, sender).await?;
    let tools = spoke.tools().to_vec();
    drop(spoke);
    Ok(Trial { tools })
}
