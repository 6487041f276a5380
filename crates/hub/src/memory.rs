//! Long-term memory (SecGPT appendix C): what a conversation recalls, and what is stored of it.
//!
//! A turn begins with memories that match the user's query. They are chosen label by label: an entry is recalled if it is
//! among the best for a reader at its own label. So a prompt at L shows a function of the memories and of the query's
//! words below L. A single search over all labels would reveal which entries below L were displaced by entries above.

mod facts;

use std::collections::BTreeSet;
use std::fmt;

use ifc::{Label, Labeled};

pub use facts::{Fact, FactQuestion};

/// Names one memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryId(pub [u8; 16]);

impl fmt::Display for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A memory that was found. `Debug` does not show its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Memory {
    /// Its name.
    pub id: MemoryId,
    /// The label of everything in it.
    pub label: Label,
    /// When it was made, in milliseconds since 1970. Only compared.
    pub time: i64,
    /// Day, apps and speaker, in the hub's words: `2026-11-21, with mail, the user said`.
    pub origin: String,
    /// Its text.
    pub text: String,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, label, .. } = self;
        write!(f, "Memory({id}, {label:?}, {} bytes)", self.text.len())
    }
}

/// The memories that a conversation may read.
pub trait Archive {
    /// The labels that memories have, each once.
    ///
    /// # Errors
    /// They cannot be read.
    fn labels(&self) -> Result<Vec<Label>, String>;

    /// The memories that answer these words best, best first, with their scores. Both are a function
    /// of the words and of the memories that flow to `at`.
    ///
    /// # Errors
    /// They cannot be read.
    fn search(&self, words: &str, at: &Label, most: usize) -> Result<Vec<(Memory, f64)>, String>;
}

/// Memories that one query recalls at one label: a few lines, which a small model can still tell from the question.
const MAX_RECALLED: usize = 3;

/// Results of one search: a conversation knows the newest ones already.
const CANDIDATES: usize = 32;

/// The memories of one conversation: the entries that it made and those that it recalled.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// Oldest first.
    entries: Vec<Known>,
    /// Facts that were found in it. The conversation has their words.
    facts: BTreeSet<MemoryId>,
}

#[derive(Debug, Clone)]
struct Known {
    id: MemoryId,
    /// As it is stored: without endorsements.
    label: Label,
    sources: Vec<MemoryId>,
}

impl Thread {
    /// The memories that answer this query and that the conversation does not know, oldest first. Entries at ⊤ are
    /// for the user alone, and are never recalled.
    ///
    /// # Errors
    /// The archive cannot be read: nothing is recalled.
    pub fn recall(&self, archive: &dyn Archive, query: &Labeled) -> Result<Vec<Memory>, String> {
        let mut known: BTreeSet<MemoryId> = self.entries.iter().map(|known| known.id).collect();
        known.extend(&self.facts);
        let mut found: Vec<Memory> = Vec::new();
        for level in archive.labels()? {
            // Only the words below the level: a pasted secret would show by the memories that it finds.
            let words = content_words(&below(query, &level));
            if level.is_top() || words.is_empty() {
                continue;
            }
            let ranked = archive.search(&words, &level, CANDIDATES)?;
            // The best of all, known ones included: else a weak match would pass once the good ones are known.
            let best = ranked.first().map_or(0.0, |(_, score)| *score);
            // Anything less than half as good as the best matches by accident.
            let good = ranked.into_iter().filter(|(_, score)| score * 2.0 >= best);
            let new = good.filter(|(memory, _)| !known.contains(&memory.id));
            let chosen = new.take(MAX_RECALLED).map(|(memory, _)| memory);
            // Entries below were chosen, or not, at their own labels.
            found.extend(chosen.filter(|memory| memory.label == level));
        }
        // The order of two memories depends on them alone.
        found.sort_by_key(|memory| (memory.time, memory.id));
        Ok(found)
    }

    /// Notes that the conversation shows these memories.
    pub fn record_recalled(&mut self, found: &[Memory]) {
        for memory in found {
            self.record_entry(memory.id, &memory.label, Vec::new());
        }
    }

    /// Notes an entry that was stored of this conversation, with its sources: none for the user's words, and those
    /// [visible](Self::visible_at) at its label for a model's.
    pub fn record_entry(&mut self, id: MemoryId, label: &Label, sources: Vec<MemoryId>) {
        let label = label.unendorsed();
        self.entries.push(Known { id, label, sources });
    }

    /// The sources of a text that a model makes of a prompt at this label: every entry of this conversation that the
    /// prompt shows, without those that are sources of another.
    pub fn visible_at(&self, label: &Label) -> Vec<MemoryId> {
        let mut sources = Vec::new();
        let mut covered: BTreeSet<MemoryId> = BTreeSet::new();
        // An entry outlives the user's endorsement, so it is stored without: a label that flows to an endorsed one also
        // flows to the same taints without endorsements.
        let label = label.unendorsed();
        let shown = |known: &&Known| known.label.flows_to(&label);
        // Newest first: the sources of an entry were noted before it.
        for known in self.entries.iter().rev().filter(shown) {
            if covered.insert(known.id) {
                sources.push(known.id);
            }
            // Also for an entry that is covered itself: its sources are covered through it.
            covered.extend(&known.sources);
        }
        sources
    }

