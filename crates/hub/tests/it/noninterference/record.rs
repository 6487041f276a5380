//! What a run of the machine was, as it is written down.

use hub::trace::{Flow, MessageKind};
use hub::{ProposedCall, Stop};
use ifc::{Answer, Call, Delivery, Label, Ran, Release};

use super::approved::Endorsed;

/// What the machine does in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// A prompt was sent: its label, and all that it shows.
    Prompt(Label, String, Masked),
    /// A call ran.
    Ran {
        call: Call,
        limit: Option<Label>,
        confirmed: bool,
    },
    /// The user was asked about this call or answer, and this is the answer.
    Asked(Subject, Answer, Option<Ran>),
    /// The policy denied this call or answer, under this label and with this reason.
    Denied(Label, Flow, String),
    /// The user has said yes to a call, and its control part has these labels from then on.
    Approved(Endorsed),
    /// A call that makes no sense, under this label.
    Rejected(Label, ProposedCall, String),
    /// A message of an exchange with another app, or that there is none: under this label, about this
    /// functionality, and what the trace notes of it.
    Message(Label, MessageKind, String, String),
    /// The turn's answer.
    Answered(Label, String),
    /// A conversation in which another app answered the request before: under this label.
    Served(Label, Box<Turn>),
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Call(Call),
    Answer(Release),
    /// With the label of the step that asks.
    Delivery(Delivery, Label),
}

/// How many regions a prompt masks. Both sides may differ in it, and no model is told.
#[derive(Debug, Clone, Copy, Eq)]
pub(crate) struct Masked(pub(crate) usize);

impl PartialEq for Masked {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) number: usize,
    /// The label that was chosen for the step.
    pub(crate) chosen: Option<Label>,
    /// The label of the prompt that it was made from.
    pub(crate) label: Option<Label>,
    /// The label of its first prompt: lazily, of the draft.
    pub(crate) drafted: Option<Label>,
    /// Whether its draft was screened.
    pub(crate) screened: bool,
    /// Under which label it was checked before a question, and whether it was taken there.
    pub(crate) checked: Option<(Label, bool)>,
    /// Under which label it was taken without what a no has withheld, and whether that is the step.
    pub(crate) without: Option<(Label, bool)>,
    /// Where its parts were made by themselves: each attempt, with its label, and whether the part came about there.
    /// Its control parts have no name.
    pub(crate) parts: Vec<(String, Label, bool)>,
    /// The label of its control parts, if it is not the draft's.
    pub(crate) control: Option<Label>,
    /// The calls of earlier steps that its re-runs have made again.
    pub(crate) refined: Vec<Refined>,
    /// The labels of all of its prompts.
    pub(crate) prompts: Vec<Label>,
    pub(crate) acts: Vec<Act>,
    /// The answer might not be shown, and another one was made from what may be.
    pub(crate) fallback: bool,
}

impl Step {
    /// Of several prompts, the one of its control parts is what it was made from.
    pub(crate) fn as_its_control(&mut self) {
        let control = self.control.clone().or(self.drafted.clone());
        self.label.clone_from(&control);
        self.chosen = control;
    }
}

/// A call of an earlier step that a re-run has made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refined {
    /// The number of that step.
    pub(crate) of: usize,
    pub(crate) arguments: String,
    pub(crate) label: Label,
    /// Whether what it carries came out the same too.
    pub(crate) whole: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) steps: Vec<Step>,
    pub(crate) stop: Option<Stop>,
    /// Whether something above the limit was recalled for it.
    pub(crate) recalled_above: bool,
    /// The prompts for facts after it: their labels, and what they show.
    pub(crate) facts: Vec<(Label, String)>,
}

/// A run of one side of a world.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) turns: Vec<Turn>,
    /// Offences against the bounds that hold for every screener, in words.
    pub(crate) offences: Vec<String>,
    /// What was allowed by a permission, and of this what was by one that the other side lacks.
    pub(crate) permitted: usize,
    pub(crate) apart: usize,
    /// Texts that the user vouched for, and what was allowed by it.
    pub(crate) trusted: usize,
    pub(crate) by_trust: usize,
    /// Answers that allowed the other calls of a step too.
    pub(crate) each: usize,
    /// Calls that the user's yes endorsed.
    pub(crate) approved: usize,
}

impl Turn {
    pub(crate) fn acts(&self) -> impl Iterator<Item = &Act> {
        let mut acts = Vec::new();
        self.collect(&mut acts);
        acts.into_iter()
    }

    /// With those of the conversations that served.
    fn collect<'a>(&'a self, all: &mut Vec<&'a Act>) {
        for act in self.steps.iter().flat_map(|step| &step.acts) {
            all.push(act);
            if let Act::Served(_, turn) = act {
                turn.collect(all);
            }
        }
    }
}

impl Run {
    pub(crate) fn acts(&self) -> impl Iterator<Item = &Act> {
        self.turns.iter().flat_map(Turn::acts)
    }
}

/// Whether this is the run of an equal call.
pub(crate) fn ran(act: &Act, call: &Call) -> bool {
    matches!(act, Act::Ran { call: past, .. } if past.same(call))
}
