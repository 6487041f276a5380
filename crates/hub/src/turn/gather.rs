//! Several apps were asked the same, each by itself; what they said is put together.

use ifc::{Label, Labeled};

use super::machine::TurnMachine;
use crate::Misuse;

/// The arguments of a consultation in the history: the query stands above it.
const NO_ARGUMENTS: &str = "{}";

impl TurnMachine {
    /// Starts a turn with what each app has said to the user's words in a conversation of its own. In
    /// the history each answer is the result of asking its app, under the labels that it came with, so
    /// that every prompt, screening and question knows whose words they are.
    ///
    /// Which apps were asked is seen at every label: the user or the configuration chose them. So there
    /// must be a text for each, labelled like the conversation that did not bring one.
    ///
    /// # Errors
    /// A turn is under way.
    pub fn gather(
        &mut self,
        query: Labeled,
        answers: impl IntoIterator<Item = (String, Labeled)>,
    ) -> Result<(), Misuse> {
        self.user(query)?;
        let (apps, answers): (Vec<String>, Vec<Labeled>) = answers.into_iter().unzip();
        let asked = apps
            .into_iter()
            .map(|app| (app, Labeled::trusted_tcb(NO_ARGUMENTS)));
        // No model has made these calls, so nobody but the user or the configuration is in them.
        let bottom = Label::bottom();
        let nothing = Labeled::trusted_tcb("");
        let ids = self.history.push_assistant(&bottom, nothing, asked);
        for (id, answer) in ids.into_iter().zip(answers) {
            self.history.push_result(&bottom, id, answer);
        }
        Ok(())
    }
}
