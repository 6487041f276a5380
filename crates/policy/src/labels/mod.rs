//! Which bytes of a tool's result, or of a user's message, have which label.

use std::collections::BTreeSet;
use std::ops::Range;

use ifc::{Label, Labeled};
use serde_json::Value;

use self::document::{Document, Kind, ParseError};

#[cfg(test)]
mod differential;
pub(crate) mod document;
mod form;
mod head;
mod json;
mod painter;
mod path;
mod python;
pub(crate) mod read;
#[cfg(test)]
mod samples;
mod user;
mod yaml;

pub use self::document::Format;
pub use self::form::Form;
pub use self::head::Head;
pub use self::path::{LabelPath, PathError};
pub use self::user::{Mark, UserLabels, UserRule};

/// The label of the values that a path selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRule {
    /// Selects the values. Of a JSON string it covers what is between the quotes; of any other value
    /// everything, keys, quotes and punctuation included.
    pub path: LabelPath,
    /// Their label.
    pub label: Label,
    /// Only a value of this form has the label; any other has [`ResultLabels::worst`].
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
    fn labels(&self) -> impl Iterator<Item = &Label> {
        let unless = self.unless.iter().map(|unless| &unless.label);
        let head = self.head.iter().map(|head| &head.label);
        std::iter::once(&self.label)
            .chain(unless)
            .chain(head)
            .chain(&self.key)
    }
}

/// What the rules that select a value say of it.
#[derive(Debug, Clone)]
struct Chosen {
    /// The join of their labels.
    label: Label,
    /// The join of their labels for its key.
    key: Option<Label>,
    /// Where its head is, and the head's label.
    head: Option<(Range<usize>, Label)>,
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

/// The label rules of one tool's results.
///
/// It lays a label over every byte:
/// - a value that rules select has the *join* of their labels, and so has everything inside it;
/// - a value that no rule selects, and a key that no rule spells out, has [`worst`](Self::worst):
///   an attacker who adds a field gains nothing;
/// - the rest is structure: brackets, commas, white space, and keys that a rule spells out. It can
///   have a label of its own, since it carries only how many elements there are and which values
///   are containers.
///
/// Text that is not of the [`Format`] (strictly: see duplicate keys, depth) has `worst` as a whole.
///
/// # Why the spans can be relied on
/// A serializer writes each value as one token and reads back what it wrote, so the tokens that
/// every reader of the format finds are those that it wrote. Text of an attacker is inside the
/// token of its field, whatever it imitates: to end the token, the serializer would have to write
/// something else than it was given. So the spans are right if we find the same tokens as every
/// other reader. What readers disagree about (duplicate keys, tabs and line breaks that only some
/// of them know, comments, anchors, lone surrogates) is therefore not read at all, and has `worst`.
/// A tool that pastes text together, without a serializer, does not keep the format: its results
/// are [`Format::Text`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultLabels {
    format: Format,
    rules: Vec<LabelRule>,
    structure: Label,
    worst: Label,
    /// Every key that some rule spells out.
    names: BTreeSet<String>,
}

impl ResultLabels {
    /// Rules for JSON, the label of what no rule names, and the label of the structure.
    ///
    /// `rest` can only add: what no rule names gets at least the join of all the rules' labels. If
    /// `rest` is not given and that join is ⊥, it is ⊤. `structure` is that worst label if not
    /// given.
    pub fn new(rules: Vec<LabelRule>, rest: Option<Label>, structure: Option<Label>) -> Self {
        let unless = rules.iter().filter_map(|rule| rule.unless.as_ref());
        let named: Label = rules.iter().flat_map(LabelRule::labels).collect();
        let named = structure.iter().fold(named, |all, label| all.join(label));
        let worst = match rest {
            Some(rest) => named.join(&rest),
            None if named.is_bottom() => Label::top(),
            None => named,
        };
        let names = rules.iter().flat_map(|rule| rule.path.names());
        let siblings = unless.map(|unless| unless.sibling.as_str());
        Self {
            format: Format::Json,
            names: names.chain(siblings).map(str::to_owned).collect(),
            structure: structure.unwrap_or_else(|| worst.clone()),
            worst,
            rules,
        }
    }

    /// The same rules for another format.
    #[must_use]
    pub fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// One label for everything that the tool returns.
    pub fn uniform(label: Label) -> Self {
        Self::new(Vec::new(), Some(label), None)
    }

    /// How the results are written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The most restrictive label that a result of the tool may have: that of errors, of text that
    /// is not of the format, and of everything that no rule names.
    pub fn worst(&self) -> &Label {
        &self.worst
    }

    /// The rules.
    pub fn rules(&self) -> &[LabelRule] {
        &self.rules
    }

