//! What a configuration says of the values that a path selects.

use ifc::Label;
use serde_json::Value;

use super::form::Form;
use super::head::Head;
use super::path::LabelPath;

/// The label of the values that a path selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRule {
    /// Selects the values. Of a JSON string it covers what is between the quotes; of any other value
    /// everything, keys, quotes and punctuation included.
    pub path: LabelPath,
    /// Their label.
    pub label: Label,
    /// Only a value of this form has the label; any other has the most restrictive
    /// label of the tool's results.
    pub form: Option<Form>,
    /// A lower label, if the text says elsewhere where the value comes from.
    pub unless: Option<Unless>,
    /// The label of the values' own keys, where they are members of an object: for maps whose keys
    /// are the app's words, or the call's. A key has no label of its own where this is `None`.
    pub key: Option<Label>,
    /// The beginning of the values that the app writes itself.
    pub head: Option<Head>,
}

impl LabelRule {
    /// A rule without conditions.
    pub fn new(path: LabelPath, label: Label) -> Self {
        Self {
            path,
            label,
            form: None,
            unless: None,
            key: None,
            head: None,
        }
    }

    /// Every label that the rule may give.
    pub(super) fn labels(&self) -> impl Iterator<Item = &Label> {
        let unless = self.unless.iter().map(|unless| &unless.label);
        let head = self.head.iter().map(|head| &head.label);
        std::iter::once(&self.label)
            .chain(unless)
            .chain(head)
            .chain(&self.key)
    }
}

/// A field beside a value that lowers the value's label: "`subject` is untrusted unless `sender` is
/// me".
///
/// The condition holds only if the value is a direct member of an object, the same object has the
/// sibling once, and the sibling is a string equal to one of the given ones to the byte. In every
/// other case the value has the rule's label joined with this one, so a condition can only lower.
///
/// Choose a sibling that whoever writes the value cannot write: what the *server* found out, like
/// the authenticated sender or the owner of a file. A `From` header, a display name or a signature
/// is written by the sender of the text, and lowers nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unless {
    /// The name of the sibling.
    pub sibling: String,
    /// What it must be, any one of these.
    pub is: Vec<String>,
    /// The label of the value then.
    pub label: Label,
}

impl Unless {
    /// Whether the object that holds the value says so.
    pub(super) fn holds(&self, holder: Option<&Value>) -> bool {
        let sibling = holder.and_then(|holder| holder.get(self.sibling.as_str()));
        let sibling = sibling.and_then(Value::as_str);
        sibling.is_some_and(|found| self.is.iter().any(|word| word == found))
    }
}
