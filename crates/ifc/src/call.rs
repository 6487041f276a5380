//! A call of a tool.

use std::collections::BTreeSet;
use std::fmt;

use crate::{ArgumentPath, Arguments, Label};

/// A tool call as a model proposed it.
///
/// It has a *control part* (that it is made, its tool, the names of its arguments, and the values of those without a limit
/// of their own) and *data arguments*. The control part was made from a prompt at [`Call::label`]. A data argument may
/// have been made from more.
///
/// `Debug` shows the label and lengths, not what a model wrote.
#[derive(Clone, PartialEq, Eq)]
pub struct Call {
    /// The app that has the tool.
    pub app: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments. Their serialisation is what the executor sends.
    pub arguments: Arguments,
    /// The label of the prompt that the control part comes from. It flows to the label of each argument.
    pub label: Label,
}

impl Call {
    /// The name of an app's tool in a conversation that has tools of several apps: `APP__TOOL`.
    #[must_use]
    pub fn qualified(app: &str, tool: &str) -> String {
        format!("{app}{}{tool}", Self::BETWEEN)
    }

    /// The separator between the names of an app and its tool.
    const BETWEEN: &str = "__";

    /// Two of these apps whose tools could have one qualified name. They must not share a conversation.
    #[must_use]
    pub fn confusable(apps: &BTreeSet<String>) -> Option<(&str, &str)> {
        let prefix = |app: &str| Self::qualified(app, "");
        let mut pairs = apps.iter().flat_map(|one| {
            let others = apps.iter().filter(move |other| *other != one);
            others.map(move |other| (one.as_str(), other.as_str()))
        });
        // With `a` and `a__b`, the tool `b__c` of the one and `c` of the other have one name.
        pairs.find(|(one, other)| prefix(other).starts_with(&prefix(one)))
    }

    /// Whether a conversation names this call's tool so, alone or qualified.
    pub(crate) fn is_of(&self, tool: &str) -> bool {
        // By the end first: of most names it differs.
        tool.strip_suffix(&*self.tool).is_some_and(|before| {
            before.is_empty() || before.strip_suffix(Self::BETWEEN) == Some(&self.app)
        })
    }

    /// The label of the control part, where data arguments are at these places.
    #[must_use]
    pub fn control_label<'p>(&self, data: impl Iterator<Item = &'p ArgumentPath> + Clone) -> Label {
        self.label.join(&self.arguments.label_but(data))
    }

    /// Whether app, tool and arguments are the same, whatever the labels.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.app == other.app && self.tool == other.tool && self.arguments.same(&other.arguments)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Call({}, a tool of {} bytes, {:?}, {:?})",
            self.app,
            self.tool.len(),
            self.arguments,
            self.label
        )
    }
}
