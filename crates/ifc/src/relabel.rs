//! Labels that fall after the fact.
//!
//! A history stores for each text the labels that its parts came with, and for each step what its prompt showed. So all
//! labels can be computed anew, in reading order, when one of them falls: [`History::remake_tcb`],
//! [`History::endorse_tcb`], [`History::approve`].

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::entry::Entry;
use crate::image::Pictured;
use crate::message::Origin;
use crate::own::{Calls, Made, OwnText, OwnTool};
use crate::writer::Writer;
use crate::{
    Approval, ArgumentPath, Arguments, Author, CallId, History, Label, Labeled, Message, RegionId,
    Relevance,
};

/// Parts of a history. Unlike the numbers of regions, they stay the same when labels change. `None` is everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pieces(pub(crate) Option<BTreeSet<usize>>);

/// A part of a text, as it came.
pub(crate) struct OwnPiece<'a> {
    pub(crate) number: usize,
    /// Its text; the note of an image.
    pub(crate) words: &'a str,
    /// The label that it came with.
    pub(crate) label: &'a Label,
    pub(crate) is_image: bool,
    /// Its writer, if the user's rules tell.
    pub(crate) writer: Option<&'a Writer>,
}

impl History {
    /// Lowers the label of the control part of a call, and of everything derived from it: the step at this position has made
    /// the call, and it came out again from a prompt at `label` that showed nothing after the step. The step's words, its
    /// other calls and the values at the places in `data`, which may have come out otherwise, keep their labels, and so
    /// does what the hub answered to the call. `floor` is the part of the new label that comes from nothing in the history.
    ///
    /// Trusted: the caller has compared the two calls. Returns whether the label has fallen. Nothing changes if `label` does
    /// not flow to that of the call, or if the origin of the step is not known.
    pub fn remake_tcb(
        &mut self,
        step: usize,
        call: usize,
        (label, floor): (&Label, &Label),
        data: &BTreeSet<ArgumentPath>,
    ) -> bool {
        let labels = self.labels_before(step);
        let Some(entry) = self.entries.get_mut(step) else {
            return false;
        };
        let is_known = entry.came.made.is_known();
        let Message::Assistant { calls, .. } = &mut entry.message else {
            return false;
        };
        let Some(past) = calls.get_mut(call).filter(|_| is_known) else {
            return false;
        };
        let before = past.label(&entry.label);
        if !label.flows_to(&before) || !floor.flows_to(label) {
            return false;
        }
        // The step's words come before the arguments.
        let Some(own) = Arc::make_mut(&mut entry.came).own.get_mut(call + 1) else {
            return false;
        };
        let came = Arguments::parse_labeled(&own.came(&past.arguments)).ok();
        let Some((parts, text)) = came.and_then(|came| OwnText::in_parts(&came, data)) else {
            return false;
        };
        (*own, past.arguments) = (parts, text);
        own.remade = Some((Made::at(label, floor, &labels), label.clone()));
        let id = past.id;
        // Whether the hub answered in the place of the app depended on the label that the call had then. That there is an
        // answer is known with the call.
        let is_note = |entry: &&mut Entry| match &entry.message {
            Message::Result { call, author, .. } => (*call, *author) == (id, Author::Hub),
            _ => false,
        };
        if let Some(note) = self.entries.iter_mut().find(is_note) {
            let came = Arc::make_mut(&mut note.came);
            let old = std::mem::replace(&mut came.made, Made::Call(id));
            if let Some(words) = came.own.first_mut() {
                words.made.get_or_insert(old);
            }
        }
        self.compute_labels();
        self.call_label(id).is_some_and(|label| label != before)
    }

    /// The user has approved the call with this id: its control part loses the taints about integrity, and so does what is
    /// derived from it. The step's words and its other calls keep their labels.
    ///
    /// Returns whether the call is endorsed. An approval is for one call of the newest step.
    pub fn approve(&mut self, id: CallId, approval: &Approval) -> bool {
        let approval = Arc::new(approval.clone());
        let mut entries = self.entries.iter_mut().rev();
        let newest = entries.find_map(|entry| match &mut entry.message {
            Message::Assistant { calls, .. } => {
                Some((calls, &mut Arc::make_mut(&mut entry.came).own))
            }
            _ => None,
        });
        let Some((calls, own)) = newest else {
            return false;
        };
        // The step's words come before the arguments.
        let mut texts = calls.iter_mut().zip(own.iter_mut().skip(1));
        let Some((call, own)) = texts.find(|(call, _)| call.id == id) else {
            return false;
        };
        let came = Arguments::parse_labeled(&own.came(&call.arguments)).ok();
        // Another call of the same step, or of another history, is not approved.
        let came = came.filter(|came| approval.is_of(&call.tool, came));
        let Some((approved, text)) = came.and_then(|came| OwnText::approved(&came, &approval))
        else {
            return false;
        };
        (*own, call.arguments) = (approved, text);
        call.approval = Some(approval);
        self.compute_labels();
        true
    }

