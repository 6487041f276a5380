//! A step and its calls, as data alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ifc::{ArgumentPath, Arguments, ArgumentsError, Label, Labeled, Unread};

use crate::isc::Malformed;
use crate::{Completion, ProposedCall, StopReason};

/// A step that is made: it is appended to the history, and its calls are decided on.
pub(super) struct Step {
    pub(super) text: String,
    pub(super) stop: StopReason,
    pub(super) calls: Vec<StepCall>,
    pub(super) unread: Option<Arc<Unread>>,
    /// The label of the prompt that it was made from.
    pub(super) label: Label,
}

impl Step {
    /// The step that a completion is.
    pub(super) fn new(completion: Completion, label: Label) -> Self {
        let calls = completion.calls.into_iter().map(StepCall::from);
        Self {
            text: completion.text,
            stop: completion.stop,
            calls: calls.collect(),
            unread: completion.unread,
            label,
        }
    }

    /// A completion that was made below `label` and has the control parts of a draft. Each call that retains
    /// arguments is the draft's. Any other is as it was made below: blanks and the order of names in the draft may
    /// depend on more.
    pub(super) fn filled(
        below: Completion,
        draft: Vec<ProposedCall>,
        retained: Vec<Retained>,
        label: Label,
    ) -> Self {
        let pairs = below.calls.into_iter().zip(draft).zip(retained);
        let calls = pairs.map(|((below, draft), retained)| StepCall {
            proposed: match retained.is_empty() {
                true => below,
                false => draft,
            },
            retained,
        });
        Self {
            text: below.text,
            stop: below.stop,
            calls: calls.collect(),
            unread: below.unread,
            label,
        }
    }
}

/// A call of a step.
#[derive(Clone)]
pub(super) struct StepCall {
    pub(super) proposed: ProposedCall,
    /// Its data arguments that were made from more than the rest of the step.
    pub(super) retained: Retained,
}

impl StepCall {
    /// The label of the full call, in a step under `label`.
    pub(super) fn label(&self, label: &Label) -> Label {
        label.join(&self.retained.label())
    }

    /// The arguments as the history has them: as they were written, or each retained data argument under its own
    /// label. The history restricts them by the step's.
    pub(super) fn past_arguments(&self) -> Labeled {
        let Self { proposed, retained } = self;
        if retained.is_empty() {
            return Labeled::trusted_tcb(proposed.arguments.clone());
        }
        match Arguments::parse(&proposed.arguments, &Label::bottom()) {
            Ok(arguments) => retained.restrict(arguments).to_labeled(),
            // Text that does not parse has no separate arguments.
            Err(_) => Labeled::label_tcb(proposed.arguments.clone(), retained.label()),
        }
    }
}

impl From<ProposedCall> for StepCall {
    fn from(proposed: ProposedCall) -> Self {
        let retained = Retained::default();
        Self { proposed, retained }
    }
}

/// Arguments that were not made with the rest of their call, by their paths: those that are retained from a draft
/// have its label, and each that was filled by itself has its own.
#[derive(Clone, Default)]
pub(super) struct Retained(BTreeMap<ArgumentPath, Label>);

impl Retained {
    /// Adds one; where a path has several values, it has the label of all of them.
    pub(super) fn add(&mut self, path: &ArgumentPath, label: &Label) {
        let known = self.0.entry(path.clone()).or_insert(Label::bottom());
        *known = known.join(label);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, path: &ArgumentPath) -> bool {
        self.0.contains_key(path)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &ArgumentPath> + Clone {
        self.0.keys()
    }

    /// The label of all of them; ⊥ if there are none.
    fn label(&self) -> Label {
        self.0.values().collect()
    }

    /// Labels the arguments.
    pub(super) fn restrict(&self, arguments: Arguments) -> Arguments {
        let retained = self.0.iter();
        retained.fold(arguments, |all, (path, label)| all.restrict_at(path, label))
    }
}

/// The calls of a draft, with what is retained of each.
pub(super) fn step_calls(calls: &[ProposedCall], retained: &[Retained]) -> Vec<StepCall> {
    let calls = calls.iter().cloned().zip(retained.iter().cloned());
    calls
        .map(|(proposed, retained)| StepCall { proposed, retained })
        .collect()
}

/// Whether two steps propose the same calls, in the same order.
pub(super) fn same_calls(a: &[ProposedCall], b: &[ProposedCall]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
}

/// Whether two steps have the same control parts: tools, and all arguments but the values that are retained.
pub(super) fn same_control(
    calls: &[ProposedCall],
    draft: &[ProposedCall],
    retained: &[Retained],
) -> bool {
    let mut pairs = calls.iter().zip(draft).zip(retained);
    calls.len() == draft.len()
        && pairs.all(|((call, drafted), retained)| call.same_but(drafted, retained.paths()))
}

/// Why a proposed call makes no sense. It quotes at most the name of an argument from the model.
pub(super) enum Rejection {
    /// No tool that was offered has this name.
    UnknownTool,
    /// The arguments are not one JSON object.
    Arguments(ArgumentsError),
    /// The user's rules say why the tool does not take them, in one line.
    Parameters(String),
    /// The request is not of the form that its functionality has.
    Request(Malformed),
    /// No app serves this functionality, or each that does waits for this request, or as many apps wait as may.
    NoFunctionality,
    /// The step has more calls than a step may have.
    TooMany(usize),
}

impl From<ArgumentsError> for Rejection {
    fn from(error: ArgumentsError) -> Self {
        Self::Arguments(error)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTool => f.write_str("there is no such tool"),
            Self::Arguments(error) => error.fmt(f),
            Self::Parameters(why) => write!(f, "{why}; make the call again with correct arguments"),
            Self::Request(why) => write!(f, "the request is not of its form: {why}"),
            Self::NoFunctionality => f.write_str("no app can serve this functionality here"),
            Self::TooMany(limit) => write!(
                f,
                "too many calls in one step; make at most {limit} at a time"
            ),
        }
    }
}
