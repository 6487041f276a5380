//! Labels that fall after the fact, and what follows from it.
//!
//! A history remembers of each text the labels that its parts came with, and of each step what the prompt
//! showed that it was made from. So all labels can be computed anew, in reading order, once something has
//! become known that lowers one: [`History::refine_tcb`] and [`History::endorse_tcb`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::history::{CallId, Entry, Message, Origin, Tool};
use crate::image::Pictured;
use crate::{Approval, Arguments, History, Image, Label, Labeled, RegionId, Relevance};

/// Where the label of a message comes from.
#[derive(Debug, Clone)]
pub(crate) enum Made {
    /// From a prompt of this history.
    Prompt {
        /// The part of its label that comes from nothing in the history; all of it, where the prompt is
        /// not known.
        floor: Label,
        /// Which of the pieces before it the prompt showed.
        shown: Arc<[bool]>,
    },
    /// From the step that made this call.
    Call(CallId),
}

impl Made {
    /// From the prompt at `label` over pieces with these labels. The label stays where `label` is not that
    /// of anything which the prompt showed.
    pub(crate) fn at(label: &Label, floor: &Label, labels: &[Label]) -> Self {
        let shown = labels.iter().filter(|own| own.flows_to(label));
        let from: Label = std::iter::once(floor).chain(shown).collect();
        Self::Prompt {
            floor: floor.join(&label.beyond(&from)),
            shown: labels.iter().map(|own| own.flows_to(label)).collect(),
        }
    }

    /// Whether it is known what it was made from.
    fn is_known(&self) -> bool {
        match self {
            Self::Prompt { shown, .. } => !shown.is_empty(),
            Self::Call(_) => true,
        }
    }

    /// Under this label, whatever becomes of the rest of the history.
    pub(crate) fn fixed(floor: Label) -> Self {
        let shown = Arc::default();
        Self::Prompt { floor, shown }
    }

    /// The label that comes from there, by those of the pieces and calls before it.
    fn label(&self, labels: &[Label], calls: &Calls) -> Label {
        match self {
            Self::Prompt { floor, shown } => {
                let shown = labels.iter().zip(shown.iter());
                let shown = shown.filter_map(|(label, shown)| shown.then_some(label));
                floor.join(&shown.collect())
            }
            Self::Call(call) => calls
                .get(call)
                .map_or(Label::top(), |(step, _)| step.clone()),
        }
    }
}

/// The label of each call's control part, and of its arguments.
type Calls = BTreeMap<CallId, (Label, Label)>;

/// A part of a text that came with one label. It keeps its place while its label falls.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) span: Range<usize>,
    pub(crate) label: Label,
    /// Whether it is of a control part that the user has endorsed.
    is_endorsed: bool,
}

/// What the labels of a text are computed from.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnText {
    pieces: Vec<Piece>,
    /// What it was made from, if not from what the rest of its message was made from.
    made: Option<Made>,
    /// The label of what it was made from.
    restriction: Option<Label>,
    /// The user's yes to the call whose arguments it is.
    approval: Option<Arc<Approval>>,
    /// Whether it is empty beside calls: then it carries nothing beyond the message's existence, which is
    /// labelled itself, and is no region. That it is empty is something to hide only where it was made
    /// from more than the calls.
    is_silent: bool,
}

impl OwnText {
    /// A text, cut wherever its label changes.
    pub(crate) fn of(text: &Labeled) -> Self {
        let mut pieces = Vec::new();
        let mut end = 0;
        let mut cut = |span: Range<usize>, label: Label| {
            pieces.push(Piece {
                span,
                label,
                is_endorsed: false,
            });
        };
        for (span, label) in text.regions() {
            if end < span.start {
                cut(end..span.start, Label::bottom());
            }
            end = span.end;
            cut(span, label.clone());
        }
        // An empty text is a piece as well: restricted, it is a region.
        if end < text.len() || text.regions().len() == 0 {
            cut(end..text.len(), Label::bottom());
        }
        Self {
            pieces,
            ..Self::default()
        }
    }

