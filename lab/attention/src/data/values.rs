//! Dependencies by value: which regions hold the values of a step.
//!
//! As [`agentdojo::value_match::relevant`], the oracle of the replay, but for two things that
//! matter to labels. What the model itself said earlier is no source: a value that it has passed
//! to a call before still comes from where it first stood. And so is what an answer repeats of its
//! call's arguments. What a higher region holds as well is recorded, not left out.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use agentdojo::value_match::{argument_values, fragments, pieces};
use ifc::{Label, RegionId};

use super::step::{Kind, Step};
use super::text::{Memo, Text};
use super::view::{Passage, Writer};

/// How a region holds a value of a step that no unlabelled text gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// Others hold it too, and one of them under a lower label: it could be had from that alone.
    Above,
    /// Others hold it too, none under a lower label.
    Equal,
    /// No other region holds it.
    Sole,
}

/// What a step says: the values of its calls' arguments, or its text.
pub(super) fn said(step: &Step) -> Vec<String> {
    let calls = step.draft.calls.iter();
    match step.kind() {
        Kind::Answer => vec![step.draft.text.clone()],
        Kind::Call => calls
            .flat_map(|call| argument_values(&call.arguments))
            .collect(),
    }
}

/// The texts of a history, ready to be searched.
pub(super) struct Index<'a> {
    pub(super) given: Vec<Rc<Text>>,
    /// What tools say outside all regions, each with its call's arguments.
    told: Vec<(Rc<Text>, Rc<Text>)>,
    pub(super) regions: Vec<(RegionId, &'a Label, Rc<Text>)>,
}

impl<'a> Index<'a> {
    pub(super) fn new(passages: &'a [Passage<'a>], memo: &mut Memo) -> Self {
        let mut index = Self {
            given: Vec::new(),
            told: Vec::new(),
            regions: Vec::new(),
        };
        for passage in passages {
            for (id, span, label) in &passage.regions {
                let text = passage.text.get(span.clone()).unwrap_or_default();
                index.regions.push((*id, *label, memo.text(text)));
            }
            for gap in passage.unlabelled() {
                let text = memo.text(gap);
                match passage.writer {
                    Writer::Given => index.given.push(text),
                    Writer::Tool { arguments, .. } => {
                        index.told.push((text, memo.text(arguments)));
                    }
                    Writer::Model => {}
                }
            }
        }
        index
    }

    /// The regions that hold a piece of `values`, with the best match of each.
    pub(super) fn matches(&self, values: &[String]) -> BTreeMap<RegionId, Match> {
        let mut found = BTreeMap::new();
        let wanted: BTreeSet<Vec<String>> = values.iter().flat_map(|it| self.wanted(it)).collect();
        for piece in wanted.iter().filter(|piece| !self.is_free(piece)) {
            for (id, new) in self.holders(piece) {
                let known = found.entry(id).or_insert(new);
                // The variants of `Match` are in order of strength.
                *known = new.max(*known);
            }
        }
        found
    }

    /// Whether user, developer or unlabelled results give a piece.
    pub(super) fn is_free(&self, piece: &[String]) -> bool {
        // A result that echoes its own call's arguments is no source of them.
        let repeats = |arguments: &Rc<Text>| arguments.holds(piece);
        let told =
            |(text, arguments): &(Rc<Text>, Rc<Text>)| text.holds(piece) && !repeats(arguments);
        self.is_given(piece) || self.told.iter().any(told)
    }

    /// Whether user or developer give a piece.
    pub(super) fn is_given(&self, piece: &[String]) -> bool {
        self.given.iter().any(|text| text.holds(piece))
    }

    /// What to look for of a value. A short one that occurs nowhere in full counts by what is
    /// in it.
    fn wanted(&self, value: &str) -> Vec<Vec<String>> {
        let wanted = pieces(value);
        match wanted.as_slice() {
            [whole] if !self.is_free(whole) && self.holders(whole).is_empty() => {
                fragments(value, whole).collect()
            }
            _ => wanted,
        }
    }

    fn holders(&self, piece: &[String]) -> Vec<(RegionId, Match)> {
        let regions = self.regions.iter();
        let holders: Vec<_> = regions.filter(|(.., text)| text.holds(piece)).collect();
        let above = |label: &Label| {
            let mut others = holders.iter().map(|(_, other, _)| *other);
            others.any(|other| other != label && other.flows_to(label))
        };
        let kind = |label: &Label| match holders.len() {
            1 => Match::Sole,
            _ if above(label) => Match::Above,
            _ => Match::Equal,
        };
        holders
            .iter()
            .map(|(id, label, _)| (*id, kind(label)))
            .collect()
    }
}
