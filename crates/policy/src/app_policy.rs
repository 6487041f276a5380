//! The policy of all configured apps.

use std::collections::BTreeMap;

use ifc::{Call, Effect, Label, Labeled, Policy, PolicyError, Rule};

use crate::{App, Config, ToolRule};

/// An [`ifc::Policy`] that looks rules up by app and tool.
#[derive(Debug, Clone)]
pub struct AppPolicy {
    apps: BTreeMap<String, App>,
}

impl AppPolicy {
    /// The policy of a configuration.
    pub fn new(config: &Config) -> Self {
        Self {
            apps: config.apps.clone(),
        }
    }

    fn tool(&self, call: &Call) -> Option<&ToolRule> {
        self.apps.get(&call.app)?.tool(&call.tool)
    }
}

impl Policy for AppPolicy {
    fn rule(&self, call: &Call) -> Result<Rule, PolicyError> {
        let (app, tool) = (&call.app, &call.tool);
        let Some(rule) = self.tool(call) else {
            return Err(PolicyError(if self.apps.contains_key(app) {
                format!(
                    "app '{app}' has no rule for the tool '{tool}'; add [app.{app}.tools.{tool}] to sluice.toml"
                )
            } else {
                format!("there is no app '{app}' in sluice.toml")
            }));
        };
        Ok(Rule {
            limit: rule.limit.clone(),
            effect: rule.effect,
            name: format!("{app}.{tool}.limit"),
        })
    }

    fn answer(&self, app: &str) -> Result<Rule, PolicyError> {
        // An app that is not configured has told nothing: what is labelled may not be shown.
        let limit = match self.apps.contains_key(app) {
            true => Label::top(),
            false => Label::bottom(),
        };
        Ok(Rule {
            limit,
            effect: Effect::Read,
            name: format!("{app}.answer.limit"),
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
