//! How the turn machine runs, and its limits.

/// Settings of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Which algorithm.
    pub mode: Mode,
    /// Who executes the calls.
    pub execution: Execution,
    /// Bounds on everything that a model or an app could make grow.
    pub limits: Limits,
}

/// Which algorithm a turn follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Algorithm 1: no screening, no redaction, every call runs. For comparison only.
    Vanilla,
    /// As Algorithm 1, but the user is asked about every call (RTBAS §8, "confirm every time").
    /// For comparison only.
    ConfirmEveryCall,
    /// Algorithm 4.
    Rtbas(Screening),
}

/// Who executes the calls of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    /// The machine's driver, one after the other ([`Need::Execute`](crate::Need::Execute)).
    #[default]
    Here,
    /// Whoever holds the conversation: the guard proxy's client. All calls of a step are decided
    /// on first; the allowed ones are handed over at once
    /// ([`Need::HandOver`](crate::Need::HandOver)).
    Elsewhere,
}

impl Default for Mode {
    fn default() -> Self {
        Mode::Rtbas(Screening::Lazy)
    }
}

/// When the dependency screener is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Screening {
    /// Before every completion, as the paper does. Nothing to screen while nothing is labelled.
    Eager,
    /// Only when a call, made under the label of the whole history, would violate the policy.
    /// The coarse label is always safe; it costs precision of later labels, and saves the judge.
    Lazy,
}

/// Bounds on one turn and one conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Completions that may propose calls, per turn. `AgentDojo` allows 15 rounds.
    pub steps: usize,
    /// Calls in one step; more are answered with an error.
    pub calls_per_step: usize,
    /// How often the very same call may be proposed in one turn. A model that repeats itself
    /// three times will not stop by itself.
    pub repeats: usize,
    /// Bytes of one tool result; a larger one is refused as a whole.
    pub result_bytes: usize,
    /// Bytes of the whole history, beyond any context window in use.
    pub history_bytes: usize,
    /// Generated tokens per completion.
    pub completion_tokens: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 15,
            calls_per_step: 16,
            repeats: 3,
            result_bytes: 512 * 1024,
            history_bytes: 4 * 1024 * 1024,
            completion_tokens: 1024,
        }
    }
}
