//! Texts as they came, before what they were made from restricted them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::image::Pictured;
use crate::{Approval, Arguments, CallId, Label, Labeled, Tool};

/// Where the label of a message comes from.
#[derive(Debug, Clone)]
pub(crate) enum Made {
    /// From a prompt of this history.
    Prompt {
        /// The part of its label that comes from nothing in the history; all of it, where the prompt is
        /// not known.
        floor: Label,
        /// Which of the pieces before it the prompt showed.
        shown: Shown,
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
            // A prompt at a label that no region has (a check's, a limit's) does not make its step lower than it: the
            // rest stays whatever happens.
            floor: floor.join(&label.beyond(&from)),
            shown: Shown::of(labels.iter().map(|own| own.flows_to(label))),
        }
    }

    /// Whether it is known what it was made from.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            Self::Prompt { shown, .. } => shown.count > 0,
            Self::Call(_) => true,
        }
    }

    /// Under this label, whatever becomes of the rest of the history.
    pub(crate) fn fixed(floor: Label) -> Self {
        let shown = Shown::default();
        Self::Prompt { floor, shown }
    }

    /// The label that comes from there, by those of the pieces and calls before it.
    pub(crate) fn label(&self, labels: &[Label], calls: &Calls) -> Label {
        match self {
            Self::Prompt { floor, shown } => {
                let shown = labels.iter().zip(shown.iter());
                let shown = shown.filter_map(|(label, shown)| shown.then_some(label));
                floor.join(&shown.collect())
            }
            Self::Call(call) => calls
                .get(call)
                // A result of a call that is not there.
                .map_or(Label::top(), |(step, _)| step.clone()),
        }
    }
}

/// Which pieces of a history a prompt showed.
///
/// A step keeps it as long as the conversation lasts, and an app decides how many pieces there are: nothing where all
/// are shown, as in most prompts, and a bit for each otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    count: usize,
    /// As many pieces in each as it has bits; empty where all are shown.
    bits: Arc<[u64]>,
}

impl Shown {
    const EACH: usize = 64;

    fn of(shown: impl Iterator<Item = bool>) -> Self {
        let mut bits: Vec<u64> = Vec::new();
        let (mut count, mut all) = (0, true);
        for is_shown in shown {
            let bit = count % Self::EACH;
            if bit == 0 {
                bits.push(0);
            }
            if let Some(newest) = bits.last_mut() {
                *newest |= u64::from(is_shown) << bit;
            }
            all &= is_shown;
            count += 1;
        }
        if all {
            bits.clear();
        }
        let bits = bits.into();
        Self { count, bits }
    }

    fn iter(&self) -> impl Iterator<Item = bool> {
        let is_shown = |at: usize| match self.bits.get(at / Self::EACH) {
            Some(bits) => (bits >> (at % Self::EACH)) & 1 == 1,
            None => self.bits.is_empty(),
        };
        (0..self.count).map(is_shown)
    }
}

/// The label of each call's control part, and of its arguments.
pub(crate) type Calls = BTreeMap<CallId, (Label, Label)>;

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
    pub(crate) pieces: Vec<Piece>,
    /// What it was made from, if not from what the rest of its message was made from.
    pub(crate) made: Option<Made>,
    /// The label of what it was made from.
    restriction: Option<Label>,
    /// The user's yes to the call whose arguments it is.
    approval: Option<Arc<Approval>>,
    /// Whether it is empty beside calls: then it carries nothing beyond the message's existence, which is
    /// labelled itself, and is no region. That it is empty is something to hide only where it was made
    /// from more than the calls.
    pub(crate) is_silent: bool,
}

impl OwnText {
    /// A text, cut wherever its label changes.
    pub(crate) fn of(text: &Labeled) -> Self {
        let mut pieces = Vec::with_capacity(2 * text.regions().len() + 1);
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
    pub(crate) fn of_pictured(text: &Labeled, images: &[Pictured]) -> Self {
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
    pub(crate) fn approved(came: &Arguments, approval: &Arc<Approval>) -> Option<(Self, Labeled)> {
        let text = came.to_labeled();
        let mut own = Self::of(&approval.marked(text.reveal_tcb())?);
        for piece in &mut own.pieces {
            // `marked` has ⊤ where data is: everything else is what the user has read.
            piece.is_endorsed = piece.label.is_bottom();
            piece.label = text.slice(piece.span.clone())?.label();
        }
        own.approval = Some(approval.clone());
        Some((own, text))
    }

    /// The labels of its pieces.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Label> {
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
    pub(crate) fn restrict(&mut self, text: &mut Labeled, label: &Label) {
        self.restriction = Some(label.clone());
        let spans = self.pieces.iter().map(|piece| piece.span.clone());
        let is_region = !self.is_silent || self.made.is_some();
        text.relabel(spans.zip(self.labels()).filter(|_| is_region));
    }

    /// Its pieces in the region that has this span and label, by the labels that its pieces have now
    /// ([`OwnText::labels`]).
    pub(crate) fn within<'a>(
        &'a self,
        labels: &'a [Label],
        span: &'a Range<usize>,
        label: &'a Label,
    ) -> impl Iterator<Item = usize> + 'a {
        // Pieces are in order and do not overlap, as regions are: those of a region are neighbours. They are asked for
        // after each result and at each question, of a result with as many pieces as its app likes.
        let starts_before = |piece: &Piece| piece.span.start < span.start;
        let first = self.pieces.partition_point(starts_before);
        let pieces = self.pieces.get(first..).unwrap_or_default();
        let labels = labels.get(first..).unwrap_or_default();
        let inside = pieces.iter().zip(labels).zip(first..);
        let inside = inside.take_while(|((piece, _), _)| piece.span.end <= span.end);
        // An empty piece at its edge can be a region of its own.
        inside.filter_map(move |((_, own), at)| (own == label).then_some(at))
    }
}

/// The texts of a tool, as they came.
#[derive(Debug, Clone)]
pub(crate) struct OwnTool(pub(crate) [OwnText; 2]);

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
