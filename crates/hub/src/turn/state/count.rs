//! What a turn remembers beside the history.

use ifc::{Label, Prompt, Relevance};

use crate::{Completion, ProposedCall, StopReason};

/// What a turn remembers beside the history. What decides over a step remembers the label under
/// which it came about, and a step sees only what flows to its own: otherwise a step above a label
/// could speak to a step at it, past the redactor.
pub(crate) struct TurnCount {
    pub(crate) step: usize,
    /// Why the completion ended that the newest step is.
    pub(crate) stop: StopReason,
    /// What the prompts of the step keep to, so that a provider is cleared for them; ⊤ where one may see everything.
    /// It stays what it is until the step is over: another choice could leave out what the draft was made from.
    pub(crate) clearance: Label,
    /// What the step's screening left in; everything without one. Questions are worded by it.
    pub(crate) relevance: Relevance,
    pub(crate) refused: usize,
    /// Calls of which nobody knows whether they ran.
    pub(crate) unknown: usize,
    /// Requests to other apps that no response of the agreed form came to.
    pub(crate) dropped: usize,
    /// Words of the answer that are not shown as they were written, since they could be addresses.
    pub(crate) inert: usize,
    /// Every call that was proposed, with the label of its step.
    pub(crate) proposed: Vec<(Label, ProposedCall)>,
    /// The calls of each step.
    pub(crate) steps: Vec<(Label, Vec<ProposedCall>)>,
    /// Whether calls of this step's draft were given up, since what they may depend on was masked.
    pub(crate) gave_up: bool,
    /// How many reads were made once more in this step.
    pub(crate) refined: usize,
    /// What steps are taken without, since calls were refused. The calls of one step are all decided on by what
    /// was refused before it.
    pub(crate) withheld: Vec<Withheld>,
    /// Whether this step lacked something without that.
    pub(crate) is_whole: bool,
    pub(crate) tried: Option<Tried>,
    /// What the prompt that is being answered offers.
    pub(crate) offered: Offered,
}

impl Default for TurnCount {
    fn default() -> Self {
        Self {
            step: 0,
            stop: StopReason::End,
            clearance: Label::top(),
            relevance: Relevance::Everything,
            refused: 0,
            unknown: 0,
            dropped: 0,
            inert: 0,
            proposed: Vec::new(),
            steps: Vec::new(),
            gave_up: false,
            refined: 0,
            withheld: Vec::new(),
            is_whole: false,
            tried: None,
            offered: Offered::default(),
        }
    }
}

impl TurnCount {
    /// How often this very call has been proposed, as far as a step under `label` may know.
    pub(crate) fn times_proposed(&self, proposed: &ProposedCall, label: &Label) -> usize {
        let equal =
            |(own, past): &&(Label, ProposedCall)| own.flows_to(label) && past.same(proposed);
        self.proposed.iter().filter(equal).count()
    }

    /// The calls of the newest step that a step under `label` may know of.
    pub(crate) fn last_calls(&self, label: &Label) -> &[ProposedCall] {
        let mut steps = self.steps.iter().rev();
        let known = steps.find(|(own, _)| own.flows_to(label));
        known.map_or(&[], |(_, calls)| calls)
    }
}

/// The tools that a prompt has.
pub(crate) struct Offered {
    /// The label of the prompt.
    pub(crate) label: Label,
    /// The names of the tools, as they are shown.
    pub(crate) tools: Vec<String>,
}

impl Default for Offered {
    fn default() -> Self {
        Self {
            label: Label::bottom(),
            tools: Vec::new(),
        }
    }
}

/// The taints that stood in the way of a refused call.
pub(crate) struct Withheld {
    /// The label of the call: a step below it knows nothing of the no.
    pub(crate) known: Label,
    pub(crate) taints: Label,
}

/// The newest prompt of a step that was taken with less than everything.
pub(crate) struct Tried {
    pub(crate) prompt: Prompt,
    /// What came of it.
    pub(crate) completion: Option<Completion>,
}

impl Tried {
    pub(crate) fn new(prompt: Prompt) -> Self {
        Self {
            prompt,
            completion: None,
        }
    }
}
