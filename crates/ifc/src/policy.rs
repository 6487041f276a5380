//! What a policy says of a sink, and of a call's result (RTBAS §6.2, `P : t^i ↦ L`).

use std::fmt;

use crate::{Call, Label, Labeled, Sink};

/// What a sink does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Reads; nothing changes.
    Read,
    /// Changes something that can be changed back.
    Write,
    /// Changes something for good: a mail sent, money paid, a file deleted.
    Irreversible,
}

impl Effect {
    /// `read`, `write` or `irreversible`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Irreversible => "irreversible",
        }
    }
}

/// What becomes of a flow above its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// The user is asked.
    Ask,
    /// It is denied: nobody could answer, or no answer is meant to help. Providers and connections.
    Deny,
}

/// What the policy says of one flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// `P(t^i)`: what flows here may flow without a question.
    pub limit: Label,
    /// What becomes of what does not.
    pub exceeded: Exceeded,
    /// What the sink does to the world.
    pub effect: Effect,
    /// The rule in words a user can find in the configuration (`mail.send_email.limit`).
    pub name: String,
    /// Whether the user is asked even where the label flows. Each such flow is a question of its own,
    /// except of a message between apps: there the rule wants consent to the collaboration (SecGPT
    /// Figure 3), which the user can give for longer, for the taints that the message has.
    pub always_ask: bool,
}

/// Why a policy has no rule for a sink. It is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError(pub String);

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PolicyError {}

/// An information-flow policy. All methods are pure.
pub trait Policy: Send + Sync {
    /// The rule for a sink. That of an answer must not depend on its text: the machine asks for it
    /// before there is one.
    ///
    /// # Errors
    /// The policy has no rule for it, or cannot judge it; the monitor denies it.
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError>;

    /// A limit that every call of this tool keeps to, whatever its arguments: under a label that
    /// flows here, none of its calls is asked about or denied for its label, so a screener could
    /// save nothing. It is no permission. ⊥ wherever the policy cannot tell.
    fn floor(&self, app: &str, tool: &str) -> Label {
        let _ = (app, tool);
        Label::bottom()
    }

    /// Labels what the call returned. Never fails: text that no rule understands gets the most
    /// restrictive label that the tool's results may have, and an unknown tool's result ⊤.
    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled;
}
