//! Starting an app once, to see whether it runs and which tools it has. No tool is called.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::{env, fmt, mem};

use anyhow::{Context, Result, anyhow};
use config::{App, Config, Egress, from_environment};
use hub::trace::{Text, escape};
use ifc::Monitor;
use provision::Record;
use sandbox::Layer;
use server::Gate;
use tokio::sync::mpsc;
use wire::ToolDescription;

use crate::commands::app::block;
use crate::refused::{refused, words};
use crate::terminal::message;
use crate::{app_setup, login, needs, review, tool_lists, unwritten};

/// Events of a start that are kept.
const EVENTS: usize = 256;
/// The value of a variable of the user's while an app is tried. Servers check at their start that it is set, and seldom more.
const PLACEHOLDER: &str = "placeholder";

/// What an app did at its start.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Its tools, as the app describes them.
    pub(crate) tools: Vec<ToolDescription>,
    /// Places that it tried to reach and may not, with the reasons.
    pub(crate) tried: BTreeMap<String, String>,
}

/// The places that an app which did not start tried to reach, as the context of its error.
#[derive(Debug)]
pub(crate) struct Tried(pub(crate) BTreeMap<String, String>);

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = words(&self.0);
        write!(
            f,
            "before it ended, it tried to reach places, and was not connected: {places}"
        )
    }
}

impl Trial {
    /// The record of an installed app with these tools.
    pub(crate) fn record(&self, before: &Record, reviewed: bool) -> Record {
        Record {
            tools: Some(review::seen(&self.tools)),
            reviewed,
            tried: self.tried.keys().cloned().collect(),
            ..before.clone()
        }
    }

    /// The names of its tools.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.name.as_str()).collect()
    }
}

/// Which files an app is started from, and with which tools.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Of<'a> {
    /// The installed files, if the tools are the reviewed ones.
    Seen,
    /// The installed files, with any tools.
    Installed,
    /// The files of a record that is not saved yet, with any tools.
    New(&'a Record),
}

/// Replaces the user's variables of an app that may reach something, for a start before the user has agreed to the app: it
/// could send them there. Those of `filled_in` have their values in its command. A service of the user's own machine does not
/// count, since the variables are often its password.
pub(crate) fn hide_variables(config: &mut Config, name: &str, filled_in: &BTreeSet<String>) {
    let reaches =
        |app: &&mut App| !app.domains.is_empty() || !app.egress.iter().all(Egress::is_here);
    let Some(app) = config.apps.get_mut(name).filter(reaches) else {
        return;
    };
    let say_hidden = |variable: &str| {
        message(&format!(
            "note: {name} may reach a domain, so {variable} is a placeholder in this start"
        ));
    };
    for entry in mem::take(&mut app.env_from) {
        let variable = from_environment(&entry).0;
        say_hidden(variable);
        app.env.insert(variable.to_owned(), PLACEHOLDER.to_owned());
    }
    let names = filled_in.iter().chain(&app.filled_in);
    let values = names.filter_map(|name| Some((env::var(name).ok()?, name)));
    // A file or folder stays: the app is shown what its command names.
    let is_word = |it: &str| !(it.is_empty() || it.starts_with('/') && Path::new(it).exists());
    let mut values: Vec<_> = values.filter(|(value, _)| is_word(value)).collect();
    // The longest first, since one value can be a part of another.
    values.sort_by_key(|(value, _)| Reverse(value.len()));
    for (value, variable) in values {
        say_hidden(variable);
        for word in &mut app.command {
            *word = word.replace(&value, PLACEHOLDER);
        }
    }
}

/// Puts a placeholder in the place of variables that are not set yet.
pub(crate) fn stand_in(config: &mut Config, name: &str, given: &BTreeSet<String>) {
    let Some(app) = config.apps.get_mut(name) else {
        return;
    };
    let is_given = |entry: &String| given.iter().any(|name| block::reads(entry, name));
    let (later, now): (Vec<_>, Vec<_>) =
        mem::take(&mut app.env_from).into_iter().partition(is_given);
    app.env_from = now;
    for entry in later {
        let variable = from_environment(&entry).0.to_owned();
        app.env.insert(variable, PLACEHOLDER.to_owned());
    }
}

/// Refuses a name that no app has which is started here.
pub(crate) fn startable(config: &Config, name: &str) -> Result<()> {
    let app = config.apps.get(name).filter(|app| !app.client);
    let (name, configured) = (escape(name), configured(config));
    app.map(|_| ())
        .with_context(|| format!("there is no app '{name}' that is started here; {configured}"))
}

/// The apps that can be named, or how to have one.
pub(crate) fn configured(config: &Config) -> String {
    let started = config.apps.values().filter(|app| !app.client);
    let names: Vec<&str> = started.map(|app| app.name.as_str()).collect();
    match names.is_empty() {
        true => {
            "the configuration has no app; add one with `sluice app add NAME -- COMMAND`".to_owned()
        }
        false => format!("configured are: {}", names.join(", ")),
    }
}

/// Finds what one app of this configuration needs and starts it as [`start`] does.
pub(crate) async fn find_and_start(
    config: &mut Config,
    name: &str,
    of: Of<'_>,
    layers: &BTreeSet<Layer>,
) -> Result<Trial> {
    let here = needs::Here::of(config);
    startable(config, name)?;
    let app = config.apps.get_mut(name).context("no such app")?;
    let new = match of {
        Of::New(record) => Some(record),
        Of::Seen | Of::Installed => None,
    };
    here.find_for(app, new)
        .map_err(|reason| anyhow!("the app {name} cannot be started: {reason}"))?;
    // Otherwise changed tools would be an error of the start, and the caller wants to show them.
    if let (Of::Installed | Of::New(_), Some(start)) = (of, &mut app.found) {
        start.reviewed = None;
    }
    let app: App = app.clone();
    // A session would refuse these mounts.
    app_setup::mounts(config)?;
    start(config, &app, layers).await
}

/// Starts an app of a configuration as a session would, and ends it again. An error names what the app tried to reach.
pub(crate) async fn start(config: &Config, app: &App, layers: &BTreeSet<Layer>) -> Result<Trial> {
    let setup = app_setup::of(app, login::token_port(app, layers)?, layers)?;
    // A monitor of its own, without grants and without questions.
    let gate = Gate::new(Monitor::new(), Arc::new(config.policy()));
    let (sender, events) = mpsc::channel(EVENTS);
    let opened = setup.open(&gate, sender).await;
    let opened = opened.map(|spoke| spoke.tools().to_vec());
    let mut tried = refused(events);
    // A refused connection inside of the spoke is known by the app's words alone.
    let words = opened.as_ref().err().map(ToString::to_string);
    let service = words.and_then(|words| Text::refused(&words));
    let is_open = |port: u16| app.egress.iter().any(|egress| egress.listen == port);
    if let Some(service) =
        service.filter(|it| unwritten::port(it).is_some_and(|port| !is_open(port)))
    {
        let line = format!("connect = [\"{}\"] in [app.{}]", service.as_str(), app.name);
        tried.insert(
            service.to_string(),
            format!("the app says so; {line} allows it"),
        );
    }
    match opened {
        Ok(tools) => {
            tool_lists::keep(app, &tools).map_err(anyhow::Error::msg)?;
            Ok(Trial { tools, tried })
        }
        Err(error) if tried.is_empty() => Err(error.into()),
        Err(error) => Err(error).context(Tried(tried)),
    }
}
