//! What no provider may see, the model works without.
//!
//! A prompt goes to no provider that is not cleared for it ([`Setup::clearances`](crate::Setup::clearances)). Where some
//! of what was read is above all of their clearances, a prompt of everything could not be sent at all, and the
//! conversation would be over. So all prompts of a step keep to one clearance, and the redactor masks the rest as it
//! masks what a screener leaves out. The choice depends on labels alone, so it is one more choice of a label. That
//! nothing else is sent is for the broker to see to, which decides on each prompt whatever was chosen here.

use ifc::{Label, Message, Relevance};

use super::machine::TurnMachine;
use crate::trace::Event;

impl TurnMachine {
    /// Chooses what the prompts of the step that begins keep to, and tells the user what is masked for it.
    pub(super) fn choose_clearance(&mut self) {
        self.turn.clearance = self.clearance();
        let above = self.everything().beyond(&self.turn.clearance);
        // Not at every step, nor in every turn: it stays in the history.
        if !above.flows_to(&self.uncleared) {
            self.uncleared = self.uncleared.join(&above);
            self.events.push(Event::Uncleared {
                step: self.turn.step,
                above: self.names(&above),
                label: self.names(&self.shown_at_most()),
            });
        }
    }

    /// The clearance by which most is shown, the first of several; ⊤ where nothing need be masked. It is ⊤ too where
    /// none is enough for what the turn is about: then the broker refuses the prompt, and the turn ends with its
    /// reason.
    fn clearance(&self) -> Label {
        let everything = self.everything();
        let mut clearances = self.clearances.iter();
        if self.clearances.is_empty() || clearances.any(|own| everything.flows_to(own)) {
            return Label::top();
        }
        let words = self.words();
        let mut most: Option<(Label, &Label)> = None;
        for own in self.clearances.iter().filter(|own| words.flows_to(own)) {
            let shown = self.history.label_below(own);
            let is_more = |less: &Label| *less != shown && less.flows_to(&shown);
            if most.as_ref().is_none_or(|(less, _)| is_more(less)) {
                most = Some((shown, own));
            }
        }
        most.map_or(Label::top(), |(_, own)| own.clone())
    }

    /// The label of the instructions and of what the user has said last: without all of it, a model would do something
    /// else.
    fn words(&self) -> Label {
        let (mut instructions, mut said) = (Label::bottom(), Label::bottom());
        for (label, message) in self.history.messages() {
            match message {
                Message::System(text) => instructions = instructions.join(&text.label()),
                Message::User(text) => said = label.join(&text.label()),
                Message::Memory(_) | Message::Assistant { .. } | Message::Result { .. } => {}
            }
        }
        self.above_request(instructions.join(&said))
    }

    /// The label of everything that the step may be shown.
    pub(super) fn shown_at_most(&self) -> Label {
        let everything = self.everything();
        match everything.flows_to(&self.turn.clearance) {
            true => everything,
            false => self.shown_below(&self.turn.clearance),
        }
    }

    /// The label of a prompt that shows all that flows to `limit`.
    pub(super) fn shown_below(&self, limit: &Label) -> Label {
        let limit = limit.meet(&self.turn.clearance);
        self.above_request(self.history.label_below(&limit))
    }

    /// The label of a prompt that shows the relevant regions, as far as the step may be shown them.
    pub(super) fn shown_of(&self, relevance: &Relevance) -> Label {
        let label = self.above_request(self.history.label_of(relevance));
        if label.flows_to(&self.turn.clearance) {
            return label;
        }
        let Relevance::Only(wanted) = relevance else {
            return self.shown_at_most();
        };
        let regions = self.history.regions();
        let labels = regions.filter(|region| wanted.contains(&region.id));
        let labels: Vec<&Label> = labels.map(|region| region.label).collect();
        // As in `History::label_of`: a screener that names what there is not counts for nothing.
        if labels.len() < wanted.len() {
            return self.shown_at_most();
        }
        // Region by region. What the label of one that is left out has in common with the clearance would tell of it.
        let labels = labels.into_iter();
        let shown = labels.filter(|own| own.flows_to(&self.turn.clearance));
        self.above_request(shown.collect())
    }
}
