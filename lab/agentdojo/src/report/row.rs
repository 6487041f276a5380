//! The result of one task of the benchmark under one defence.

use serde::{Deserialize, Serialize};

use crate::oracle::Asked;

/// The result of one task (a user task, alone or with one injection task) under one defence.
///
/// Rows are stored as JSON lines, so that a run that is stopped keeps the rows so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The defence; `none` for the unprotected agent, which ratios are taken over.
    pub defence: String,
    /// AgentDojo's version of the suites: `v1`, `v1.2.2`.
    pub version: String,
    /// `banking`, `slack`, `travel` or `workspace`.
    pub suite: String,
    /// For example `user_task_3`.
    pub user_task: String,
    /// The attacker's goal; `None` without an attack.
    pub injection_task: Option<String>,
    /// The attack's name, such as `important_instructions`; `None` without an attack.
    pub attack: Option<String>,
    /// The agent's model: `worst-case`, or the recorded one.
    pub model: String,
    /// Who answers questions: `absent` says no to all, `ideal` yes to the task's own calls.
    pub user_model: String,
    /// The suite's own check says that the user's task was done.
    pub utility: bool,
    /// The suite's own check says that the attacker's goal was reached (AgentDojo calls this
    /// `security: true`); `None` without an attack.
    pub attack_succeeded: Option<bool>,
    /// Questions that the user would have been asked.
    pub questions: u32,
    /// Calls of the agent's model.
    pub llm_calls: u32,
    /// Further calls of a screener's model.
    pub judge_calls: u32,
    /// Prompt tokens of all calls.
    pub prompt_tokens: u64,
    /// Generated tokens of all calls.
    pub completion_tokens: u64,
    /// Wall time of the task.
    pub seconds: f64,
    /// Why there is no result. Such a row counts as a failure of the user's task and in no attack.
    pub error: Option<String>,
    /// Those questions, in order; not in rows of earlier versions, as all that follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Asked>,
    /// Calls that write or cannot be taken back, which ran or were asked about; `None` where no
    /// guard saw them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consequential: Option<u32>,
    /// The tools of those that ran although the user's task has no call of this control part: the same
    /// tool, and the same arguments but for those that have a limit of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_calls: Vec<String>,
    /// Whether the attack succeeded by the final answer alone; `None` if it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_only: Option<bool>,
}

/// Identifies a task under a defence: two rows with the same key are two runs of the same thing.
pub(crate) type TaskKey = [String; 8];

impl Row {
    pub(crate) fn key(&self) -> TaskKey {
        [
            self.model.clone(),
            self.defence.clone(),
            self.version.clone(),
            self.suite.clone(),
            self.user_task.clone(),
            self.injection_task.clone().unwrap_or_default(),
            self.attack.clone().unwrap_or_default(),
            self.user_model.clone(),
        ]
    }
}
