//! The rules of an app's tools, complete: nothing is left to a default.

use std::collections::BTreeMap;
use std::sync::Arc;

use ifc::{ArgumentPath, Call, Effect, Label};

use super::accepts::Accept;
use super::arguments::{Arguments, Parameters};
use super::claims::Claims;
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
    /// What an address in an answer may have, where it stands byte for byte in what was read, to be shown
    /// as an address. Any other is shown inert.
    pub addresses: Label,
    /// Whether there are conditions for the app as a whole. They cannot judge a tool that is not
    /// listed, so that its calls are denied.
    pub has_conditions: bool,
    /// What the app's claims about the labels of its results mean; `None` is nothing.
    pub claims: Option<Claims>,
}

impl AppRules {
    /// The rule of a tool; `None` denies it.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&ToolRule> {
        self.tools.get(name).or(self.other_tools.as_ref())
    }

    /// The parameters of the tools that have rules about them, each as JSON Schema.
    pub(crate) fn schemas(&self) -> BTreeMap<String, Arc<str>> {
        let tools = self.tools.iter();
        let schemas = tools.filter_map(|(name, tool)| {
            let schema = tool.parameters.as_ref()?.schema();
            Some((name.clone(), schema.into()))
        });
        schemas.collect()
    }
}

/// What is said of one tool.
#[derive(Debug, Clone)]
pub struct ToolRule {
    /// What it does to the world.
    pub effect: Effect,
    /// The limit of the control part: calls whose control part flows here, and each of whose data
    /// arguments flows to its own limit, run without a question.
    pub limit: Label,
    /// Where the limit is written, or the tool if it is a default.
    pub place: Option<Place>,
    /// The arguments that a call may have; `None` is any.
    pub parameters: Option<Parameters>,
    /// Limits of the data arguments, by their places; everything else is of the control part.
    pub arguments: BTreeMap<ArgumentPath, ArgumentLimit>,
    /// The arguments by which two irreversible calls are the same one; those of the control part if `None`.
    pub once: Option<Arc<[String]>>,
    /// Conditions of the tool and of its app.
    pub conditions: Option<Conditions>,
    /// The labels of its results.
    pub result: ResultLabels,
}

impl ToolRule {
    /// Whether a call's arguments are those that `parameters` names, of their kinds.
    ///
    /// # Errors
    /// One line that says what is wrong.
    pub(crate) fn check(&self, call: &Call) -> Result<(), String> {
        let arguments = Arguments::read(&call.arguments)?;
        let parameters = self.parameters.as_ref();
        parameters.map_or(Ok(()), |parameters| parameters.check(&arguments))
    }

    /// The places that only carry something: they have a limit of their own, and no condition looks at the
    /// argument.
    pub(crate) fn data(&self) -> impl Iterator<Item = &ArgumentPath> + Clone {
        let paths = self.arguments.keys();
        paths.filter(|path| !self.is_looked_at(path))
    }

    /// The limit with all that permits of its conditions could add, whether any call meets them or not.
    #[must_use]
    pub fn highest_limit(&self) -> Label {
        let raised = self.conditions.as_ref().map(Conditions::raised);
        raised.map_or_else(|| self.limit.clone(), |raised| self.limit.join(&raised))
    }

    /// Whether a condition looks at the argument that a path is in. What of the argument it sees, it does
    /// not say.
    pub(crate) fn is_looked_at(&self, path: &ArgumentPath) -> bool {
        let conditions = self.conditions.as_ref();
        conditions.is_some_and(|conditions| conditions.looks_at(path.argument()))
    }
}

/// The limit of a data argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentLimit {
    /// The limit.
    pub label: Label,
    /// Values for which it is higher.
    pub accepts: Vec<Accept>,
    /// Where it is written.
    pub place: Place,
}
