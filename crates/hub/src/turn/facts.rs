//! The facts in a turn that is over.

use ifc::{Label, Labeled, Message, PromptMessage, redact};

use super::machine::TurnMachine;
use super::transcript::transcript;
use crate::memory::FactQuestion;

impl TurnMachine {
    /// What to ask a model for the facts in the turn that has just ended: one question at the label of
    /// what the user said, and one at the answer's, if it is another. Memories are not in them: their
    /// facts are known.
    #[must_use]
    pub fn fact_questions(&self) -> Vec<FactQuestion> {
        let messages: Vec<_> = self.history.messages().collect();
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
