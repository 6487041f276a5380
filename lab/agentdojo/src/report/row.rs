//! One task of the benchmark under one defence: the unit that every report is made of.

use serde::{Deserialize, Serialize};

use crate::tuning::Tuning;

/// What came of one task (a user task, alone or beside one injection task) under one defence.
///
/// Rows are kept as JSON lines: a run that was stopped keeps what it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The defence; `none` for the unprotected agent, which ratios are taken over.
    pub defence: String,
    /// How its attention screener was tuned; `None` without one, and in rows of earlier versions,
    /// which did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<Tuning>,
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
}
