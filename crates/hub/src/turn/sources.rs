//! The untrusted texts that an answer depends on.

use ifc::{Dimension, History, Labeled, Lattice, Relevance, Source};

use crate::recognise::Shared;
use crate::trace::{AnswerSource, Text};

/// Parts of an answer that are quoted for one source.
const QUOTES: usize = 3;
/// Bytes that are compared with an answer. Older texts are named, and not quoted.
const COMPARED: usize = 4 << 20;
/// Characters of a quotation.
const EXCERPT: usize = 160;

/// The sources of untrusted text that an answer with this label may depend on, by their label and kind:
/// first those that the screener left in, and of these first what the answer quotes. Empty if the answer is
/// trusted.
pub(super) fn sources(
    history: &History,
    lattice: &Lattice,
    relevance: &Relevance,
    answer: &Labeled,
) -> Vec<AnswerSource> {
    let (text, label) = (answer.reveal_tcb(), &answer.label());
    let trusted = lattice.whole(Dimension::Confidentiality);
    if label.flows_to(&trusted) {
        return Vec::new();
    }
    let shared = Shared::new(text);
    let mut compared = 0;
    let mut sources: Vec<AnswerSource> = Vec::new();
    let regions: Vec<_> = history.regions().collect();
    // The newest first: of what is compared at most so much, it is the likeliest to be quoted.
    for region in regions.into_iter().rev() {
        let derived = matches!(region.source, Source::Assistant | Source::Hub);
        if derived || !region.label.flows_to(label) || region.label.flows_to(&trusted) {
            continue;
        }
        let relevant = match relevance {
            Relevance::Everything => true,
            Relevance::Only(wanted) => wanted.contains(&region.id),
        };
        let label = lattice.describe(region.label);
        let same = |known: &AnswerSource| known.source == region.source && known.label == label;
        let content = region.reveal_tcb();
        let at = sources.iter().position(same).unwrap_or_else(|| {
            sources.push(AnswerSource {
                source: region.source,
                label,
                relevant: false,
                quotes: Vec::new(),
            });
            sources.len() - 1
        });
        let Some(known) = sources.get_mut(at) else {
            continue;
        };
        known.relevant |= relevant;
        // A comparison that finds something costs what the answer is long, and an app decides how many regions
        // its result has: of one source there are at most so many that count.
        if known.quotes.len() >= QUOTES {
            continue;
        }
        compared += content.len();
        if compared <= COMPARED {
            let parts = shared.within(content).into_iter();
            let quotes = parts.filter_map(|part| text.get(part));
            known
                .quotes
                .extend(quotes.map(|part| Text::from(excerpt(part))));
            known.quotes.truncate(QUOTES);
        }
    }
    let described = |source: &AnswerSource| matches!(source.source, Source::Description(_));
    sources.sort_by_key(|one| (!one.relevant, one.quotes.is_empty(), described(one)));
    sources
}

fn excerpt(part: &str) -> String {
    let mut chars = part.chars();
    let mut excerpt: String = chars.by_ref().take(EXCERPT).collect();
    if chars.next().is_some() {
        excerpt.push('…');
    }
    excerpt
}
