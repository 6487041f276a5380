//! Approvals: what a yes to one call endorses.
//!
//! The user has read the tool and the control arguments, and has allowed the call. From then on the call counts as the
//! user's own, so its control part has no taint about integrity any more ([`History::approve`]). Taints about
//! confidentiality stay, and so do the labels of data arguments and those that the tool's rule gives the result.
//!
//! Only an answer to a question that shows the full control part approves a call. A grant or a permission covers calls that
//! the user has not seen.

use std::collections::BTreeSet;

#[cfg(doc)]
use crate::History;
use crate::{ArgumentPath, Arguments, Call, Label, Labeled};

/// The user's yes to one call. The monitor makes one for a question, and only the permit that answers that question has it.
///
/// `Debug` shows labels and lengths only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    call: Call,
    /// The places of its data arguments, which are not endorsed.
    data: BTreeSet<ArgumentPath>,
    /// The taints that its control part loses.
    taints: Label,
}

impl Approval {
    /// Most characters of control arguments with their names, about 13 lines of a terminal. A user would not read more, so
    /// a yes to a longer call allows it and does not endorse it.
    pub const MOST: usize = 1000;

    /// The approval by a yes to this call, where data arguments are at these places. `None` if the control part has no
    /// taint about integrity, has unknown taints (⊤), or is too long to be read.
    pub(crate) fn of<'p>(
        call: &Call,
        data: impl Iterator<Item = &'p ArgumentPath> + Clone,
        integrity: &Label,
    ) -> Option<Self> {
        if integrity.is_bottom() {
            return None;
        }
        let control = call.control_label(data.clone());
        let tainted = !control.unendorsed().meet(integrity).is_bottom();
        if control.is_top() || !tainted {
            return None;
        }
        let approval = Self {
            call: call.clone(),
            data: data.cloned().collect(),
            taints: integrity.clone(),
        };
        // An argument with data inside of it is counted and shown as a whole.
        let shown = approval.shown().map(|name| {
            let value = call.arguments.get(name).map(Labeled::reveal_tcb);
            name.chars().count() + value.map_or(0, |value| value.chars().count())
        });
        (shown.sum::<usize>() <= Self::MOST).then_some(approval)
    }

    /// An approval that was given before, by another process. Trusted: the user must have allowed this call.
    #[must_use]
    pub fn given_tcb(call: Call, data: BTreeSet<ArgumentPath>, taints: Label) -> Self {
        // It is not known any more which they were.
        let taints = match taints.is_top() {
            true => Label::bottom(),
            false => taints,
        };
        Self { call, data, taints }
    }

    /// The call that was allowed.
    #[must_use]
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The taints that its control part loses.
    #[must_use]
    pub fn taints(&self) -> &Label {
        &self.taints
    }

    /// The names of the arguments that are not data as a whole.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &str> {
        let names = self.call.arguments.iter().map(|(name, _)| name);
        names.filter(|name| !self.data.contains(&ArgumentPath::of(*name)))
    }

    /// The bytes of text that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let values = self.call.arguments.iter();
        let values = values.map(|(name, value)| name.len() + value.len());
        self.call.tool.len() + values.sum::<usize>()
    }

    /// The label that a call of a step at `step` has with this approval.
    pub(crate) fn label(&self, step: &Label) -> Label {
        step.beyond(&self.taints)
    }

    /// Whether it is about this call.
    pub(crate) fn is_of(&self, tool: &str, arguments: &Arguments) -> bool {
        self.call.is_of(tool) && self.call.arguments.same(arguments)
    }

    /// The places of its data arguments.
    #[must_use]
    pub fn data(&self) -> &BTreeSet<ArgumentPath> {
        &self.data
    }
}
