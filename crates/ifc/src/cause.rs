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
    /// All of its regions.
    pub(crate) regions: Vec<RegionId>,
}

impl Cause {
    /// The numbers of its regions.
    #[must_use]
    pub fn regions(&self) -> &[RegionId] {
        &self.regions
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
        // Its taints that are beyond the limit of a part which may depend on it.
        let excess = |own: &Label| {
            let of = exceeding.iter().filter(|part| own.flows_to(&part.label));
            of.fold(Label::bottom(), |all, part| {
                all.join(&own.beyond(part.limit))
            })
        };
        let beyond = || {
            self.numbered().filter(|(_, origin, _, _, own)| {
                // What a model wrote has its taints from a region that is listed; to quote it would show the attacker's
                // text in the assistant's words.
                let derived = matches!(origin, Origin::Assistant | Origin::Hub);
                !derived && !excess(own).is_bottom()
            })
        };
        let left_in = |region: &RegionId| match relevance {
            Relevance::Everything => true,
            Relevance::Only(wanted) => wanted.contains(region),
        };
        // A screener reads what attacks it and may leave out the region that is to blame. So a taint that no chosen
        // region has makes each region with it relevant.
        let explained: Label = beyond()
            .filter(|(region, ..)| left_in(region))
            .map(|(_, _, _, _, own)| own)
            .collect();
        let mut found: Vec<Found<'_>> = Vec::new();
        for (region, origin, text, span, label) in beyond() {
            let relevant = left_in(&region) || !excess(label).flows_to(&explained);
            let piece = excerpt(text.reveal_tcb().get(span).unwrap_or_default());
            // Regions come text by text, so only the newest causes can be of this one.
            let of_text = |found: &&mut Found<'_>| std::ptr::eq(found.text, text);
            let mut of_text = found.iter_mut().rev().take_while(of_text);
            match of_text.find(|found| found.label == label && found.relevant == relevant) {
                Some(found) => {
                    found.regions.push(region);
                    if found.shown.len() < Cause::EXCERPT {
                        found.shown.push_str(" … ");
                        found.shown.push_str(piece);
                    }
                }
                None => found.push(Found {
                    text,
                    label,
                    regions: vec![region],
                    region,
                    origin,
                    relevant,
                    shown: piece.to_owned(),
                }),
            }
        }
        found.into_iter().map(Found::cause).collect()
    }
}

/// A cause while its regions are gathered.
struct Found<'a> {
    text: &'a Labeled,
    label: &'a Label,
    region: RegionId,
    regions: Vec<RegionId>,
    origin: Origin<'a>,
    relevant: bool,
    shown: String,
}

impl Found<'_> {
    fn cause(self) -> Cause {
        Cause {
            region: self.region,
            source: self.origin.source(),
            excerpt: Labeled::label_tcb(excerpt(&self.shown), self.label.clone()),
            relevant: self.relevant,
            regions: self.regions,
        }
    }
}

/// The first [`Cause::EXCERPT`] characters.
fn excerpt(text: &str) -> &str {
    // A character has at least one byte, so a short text need not be counted.
    if text.len() <= Cause::EXCERPT {
        return text;
    }
    let end = text.char_indices().nth(Cause::EXCERPT);
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}
