//! Why a call is not allowed: the regions that are in its way.

use std::collections::BTreeSet;

use crate::message::Origin;
use crate::{History, Label, Labeled, Part, RegionId, RegionRef, Relevance, Source};

/// A region that keeps a call from being allowed, as the user is shown it.
#[derive(Clone, PartialEq, Eq)]
pub struct Cause {
    /// The number of its first region in the history.
    pub region: RegionId,
    /// Where it comes from.
    pub source: Source,
    /// The text of its regions, shortened to [`Cause::EXCERPT`] characters, with its label.
    pub excerpt: Labeled,
    /// Whether the step's screener left it in, or nothing else explains one of its taints. Other causes are named as well,
    /// since a screener can be swayed by the text that it leaves out.
    pub relevant: bool,
    /// Its other regions.
    more: Vec<RegionId>,
}

impl Cause {
    /// The numbers of its regions.
    pub fn regions(&self) -> impl Iterator<Item = RegionId> {
        std::iter::once(self.region).chain(self.more.iter().copied())
    }

    /// Most characters of a cause in a question.
    pub const EXCERPT: usize = 240;
}

impl std::fmt::Debug for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Cause({:?}, {:?}, {:?})",
            self.region, self.source, self.excerpt
        )
    }
}

impl RegionRef<'_> {
    /// The first [`Cause::EXCERPT`] characters of its text, with its label.
    #[must_use]
    pub fn excerpt(&self) -> Labeled {
        Labeled::label_tcb(excerpt(self.reveal_tcb()), self.label.clone())
    }
}

impl History {
    /// The regions on which a part of a flow may depend and that do not flow to that part's limit. Regions of one text with
    /// one label are one cause.
    ///
    /// Texts of the model and of the hub are left out: their taints come from other regions. A region that the screener
    /// left out is marked as not relevant, unless it has a taint that no relevant region has.
    pub fn causes(&self, parts: &[Part<'_>], relevance: &Relevance) -> Vec<Cause> {
        let exceeding: Vec<&Part<'_>> = parts.iter().filter(|part| part.exceeds()).collect();
        if exceeding.is_empty() {
            return Vec::new();
        }
        // The taints beyond the limit of a part that may depend on them.
        let excess = |own: &Label| {
            let of = exceeding.iter().filter(|part| own.flows_to(&part.label));
            of.fold(Label::bottom(), |all, part| {
                all.join(&own.beyond(part.limit))
            })
        };
        let left_in = |region: &RegionId| match relevance {
            Relevance::Everything => true,
            Relevance::Only(wanted) => wanted.contains(region),
        };
        // Each with its text and label in the history and its taints beyond the limits, and the text to show.
        let mut found: Vec<(&Labeled, &Label, Label, String, Cause)> = Vec::with_capacity(64);
        // The taints of the regions that the screener left in.
        let mut explained = Label::bottom();
        for (region, origin, text, span, label) in self.numbered() {
            // A quote of the model would show an attacker's text as the assistant's words.
            if matches!(origin, Origin::Assistant | Origin::Hub) {
                continue;
            }
            let excess = excess(label);
            if excess.is_bottom() {
                continue;
            }
            let left_in = left_in(&region);
            if left_in {
                explained.absorb(label);
            }
            let piece = excerpt(text.reveal_tcb().get(span).unwrap_or_default());
            // Regions come text by text, so only the newest causes can be of this text.
            let known = found.iter_mut().rev();
            let mut known = known.take_while(|(of, ..)| std::ptr::eq(*of, text));
            match known.find(|(_, own, .., cause)| *own == label && cause.relevant == left_in) {
                Some((.., shown, cause)) => {
                    cause.more.push(region);
                    if shown.len() < Cause::EXCERPT {
                        shown.push_str(" … ");
                        shown.push_str(piece);
                    }
                }
                None => {
                    let cause = Cause {
                        region,
                        source: origin.source(),
                        excerpt: Labeled::trusted_tcb(""),
                        relevant: left_in,
                        more: Vec::new(),
                    };
                    // With room for a few short pieces.
                    let mut shown = String::with_capacity(piece.len().max(64));
                    shown.push_str(piece);
                    found.push((text, label, excess, shown, cause));
                }
            }
        }
        let found = found.into_iter();
        let causes = found.map(|(_, label, excess, mut shown, mut cause)| {
            // A screener reads texts that attack it, and may leave out the true cause. So each region with a taint that no
            // chosen region has is relevant.
            cause.relevant |= !excess.flows_to(&explained);
            shown.truncate(excerpt(&shown).len());
            cause.excerpt = Labeled::label_tcb(shown, label.clone());
            cause
        });
        causes.collect()
    }
}

impl History {
    /// The complete texts of causes, each with its source and without its labels, by which two questions are compared.
    /// Unlike regions they stay the same when labels change.
    pub(crate) fn texts_of(&self, causes: &[Cause]) -> Vec<Labeled> {
        let regions: BTreeSet<RegionId> = causes.iter().flat_map(Cause::regions).collect();
        let numbered = self.numbered().filter(|(id, ..)| regions.contains(id));
        let texts = numbered.map(|(_, origin, text, span, _)| {
            let words = text.reveal_tcb().get(span).unwrap_or_default();
            Labeled::trusted_tcb(format!("{}\n{words}", origin.source()))
        });
        texts.collect()
    }
}

/// The first [`Cause::EXCERPT`] characters.
fn excerpt(text: &str) -> &str {
    // A character has at least one byte, so a short text need not be counted.
    if text.len() <= Cause::EXCERPT {
        return text;
    }
    if let Some(start) = text.get(..Cause::EXCERPT).filter(|start| start.is_ascii()) {
        return start;
    }
    let end = text.char_indices().nth(Cause::EXCERPT);
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}
