//! A draft: the next step as the model would make it from the whole history (RTBAS §8.3.3).

use std::fmt;

/// A step that a model has drafted from the whole history.
///
/// It has the label of the history, and a screener finds out on which regions it depends. The draft is dropped unless the
/// label that this gives covers all that the draft was made from.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Draft {
    /// The words to the user.
    pub text: String,
    /// The calls, in order. Without one, the text is the final answer.
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

/// Shows lengths only: the text is as sensitive as the history.
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