    /// Endorses these taints of these pieces, and of everything that has the taints from there alone.
    ///
    /// Trusted: the user must have vouched for the texts. ⊤ stays ⊤. A taint that a result has from its call stays, and so
    /// does the taint of an image, since the user was shown its note only.
    pub fn endorse_tcb(&mut self, pieces: &Pieces, taints: &Label, by: u64) {
        let Pieces(Some(chosen)) = pieces else {
            return;
        };
        let (mut number, mut changed) = (0, false);
        let mut endorse = |own: &mut OwnText, images: &[Pictured]| {
            for piece in &mut own.pieces {
                if chosen.contains(&number) {
                    let endorsed = match images.iter().any(|it| it.covers(&piece.span)) {
                        true => piece.label.clone(),
                        false => piece.label.endorse_tcb(taints, by),
                    };
                    changed |= endorsed != piece.label;
                    piece.label = endorsed;
                }
                number += 1;
            }
        };
        for OwnTool(own) in &mut self.own_tools {
            own.iter_mut().for_each(|own| endorse(own, &[]));
        }
        for entry in &mut self.entries {
            // The images are of the first text; a message that has any has no other.
            let mut came = entry.came.clone();
            let own = &mut Arc::make_mut(&mut came).own;
            own.iter_mut().for_each(|own| endorse(own, entry.images()));
            entry.came = came;
        }
        if changed {
            self.compute_labels();
        }
    }

    /// The origin and the pieces of each text.
    pub(crate) fn own_pieces(&self) -> impl Iterator<Item = (Origin<'_>, Vec<OwnPiece<'_>>)> {
        let tools = self.own_tools.iter().flat_map(|OwnTool(own)| own);
        let tools = tools.map(|own| (own, None));
        let entries = self.entries.iter();
        // Images and writers are of the first text; a message that has any has no other.
        let texts = entries.flat_map(|it| it.came.own.iter().map(move |own| (own, Some(it))));
        let mut number = 0;
        let own = tools.chain(texts).zip(self.texts());
        own.map(move |((own, entry), (origin, text))| {
            let images = entry.map_or(&[][..], Entry::images);
            let pieces = own.pieces.iter().map(|piece| {
                let words = text.reveal_tcb().get(piece.span.clone());
                let at = number;
                number += 1;
                OwnPiece {
                    number: at,
                    words: words.unwrap_or_default(),
                    label: &piece.label,
                    is_image: images.iter().any(|image| image.covers(&piece.span)),
                    writer: entry.and_then(|entry| entry.came.writer(&piece.span)),
                }
            });
            (origin, pieces.collect())
        })
    }

    /// Whether the message at this position was made from a prompt of this history.
    #[must_use]
    pub fn is_from_prompt(&self, at: usize) -> bool {
        let entry = self.entries.get(at);
        entry.is_some_and(|entry| entry.came.made.is_known())
    }

    /// The texts of the message at this position as they came, without the labels of what they were made from.
    #[must_use]
    pub fn as_they_came(&self, at: usize) -> Vec<Labeled> {
        let Some(entry) = self.entries.get(at) else {
            return Vec::new();
        };
        let texts = entry.came.own.iter().zip(entry.message.texts());
        texts.map(|(own, text)| own.came(text)).collect()
    }

    /// The pieces of these regions.
    #[must_use]
    pub fn pieces_of(&self, relevance: &Relevance) -> Pieces {
        let Relevance::Only(wanted) = relevance else {
            return Pieces(None);
        };
        let mut pieces = BTreeSet::new();
        self.each_region(|id, within| {
            if wanted.contains(&id) {
                pieces.extend(within);
            }
        });
        Pieces(Some(pieces))
    }

    /// The regions that have a part of these pieces.
    #[must_use]
    pub fn regions_of(&self, pieces: &Pieces) -> Relevance {
        let Pieces(Some(wanted)) = pieces else {
            return Relevance::Everything;
        };
        let mut regions = BTreeSet::new();
        self.each_region(|id, within| {
            if within.iter().any(|piece| wanted.contains(piece)) {
                regions.insert(id);
            }
        });
        Relevance::Only(regions)
    }

    /// Every region, with the numbers of its pieces.
    fn each_region(&self, mut each: impl FnMut(RegionId, Vec<usize>)) {
        let tools = self.own_tools.iter().flat_map(|OwnTool(own)| own);
        let own = tools.chain(self.entries.iter().flat_map(|entry| &entry.came.own));
        let (mut first, mut id) = (0, 0);
        for (own, (_, text)) in own.zip(self.texts()) {
            let labels: Vec<Label> = own.labels().collect();
            for (span, label) in text.regions() {
                let within = own.within(&labels, &span, label).map(|at| first + at);
                each(RegionId(id), within.collect());
                id += 1;
            }
            first += own.pieces.len();
        }
    }

    /// Computes every label anew, each from those of what stands before it.
    fn compute_labels(&mut self) {
        for (tool, own) in self.tools.iter_mut().zip(&mut self.own_tools) {
            own.restrict(tool);
        }
        // One pass in reading order, since a label is computed from those before it. At each step `labels` is what
        // `labels_before` gives for it.
        let mut labels = self.labels_before(0);
        let mut calls = Calls::new();
        for entry in &mut self.entries {
            entry.label = entry.came.made.label(&labels, &calls);
            let arguments = match &entry.message {
                Message::Result { call, .. } => calls
                    .get(call)
                    .map_or(Label::top(), |(_, arguments)| arguments.clone()),
                _ => Label::bottom(),
            };
            entry.restrict(&arguments, |made| made.label(&labels, &calls));
            if let Message::Assistant { calls: made, .. } = &entry.message {
                for call in made {
                    let label = (call.label(&entry.label), call.arguments.label());
                    calls.insert(call.id, label);
                }
            }
            labels.push(entry.label.clone());
            labels.extend(entry.came.own.iter().flat_map(OwnText::labels));
        }
    }
}
