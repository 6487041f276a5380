//! Which bytes of a tool's result have which label.

use std::collections::BTreeSet;
use std::ops::Range;

use ifc::{Label, Labeled};

use self::json::{Document, JsonError, Kind, Node};

mod form;
pub(crate) mod json;
mod path;
pub(crate) mod read;

pub use self::form::Form;
pub use self::path::{LabelPath, PathError};

/// The label of the values that a path selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRule {
    /// Selects the values. Of a string it covers what is between the quotes; of an object or array
    /// everything, keys and punctuation included.
    pub path: LabelPath,
    /// Their label.
    pub label: Label,
    /// Only a value of this form has the label; any other has [`ResultLabels::worst`].
    pub form: Option<Form>,
}

/// The label rules of one tool's results (JSON text).
///
/// It lays a label over every byte:
/// - a value that rules select has the *join* of their labels, and so has everything inside it;
/// - a value that no rule selects, and a key that no rule spells out, has [`worst`](Self::worst):
///   an attacker who adds a field gains nothing;
/// - the rest is structure: brackets, commas, white space, and keys that a rule spells out. It can
///   have a label of its own, since it carries only how many elements there are.
///
/// Text that is not JSON (strictly: see duplicate keys, depth) has `worst` as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultLabels {
    rules: Vec<LabelRule>,
    structure: Label,
    worst: Label,
    /// Every key that some rule spells out.
    names: BTreeSet<String>,
}

impl ResultLabels {
    /// Rules, the label of what no rule names, and the label of the structure.
    ///
    /// `rest` can only add: what no rule names gets at least the join of all the rules' labels. If
    /// `rest` is not given and that join is ⊥, it is ⊤. `structure` is that worst label if not
    /// given.
    pub fn new(rules: Vec<LabelRule>, rest: Option<Label>, structure: Option<Label>) -> Self {
        let named: Label = rules.iter().map(|rule| &rule.label).collect();
        let named = structure.iter().fold(named, |all, label| all.join(label));
        let worst = match rest {
            Some(rest) => named.join(&rest),
            None if named.is_bottom() => Label::top(),
            None => named,
        };
        let names = rules.iter().flat_map(|rule| rule.path.names());
        Self {
            names: names.map(str::to_owned).collect(),
            structure: structure.unwrap_or_else(|| worst.clone()),
            worst,
            rules,
        }
    }

    /// One label for everything that the tool returns.
    pub fn uniform(label: Label) -> Self {
        Self::new(Vec::new(), Some(label), None)
    }

    /// The most restrictive label that a result of the tool may have: that of errors, of text that
    /// is not JSON, and of everything that no rule names.
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

    fn regions(&self, text: &str) -> Result<Vec<(Range<usize>, Label)>, JsonError> {
        let document = Document::parse(text)?;
        let chosen = self.chosen(&document)?;
        Ok(Painter {
            labels: self,
            document: &document,
            regions: Vec::new(),
            at: 0,
            open: Vec::new(),
        }
        .run(&chosen))
    }

    /// For each node the join of the rules that select it.
    fn chosen(&self, document: &Document<'_>) -> Result<Vec<Option<Label>>, JsonError> {
        // The query gives references; a value's address says which node it is.
        let mut places: Vec<(usize, usize)> = document
            .values()?
            .into_iter()
            .enumerate()
            .map(|(at, value)| (std::ptr::from_ref(value).addr(), at))
            .collect();
        places.sort_unstable();
        let mut chosen = vec![None; document.nodes().len()];
        for rule in &self.rules {
            for value in rule.path.select(document.value()) {
                let address = std::ptr::from_ref(value).addr();
                let found = places.binary_search_by_key(&address, |(address, _)| *address);
                let at = found.ok().and_then(|found| places.get(found)).map(|p| p.1);
                let node = at.and_then(|at| Some((document.nodes().get(at)?, chosen.get_mut(at)?)));
                // A value that is not in the document: the query is not to be trusted.
                let (node, slot) = node.ok_or(JsonError {
                    offset: 0,
                    message: "a path selects what is not there",
                })?;
                let form = rule.form.as_ref();
                let label = match form.is_none_or(|form| form.matches(document.slice(&node.span))) {
                    true => &rule.label,
                    false => &self.worst,
                };
                let joined = slot.take().unwrap_or(Label::bottom()).join(label);
                *slot = Some(joined);
            }
        }
        Ok(chosen)
    }
}

/// Goes through the text once, from start to end, and lays labels.
struct Painter<'d> {
    labels: &'d ResultLabels,
    document: &'d Document<'d>,
    regions: Vec<(Range<usize>, Label)>,
    at: usize,
    open: Vec<Open<'d>>,
}

/// A container whose end is still to come.
struct Open<'d> {
    node: &'d Node,
    /// The label of everything inside, if a rule selects this container or one around it.
    cover: Option<Label>,
}

impl Painter<'_> {
    fn run(mut self, chosen: &[Option<Label>]) -> Vec<(Range<usize>, Label)> {
        let document = self.document;
        for (at, (node, chosen)) in document.nodes().iter().zip(chosen).enumerate() {
            while self.open.last().is_some_and(|open| open.node.end <= at) {
                self.close();
            }
            let outer = self.open.last().and_then(|open| open.cover.clone());
            if let Some(key) = &node.key {
                self.key(key, outer.as_ref());
            }
            let cover = match (outer, chosen) {
                (Some(outer), Some(chosen)) => Some(outer.join(chosen)),
                (outer, chosen) => outer.or_else(|| chosen.clone()),
            };
            self.structure(node.content().start);
            match node.kind {
                Kind::Array | Kind::Object => self.open.push(Open { node, cover }),
                Kind::String | Kind::Scalar => {
                    let label = cover.unwrap_or_else(|| self.labels.worst.clone());
                    self.paint(node.content().end, &label, true);
                }
            }
        }
        while !self.open.is_empty() {
            self.close();
        }
        // White space after the value; there is nothing else.
        self.structure(usize::MAX);
        self.regions
    }

    fn close(&mut self) {
        if let Some(end) = self.open.last().map(|open| open.node.span.end) {
            self.structure(end);
        }
        self.open.pop();
    }

    fn key(&mut self, key: &Range<usize>, cover: Option<&Label>) {
        self.structure(key.start);
        let known = self.labels.names.contains(self.document.slice(key));
        let label = match (cover, known) {
            (Some(cover), _) => cover.clone(),
            (None, true) => self.labels.structure.clone(),
            (None, false) => self.labels.worst.clone(),
        };
        self.paint(key.end, &label, false);
    }

    /// What stands between values: it belongs to the innermost open container.
    fn structure(&mut self, until: usize) {
        let cover = self.open.last().and_then(|open| open.cover.clone());
        let label = cover.unwrap_or_else(|| self.labels.structure.clone());
        self.paint(until, &label, false);
    }

    /// Gives the text up to `until` a label. An empty value has a region too: it must not look
    /// different from a long one. Neighbours of one label become one region: what is masked and what
    /// a step depends on is decided by label, so fewer regions lose nothing and cost less.
    fn paint(&mut self, until: usize, label: &Label, even_empty: bool) {
        let until = until.min(self.document.len());
        if until < self.at || (until == self.at && !even_empty) {
            return;
        }
        match self.regions.last_mut() {
            Some((span, last)) if span.end == self.at && last == label => {
                span.end = until;
            }
            _ => self.regions.push((self.at..until, label.clone())),
        }
        self.at = until;
    }
}
