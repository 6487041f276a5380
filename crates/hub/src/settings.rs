//! How the turn machine runs, and its limits.

use std::sync::Arc;

use ifc::{Label, Lattice, Monitor, Policy};

use crate::Apps;
use crate::isc::Asks;

/// Everything that the decisions of a conversation depend on.
#[derive(Clone)]
pub struct Setup {
    /// The apps whose tools the conversation has.
    pub apps: Apps,
    /// What the conversation may ask of other apps.
    pub asks: Asks,
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// The lattice of all labels: events have labels by name.
    pub lattice: Arc<Lattice>,
    /// The monitor of the session: a handle, which the turns of one session share.
    pub monitor: Monitor,
    /// How turns run.
    pub settings: Settings,
    /// The clearances of the providers that may take the conversation's steps, in the order in which they are asked. Each
    /// step keeps to one of them, and text above it is masked. Without one, nothing is masked.
    pub clearances: Arc<[Label]>,
}

/// Settings of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// When the dependency screener is asked (Algorithm 4, line 4).
    pub screening: Screening,
    /// How the arguments of calls are made.
    pub arguments: Filling,
    /// Who executes the calls.
    pub execution: Execution,
    /// Whether outcomes say what their answers depend on.
    pub attribution: Attribution,
    /// Whether the user is asked about a result above the clearance of every provider ([`Need::Clear`](crate::Need::Clear)),
    /// because nothing says yet what may be sent there. Otherwise it is masked.
    pub asks_clearance: bool,
    /// Bounds on everything that a model or an app could make grow.
    pub limits: Limits,
}

/// Where the calls of a step are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    /// The machine's driver, one after the other ([`Need::Execute`](crate::Need::Execute)).
    #[default]
    Here,
    /// The client that holds the conversation: the guard proxy's. All calls of a step are decided
    /// on first; the allowed ones are handed over at once
    /// ([`Need::HandOver`](crate::Need::HandOver)). Of a step that was cut off no text says so: what is handed
    /// over, or the outcome, does.
    Elsewhere,
}

/// Whether an outcome, and the event of its answer, name the untrusted sources of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attribution {
    /// They do. Each answer is compared with the whole history for it.
    #[default]
    Named,
    /// They do not: without a trace or a watcher they have no reader.
    Omitted,
}

/// How the arguments of a call are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Filling {
    /// With the call, in one completion.
    #[default]
    Lazy,
    /// With the call, unless something blocks it. Then its control part is made first, from a prompt below its limit, and
    /// then each data argument by a request of its own, from a prompt at its limit. A question names only what still
    /// blocks the call. Only where screening is lazy.
    Eager,
    /// As [`Filling::Eager`], of every call, and each part under the lowest label: labels are as exact as can be, and
    /// each call costs several completions.
    Exact,
}

/// When the dependency screener is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screening {
    /// Before every completion, as the paper does. Nothing to screen while nothing is labelled.
    Eager,
    /// As [`Screening::Eager`], but the screener also sees the step as a model drafts it from
    /// everything (RTBAS §8.3.3). The step is taken again only if something is masked.
    Drafted(Drafter),
    /// Only when a call would violate the policy under the label of the whole history, which is always safe.
    Lazy {
        /// Whether the step is re-run below the limits of its calls before the user is asked. If the same calls come
        /// out, they did not depend on the rest, and the user is not asked.
        check: bool,
    },
}

impl Screening {
    /// Lazy, without a check before a question.
    pub const LAZY: Self = Self::Lazy { check: false };
    /// Lazy, with a check before a question.
    pub const CHECKED: Self = Self::Lazy { check: true };

    /// A short name for traces and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lazy { check: false } => "rtbas-lazy",
            Self::Lazy { check: true } => "rtbas-lazy-checked",
            Self::Eager => "rtbas-eager",
            Self::Drafted(_) => "rtbas-drafted",
        }
    }
}

impl Default for Screening {
    fn default() -> Self {
        Self::LAZY
    }
}

/// Who drafts a step for the screener ([`Screening::Drafted`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drafter {
    /// The agent's own model. Where nothing would be masked, its draft is the step.
    Own,
    /// Another model, usually a small one ([`Purpose::Draft`](crate::Purpose::Draft)). Its draft is
    /// for the screener alone, so each step costs one completion of the agent's own model.
    Other,
}

/// Bounds on one turn and one conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Completions that may propose calls, per turn. `AgentDojo` allows 15 rounds.
    pub steps: usize,
    /// Calls in one step. A step with more has none: all of them are answered with an error.
    pub calls_per_step: usize,
    /// How often the same call may be proposed in one turn. A model that repeats itself three times does not stop.
    pub repeats: usize,
    /// Bytes of one tool result. Of a larger one each part is left out that has more below its own label
    /// ([`bounded`](crate::bounded)).
    pub result_bytes: usize,
    /// Bytes of all messages that a prompt shows. Where there are more, the oldest become a summary.
    pub prompt_bytes: usize,
    /// Bytes of the whole history, also of what prompts do not show.
    pub history_bytes: usize,
    /// Generated tokens per completion.
    pub completion_tokens: u32,
    /// Apps that may wait for each other: the longest chain of requests. Each link is a conversation
    /// within another, and few tasks need more than one.
    pub hops: usize,
    /// As `steps`, in a conversation that serves a request: it has one thing to find out.
    pub serving_steps: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 15,
            calls_per_step: 16,
            repeats: 3,
            result_bytes: 512 * 1024,
            prompt_bytes: 256 * 1024,
            history_bytes: 32 * 1024 * 1024,
            // An answer with a file in it is some thousand tokens; more is a model that does not stop.
            completion_tokens: 8192,
            hops: 3,
            serving_steps: 8,
        }
    }
}
