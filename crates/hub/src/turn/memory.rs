//! What a conversation recalls before a turn and leaves behind after it.

use ifc::{Decision, Labeled, MemoryWrite, Permit};

use super::machine::TurnMachine;
use crate::memory::{Memory, MemoryId};
use crate::trace::{Event, Recalled};

/// Characters of one memory that a prompt shows.
const CHARACTERS: usize = 600;

/// Bytes of one text that are kept: an answer, or a long mail that was pasted.
const KEPT: usize = 16 << 10;

impl TurnMachine {
    /// Tells the conversation what it is to remember in the next turn, before the user speaks.
    pub fn recall(&mut self, memories: &[Memory]) {
        if memories.is_empty() {
            return;
        }
        let named = memories.iter().map(|memory| Recalled {
            id: memory.id.to_string(),
            origin: memory.origin.clone(),
            label: self.names(&memory.label),
        });
        let named = named.collect();
        self.events.push(Event::Recalled { memories: named });
        for memory in memories {
            // It gets its label there.
            let line = Labeled::trusted_tcb(line(memory));
            self.history.push_memory(&memory.label, line);
        }
    }

    /// Asks the monitor whether a text of this conversation may be remembered. `None`: it may not,
    /// which is in the trace. Nobody is asked: that would be a question after each turn.
    pub fn remember(&mut self, id: MemoryId, text: &Labeled) -> Option<Permit<MemoryWrite>> {
        let apps = self.apps.names();
        let text = cut(text);
        let label = self.names(&text.label());
        let bytes = text.len();
        // Cut before it is decided on: the permit is for the very bytes that are kept.
        let reason = match self.decide(MemoryWrite { apps, text }) {
            Decision::Allow(permit) => {
                let id = id.to_string();
                self.events.push(Event::Remembered { id, label, bytes });
                return Some(permit);
            }
            Decision::Ask(question) => format!("above the limit of {}", question.rule().name),
            Decision::Deny(denial) => denial.to_string(),
        };
        let reason = reason.into();
        self.events.push(Event::NotRemembered { label, reason });
        None
    }
}

/// A memory as a prompt shows it. Quoted, so that its text cannot end its line.
fn line(memory: &Memory) -> String {
    let Memory { origin, text, .. } = memory;
    let mut shown: String = text.chars().take(CHARACTERS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let quoted = serde_json::Value::from(shown);
    format!("- {origin}: {quoted}\n")
}

/// The beginning of a text that is too long to keep.
fn cut(text: &Labeled) -> Labeled {
    let end = text.reveal_tcb().floor_char_boundary(KEPT);
    match text.slice(0..end) {
        Some(cut) if end < text.len() => Labeled::concat([&cut, &Labeled::trusted_tcb(" […]")])
            // That it was longer is as secret as the rest.
            .restrict(&text.label()),
        _ => text.clone(),
    }
}
