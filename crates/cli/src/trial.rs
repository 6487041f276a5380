//! Starting an app once, to see whether it runs and what it offers. Nothing of it is called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use config::{App, Config};
use hub::trace::escape;
use ifc::Monitor;
use provision::Record;
use sandbox::Layer;
use server::Gate;
use tokio::sync::mpsc;
use wire::ToolDescription;

use crate::refused::{refused, words};
use crate::{app_setup, login, needs};

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

/// Which files an app is started from, and with which tools.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Of<'a> {
    /// Those that are installed, if its tools are the ones that the user has seen.
    Seen,
    /// Those that are installed, whatever its tools are.
    Installed,
    /// Those of a record that is not kept yet, whatever its tools are. A session starts what is kept, so this must not be
    /// while nobody has agreed to it.
    New(&'a Record),
}

/// Finds what one app of this configuration needs, and starts it as [`start`] does, unless a session would refuse its mounts.
pub(crate) async fn find_and_start(
    config: &mut Config,
    name: &str,
    of: Of<'_>,
    layers: &BTreeSet<Layer>,
) -> Result<Trial> {
    let file = config.files.first().cloned().unwrap_or_default();
    let writable = needs::writable(config);
    let Some(app) = config.apps.get_mut(name).filter(|app| !app.client) else {
        bail!("there is no app '{}' that is started here", escape(name));
    };
    let new = match of {
        Of::New(record) => Some(record),
        Of::Seen | Of::Installed => None,
    };
    needs::provide_one(app, &file, &writable, new)
        .map_err(|reason| anyhow!("the app {name} cannot be started: {reason}"))?;
    // The start would fail at tools that differ from those seen, and those are what the caller wants to show.
    if let (Of::Installed | Of::New(_), Some(start)) = (of, &mut app.found) {
        start.reviewed = None;
    }
    let app: App = app.clone();
    // The app is really started, so what a session refuses is refused here too.
    app_setup::mounts(config)?;
    start(config, &app, layers).await
}

/// Starts an app of a configuration as a session would, and ends it again.
///
/// # Errors
/// It does not start, or its tools are not those that the configuration has rules for. The error names what it tried to
/// reach before that.
pub(crate) async fn start(config: &Config, app: &App, layers: &BTreeSet<Layer>) -> Result<Trial> {
    let setup = app_setup::of(app, login::token_port(app, layers)?, layers)?;
    // A monitor of its own: no grant of a session counts here, and nobody is asked.
    let gate = Gate::new(Monitor::new(), Arc::new(config.policy()));
    let (sender, events) = mpsc::channel(EVENTS);
    let opened = setup.open(&gate, sender).await;
    // The spoke ends here, with the app in it.
    let opened = opened.map(|spoke| spoke.tools().to_vec());
    let tried = refused(events);
    match opened {
        Ok(tools) => Ok(Trial { tools, tried }),
        Err(error) if tried.is_empty() => Err(error.into()),
        Err(error) => Err(error).context(format!(
            "before it ended it tried to reach what it may not: {}",
            words(&tried)
        )),
    }
}