    /// The same of a text with images at its end: its own pieces are those that it has without them.
    fn of_pictured(text: &Labeled, images: &[Pictured]) -> Self {
        let Some(first) = images.first() else {
            return Self::of(text);
        };
        let words = text.slice(0..first.span.start);
        let mut own = Self::of(&words.unwrap_or(Labeled::unknown("")));
        own.pieces.extend(images.iter().map(|it| Piece {
            span: it.span.clone(),
            label: it.label_in(text),
            is_endorsed: false,
        }));
        own
    }

    /// The arguments of a call that the user has said yes to, with `text` as their canonical text: blanks and the
    /// order of names may depend on more than what the user has read.
    fn approved(came: &Arguments, approval: &Arc<Approval>) -> Option<(Self, Labeled)> {
        let text = came.to_labeled();
        let mut own = Self::of(&approval.marked(text.reveal_tcb())?);
        for piece in &mut own.pieces {
            piece.is_endorsed = piece.label.is_bottom();
            piece.label = text.slice(piece.span.clone())?.label();
        }
        own.approval = Some(approval.clone());
        Some((own, text))
    }

    /// The labels of its pieces.
    fn labels(&self) -> impl Iterator<Item = Label> {
        let pieces = self.pieces.iter();
        pieces.map(|piece| {
            let label = match &self.restriction {
                Some(label) => piece.label.join(label),
                None => piece.label.clone(),
            };
            match &self.approval {
                Some(approval) if piece.is_endorsed => approval.label(&label),
                _ => label,
            }
        })
    }

    /// Restricts the text as it came by what it was made from.
    fn restrict(&mut self, text: &mut Labeled, label: &Label) {
        self.restriction = Some(label.clone());
        let spans = self.pieces.iter().map(|piece| piece.span.clone());
        let is_region = !self.is_silent || self.made.is_some();
        text.relabel(spans.zip(self.labels()).filter(|_| is_region));
    }

    /// Its pieces in the region that has this span and label.
    fn within<'a>(
        &'a self,
        span: &'a Range<usize>,
        label: &'a Label,
    ) -> impl Iterator<Item = usize> + 'a {
        let pieces = self.pieces.iter().zip(self.labels()).enumerate();
        let lies_in = |own: &Range<usize>| span.start <= own.start && own.end <= span.end;
        pieces.filter_map(move |(at, (piece, own))| {
            (lies_in(&piece.span) && own == *label).then_some(at)
        })
    }
}

impl Entry {
    /// A message under a label that comes from here.
    pub(crate) fn new(label: Label, made: Made, message: Message, images: Vec<Pictured>) -> Self {
        let has_calls = matches!(&message, Message::Assistant { calls, .. } if !calls.is_empty());
        // A message with images has one text.
        let own = message.texts();
        let mut own: Vec<OwnText> = own.map(|it| OwnText::of_pictured(it, &images)).collect();
        if let Some(words) = own.first_mut().filter(|_| has_calls) {
            let mut texts = message.texts();
            words.is_silent = texts
                .next()
                .is_some_and(|text| text.is_empty() && text.regions().len() == 0);
        }
        Self {
            own,
            label,
            made,
            message,
            images,
        }
    }

    /// The images that a prompt at `label` shows.
    pub(crate) fn images_at<'a>(&'a self, label: &'a Label) -> impl Iterator<Item = &'a Image> {
        let text = self.message.texts().next();
        let images = self.images.iter().filter(move |pictured| {
            let shows = |text| pictured.label_in(text).flows_to(label);
            text.is_some_and(shows)
        });
        images.map(|pictured| &pictured.image)
    }

    /// Restricts all of its text by what it was made from: by the label of the message, and a result by
    /// the arguments of its call as well.
    pub(crate) fn restrict(&mut self, arguments: &Label, of: impl Fn(&Made) -> Label) {
        let whole = self.label.join(arguments);
        let merges = matches!(self.message, Message::Result { .. } | Message::Memory(_));
        for (own, text) in self.own.iter_mut().zip(self.message.texts_mut()) {
            let label = own.made.as_ref().map(&of);
            let label = label.map_or(whole.clone(), |label| label.join(&whole));
            own.restrict(text, &label);
            // Regions that end up with one label become one: no screener and no redactor could tell them
            // apart.
            if merges {
                let merged = std::mem::replace(text, Labeled::trusted_tcb(""));
                let images = self.images.first().map_or(usize::MAX, |it| it.span.start);
                *text = merged.merge_apart(images);
            }
        }
    }
}