    /// Notes a fact that a model found in this turn. No prompt of this conversation shows it, so it is no source here.
    pub fn record_fact(&mut self, id: MemoryId) {
        self.facts.insert(id);
    }

    /// The sources of facts that were found in a prompt at a label: the entry of the user's words, if the prompt
    /// showed those alone and they are stored.
    pub fn sources_of(&self, label: &Label, of_user: Option<MemoryId>) -> Vec<MemoryId> {
        let kept = |id: &MemoryId| self.entries.iter().any(|known| known.id == *id);
        match of_user.filter(kept) {
            Some(said) => vec![said],
            // A model's text may follow from everything that it was shown.
            None => self.visible_at(label),
        }
    }

    /// Takes over the entries of another conversation, whose words reach this one.
    pub fn absorb(&mut self, other: &Self) {
        for known in &other.entries {
            if self.entries.iter().all(|own| own.id != known.id) {
                self.entries.push(known.clone());
            }
        }
        self.facts.extend(&other.facts);
    }
}

/// Words that occur in every question and would find any memory. Only English is covered; in other languages more is
/// recalled than needed.
const STOP_WORDS: &str = " a about after all also am an and any are as at be been before but by can \
    could did do does find for from get give had has have he her him his how i if in into is it its let \
    make may me my no not of off on or our out over please put say said she should show so tell than \
    that the their them then there these they this to up us was we were what when where which who whom \
    whose why will with would you your ";

/// The words of a query without the stop words.
fn content_words(query: &str) -> String {
    let mut told = String::new();
    for word in query.split(|c: char| !c.is_alphanumeric()) {
        let lower = word.to_lowercase();
        if !word.is_empty() && !STOP_WORDS.contains(&format!(" {lower} ")) {
            told.push_str(word);
            told.push(' ');
        }
    }
    told
}

/// The words of a text that flow to `label`.
fn below(text: &Labeled, label: &Label) -> String {
    let whole = text.reveal_tcb();
    let mut words = String::new();
    let mut at = 0;
    for (span, own) in text.regions() {
        words.push_str(whole.get(at..span.start).unwrap_or_default());
        // A space, so that the words beside an omission stay apart.
        words.push(' ');
        if own.flows_to(label) {
            words.push_str(whole.get(span.clone()).unwrap_or_default());
            words.push(' ');
        }
        at = span.end;
    }
    words.push_str(whole.get(at..).unwrap_or_default());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_what_it_is_about() {
        for (query, expected) in [
            ("When is the delivery?", "delivery "),
            (
                "What did Ben's mail say about Heron-3",
                "Ben s mail Heron 3 ",
            ),
            ("Wann kommt die Lieferung", "Wann kommt die Lieferung "),
            ("who are you?", ""),
        ] {
            assert_eq!(content_words(query), expected, "{query}");
        }
    }

    fn id(number: u8) -> MemoryId {
        MemoryId([number; 16])
    }

    fn user_said(thread: &mut Thread, id: MemoryId, label: &Label) {
        thread.record_entry(id, label, Vec::new());
    }

    /// Keeps what a model made, and says from what.
    fn model_made(thread: &mut Thread, id: MemoryId, label: &Label) -> Vec<MemoryId> {
        let sources = thread.visible_at(label);
        thread.record_entry(id, label, sources.clone());
        sources
    }

    /// What a model said follows from everything that it was shown, each source once.
    #[test]
    fn an_answer_is_made_from_what_its_prompt_could_show() {
        let (low, high) = (Label::bottom(), Label::top());
        let mut thread = Thread::default();
        user_said(&mut thread, id(1), &low);
        assert_eq!(model_made(&mut thread, id(2), &low), [id(1)]);
        user_said(&mut thread, id(3), &high);
        // By way of the earlier answer it goes back to the first query.
        assert_eq!(model_made(&mut thread, id(4), &high), [id(3), id(2)]);
        user_said(&mut thread, id(5), &low);
        // What is above was masked.
        assert_eq!(model_made(&mut thread, id(6), &low), [id(5), id(2)]);
        let mut other = Thread::default();
        user_said(&mut other, id(7), &low);
        other.absorb(&thread);
        assert_eq!(
            model_made(&mut other, id(8), &high),
            [id(6), id(4), id(7)],
            "everything else is the source of one of these"
        );
    }

    /// A memory knows no endorsement, and a prompt shows a text whether the user has vouched for it before or after
    /// it was kept.
    #[test]
    fn what_the_user_vouches_for_stays_a_source() {
        let lattice = ifc::Lattice::four_point();
        let plain = lattice.label("untrusted").unwrap();
        let endorsed = plain.endorse_tcb(&plain, 1);
        let other = plain.endorse_tcb(&plain, 2);
        let mut thread = Thread::default();
        assert_eq!(model_made(&mut thread, id(1), &plain), []);
        assert_eq!(model_made(&mut thread, id(2), &endorsed), [id(1)]);
        user_said(&mut thread, id(3), &endorsed);
        assert_eq!(model_made(&mut thread, id(4), &other), [id(3), id(2)]);
        assert_eq!(thread.visible_at(&plain), [id(4)]);
        // A secret is no less one for it.
        let secret = lattice.label("secret").unwrap();
        user_said(&mut thread, id(5), &secret);
        assert_eq!(thread.visible_at(&endorsed), [id(4)]);
    }
}
