//! The rules of an app's tools, complete: nothing is left to a default.

use std::collections::BTreeMap;

use ifc::{Effect, Label};

use super::arguments::Parameters;
use super::conditions::Conditions;
use crate::labels::ResultLabels;
use crate::place::Place;

/// What is said of the tools of one app, and of answers in its conversation.
#[derive(Debug, Clone)]
pub struct AppRules {
    /// Rules by tool.
    pub tools: BTreeMap<String, ToolRule>,
    /// The rule of the tools that are not listed; `None` denies them.
    pub other_tools: Option<ToolRule>,
    /// What may flow into the final answer without a question.
    pub answer: Label,
    /// Whether there are conditions for the app as a whole. They cannot judge a tool that is not
    /// listed, so that its calls are denied.
    pub has_conditions: bool,
}

impl AppRules {
    /// The rule of a tool; `None` denies it.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ToolRule> {
        self.tools.get(name).or(self.other_tools.as_ref())
    }
}

/// What is said of one tool.
#[derive(Debug, Clone)]
pub struct ToolRule {
    /// What it does to the world.
    pub effect: Effect,
    /// Calls under a label that flows here, and to the limit of each argument that they have, run
    /// without a question.
    pub limit: Label,
    /// Where the limit is written, or the tool if it is a default.
    pub place: Option<Place>,
    /// The arguments that a call may have; `None` is any.
    pub parameters: Option<Parameters>,
    /// Limits of calls that have these arguments.
    pub arguments: BTreeMap<String, ArgumentLimit>,
    /// Conditions of the tool and of its app.
    pub conditions: Option<Conditions>,
    /// The labels of its results.
    pub result: ResultLabels,
}

/// The limit of calls that have a certain argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentLimit {
    /// The limit.
    pub label: Label,
    /// Where it is written.
    pub place: Place,
}
