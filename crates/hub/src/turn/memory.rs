//! What a conversation recalls before a turn and leaves behind after it.

use ifc::{Decision, Label, Labeled, MemoryWrite, Message, Permit, PromptMessage, redact};

use super::machine::TurnMachine;
use super::summary::transcript;
use crate::memory::{FactQuestion, Memory, MemoryId};
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
            self.guard.history.push_memory(&memory.label, line);
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
        let reason = match self
            .guard
            .decide(&self.turn.relevance, MemoryWrite { apps, text })
        {
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

    /// What to ask a model for the facts in the turn that has just ended: one question at the label of
    /// what the user said, and one at the answer's, if it is another. Memories are not in them: their
    /// facts are known.
    #[must_use]
    pub fn fact_questions(&self) -> Vec<FactQuestion> {
        let messages: Vec<_> = self.guard.history.messages().collect();
        let is_user = |(_, message): &(&Label, &Message)| matches!(message, Message::User(_));
        let Some(begin) = messages.iter().rposition(is_user) else {
            return Vec::new();
        };
        let mut labels: Vec<Label> = Vec::new();
        for (_, message) in messages.iter().skip(begin) {
            let label = match message {
                Message::User(text) => text.label(),
                Message::Assistant { text, calls } if calls.is_empty() => text.label(),
                _ => continue,
            };
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        let turn = self
            .guard
            .history
            .part(begin..messages.len(), &Labeled::trusted_tcb(""));
        let limit = self.settings.limits.prompt_bytes;
        let question = |label: &Label| {
            let prompt = redact(&turn, label);
            let mut rest = prompt.messages().iter();
            let of_user = rest.all(|message| {
                matches!(message, PromptMessage::System(_) | PromptMessage::User(_))
            });
            FactQuestion::new(transcript(&prompt, limit), of_user, label)
        };
        // ⊤ is for the user's eyes alone, and recalled by nobody.
        let labels = labels.iter().filter(|label| !label.is_top());
        labels.map(question).collect()
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
