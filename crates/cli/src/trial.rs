//! Starting an app once, to see whether it runs and what it offers. Nothing of it is called.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use config::{App, Config};
use hub::trace::{Event, escape};
use ifc::Monitor;
use server::Gate;
use tokio::sync::mpsc;
use wire::ToolDescription;

use crate::compose::{self, Options};

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
    let setup = compose::app(app, options)?;
    let gate = Gate::new(Monitor::new(), Arc::new(config.policy()));
    let (sender, events) = mpsc::channel(EVENTS);
    let opened = setup.open(&gate, sender).await;
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

/// What was refused, from what was recorded.
pub(crate) fn refused(mut events: mpsc::Receiver<Event>) -> BTreeMap<String, String> {
    let mut tried = BTreeMap::new();
    while let Ok(event) = events.try_recv() {
        match event {
            Event::NameDenied { name, reason, .. } => {
                tried.insert(name.to_string(), reason.to_string());
            }
            Event::Egress { to, outcome, .. } => {
                let outcome = outcome.to_string();
                if let Some(reason) = outcome.strip_prefix("refused: ") {
                    tried.insert(to, reason.to_owned());
                }
            }
            _ => {}
        }
    }
    tried
}

/// Places and reasons in one line, fit for a terminal.
pub(crate) fn words(tried: &BTreeMap<String, String>) -> String {
    let each = tried
        .iter()
        .map(|(place, reason)| format!("{} ({})", escape(place), escape(reason)));
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_kept_and_shown_on_one_line() {
        let (sender, events) = mpsc::channel(8);
        let egress = |to: &str, outcome: &str| Event::Egress {
            app: "app".to_owned(),
            to: to.to_owned(),
            outcome: outcome.to_owned().into(),
        };
        let denied = Event::NameDenied {
            app: "app".to_owned(),
            name: "a.example.org\n".to_owned().into(),
            reason: "no rule".to_owned().into(),
        };
        for event in [
            denied,
            egress("b.example.org:443", "refused: denied"),
            egress("c.example.org:443", "1 bytes sent, 2 received"),
        ] {
            sender.try_send(event).unwrap();
        }
        let tried = refused(events);
        assert_eq!(
            words(&tried),
            "a.example.org\\n (no rule); b.example.org:443 (denied)"
        );
    }
}