/// The texts of a tool, as they came.
#[derive(Debug, Clone)]
pub(crate) struct OwnTool([OwnText; 2]);

impl OwnTool {
    pub(crate) fn of(tool: &Tool) -> Self {
        Self([&tool.description, &tool.parameters].map(OwnText::of))
    }

    /// Restricts what is said of a tool by the label of its name.
    pub(crate) fn restrict(&mut self, tool: &mut Tool) {
        let Self([description, parameters]) = self;
        description.restrict(&mut tool.description, &tool.label);
        parameters.restrict(&mut tool.parameters, &tool.label);
    }
}

/// How much of a step was made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remade {
    /// Its calls. Its words came out otherwise, and keep the label of what they were made from.
    Calls,
    /// Its calls and its words.
    Whole,
}

/// Parts of a history, whatever their labels become: the numbers of regions may change with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pieces(pub(crate) Option<BTreeSet<usize>>);

/// A part of a text, as it came.
pub(crate) struct OwnPiece<'a> {
    pub(crate) number: usize,
    /// Of an image its note.
    pub(crate) words: &'a str,
    /// The label that it came with.
    pub(crate) label: &'a Label,
    pub(crate) is_image: bool,
}

impl History {
    /// Lowers the label of the step at this position of [`History::messages`], and of everything that was
    /// derived from it. Its calls were made once more from what stands before it and flows to `label`, and
    /// came out the same. `floor` is the part of the new label that comes from nothing in the history.
    ///
    /// Trusted: the caller has taken the step from such a prompt. Returns whether a label has fallen; none
    /// rises, and no step is refined to what does not flow to its label, or of which nothing is known.
    pub fn refine_tcb(
        &mut self,
        step: usize,
        label: &Label,
        floor: &Label,
        remade: Remade,
    ) -> bool {
        let labels = self.labels_before(step);
        let Some(entry) = self.entries_mut().get_mut(step) else {
            return false;
        };
        let is_step = matches!(entry.message, Message::Assistant { .. }) && entry.made.is_known();
        if !is_step || !label.flows_to(&entry.label) || !floor.flows_to(label) {
            return false;
        }
        let old = std::mem::replace(&mut entry.made, Made::at(label, floor, &labels));
        if let (Remade::Calls, Some(words)) = (remade, entry.own.first_mut()) {
            words.made.get_or_insert(old);
        }
        let before = entry.label.clone();
        self.compute_labels();
        let entry = self.entries().get(step);
        entry.is_some_and(|entry| entry.label != before)
    }

