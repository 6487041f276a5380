//! A step as the model would take it, before anything is masked (RTBAS §8.3.3).

use std::fmt;

/// A step that a model has drafted from the whole history.
///
/// It may have been made from everything, so it is as sensitive as the history's own label, and it
/// may be used for one thing only: to find out which regions it depends on. What a screener answers
/// chooses a label; the draft itself is dropped unless that label covers all that it saw.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Draft {
    /// What the model says to the user.
    pub text: String,
    /// The calls that it makes, in order. Without one, the text is the final answer.
    pub calls: Vec<DraftCall>,
}

/// A call of a draft.
#[derive(Clone, PartialEq, Eq)]
pub struct DraftCall {
    /// The tool's name.
    pub tool: String,
    /// JSON text.
    pub arguments: String,
}

/// Its text is as sensitive as the history, so none of it is shown.
impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, calls) = (self.text.len(), self.calls.len());
        write!(f, "Draft({bytes} bytes of text, {calls} calls)")
    }
}

impl fmt::Debug for DraftCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DraftCall({} bytes)", self.arguments.len())
    }
}
