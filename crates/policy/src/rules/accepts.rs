//! Values of an argument for which its limit is higher: those of a strict form, and those from known results.

use ifc::Label;

use crate::labels::{Form, LabelPath};
use crate::place::Place;

/// Values of a data argument, and a limit for them: `{ form = "digits(6)", limit = ["untrusted"] }`.
///
/// An attacker who influences such a value chooses one of a few. The value still reveals as much: six digits are all of a
/// one-time code, so a limit that admits a secret lets it pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    /// The values.
    pub values: AcceptedValues,
    /// Most values of a list, or of all places of a path; 1 accepts a single value and no list.
    pub many: usize,
    /// Their limit, joined with the argument's own.
    pub limit: Label,
    /// The place of the rule.
    pub place: Place,
}

impl Accept {
    /// The values in words, if the policy lists them.
    pub(super) fn words(&self) -> Option<String> {
        match &self.values {
            AcceptedValues::Form(Form::OneOf(words)) => Some(words.join(" or ")),
            _ => None,
        }
    }
}

/// The values of an [`Accept`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcceptedValues {
    /// Those of a form that cannot spell words.
    Form(Form),
    /// Those from known results.
    Among(Among),
}

/// The values at a place of a tool's results in this conversation.
///
/// A value counts if its label in the history flows to [`Among::labelled`] and to the label of the control part of the call
/// that is decided on. So a value that an attacker wrote into the same list does not count, and the decision depends on no
/// text above the control part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Among {
    /// The app that has the tool.
    pub app: String,
    /// The tool.
    pub tool: String,
    /// The place in its results, of texts and whole numbers.
    pub path: LabelPath,
    /// The most restrictive label that counts; `None` is the limit of the tool whose argument it is.
    pub labelled: Option<Label>,
}
