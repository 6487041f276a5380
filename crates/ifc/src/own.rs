//! Texts as they came, before the labels of what they were made from restricted them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::image::Pictured;
use crate::{Approval, ArgumentPath, Arguments, CallId, Label, Labeled, Tool};

/// Where the label of a message comes from.
#[derive(Debug, Clone)]
pub(crate) enum Made {
    /// From a prompt of this history.
    Prompt {
        /// The part of its label that comes from nothing in the history; all of it if the prompt is not known.
        floor: Label,
        /// Which of the labels before it ([`crate::History::labels_before`]) the prompt showed.
        shown: Shown,
    },
    /// From the step that made this call.
    Call(CallId),
}

impl Made {
    /// From the prompt at `label` over a history with these labels.
    pub(crate) fn at(label: &Label, floor: &Label, labels: &[Label]) -> Self {
        let shown = labels.iter().filter(|own| own.flows_to(label));
        let from: Label = std::iter::once(floor).chain(shown).collect();
        Self::Prompt {
            // The part of the label that nothing in the prompt has (from a check or a limit) stays.
            floor: floor.join(&label.beyond(&from)),
            shown: Shown::of(labels.iter().map(|own| own.flows_to(label))),
        }
    }

    /// Whether its origin is known.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            Self::Prompt { shown, .. } => shown.count > 0,
            Self::Call(_) => true,
        }
    }

    /// Under a label that stays.
    pub(crate) fn fixed(floor: Label) -> Self {
        let shown = Shown::default();
        Self::Prompt { floor, shown }
    }

    /// The label that follows from the labels and calls before it.
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

/// Which of the labels of a history a prompt showed. Each step keeps one, and an app decides how many labels there are,
/// so it is small: a bit for each, and nothing if all are shown, as in most prompts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    count: usize,
    /// Empty if all are shown.
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
    /// Whether it is of a control part whose label is lower than that of its step.
    is_control: bool,
}

/// The data from which the labels of a text are computed.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnText {
    pub(crate) pieces: Vec<Piece>,
    /// Where its label comes from, if not from where the label of its message comes from.
    pub(crate) made: Option<Made>,
    /// The label that restricts all of it.
    restriction: Option<Label>,
    /// The user's approval of the call whose arguments it is.
    approval: Option<Arc<Approval>>,
    /// Where the label of the control part comes from, if the call came out again from less than its step was made from,
    /// and that label.
    pub(crate) remade: Option<(Made, Label)>,
    /// Whether it is empty beside calls. It is no region then, since it says no more than the existence of the message,
    /// unless it was made from more than the calls.
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
                is_control: false,
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

    /// A text with images at its end, whose notes are pieces of their own.
    pub(crate) fn of_pictured(text: &Labeled, images: &[Pictured]) -> Self {
        let Some(first) = images.first() else {
            return Self::of(text);
        };
        let words = text.slice(0..first.span.start);
        let mut own = Self::of(&words.unwrap_or(Labeled::unknown("")));
        own.pieces.extend(images.iter().map(|it| Piece {
            span: it.span.clone(),
            label: it.label_in(text),
            is_control: false,
        }));
        own
    }

    /// The arguments of a call that the user has approved, and their canonical text. Blanks and the order of names may
    /// depend on more than the user has read.
    pub(crate) fn approved(came: &Arguments, approval: &Arc<Approval>) -> Option<(Self, Labeled)> {
        // The user has read everything but the data.
        let (mut own, text) = Self::in_parts(came, approval.data())?;
        own.approval = Some(approval.clone());
        Some((own, text))
    }

    /// The arguments of a call, cut where data arguments begin and end, and their canonical text.
    pub(crate) fn in_parts(
        came: &Arguments,
        data: &BTreeSet<ArgumentPath>,
    ) -> Option<(Self, Labeled)> {
        let text = came.to_labeled();
        let unlabelled = Arguments::parse(text.reveal_tcb(), &Label::bottom()).ok()?;
        let data = data.iter();
        let marked = data.fold(unlabelled, |all, path| all.restrict_at(path, &Label::top()));
        let mut own = Self::of(&marked.to_labeled());
        for piece in &mut own.pieces {
            piece.is_control = piece.label.is_bottom();
            piece.label = text.slice(piece.span.clone())?.label();
        }
        Some((own, text))
    }

    /// The text with the labels that it came with.
    pub(crate) fn came(&self, text: &Labeled) -> Labeled {
        let mut came = text.clone();
        let pieces = self.pieces.iter().filter(|_| !self.is_silent);
        came.relabel(pieces.map(|piece| (piece.span.clone(), piece.label.clone())));
        came
    }

    /// The labels of its pieces.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Label> {
        let pieces = self.pieces.iter();
        pieces.map(|piece| {
            let label = match &self.restriction {
                Some(label) => piece.label.join(label),
                None => piece.label.clone(),
            };
            match (&self.remade, &self.approval) {
                (Some((_, remade)), _) if piece.is_control => piece.label.join(remade),
                (None, Some(approval)) if piece.is_control => approval.label(&label),
                _ => label,
            }
        })
    }

    /// Lays the labels of the text as it came, restricted by `label`, over the text.
    pub(crate) fn restrict(&mut self, text: &mut Labeled, label: &Label) {
        self.restriction = Some(label.clone());
        let spans = self.pieces.iter().map(|piece| piece.span.clone());
        let is_region = !self.is_silent || self.made.is_some();
        text.relabel(spans.zip(self.labels()).filter(|_| is_region));
    }

    /// The numbers of its pieces in the region with this span and label. `labels` are those of [`OwnText::labels`].
    pub(crate) fn within<'a>(
        &'a self,
        labels: &'a [Label],
        span: &'a Range<usize>,
        label: &'a Label,
    ) -> impl Iterator<Item = usize> + 'a {
        // By bisection, since an app decides how many pieces its result has.
        let starts_before = |piece: &Piece| piece.span.start < span.start;
        let first = self.pieces.partition_point(starts_before);
        let pieces = self.pieces.get(first..).unwrap_or_default();
        let labels = labels.get(first..).unwrap_or_default();
        let inside = pieces.iter().zip(labels).zip(first..);
        let inside = inside.take_while(|((piece, _), _)| piece.span.end <= span.end);
        // An empty piece at the edge can be a region of its own, with another label.
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

    /// Restricts the texts of a tool by the label of its name.
    pub(crate) fn restrict(&mut self, tool: &mut Tool) {
        let Self([description, parameters]) = self;
        description.restrict(&mut tool.description, &tool.label);
        parameters.restrict(&mut tool.parameters, &tool.label);
    }
}