    /// Labels a result. Never fails; see the type.
    pub fn label(&self, text: String) -> Labeled {
        if self.rules.is_empty() {
            return Labeled::label_tcb(text, self.worst.clone());
        }
        let regions = self.regions(&text).ok();
        let labeled =
            regions.and_then(|regions| Labeled::with_regions_tcb(text.as_str(), regions).ok());
        labeled.unwrap_or_else(|| Labeled::label_tcb(text, self.worst.clone()))
    }

    fn regions(&self, text: &str) -> Result<Vec<(Range<usize>, Label)>, ParseError> {
        let document = Document::parse(text, self.format)?;
        let chosen = self.chosen(&document)?;
        Ok(painter::paint(self, &document, &chosen))
    }

    /// For each node the join of the rules that select it.
    fn chosen(&self, document: &Document<'_>) -> Result<Vec<Option<Chosen>>, ParseError> {
        let values = document.values()?;
        // The query gives references; a value's address says which node it is.
        let mut places: Vec<(usize, usize)> = values
            .iter()
            .enumerate()
            .map(|(at, value)| (std::ptr::from_ref(*value).addr(), at))
            .collect();
        places.sort_unstable();
        let conditional = self.rules.iter().any(|rule| rule.unless.is_some());
        let holders = match conditional {
            true => holders(document, &values),
            false => Vec::new(),
        };
        let mut chosen: Vec<Option<Chosen>> = vec![None; document.nodes().len()];
        for rule in &self.rules {
            for value in rule.path.select(document.value()) {
                let address = std::ptr::from_ref(value).addr();
                let found = places.binary_search_by_key(&address, |(address, _)| *address);
                let at = found.ok().and_then(|found| places.get(found)).map(|p| p.1);
                // A value that is not in the document: the query is not to be trusted.
                let (at, slot) =
                    at.and_then(|at| Some((at, chosen.get_mut(at)?)))
                        .ok_or(ParseError {
                            offset: 0,
                            message: "a path selects what is not there",
                        })?;
                let holder = holders.get(at).copied().flatten();
                let label = self.label_of(rule, document, at, holder);
                let node = document.nodes().get(at);
                let head = rule.head.as_ref().zip(node);
                let head = head.and_then(|(head, node)| {
                    Some((head.find(document, node)?, head.label.clone()))
                });
                let key = rule.key.clone();
                let new = Chosen { label, key, head };
                *slot = Some(match slot.take() {
                    None => new,
                    Some(chosen) => chosen.join(new),
                });
            }
        }
        Ok(chosen)
    }

    /// What one rule says of one value.
    fn label_of(
        &self,
        rule: &LabelRule,
        document: &Document<'_>,
        at: usize,
        holder: Option<&Value>,
    ) -> Label {
        let formed = match (&rule.form, document.nodes().get(at)) {
            (None, _) => true,
            (Some(form), Some(node)) => form.matches(document, node),
            (Some(_), None) => false,
        };
        match &rule.unless {
            _ if !formed => self.worst.clone(),
            None => rule.label.clone(),
            Some(unless) if unless.holds(holder) => unless.label.clone(),
            Some(unless) => rule.label.join(&unless.label),
        }
    }
}

impl Chosen {
    /// What two rules say together. Two heads would have to agree; they are one text with one label
    /// then.
    fn join(self, other: Self) -> Self {
        let key = match (self.key, other.key) {
            (Some(one), Some(two)) => Some(one.join(&two)),
            (one, two) => one.or(two),
        };
        Self {
            label: self.label.join(&other.label),
            key,
            head: None,
        }
    }
}

impl Unless {
    /// Whether the object that holds the value says so.
    fn holds(&self, holder: Option<&Value>) -> bool {
        let sibling = holder.and_then(|holder| holder.get(self.sibling.as_str()));
        let sibling = sibling.and_then(Value::as_str);
        sibling.is_some_and(|found| self.is.iter().any(|word| word == found))
    }
}

/// For each node the object that it is a direct member of.
fn holders<'d>(document: &Document<'_>, values: &[&'d Value]) -> Vec<Option<&'d Value>> {
    let mut holders = Vec::with_capacity(values.len());
    let mut open: Vec<(&Value, usize)> = Vec::new();
    for (at, (node, value)) in document.nodes().iter().zip(values).enumerate() {
        while open.last().is_some_and(|(_, end)| *end <= at) {
            open.pop();
        }
        let holder = open.last().map(|(holder, _)| *holder);
        holders.push(holder.filter(|holder| holder.is_object()));
        if matches!(node.kind, Kind::Array | Kind::Object) {
            open.push((value, node.end));
        }
    }
    holders
}
