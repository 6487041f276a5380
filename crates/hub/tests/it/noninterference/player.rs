//! Who plays a side of a world, and what has happened so far.

use std::sync::Arc;

use hub::{Completion, CompletionRequest};
use ifc::{Label, Labeled};

use super::images::Shown;
use super::kept::{APART, Cabinet};
use super::labels::{parts, taints};
use super::record::{Act, Run, Step, Turn};
use super::trusted::Trusted;
use super::world::{Side, Words, World};

/// Who answers prompts.
pub(crate) type Model<'a> = &'a dyn Fn(&CompletionRequest) -> Completion;

pub(crate) struct Player<'a> {
    pub(crate) words: Words,
    pub(crate) shown: Shown,
    pub(crate) side: Side,
    pub(crate) world: &'a World,
    pub(crate) vanilla: bool,
    pub(crate) model: Model<'a>,
    pub(crate) cabinet: Arc<Cabinet>,
    pub(crate) run: Run,
    /// The conversations that serve, each for the one before it.
    pub(crate) nested: Vec<Nested>,
    /// What the user has vouched for.
    pub(crate) trusted: Vec<Trusted>,
    /// How many exchanges have begun.
    pub(crate) exchanges: u128,
    /// All that the newest draft says.
    pub(crate) draft: String,
    /// All that the newest completion says.
    pub(crate) newest: String,
}

/// A conversation that serves, while it does.
pub(crate) struct Nested {
    pub(crate) app: String,
    /// The label of the request.
    pub(crate) control: Label,
    pub(crate) turn: Turn,
    /// Where it is: tells the steps of all conversations of a turn apart.
    pub(crate) place: usize,
}

impl Player<'_> {
    pub(crate) fn learn(&mut self, text: Labeled) -> Labeled {
        for (part, label) in parts(&text) {
            self.words.learn(part, &taints(&label));
        }
        text
    }

    /// The label of the step whose calls are decided on.
    pub(crate) fn step_label(&self) -> Label {
        let label = self.last().and_then(|step| step.label.clone());
        label.unwrap_or(Label::top())
    }

    /// Something was allowed by this.
    pub(crate) fn count(&mut self, by: &str) {
        if let Some(name) = by.strip_prefix("permission ") {
            self.run.permitted += 1;
            self.run.apart += usize::from(name.starts_with(APART));
        }
    }

    pub(crate) fn offence(&mut self, what: String) {
        self.run.offences.push(what);
    }

    pub(crate) fn act(&mut self, act: Act) {
        self.last_mut().acts.push(act);
    }

    pub(crate) fn last(&self) -> Option<&Step> {
        match self.nested.last() {
            Some(nested) => nested.turn.steps.last(),
            None => self.run.turns.last()?.steps.last(),
        }
    }

    /// What has happened so far.
    pub(crate) fn acts(&self) -> impl Iterator<Item = &Act> {
        let nested = self.nested.iter().flat_map(|nested| nested.turn.acts());
        self.run.acts().chain(nested)
    }

    pub(crate) fn turn_mut(&mut self) -> &mut Turn {
        match self.nested.last_mut() {
            Some(nested) => &mut nested.turn,
            None => self.run.turns.last_mut().unwrap(),
        }
    }

    pub(crate) fn last_mut(&mut self) -> &mut Step {
        let steps = &mut self.turn_mut().steps;
        if steps.is_empty() {
            steps.push(Step::default());
        }
        steps.last_mut().unwrap()
    }
}
