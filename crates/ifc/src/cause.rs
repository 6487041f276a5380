//! Why a call is not allowed: the regions that stand in its way.

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
    /// Whether the step's screener left it in, or nothing else explains one of its taints. What is not
    /// relevant is named all the same: a screener can be swayed by the very text that it leaves out.
    pub relevant: bool,
    /// Its other regions.
    more: Vec<RegionId>,
}

impl Cause {
    /// The numbers of its regions.
    pub fn regions(&self) -> impl Iterator<Item = RegionId> {
        std::iter::once(self.region).chain(self.more.iter().copied())
    }

    /// Characters of a cause that a question carries: enough to recognise, short enough to read.
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
    /// The beginning of its text, [`Cause::EXCERPT`] characters at most, with its label.
    #[must_use]
    pub fn excerpt(&self) -> Labeled {
        Labeled::label_tcb(excerpt(self.reveal_tcb()), self.label.clone())
    }
}

impl History {
    /// The regions that some part of a flow may depend on, and that do not flow to that part's limit:
    /// why a call is not allowed. Regions of one text with one label are one cause.
    ///
    /// What the model itself wrote, and what the hub answered in an app's place, is left out: its
    /// taints come from regions that are listed. What a screener found not to be relevant is marked
    /// so, as long as the rest has all of its taints beyond the limit: no taint is without a relevant
    /// cause.
    pub fn causes(&self, parts: &[Part<'_>], relevance: &Relevance) -> Vec<Cause> {
        let exceeding: Vec<&Part<'_>> = parts.iter().filter(|part| part.exceeds()).collect();
        if exceeding.is_empty() {
            return Vec::new();
        }
        // Its taints that are beyond the limit of a part which may depend on it.
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
        let mut found: Vec<Found<'_>> = Vec::new();
        // The taints of the regions that the screener left in.
        let mut explained = Label::bottom();
        for (region, origin, text, span, label) in self.numbered() {
            // What a model wrote has its taints from a region that is listed; to quote it would show the attacker's text
            // in the assistant's words.
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
            // Regions come text by text, so only the newest causes can be of this one.
            let of_text = |found: &&mut Found<'_>| std::ptr::eq(found.text, text);
            let mut of_text = found.iter_mut().rev().take_while(of_text);
            match of_text.find(|found| found.label == label && found.relevant == left_in) {
                Some(found) => {
                    found.more.push(region);
                    if found.shown.len() < Cause::EXCERPT {
                        found.shown.push_str(" … ");
                        found.shown.push_str(piece);
                    }
                }
                None => found.push(Found {
                    text,
                    label,
                    excess,
                    region,
                    more: Vec::new(),
                    origin,
                    relevant: left_in,
                    shown: piece.to_owned(),
                }),
            }
        }
        // A screener reads what attacks it and may leave out the region that is to blame. So a taint that no chosen
        // region has makes each region with it relevant.
        for found in &mut found {
            found.relevant |= !found.excess.flows_to(&explained);
        }
        found.into_iter().map(Found::cause).collect()
    }
}

/// A cause while its regions are gathered.
struct Found<'a> {
    text: &'a Labeled,
    label: &'a Label,
    /// Its taints beyond the limits.
    excess: Label,
    region: RegionId,
    more: Vec<RegionId>,
    origin: Origin<'a>,
    relevant: bool,
    shown: String,
}

impl Found<'_> {
    fn cause(self) -> Cause {
        let mut shown = self.shown;
        shown.truncate(excerpt(&shown).len());
        Cause {
            region: self.region,
            source: self.origin.source(),
            excerpt: Labeled::label_tcb(shown, self.label.clone()),
            relevant: self.relevant,
            more: self.more,
        }
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
