//! Values of an argument for which its limit is higher: those of a strict form, and those that stood in a
//! known place.

use ifc::Label;

use crate::labels::{Form, LabelPath};
use crate::place::Place;

/// Values of a data argument, and a limit for them: `{ form = "digits(6)", limit = ["untrusted"] }`.
///
/// Whoever influences such a value chooses one of a few, and says nothing by it. What the value *reveals* is
/// not less: six digits are all of a one-time code, so a limit that admits a secret lets it pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    /// Which values.
    pub values: AcceptedValues,
    /// Most values of a list of them, or of all places of a path; 1 is a value alone, and no list.
    pub many: usize,
    /// Their limit, joined with the argument's own.
    pub limit: Label,
    /// Where it is written.
    pub place: Place,
}

/// Which values an [`Accept`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcceptedValues {
    /// Those of a form that cannot spell words.
    Form(Form),
    /// Those that stood somewhere.
    Among(Among),
}

/// Values that stood, in this conversation, at a place of a tool's results.
///
/// A value is among them if the label of its own text, and that of the call whose result it is in, flow to
/// [`Among::labelled`] and to the label of the control part of the call that is decided on. So a value that a
/// stranger wrote into the same list is not among them, and which values are depends on no text
/// above the control part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Among {
    /// The app that has the tool.
    pub app: String,
    /// The tool.
    pub tool: String,
    /// Where in its results: texts and whole numbers.
    pub path: LabelPath,
    /// The label that they have at most; `None` is the limit of the tool whose argument it is.
    pub labelled: Option<Label>,
}
