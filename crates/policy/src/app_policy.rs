//! The policy of all configured apps.

use std::collections::BTreeMap;
use std::sync::Arc;

use ifc::{Call, Label, Labeled, Policy, PolicyError, Rule};

use crate::rules::{AppRules, Judgement, SessionFacts, ToolRule, judge, judge_answer};

/// An [`ifc::Policy`] that looks rules up by app and tool.
#[derive(Debug, Clone)]
pub struct AppPolicy {
    apps: Arc<BTreeMap<String, AppRules>>,
    session: SessionFacts,
}

impl AppPolicy {
    /// The policy of these apps, by name, for a session of which nothing is known.
    pub fn new(apps: BTreeMap<String, AppRules>) -> Self {
        Self {
            apps: Arc::new(apps),
            session: SessionFacts::default(),
        }
    }

    /// The same policy for a session of which conditions may know this.
    #[must_use]
    pub fn with_session(self, session: SessionFacts) -> Self {
        Self { session, ..self }
    }

    /// What the rules say of a call, and why; the final answer is a call as well. [`Policy::rule`]
    /// and [`Policy::answer`] are this, and nothing else.
    #[must_use]
    pub fn judge(&self, call: &Call) -> Judgement {
        if call.is_answer() {
            return judge_answer(call, self.answer_limit(&call.app));
        }
        match self.apps.get(&call.app) {
            Some(app) => judge(app, call, &self.session),
            None => {
                let reason = format!("there is no app '{}' in sluice.toml", call.app);
                Judgement::denied("app".to_owned(), None, reason)
            }
        }
    }

    /// What may flow into an answer without a question.
    fn answer_limit(&self, app: &str) -> Label {
        match self.apps.get(app) {
            Some(app) => app.answer.clone(),
            // A conversation without an app: nothing but the user's own words and a model's.
            None if app.is_empty() => Label::top(),
            None => Label::bottom(),
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
        // The text does not matter: an answer has a label, and no arguments.
        self.judge(&Call::answer(app, "", Label::bottom())).rule()
    }

    fn floor(&self, app: &str, tool: &str) -> Label {
        let Some(rule) = self.apps.get(app).and_then(|app| app.tool(tool)) else {
            return Label::bottom();
        };
        // What a condition makes of a label is not known before the call is.
        if rule.conditions.is_some() {
            return Label::bottom();
        }
        let arguments = rule.arguments.values();
        arguments.fold(rule.limit.clone(), |all, limit| all.meet(&limit.label))
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        match self.tool(call) {
            None => Labeled::label_tcb(result, Label::top()),
            Some(tool) if is_error => Labeled::label_tcb(result, tool.result.worst().clone()),
            Some(tool) => tool.result.label(result),
        }
    }
}
