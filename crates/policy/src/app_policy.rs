//! The policy of all configured apps.

use std::collections::BTreeMap;
use std::sync::Arc;

use ifc::{Call, Effect, Label, Labeled, Policy, PolicyError, Rule};

use crate::rules::{Judgement, SessionFacts, judge};
use crate::{App, Config, ToolRule};

/// An [`ifc::Policy`] that looks rules up by app and tool.
#[derive(Debug, Clone)]
pub struct AppPolicy {
    apps: Arc<BTreeMap<String, App>>,
    session: SessionFacts,
}

impl AppPolicy {
    /// The policy of a configuration, for a session of which nothing is known.
    pub fn new(config: &Config) -> Self {
        Self {
            apps: Arc::new(config.apps.clone()),
            session: SessionFacts::default(),
        }
    }

    /// The same policy for a session of which conditions may know this.
    #[must_use]
    pub fn with_session(self, session: SessionFacts) -> Self {
        Self { session, ..self }
    }

    /// What the rules say of a call, and why. [`Policy::rule`] is this, and nothing else.
    #[must_use]
    pub fn judge(&self, call: &Call) -> Judgement {
        match self.apps.get(&call.app) {
            Some(app) => judge(app, call, &self.session),
            None => {
                let reason = format!("there is no app '{}' in sluice.toml", call.app);
                Judgement::denied("app".to_owned(), None, reason)
            }
        }
    }

    fn tool(&self, call: &Call) -> Option<&ToolRule> {
        self.apps.get(&call.app)?.tool(&call.tool)
    }
}

impl Policy for AppPolicy {
    fn rule(&self, call: &Call) -> Result<Rule, PolicyError> {
        self.judge(call).rule()
    }

    fn answer(&self, app: &str) -> Result<Rule, PolicyError> {
        // An app that is not configured has told nothing: what is labelled may not be shown.
        let configured = self.apps.get(app);
        let limit = configured.map_or(Label::bottom(), |app| app.answer.clone());
        Ok(Rule {
            limit,
            effect: Effect::Read,
            name: format!("{app}.answer.limit"),
            always_ask: false,
        })
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        match self.tool(call) {
            None => Labeled::label_tcb(result, Label::top()),
            Some(tool) if is_error => Labeled::label_tcb(result, tool.result.worst().clone()),
            Some(tool) => tool.result.label(result),
        }
    }
}
