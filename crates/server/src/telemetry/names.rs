//! The tools that the policy names, and decisions with these names.

use std::collections::HashSet;
use std::sync::RwLock;

use hub::trace::{Call, Event, Flow, Text};

use crate::locks::{read, write};

/// What any other tool is called: its name is a model's or a client's word, and there is no end of them.
const OTHER: &str = "other";

/// The tools that the policy in force has rules for, by app.
#[derive(Debug, Default)]
pub struct PolicyNames(RwLock<HashSet<(String, String)>>);

impl PolicyNames {
    /// Takes the tools of a configuration that comes into force, as pairs of app and tool.
    pub fn replace(&self, tools: impl IntoIterator<Item = (String, String)>) {
        let tools = tools.into_iter().collect();
        *write(&self.0) = tools;
    }

    /// The name of a tool as anyone may know it.
    pub fn tool<'a>(&self, app: &str, tool: &'a str) -> &'a str {
        let known = read(&self.0);
        match known.contains(&(app.to_owned(), tool.to_owned())) {
            true => tool,
            false => OTHER,
        }
    }

    /// The decision that an event is.
    pub(super) fn decision<'a>(&self, event: &'a Event) -> Option<Decision<'a>> {
        let (flow, outcome, rule, reason) = match event {
            // `policy RULE`; all other words say that the user has allowed it, and how.
            Event::Allowed { flow, by, .. } => match by.strip_prefix("policy ") {
                Some(rule) => (flow, "allowed", rule.split([',', ' ']).next(), None),
                None => (flow, "allowed_by_user", None, None),
            },
            Event::Asked { flow, rule, .. } => (flow, "asked", Some(&**rule), None),
            Event::Denied {
                flow, rule, reason, ..
            } => (flow, "denied", rule.as_deref(), Some(reason)),
            Event::Answered {
                flow,
                allowed: true,
                ..
            } => (flow, "allowed_by_user", None, None),
            Event::Answered { flow, .. } => (flow, "refused_by_user", None, None),
            _ => return None,
        };
        let (app, tool, label, text, call) = match flow {
            Flow::Call(it) => {
                let tool = self.tool(&it.app, &it.tool);
                (&*it.app, tool, &it.label, &it.arguments, Some(it))
            }
            Flow::Message(it) => (&*it.from, "message", &it.label, &it.text, None),
            Flow::Answer { apps, text, label } => {
                let app = apps.first().map_or("", String::as_str);
                (app, "answer", label, text, None)
            }
        };
        let (rule, label) = (rule.unwrap_or_default(), label.join(","));
        Some(Decision {
            outcome,
            rule,
            app,
            tool,
            label,
            text,
            call,
            reason,
        })
    }
}

/// A decision on a call, a message or an answer.
pub(super) struct Decision<'a> {
    /// `allowed`, `allowed_by_user`, `asked`, `refused_by_user` or `denied`.
    pub(super) outcome: &'static str,
    /// The rule, empty where none is known.
    pub(super) rule: &'a str,
    pub(super) app: &'a str,
    pub(super) tool: &'a str,
    pub(super) label: String,
    /// The arguments or the words.
    pub(super) text: &'a Text,
    pub(super) call: Option<&'a Call>,
    pub(super) reason: Option<&'a Text>,
}
