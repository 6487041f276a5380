//! Lays the labels of a result over its bytes.

use std::collections::BTreeSet;
use std::ops::Range;

use ifc::Label;

use crate::formats::{Document, Key, Kind, Node};

/// The labels that the rules give a selected value.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    /// The join of their labels.
    pub(super) label: Label,
    /// The join of their labels for its key.
    pub(super) key: Option<Label>,
    /// Its parts with labels of their own.
    pub(super) parts: Parts,
    /// Whether it is a stranger's or a secret, and may have line breaks in it.
    pub(super) may_break: bool,
}

/// Parts of a value that have labels of their own.
#[derive(Debug, Clone)]
pub(super) enum Parts {
    /// It is one text.
    None,
    /// Its head. The text behind it, even if empty, has the label of the value.
    Head(Range<usize>, Label),
    /// The pieces of a list, in order, which cover all of it.
    List(Vec<(Range<usize>, Label)>),
}

impl Chosen {
    /// The labels of two rules together. The value is one text with one label then.
    pub(super) fn join(self, other: Self) -> Self {
        let key = match (self.key, other.key) {
            (Some(one), Some(two)) => Some(one.join(&two)),
            (one, two) => one.or(two),
        };
        Self {
            label: self.label.join(&other.label),
            key,
            parts: Parts::None,
            may_break: self.may_break || other.may_break,
        }
    }
}

/// The inputs for painting a text.
#[derive(Clone, Copy)]
pub(super) struct Painter<'d> {
    pub(super) document: &'d Document<'d>,
    /// The keys that some rule names.
    pub(super) names: &'d BTreeSet<String>,
    /// The label of brackets, commas and those keys.
    pub(super) structure: &'d Label,
    /// The label of values that no rule selects.
    pub(super) worst: &'d Label,
}

impl Painter<'_> {
    /// The regions of the text, given the labels of each selected node.
    pub(super) fn paint(self, chosen: &[Option<Chosen>]) -> Vec<(Range<usize>, Label)> {
        let brush = Brush {
            painter: self,
            regions: Vec::new(),
            at: 0,
            open: Vec::new(),
        };
        brush.run(chosen)
    }
}

/// Goes through the text once, from start to end, and lays labels.
struct Brush<'d> {
    painter: Painter<'d>,
    regions: Vec<(Range<usize>, Label)>,
    at: usize,
    open: Vec<Open<'d>>,
}

/// A container whose end is not reached yet.
struct Open<'d> {
    node: &'d Node,
    /// The label of everything inside, if a rule selects this container or one around it.
    cover: Option<Label>,
}

impl Brush<'_> {
    fn run(mut self, chosen: &[Option<Chosen>]) -> Vec<(Range<usize>, Label)> {
        let document = self.painter.document;
        for (at, (node, chosen)) in document.nodes().iter().zip(chosen).enumerate() {
            // The containers that end before this node are closed first.
            while self.open.last().is_some_and(|open| open.node.end <= at) {
                self.close();
            }
            let outer = self.open.last().and_then(|open| open.cover.clone());
            if let Some(key) = &node.key {
                let own = chosen.as_ref().and_then(|chosen| chosen.key.as_ref());
                self.key(key, outer.as_ref(), own);
            }
            // A label that covers the container covers the parts of its values as well.
            let parts = chosen.as_ref().filter(|_| outer.is_none());
            let parts = parts.map_or(&Parts::None, |chosen| &chosen.parts);
            let chosen = chosen.as_ref().map(|chosen| &chosen.label);
            let cover = match (outer, chosen) {
                (Some(outer), Some(chosen)) => Some(outer.join(chosen)),
                (outer, chosen) => outer.or_else(|| chosen.cloned()),
            };
            let painted = document.painted(node);
            self.structure(painted.start);
            match node.kind {
                Kind::Array | Kind::Object => self.open.push(Open { node, cover }),
                _ => {
                    let label = cover.unwrap_or_else(|| self.painter.worst.clone());
                    let has_rest = match parts {
                        Parts::None => true,
                        Parts::Head(span, of_head) => {
                            self.part(span, &label, of_head);
                            true
                        }
                        Parts::List(pieces) => {
                            for (span, of_piece) in pieces {
                                self.part(span, &label, of_piece);
                            }
                            // A text without an element is empty, and still has a region.
                            pieces.is_empty()
                        }
                    };
                    self.paint(painted.end, &label, has_rest);
                }
            }
        }
        while !self.open.is_empty() {
            self.close();
        }
        // White space after the value.
        self.structure(usize::MAX);
        self.regions
    }

    /// A part of a value, after the text of the value before it.
    fn part(&mut self, span: &Range<usize>, of_value: &Label, own: &Label) {
        self.paint(span.start, of_value, false);
        self.paint(span.end, own, false);
    }

    fn close(&mut self) {
        // First, since the closing bracket has the label of the container.
        if let Some(end) = self.open.last().map(|open| open.node.span.end) {
            self.structure(end);
        }
        self.open.pop();
    }

    fn key(&mut self, key: &Key, cover: Option<&Label>, own: Option<&Label>) {
        self.structure(key.span.start);
        // As it is written: a key with an escape is never known.
        let known = self
            .painter
            .names
            .contains(self.painter.document.slice(&key.inner));
        let label = match (cover, own) {
            (Some(cover), Some(own)) => cover.join(own),
            (Some(cover), None) => cover.clone(),
            (None, Some(own)) => own.clone(),
            (None, None) if known => self.painter.structure.clone(),
            // An attacker who adds a member chooses its key.
            (None, None) => self.painter.worst.clone(),
        };
        self.paint(key.span.end, &label, false);
    }

    /// The text between values, which belongs to the innermost open container.
    fn structure(&mut self, until: usize) {
        let cover = self.open.last().and_then(|open| open.cover.clone());
        let label = cover.unwrap_or_else(|| self.painter.structure.clone());
        self.paint(until, &label, false);
    }

    /// Labels the text up to `until`. An empty value has a region too, since it must not look different from a long one.
    /// Neighbours of one label become one region.
    fn paint(&mut self, until: usize, label: &Label, even_empty: bool) {
        let until = until.min(self.painter.document.len());
        // Only forwards: regions may not overlap.
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
