//! A label rule: the labels of the values that a path selects.

use ifc::Label;
use serde_json::Value;

use super::by::By;
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
    /// Selects the values. The label covers the text between the quotes of a JSON string, and all bytes of other values.
    pub path: LabelPath,
    /// Their label.
    pub label: Label,
    /// Only a value of this form has the label. Others have the most restrictive label of the tool's results.
    pub form: Option<Form>,
    /// The notation of a list in a text. The form and the label are for each element by itself.
    pub list: Option<List>,
    /// A lower label that depends on fields beside the value.
    pub unless: Option<Unless>,
    /// The rule counts only for calls whose arguments meet all of these.
    pub when: Vec<When>,
    /// The label of the values' own keys, for maps whose keys the app or the call chooses.
    pub key: Option<Label>,
    /// Only a key of this form has that label. Others have the most restrictive label of the tool's results.
    pub key_form: Option<Form>,
    /// The beginning of the values that the app writes itself.
    pub head: Option<Head>,
    /// The taints by which a text is a stranger's. A value of [`Self::form`] in a result that has such taints keeps them as
    /// [`Label::formed`] if its writer chose what it names, and trusted values of one result spell few words together.
    pub strangers: Label,
    /// Whether the values may be destinations all the same, since the app and no stranger makes them.
    pub destination: bool,
    /// How the writer of the values is known.
    pub by: Option<By>,
    /// The place of the rule.
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
            strangers: Label::bottom(),
            destination: false,
            by: None,
            place: None,
        }
    }

    /// The label of a value of the rule's form.
    pub(super) fn low(&self, holder: Option<&Value>) -> Label {
        match &self.unless {
            None => self.label.clone(),
            Some(unless) if unless.holds(holder) => unless.label.clone(),
            // The join, so that a condition that does not hold lowers nothing.
            Some(unless) => self.label.join(&unless.label),
        }
    }

    /// Whether the key of a value has the form of the rule.
    pub(super) fn has_key(&self, document: &Document<'_>, node: &Node) -> bool {
        let key = node.key.as_ref();
        let is_formed = |form: &Form| {
            // A key with an escape has no form.
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
/// The condition holds only if the value is a direct member of an object whose other members match. Otherwise the value has
/// the join of the rule's label and this one.
///
/// Choose siblings that the author of the value cannot write: facts that the *server* found out, like the authenticated
/// sender or the owner of a file. The sender of a text writes its `From` header, display name and signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unless {
    /// The siblings.
    pub siblings: Siblings,
    /// The label of the value if the condition holds.
    pub label: Label,
}

/// The siblings that must match. An empty list never holds.
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
    /// Its possible values. One of them must be equal to the byte.
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
    /// Whether the object that holds the value matches.
    pub(super) fn holds(&self, holder: Option<&Value>) -> bool {
        let holds = |sibling: &Sibling| {
            let found = holder.and_then(|holder| holder.get(sibling.name.as_str()));
            // Only strings match.
            let found = found.and_then(Value::as_str);
            found.is_some_and(|found| sibling.is.iter().any(|word| word == found))
        };
        match &self.siblings {
            Siblings::All(siblings) => !siblings.is_empty() && siblings.iter().all(holds),
            Siblings::Any(siblings) => siblings.iter().any(holds),
        }
    }
}
