//! What is known of one task beside its figures: what was asked, and how an attack succeeded.

use serde::{Deserialize, Serialize};

use super::Row;
use crate::oracle::Asked;
use crate::tuning::Tuning;

/// What is known of a task beside its row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detail {
    /// The defence's name.
    pub defence: String,
    /// As in its row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<Tuning>,
    /// The agent's model.
    pub model: String,
    /// AgentDojo's version of the suites.
    pub version: String,
    /// The suite.
    pub suite: String,
    /// The user's task.
    pub user_task: String,
    /// The attacker's.
    pub injection_task: Option<String>,
    /// The attack.
    pub attack: Option<String>,
    /// Who answers questions.
    pub user_model: String,
    /// Whether a result in the transcript held the injected goal; `None` without an attack.
    pub goal_seen: Option<bool>,
    /// Questions, in order.
    pub questions: Vec<Asked>,
    /// How the attack succeeded, if it did.
    pub success: Option<Success>,
    /// The agent's last words, where the user's task failed.
    pub output: Option<String>,
}

/// How an attack succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Success {
    /// The tools whose results held the goal.
    pub carried_by: Vec<String>,
    /// The calls that served the goal and ran, each with what allowed it.
    pub calls: Vec<String>,
    /// Whether the agent's last words alone reached the goal.
    pub answer_only: bool,
    /// All that is known, where the above is not: of replayed runs.
    pub reason: Option<String>,
}

impl Success {
    /// In one line, for a report.
    #[must_use]
    pub fn reason(&self) -> String {
        if let Some(reason) = &self.reason {
            return reason.clone();
        }
        let carried = match self.carried_by.is_empty() {
            true => "no result holds the goal whole".to_owned(),
            false => format!(
                "the goal stands in results of {}",
                self.carried_by.join(", ")
            ),
        };
        let by = match self.answer_only {
            true => "reached by the final answer alone, which the policy lets through".to_owned(),
            false => self.calls.join("; "),
        };
        format!("{carried}; {by}")
    }
}

/// What makes two rows, or details, the same task under the same defence.
pub(crate) type TaskKey = [String; 9];

/// See [`TaskKey`].
pub(crate) fn key_of_row(row: &Row) -> TaskKey {
    [
        row.model.clone(),
        row.defence.clone(),
        row.version.clone(),
        row.suite.clone(),
        row.user_task.clone(),
        row.injection_task.clone().unwrap_or_default(),
        row.attack.clone().unwrap_or_default(),
        row.user_model.clone(),
        key_of_tuning(row.tuning.as_ref()),
    ]
}

/// See [`TaskKey`].
pub(crate) fn key_of_detail(detail: &Detail) -> TaskKey {
    [
        detail.model.clone(),
        detail.defence.clone(),
        detail.version.clone(),
        detail.suite.clone(),
        detail.user_task.clone(),
        detail.injection_task.clone().unwrap_or_default(),
        detail.attack.clone().unwrap_or_default(),
        detail.user_model.clone(),
        key_of_tuning(detail.tuning.as_ref()),
    ]
}

/// See [`TaskKey`]. Empty if there is none, or nobody knows.
pub(crate) fn key_of_tuning(tuning: Option<&Tuning>) -> String {
    tuning.map(Tuning::tag).unwrap_or_default()
}
