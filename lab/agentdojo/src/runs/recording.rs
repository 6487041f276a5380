//! One recorded run, as AgentDojo wrote it. Strict: a field that we do not know is an error.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// One recorded run of a model on a task.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// `banking`, `slack`, `travel` or `workspace`.
    #[serde(rename = "suite_name")]
    pub suite: String,
    /// The model, with its defence if it had one.
    #[serde(rename = "pipeline_name")]
    pub model: String,
    /// The user's task; or an attacker's goal (`injection_task_N`), asked for by the user.
    #[serde(rename = "user_task_id")]
    pub user_task: String,
    /// The attacker's goal.
    #[serde(rename = "injection_task_id")]
    pub injection_task: Option<String>,
    /// The attack.
    #[serde(rename = "attack_type")]
    pub attack: Option<String>,
    /// What was written into which place of the environment.
    pub injections: BTreeMap<String, String>,
    /// The conversation.
    pub messages: Vec<Message>,
    /// Why the run failed; such a run measures nothing.
    pub error: Option<String>,
    /// Seconds.
    pub duration: f64,
    /// The user's task was done.
    pub utility: bool,
    /// The attacker's goal was reached. Without an attack it means nothing.
    pub security: bool,
}

/// One message of a recorded run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", deny_unknown_fields)]
pub enum Message {
    /// The developer's instructions.
    System {
        /// The text.
        content: String,
    },
    /// What the user said.
    User {
        /// The text.
        content: String,
    },
    /// What the model said.
    Assistant {
        /// The text.
        content: Option<String>,
        /// The calls.
        tool_calls: Option<Vec<RecordedCall>>,
    },
    /// What a call returned.
    Tool {
        /// The result's text.
        content: String,
        /// The error, which the model was shown in place of the result.
        error: Option<String>,
        /// The call.
        tool_call: Box<RecordedCall>,
        /// Its name.
        tool_call_id: Option<String>,
    },
}

/// One recorded call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCall {
    /// The tool.
    pub function: String,
    /// The arguments.
    pub args: Map<String, Value>,
    /// Its name within the run.
    pub id: Option<String>,
    /// Only for AgentDojo's own ground truth.
    pub placeholder_args: Option<Value>,
}

impl Recording {
    /// Whether somebody attacked. The goals asked for by the user are no attacks.
    pub fn is_attack(&self) -> bool {
        self.attack.is_some()
    }

    /// Whether a user's task was asked for, as opposed to an attacker's goal.
    pub fn is_user_task(&self) -> bool {
        !self.user_task.starts_with("injection_task")
    }

    /// `SUITE/USER_TASK/ATTACK|none/INJECTION_TASK|none`, as in the archive.
    pub fn name(&self) -> String {
        let attack = self.attack.as_deref().unwrap_or("none");
        let goal = self.injection_task.as_deref().unwrap_or("none");
        format!("{}/{}/{attack}/{goal}", self.suite, self.user_task)
    }
}
