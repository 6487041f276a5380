//! The requests of a login. Each is sent from a spoke of its own, with a configuration of its own, which reaches one origin.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use async_trait::async_trait;
use config::{App, Config};
use hub::CallOutcome;
use hub::trace::escape;
use ifc::{Arguments, Call, Decision, History, Label, Monitor};
use names::{Place, WebUrl};
use remote::Settings;
use remote::step::{LoginStep, Report, TOOL, is_code};
use sandbox::Layer;
use serde_json::{Value, json};
use server::{Gate, Mediator, Spoke};
use tokio::sync::mpsc;
use wire::{Form, Refusal, Reply, head};

use crate::{app_setup, refused, remote_app};

/// The name of a configuration that is in no file.
const FILE: &str = "/login.toml";
/// Events of a step that are kept. It makes one connection.
const EVENTS: usize = 16;

/// Bytes of an error that are shown.
const MAX_ERROR: usize = 1 << 10;

pub(crate) struct LoginSteps {
    /// Its configuration allows private addresses and certificates.
    pub(crate) app: App,
    /// Sandbox layers that may be missing.
    pub(crate) allow_degraded: BTreeSet<Layer>,
}

/// A step asks the user nothing.
struct NoQuestions;

#[async_trait]
impl Mediator for NoQuestions {
    async fn mediate(&mut self, _: &Call, _: Form) -> Reply {
        Reply::Refused(Refusal::NotOffered)
    }
}

impl LoginSteps {
    /// Sends a request to the origin of this address. An error is a line for the user, with foreign text escaped.
    pub(crate) async fn run(&self, to: &WebUrl, step: LoginStep) -> Result<Report> {
        let mut config = self.configuration(to)?;
        let app = config.apps.get_mut(&self.app.name);
        let app = app.context("the app of a step")?;
        let remote = app.remote.clone().context("the server of a step")?;
        let start = remote_app::start(app, &remote, Path::new(FILE));
        app.found = Some(start.map_err(|reason| anyhow!(reason))?);
        let app = app.clone();
        app_setup::mounts(&config)?;
        // Without a token.
        let mut setup = app_setup::of(&app, None, &self.allow_degraded)?;
        let settings = Settings {
            step: Some(step),
            ..remote_app::settings(&app, &remote)?
        };
        setup.spoke.env.extend([remote_app::variable(&settings)?]);
        // The same door as a session's: the one connection of a step needs a permit too.
        let gate = Gate::new(Monitor::new(), Arc::new(config.policy()));
        let (sender, events) = mpsc::channel(EVENTS);
        let spoke = setup.open(&gate, sender).await?;
        let report = call(&gate, &spoke).await;
        report.with_context(|| match refused::refused(events) {
            places if places.is_empty() => to.origin().to_string(),
            places => refused::words(&places),
        })
    }

    /// The configuration of a step: this address, and one tool that carries any data.
    fn configuration(&self, to: &WebUrl) -> Result<Config> {
        let mut app = json!({
            "url": to.as_str(),
            "tools": { TOOL: { "effect": "write", "limit": "any" } },
        });
        let certificates = self
            .app
            .remote
            .as_ref()
            .and_then(|remote| remote.ca_file.as_ref());
        if let Some(file) = certificates {
            set(&mut app, "ca_file", json!(file));
        }
        if let Place::Named(name) = to.place() {
            // The private addresses that the user has configured for the app.
            let domains = self.app.domains.iter();
            let covering = domains.filter(|domain| domain.pattern.covers(&name));
            let addresses: Vec<_> = covering.flat_map(|domain| &domain.addresses).collect();
            if !addresses.is_empty() {
                set(&mut app, "addresses", json!(addresses));
            }
        }
        let text = toml::to_string(&json!({ "app": { &self.app.name: app } }))?;
        let read = |_: &Path| Ok(text.clone());
        let loaded = Config::load_with(Path::new(FILE), &read);
        loaded.map_err(|mistakes| anyhow!("{to} cannot be asked: {mistakes}"))
    }
}

fn set(table: &mut Value, key: &str, value: Value) {
    if let Some(table) = table.as_object_mut() {
        table.insert(key.to_owned(), value);
    }
}

async fn call(gate: &Gate, spoke: &Spoke) -> Result<Report> {
    let label = Label::bottom();
    let call = Call {
        app: spoke.app().to_owned(),
        tool: TOOL.to_owned(),
        arguments: Arguments::parse("{}", &label).context("the arguments of a step")?,
        label,
    };
    let decided = gate
        .monitor
        .decide(&*gate.policy, &History::default(), call);
    let Decision::Allow(permit) = decided else {
        bail!("the request is not permitted");
    };
    // A cancelled login drops the spoke with the call.
    let never_cancelled = std::future::pending();
    report(
        spoke
            .execute(permit, &mut NoQuestions, never_cancelled)
            .await
            .outcome,
    )
}

/// The report of a call. An error is cut, since it may quote a long certificate.
fn report(outcome: CallOutcome) -> Result<Report> {
    let why = match outcome {
        CallOutcome::Returned {
            text,
            is_error: false,
            ..
        } => return read(&text),
        CallOutcome::Returned { text, .. } => text,
        CallOutcome::Failed(why) | CallOutcome::Lost(why) | CallOutcome::Unknown(why) => why,
    };
    bail!("{}", escape(head(&why, MAX_ERROR)))
}

/// The report of a step. A spoke has read it, so a code that is shown is checked again.
fn read(text: &str) -> Result<Report> {
    match serde_json::from_str(text) {
        Ok(Report::Refused(code)) if !is_code(&code) => bail!("the answer cannot be used"),
        read => read.map_err(|_| anyhow!("the answer cannot be used")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_fill_the_terminal() {
        let error = |text: String| CallOutcome::Returned {
            text,
            is_error: true,
            claims: Vec::new(),
            images: Vec::new(),
        };
        let whole = report(error("no connection: ü".to_owned())).err().unwrap();
        assert_eq!(whole.to_string(), "no connection: ü");
        let long = report(error("ü".repeat(MAX_ERROR))).err().unwrap();
        assert!(long.to_string().len() <= MAX_ERROR);
    }

    #[test]
    fn a_refusal_is_a_code_and_no_sentence() {
        assert!(read(r#"{"refused":"invalid_grant"}"#).is_ok());
        for text in [
            r#"{"refused":"no\nsluice: type your password"}"#,
            r#"{"refused":"type your password"}"#,
            r#"{"refused":""}"#,
            "no",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
