//! What a yes to a call endorses: that this call was made.
//!
//! The user has read the tool and the control arguments, and said yes. So that the call was made with these
//! arguments is from then on the user's own word, whatever had proposed it: its control part has no taint about
//! integrity any more ([`History::approve`]). What it reveals stays as secret as it was. Data arguments keep their
//! labels, and so does whatever the tool's rule says of the result.
//!
//! Only an answer to a question that shows the control part whole endorses. A grant or a permission covers
//! calls that nobody has seen.

use std::collections::BTreeSet;

#[cfg(doc)]
use crate::History;
use crate::{ArgumentPath, Arguments, Call, Label, Labeled};

/// The user's yes to one call. Only the monitor makes one, for a question, and only a permit that was made by
/// the answer to that question hands it out.
///
/// `Debug` shows labels and lengths only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    call: Call,
    /// Where its data arguments are, which are not endorsed.
    data: BTreeSet<ArgumentPath>,
    /// The taints that its control part loses.
    taints: Label,
}

impl Approval {
    /// Characters of control arguments, with their names, that a question shows whole: about 13 lines of a
    /// terminal. Nobody reads more before saying yes, so a call with more is allowed and not endorsed.
    pub const MOST: usize = 1000;

    /// What a yes to this call would endorse, where data arguments are at these places. `None` where that is nothing:
    /// the control part has no taint about integrity, or unknown ones (⊤), or is too long to be read.
    pub(crate) fn of<'p>(
        call: &Call,
        data: impl Iterator<Item = &'p ArgumentPath> + Clone,
        integrity: &Label,
    ) -> Option<Self> {
        let control = call.control_label(data.clone());
        let tainted = !control.unendorsed().meet(integrity).is_bottom();
        // Nobody can vouch for the unknown; and where there is no such taint, a yes has nothing to take away.
        if control.is_top() || !tainted {
            return None;
        }
        let approval = Self {
            call: call.clone(),
            data: data.cloned().collect(),
            taints: integrity.clone(),
        };
        // Of an argument with data inside, the name and the rest are of the control part, so all of it is counted and
        // shown.
        let shown = approval.shown().map(|name| {
            let value = call.arguments.get(name).map(Labeled::reveal_tcb);
            name.chars().count() + value.map_or(0, |value| value.chars().count())
        });
        (shown.sum::<usize>() <= Self::MOST).then_some(approval)
    }

    /// The arguments that are not data as a whole.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &str> {
        let names = self.call.arguments.iter().map(|(name, _)| name);
        names.filter(|name| !self.data.contains(&ArgumentPath::of(*name)))
    }

    /// Bytes of text that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let values = self.call.arguments.iter();
        let values = values.map(|(name, value)| name.len() + value.len());
        self.call.tool.len() + values.sum::<usize>()
    }

    /// What a call has left of its step's label.
    pub(crate) fn label(&self, step: &Label) -> Label {
        step.beyond(&self.taints)
    }

    /// Whether it is about the call of this name with these arguments.
    pub(crate) fn is_of(&self, tool: &str, arguments: &Arguments) -> bool {
        self.call.is_of(tool) && self.call.arguments.same(arguments)
    }

    /// The text of arguments with ⊤ wherever it is data.
    pub(crate) fn marked(&self, text: &str) -> Option<Labeled> {
        let arguments = Arguments::parse(text, &Label::bottom()).ok()?;
        let data = self.data.iter();
        let marked = data.fold(arguments, |all, path| all.restrict_at(path, &Label::top()));
        Some(marked.to_labeled())
    }
}
