//! The calls of a step.

use std::collections::{BTreeMap, VecDeque};

use ifc::{ArgumentPath, Arguments, CallId, Label, Labeled, Permit};

use crate::ProposedCall;
use crate::isc::{Exchange, Pending};

/// The calls of one step that are still to be decided on, and the label they were made under.
pub(crate) struct Calls {
    pub(crate) label: Label,
    pub(crate) text: Labeled,
    /// How many calls the step has.
    pub(crate) count: usize,
    pub(crate) queue: VecDeque<(CallId, StepCall)>,
    /// Allowed, and to run elsewhere.
    pub(crate) allowed: Vec<(CallId, Permit)>,
    /// The exchange that the call which is being decided on, or runs, is a part of.
    pub(crate) exchange: Option<Exchange<Pending>>,
}

/// A call of a step.
pub(crate) struct StepCall {
    pub(crate) proposed: ProposedCall,
    /// Its data arguments that were made from more than the rest of the step.
    pub(crate) kept: Kept,
}

impl StepCall {
    /// The label of the whole call, in a step under `label`.
    pub(crate) fn label(&self, label: &Label) -> Label {
        label.join(&self.kept.label())
    }
}

impl From<ProposedCall> for StepCall {
    fn from(proposed: ProposedCall) -> Self {
        let kept = Kept::default();
        Self { proposed, kept }
    }
}

/// Arguments that were not made with the rest of their call, by their places: those that are kept from a draft
/// have its label, those that were filled by themselves one each.
#[derive(Clone, Default)]
pub(crate) struct Kept(BTreeMap<ArgumentPath, Label>);

impl Kept {
    /// Another one; where several values stand at a place, the label of all of them.
    pub(crate) fn add(&mut self, path: &ArgumentPath, label: &Label) {
        let known = self.0.entry(path.clone()).or_insert(Label::bottom());
        *known = known.join(label);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their places.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &ArgumentPath> + Clone {
        self.0.keys()
    }

    /// The label of all of them; ⊥ if there are none.
    pub(crate) fn label(&self) -> Label {
        self.0.values().collect()
    }

    /// Labels the arguments.
    pub(crate) fn restrict(&self, arguments: Arguments) -> Arguments {
        let kept = self.0.iter();
        kept.fold(arguments, |all, (path, label)| all.restrict_at(path, label))
    }
}

/// The calls of a draft, with what is kept of each.
pub(crate) fn step_calls(calls: &[ProposedCall], kept: &[Kept]) -> Vec<StepCall> {
    let calls = calls.iter().cloned().zip(kept.iter().cloned());
    calls
        .map(|(proposed, kept)| StepCall { proposed, kept })
        .collect()
}

/// The calls of a step that was taken `below` and has the same control parts as the draft: each that carries something
/// is the draft's. Any other is as it was written below: blanks and the order of names in the draft may depend on more.
pub(crate) fn filled_calls(
    below: &[ProposedCall],
    draft: &[ProposedCall],
    kept: &[Kept],
) -> Vec<StepCall> {
    let pairs = below.iter().zip(draft).zip(kept);
    let filled = pairs.map(|((below, draft), kept)| StepCall {
        proposed: match kept.is_empty() {
            true => below.clone(),
            false => draft.clone(),
        },
        kept: kept.clone(),
    });
    filled.collect()
}

/// Whether two steps propose the same calls, in the same order.
pub(crate) fn same_calls(a: &[ProposedCall], b: &[ProposedCall]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
}

/// Whether two steps have the same control parts: tools, and all of the arguments but the values that are kept.
pub(crate) fn same_control(calls: &[ProposedCall], draft: &[ProposedCall], kept: &[Kept]) -> bool {
    let mut pairs = calls.iter().zip(draft).zip(kept);
    calls.len() == draft.len()
        && pairs.all(|((call, drafted), kept)| call.same_but(drafted, kept.paths()))
}
