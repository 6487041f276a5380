//! Which bytes of a tool's result have which label.

use std::collections::BTreeSet;
use std::ops::Range;

use ifc::{KnownResult, Label, Labeled};
use serde_json::Value;

use super::painter::{Chosen, Painter};
use super::path::LabelPath;
use super::rule::LabelRule;
use crate::formats::{Document, Format, Kind, ParseError};
use crate::rules::Single;

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

    /// Every key that some rule spells out.
    pub(super) fn named(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
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

    /// Whether a value stands at a path of this result, and is known. False of a result that is not of the
    /// format.
    pub(crate) fn stood(
        &self,
        result: &KnownResult<'_>,
        path: &LabelPath,
        wanted: &Single<'_>,
    ) -> bool {
        let Ok(document) = Document::parse(result.reveal_tcb(), self.format) else {
            return false;
        };
        let Ok(values) = document.values() else {
            return false;
        };
        let places = places(&values);
        let is_wanted = |value: &&Value| Single::of(value).as_ref() == Some(wanted);
        let selected = path.select(document.value());
        selected.filter(is_wanted).any(|value| {
            let node = place_of(&places, value).and_then(|at| document.nodes().get(at));
            node.is_some_and(|node| result.knows(document.painted(node)))
        })
    }

    fn regions(&self, text: &str) -> Result<Vec<(Range<usize>, Label)>, ParseError> {
        let document = Document::parse(text, self.format)?;
        let chosen = self.chosen(&document)?;
        let painter = Painter {
            document: &document,
            names: &self.names,
            structure: &self.structure,
            worst: &self.worst,
        };
        Ok(painter.paint(&chosen))
    }

    /// For each node the join of the rules that select it.
    fn chosen(&self, document: &Document<'_>) -> Result<Vec<Option<Chosen>>, ParseError> {
        let values = document.values()?;
        let places = places(&values);
        let conditional = self.rules.iter().any(|rule| rule.unless.is_some());
        let holders = match conditional {
            true => holders(document, &values),
            false => Vec::new(),
        };
        let mut chosen: Vec<Option<Chosen>> = vec![None; document.nodes().len()];
        for rule in &self.rules {
            for value in rule.path.select(document.value()) {
                let at = place_of(&places, value);
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

/// Which node each value is. A query gives references to values, so they are known by address.
fn places(values: &[&Value]) -> Vec<(usize, usize)> {
    let values = values.iter().enumerate();
    let places = values.map(|(at, value)| (std::ptr::from_ref(*value).addr(), at));
    let mut places: Vec<(usize, usize)> = places.collect();
    places.sort_unstable();
    places
}

/// The number of a value's node.
fn place_of(places: &[(usize, usize)], value: &Value) -> Option<usize> {
    let address = std::ptr::from_ref(value).addr();
    let found = places.binary_search_by_key(&address, |(address, _)| *address);
    let place = found.ok().and_then(|found| places.get(found));
    place.map(|(_, at)| *at)
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
