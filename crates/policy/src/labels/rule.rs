//! What a configuration says of the values that a path selects.

use ifc::Label;
use serde_json::Value;

use super::form::Form;
use super::head::Head;
use super::list::List;
use super::path::LabelPath;
use super::when::When;
use crate::formats::{Document, Node};
use crate::place::Place;

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
    /// A text that is a list: each element is of the form for itself, and has its label for itself.
    pub list: Option<List>,
    /// A lower label, if the text says elsewhere where the value comes from.
    pub unless: Option<Unless>,
    /// The rule counts only for calls whose arguments meet all of these.
    pub when: Vec<When>,
    /// The label of the values' own keys, where they are members of an object: for maps whose keys
    /// are the app's words, or the call's. A key has no label of its own where this is `None`.
    pub key: Option<Label>,
    /// Only a key of this form has that label; any other has the most restrictive label of the tool's
    /// results.
    pub key_form: Option<Form>,
    /// The beginning of the values that the app writes itself.
    pub head: Option<Head>,
    /// Where the rule is written.
    pub place: Option<Place>,
}

impl LabelRule {
    /// A rule without conditions.
    pub fn new(path: LabelPath, label: Label) -> Self {
        Self {
            path,
            label,
            form: None,
            list: None,
            unless: None,
            when: Vec::new(),
            key: None,
            key_form: None,
            head: None,
            place: None,
        }
    }

    /// The label of a value of the rule's form.
    pub(super) fn low(&self, holder: Option<&Value>) -> Label {
        match &self.unless {
            None => self.label.clone(),
            Some(unless) if unless.holds(holder) => unless.label.clone(),
            // Not the rule's own label alone: a condition that does not hold must not lower anything either.
            Some(unless) => self.label.join(&unless.label),
        }
    }

    /// Whether the key of a value is of the form that the rule has for it.
    pub(super) fn has_key(&self, document: &Document<'_>, node: &Node) -> bool {
        let key = node.key.as_ref();
        let is_formed = |form: &Form| {
            // A key with an escape is of no form, as a value is.
            let verbatim = key.filter(|key| key.name.is_none());
            verbatim.is_some_and(|key| form.matches_token(document.slice(&key.inner)))
        };
        self.key_form.as_ref().is_none_or(is_formed)
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

/// Fields beside a value that lower the value's label: "`subject` is untrusted unless `sender` is
/// me".
///
/// The condition holds only if the value is a direct member of an object and the siblings that it asks for are
/// what they must be. In every other case the value has the rule's label joined with this one, so a condition can
/// only lower.
///
/// Choose siblings that whoever writes the value cannot write: what the *server* found out, like
/// the authenticated sender or the owner of a file. A `From` header, a display name or a signature
/// is written by the sender of the text, and lowers nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unless {
    /// The siblings.
    pub siblings: Siblings,
    /// The label of the value then.
    pub label: Label,
}

/// Which of several siblings must be what they say. Without any sibling nothing is said, and neither holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Siblings {
    /// Every one.
    All(Vec<Sibling>),
    /// One at least.
    Any(Vec<Sibling>),
}

/// A field beside a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    /// Its name.
    pub name: String,
    /// What it must be, any one of these: a string equal to it to the byte.
    pub is: Vec<String>,
}

impl Siblings {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Sibling> {
        match self {
            Self::All(siblings) | Self::Any(siblings) => siblings.iter(),
        }
    }
}

impl Unless {
    /// Whether the object that holds the value says so.
    pub(super) fn holds(&self, holder: Option<&Value>) -> bool {
        let holds = |sibling: &Sibling| {
            let found = holder.and_then(|holder| holder.get(sibling.name.as_str()));
            // A number or a list that looks like the text is another value.
            let found = found.and_then(Value::as_str);
            found.is_some_and(|found| sibling.is.iter().any(|word| word == found))
        };
        match &self.siblings {
            Siblings::All(siblings) => !siblings.is_empty() && siblings.iter().all(holds),
            Siblings::Any(siblings) => siblings.iter().any(holds),
        }
    }
}
