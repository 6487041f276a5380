//! What an answer depends on that somebody else has written.

use ifc::{Dimension, Label, Labeled, Relevance, Sink, Source};

use super::machine::TurnMachine;
use crate::recognise::Shared;
use crate::trace::{AnswerSource, Text};

/// Parts of an answer that are quoted for one source.
const QUOTES: usize = 3;
/// Bytes that are compared with an answer. What is older is named, and not quoted.
const COMPARED: usize = 4 << 20;
/// Characters of a quotation.
const EXCERPT: usize = 160;

impl TurnMachine {
    /// The sources of untrusted text that an answer with this label may depend on, by their label and kind:
    /// first those that the screener left in, and of these first what the answer quotes. Empty if the answer is
    /// trusted.
    pub(super) fn sources(&self, text: &str, label: &Label) -> Vec<AnswerSource> {
        let trusted = self.lattice.whole(Dimension::Confidentiality);
        if label.flows_to(&trusted) {
            return Vec::new();
        }
        let shared = Shared::new(text);
        let mut compared = 0;
        let mut sources: Vec<AnswerSource> = Vec::new();
        let regions: Vec<_> = self.history.regions().collect();
        // The newest first: of what is compared at most so much, it is the likeliest to be quoted.
        for region in regions.into_iter().rev() {
            let derived = matches!(region.source, Source::Assistant | Source::Hub);
            if derived || !region.label.flows_to(label) || region.label.flows_to(&trusted) {
                continue;
            }
            let relevant = match &self.turn.relevance {
                Relevance::Everything => true,
                Relevance::Only(wanted) => wanted.contains(&region.id),
            };
            let label = self.names(region.label);
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

    /// The results that were hidden from an answer with this label, and that an answer may depend on: what
    /// is above the answers' limit is not even said to be there.
    pub(super) fn hidden(&self, label: &Label) -> Vec<AnswerSource> {
        let release = self.release(Labeled::trusted_tcb(""));
        let Ok(rule) = self.policy.rule(&Sink::Answer(&release)) else {
            return Vec::new();
        };
        let mut hidden: Vec<AnswerSource> = Vec::new();
        for region in self.history.regions() {
            let is_result = matches!(region.source, Source::Tool(_));
            if !is_result || region.label.flows_to(label) || !region.label.flows_to(&rule.limit) {
                continue;
            }
            let one = AnswerSource {
                source: region.source,
                label: self.names(region.label),
                relevant: false,
                quotes: Vec::new(),
            };
            if !hidden.contains(&one) {
                hidden.push(one);
            }
        }
        hidden
    }
}

fn excerpt(part: &str) -> String {
    let mut chars = part.chars();
    let mut excerpt: String = chars.by_ref().take(EXCERPT).collect();
    if chars.next().is_some() {
        excerpt.push('…');
    }
    excerpt
}
