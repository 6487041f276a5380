//! A step that is made in parts, as far as it is made.

use std::collections::{BTreeMap, VecDeque};

use ifc::{ArgumentPath, Arguments, Label, REDACTED};
use serde_json::Value;

use crate::{Completion, ProposedCall};

/// A step that is made in parts.
pub(crate) struct Filled {
    pub(crate) draft: Completion,
    /// The label of the draft.
    pub(crate) coarse: Label,
    /// For each call of the draft, what need not be in its control part.
    pub(crate) open: Vec<OpenCall>,
    /// The limit of the control parts, and the label of all that it admits.
    pub(crate) limit: Label,
    pub(crate) admitted: Label,
    /// The same with the limits of the data arguments that the draft exceeds: they cannot be below their control part.
    pub(crate) way: Label,
    /// The step with the draft's control parts that has the lowest label, and this label.
    pub(crate) step: Completion,
    pub(crate) label: Label,
    /// The value under way; none while the control parts are.
    pub(crate) hole: Option<Hole>,
    pub(crate) queue: VecDeque<Hole>,
    pub(crate) done: Vec<Hole>,
    /// The labels under which the part under way was tried.
    pub(crate) tried: Vec<Label>,
    /// The label of the prompt that is needed next, and the schema of the value that it is to make.
    pub(crate) asked: Label,
    pub(crate) schema: Value,
    pub(crate) requests: usize,
}

impl Filled {
    /// The label of the prompt that is needed next.
    pub(crate) fn prompt_label(&self) -> &Label {
        &self.asked
    }

    /// The call that a value is part of.
    pub(crate) fn open_call(&self, hole: &Hole) -> Option<&OpenCall> {
        self.open.get(hole.call)
    }

    /// Whether a step has the control parts of the draft.
    pub(crate) fn has_controls(&self, step: &Completion) -> bool {
        let draft = &self.draft.calls;
        let mut pairs = step.calls.iter().zip(draft).zip(&self.open);
        step.calls.len() == draft.len()
            && pairs.all(|((call, drafted), open)| open.is_control(call, drafted))
    }

    /// The values of a step that its control part has not made.
    pub(crate) fn holes(&self) -> Option<Vec<Hole>> {
        let mut holes = Vec::new();
        let calls = self.step.calls.iter().zip(&self.draft.calls);
        for (at, ((call, drafted), open)) in calls.zip(&self.open).enumerate() {
            let arguments = Arguments::parse(&call.arguments, &Label::bottom()).ok()?;
            let others = Arguments::parse(&drafted.arguments, &Label::bottom()).ok()?;
            for path in open.paths() {
                let values = arguments.at(path)?.into_iter().zip(others.at(path)?);
                for (nth, (value, drafted)) in values.enumerate() {
                    // The same without what is above: it does not depend on that.
                    if value.reveal_tcb() == drafted.reveal_tcb() {
                        continue;
                    }
                    let limit = open.data.get(path);
                    // A data argument with a limit below the draft is made anew, under that limit.
                    let is_anew = limit.is_some_and(|limit| !self.coarse.flows_to(limit));
                    let drafted = drafted.reveal_tcb().to_owned();
                    holes.push(Hole {
                        call: at,
                        path: path.clone(),
                        nth,
                        limit: limit.cloned(),
                        made: (!is_anew).then(|| (drafted.clone(), self.coarse.clone())),
                        drafted,
                    });
                }
            }
        }
        Some(holes)
    }
}

/// The places of a call that may be filled by themselves.
pub(crate) struct OpenCall {
    pub(crate) tool: String,
    /// The data arguments, each with the label of all that it may depend on.
    pub(crate) data: BTreeMap<ArgumentPath, Label>,
    /// The arguments without data inside of them: of the control part, and asked about under labels of their own.
    pub(crate) control: Vec<ArgumentPath>,
}

impl OpenCall {
    fn paths(&self) -> impl Iterator<Item = &ArgumentPath> + Clone {
        self.data.keys().chain(&self.control)
    }

    /// Whether a call has the control part of the drafted one. An argument of it may be left open, as hidden: one
    /// that has another value is another call.
    fn is_control(&self, call: &ProposedCall, drafted: &ProposedCall) -> bool {
        let read = |call: &ProposedCall| Arguments::parse(&call.arguments, &Label::bottom());
        let (Ok(arguments), Ok(others)) = (read(call), read(drafted)) else {
            return false;
        };
        let value = |arguments: &Arguments, path: &ArgumentPath| {
            let value = arguments.get(path.argument());
            value.map(|value| value.reveal_tcb().to_owned())
        };
        let mut control = self.control.iter();
        let is_open = |made: &str| made.contains(REDACTED);
        call.same_but(drafted, self.paths())
            && control.all(|path| {
                let made = value(&arguments, path);
                made == value(&others, path) || made.as_deref().is_some_and(is_open)
            })
    }
}

/// A value of a call that its control part has not made.
pub(crate) struct Hole {
    pub(crate) call: usize,
    pub(crate) path: ArgumentPath,
    /// Which of the values at this path.
    pub(crate) nth: usize,
    /// Of a data argument, the label of all that it may depend on.
    pub(crate) limit: Option<Label>,
    /// As the draft has it.
    pub(crate) drafted: String,
    /// What it is, and its label; nothing while no prompt has made it.
    pub(crate) made: Option<(String, Label)>,
}

/// A call of the step with these values in it.
pub(crate) fn with_values<'v>(
    call: &ProposedCall,
    values: impl IntoIterator<Item = (&'v Hole, &'v str)>,
) -> Option<Arguments> {
    let mut arguments = Arguments::parse(&call.arguments, &Label::bottom()).ok()?;
    for (hole, value) in values {
        arguments = arguments.with_value(&hole.path, hole.nth, value)?;
    }
    Some(arguments)
}