    /// The user has said yes to the call of this name: its control part loses the taints about integrity, and what
    /// comes of it is labelled by that. What the step said beside it, and its other calls, keep their labels.
    ///
    /// Returns whether it is endorsed: an approval is for one call, and counts while nothing follows its step.
    pub fn approve(&mut self, id: CallId, approval: &Approval) -> bool {
        let approval = Arc::new(approval.clone());
        let mut entries = self.entries_mut().iter_mut().rev();
        let newest = entries.find_map(|entry| match &mut entry.message {
            Message::Assistant { calls, .. } => Some((calls, &mut entry.own)),
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
        let mut came = call.arguments.clone();
        let pieces = own.pieces.iter();
        came.relabel(pieces.map(|piece| (piece.span.clone(), piece.label.clone())));
        let came = Arguments::parse_labeled(&came).ok();
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

    /// Endorses these taints of these pieces, and of everything that has them from there alone: the user
    /// vouches for the texts.
    ///
    /// Trusted: it must be the user's word. The unknown (⊤) stays unknown. A taint that a result has from
    /// its call stays, and so does that of an image: the user was shown its note.
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
        let (tools, entries) = self.own_mut();
        for OwnTool(own) in tools {
            own.iter_mut().for_each(|own| endorse(own, &[]));
        }
        for entry in entries {
            // The images are of the first text; a message that has any has no other.
            let (own, images) = (&mut entry.own, &entry.images);
            own.iter_mut().for_each(|own| endorse(own, images));
        }
        if changed {
            self.compute_labels();
        }
    }

    /// Of each text its origin and its pieces.
    pub(crate) fn own_pieces(&self) -> impl Iterator<Item = (Origin<'_>, Vec<OwnPiece<'_>>)> {
        let tools = self.own_tools().iter().flat_map(|OwnTool(own)| own);
        let tools = tools.map(|own| (own, [].as_slice()));
        let entries = self.entries().iter();
        // The images are of the first text; a message that has any has no other.
        let texts = entries.flat_map(|it| it.own.iter().map(|own| (own, it.images.as_slice())));
        let mut number = 0;
        let own = tools.chain(texts).zip(self.texts());
        own.map(move |((own, images), (origin, text))| {
            let pieces = own.pieces.iter().map(|piece| {
                let words = text.reveal_tcb().get(piece.span.clone());
                let at = number;
                number += 1;
                OwnPiece {
                    number: at,
                    words: words.unwrap_or_default(),
                    label: &piece.label,
                    is_image: images.iter().any(|image| image.covers(&piece.span)),
                }
            });
            (origin, pieces.collect())
        })
    }

    /// Whether the message at this position was made from a prompt of this history.
    #[must_use]
    pub fn is_from_prompt(&self, at: usize) -> bool {
        let entry = self.entries().get(at);
        entry.is_some_and(|entry| entry.made.is_known())
    }

    /// The texts of the message at this position, as they came: without the labels of what they were made
    /// from.
    #[must_use]
    pub fn as_they_came(&self, at: usize) -> Vec<Labeled> {
        let Some(entry) = self.entries().get(at) else {
            return Vec::new();
        };
        let texts = entry.own.iter().zip(entry.message.texts());
        let came = texts.map(|(own, text)| {
            let mut text = text.clone();
            let pieces = own.pieces.iter().filter(|_| !own.is_silent);
            text.relabel(pieces.map(|piece| (piece.span.clone(), piece.label.clone())));
            text
        });
        came.collect()
    }

    /// Whether some text of a result of this call came with a label that flows to `limit`. What stands
    /// above it all the same is there only for the label of the call.
    #[must_use]
    pub fn has_own_below(&self, call: CallId, limit: &Label) -> bool {
        let results = self.entries().iter().filter(|entry| match entry.made {
            Made::Call(made) => made == call,
            Made::Prompt { .. } => false,
        });
        let mut pieces = results
            .flat_map(|entry| &entry.own)
            .flat_map(|own| &own.pieces);
        pieces.any(|piece| !piece.span.is_empty() && piece.label.flows_to(limit))
    }

    /// What these regions are made of.
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
        let tools = self.own_tools().iter().flat_map(|OwnTool(own)| own);
        let own = tools.chain(self.entries().iter().flat_map(|entry| &entry.own));
        let (mut first, mut id) = (0, 0);
        for (own, (_, text)) in own.zip(self.texts()) {
            for (span, label) in text.regions() {
                let within = own.within(&span, label).map(|at| first + at);
                each(RegionId(id), within.collect());
                id += 1;
            }
            first += own.pieces.len();
        }
    }

    /// The labels of everything that a prompt before this message could show: of each tool and each
    /// message that there is one, and then of its texts.
    pub(crate) fn labels_before(&self, message: usize) -> Vec<Label> {
        let mut labels = Vec::new();
        for (tool, OwnTool(own)) in self.tools().iter().zip(self.own_tools()) {
            labels.push(tool.label.clone());
            labels.extend(own.iter().flat_map(OwnText::labels));
        }
        for entry in self.entries().iter().take(message) {
            labels.push(entry.label.clone());
            labels.extend(entry.own.iter().flat_map(OwnText::labels));
        }
        labels
    }

    /// Computes every label anew, each from those of what stands before it.
    fn compute_labels(&mut self) {
        for (tool, own) in self.tools_mut() {
            own.restrict(tool);
        }
        let mut labels = self.labels_before(0);
        let mut calls = Calls::new();
        for entry in self.entries_mut() {
            entry.label = entry.made.label(&labels, &calls);
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
            labels.extend(entry.own.iter().flat_map(OwnText::labels));
        }
    }
}
