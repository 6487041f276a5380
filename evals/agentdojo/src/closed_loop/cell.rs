//! What is measured together: one defence, suite, attack and user.

use std::fmt;

use crate::suite::Suite;

/// AgentDojo's attacks that need nothing of an attacker but the goal.
pub const ATTACKS: [&str; 5] = [
    "important_instructions",
    "direct",
    "ignore_previous",
    "injecagent",
    "tool_knowledge",
];

/// Attacks on Sluice itself (`python/attacks.py`).
pub const SLUICE_ATTACKS: [&str; 12] = [
    "sluice_region_markers",
    "sluice_labels",
    "sluice_redaction_marks",
    "sluice_judge_answer",
    "sluice_tool_call_syntax",
    "sluice_chat_template",
    "sluice_approval",
    "sluice_trusted_result",
    "sluice_error",
    "sluice_argument_names",
    "sluice_split",
    "sluice_large_result",
];

/// Pairs of a suite in the quick form.
const QUICK: usize = 3;

/// Where the agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Defence {
    /// Nothing between the harness and the agent.
    None,
    /// AgentDojo's own: the agent chooses its tools before it sees any result.
    ToolFilter,
    /// AgentDojo's own: the user's words are repeated after each result.
    Sandwiching,
    /// AgentDojo's own: results stand between marks.
    Delimiting,
    /// The guard proxy, told the dependencies.
    Oracle,
    /// The same, screening before every step, as the paper does.
    OracleEager,
    /// The guard proxy with the LM judge, asked only when a call would violate the policy.
    Judge,
    /// The same, before every step.
    JudgeEager,
    /// The guard proxy; the next step depends on everything.
    Naive,
    /// The guard proxy; the next step depends on nothing that is labelled.
    RedactAll,
    /// The guard proxy; every call is asked about.
    ConfirmAll,
}

/// Who answers questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UserModel {
    /// Nobody: every answer is no.
    Absent,
    /// Yes to exactly the calls of the user's task.
    Ideal,
}

/// What is measured together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The defence.
    pub defence: Defence,
    /// AgentDojo's version of the suites.
    pub version: String,
    /// The suite.
    pub suite: String,
    /// The attack; `None` runs the user's tasks alone.
    pub attack: Option<String>,
    /// Who answers questions.
    pub user: UserModel,
}

/// A name that means nothing here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} '{name}'; use one of {known}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: String,
}

impl Defence {
    /// All of them, the unprotected agent first.
    pub const ALL: [Self; 11] = [
        Self::None,
        Self::ToolFilter,
        Self::Sandwiching,
        Self::Delimiting,
        Self::Oracle,
        Self::OracleEager,
        Self::Judge,
        Self::JudgeEager,
        Self::Naive,
        Self::RedactAll,
        Self::ConfirmAll,
    ];

    /// Its name in options, rows and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ToolFilter => "tool-filter",
            Self::Sandwiching => "sandwiching",
            Self::Delimiting => "delimiting",
            Self::Oracle => "oracle",
            Self::OracleEager => "oracle-eager",
            Self::Judge => "judge",
            Self::JudgeEager => "judge-eager",
            Self::Naive => "naive",
            Self::RedactAll => "redact-all",
            Self::ConfirmAll => "confirm-all",
        }
    }

    /// The defence of this name.
    ///
    /// # Errors
    /// There is none; the error lists those there are.
    pub fn parse(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|defence| defence.name() == name);
        found.ok_or_else(|| UnknownName {
            what: "defence",
            name: name.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }

    /// What AgentDojo calls it, if it is one of its own.
    #[must_use]
    pub fn of_agentdojo(self) -> Option<&'static str> {
        match self {
            Self::ToolFilter => Some("tool_filter"),
            Self::Sandwiching => Some("repeat_user_prompt"),
            Self::Delimiting => Some("spotlighting_with_delimiting"),
            _ => None,
        }
    }

    /// Whether the guard proxy stands between the harness and the agent.
    #[must_use]
    pub fn is_guarded(self) -> bool {
        self != Self::None && self.of_agentdojo().is_none()
    }
}

impl UserModel {
    /// `absent` or `ideal`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Ideal => "ideal",
        }
    }

    /// The user of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(name: &str) -> Result<Self, UnknownName> {
        match name {
            "absent" => Ok(Self::Absent),
            "ideal" => Ok(Self::Ideal),
            _ => Err(UnknownName {
                what: "user",
                name: name.to_owned(),
                known: "absent, ideal".to_owned(),
            }),
        }
    }
}

impl Cell {
    /// The pairs to run: user tasks, each beside every injection task if there is an attack.
    #[must_use]
    pub fn pairs(&self, suite: &Suite) -> Vec<(String, Option<String>)> {
        let users = suite.user_tasks.iter().map(|task| task.id.clone());
        if self.attack.is_none() {
            return users.map(|user| (user, None)).collect();
        }
        let with_each = |user: String| {
            let goals = suite.injection_tasks.iter();
            goals.map(move |goal| (user.clone(), Some(goal.id.clone())))
        };
        users.flat_map(with_each).collect()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attack = self.attack.as_deref().unwrap_or("no attack");
        let (defence, user) = (self.defence.name(), self.user.name());
        write!(
            f,
            "{} {}, {attack}, defence {defence}, user {user}",
            self.suite, self.version
        )
    }
}

/// A few pairs, spread over all of them, always the same.
#[must_use]
pub fn quick_pairs<T: Clone>(pairs: &[T]) -> Vec<T> {
    let stride = pairs.len().div_ceil(QUICK).max(1);
    pairs.iter().step_by(stride).cloned().collect()
}
