//! A user who reads each question and says yes to exactly what serves the task.

use serde_json::{Map, Value};

use crate::suite::{UserTask, same_arguments};

/// One question that was asked, for the report.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The tool.
    pub tool: String,
    /// The rule that asked.
    pub rule: String,
    /// The taints beyond it.
    pub excess: Vec<String>,
    /// Where these came from.
    pub causes: Vec<String>,
    /// Whether the call serves the task.
    pub wanted: bool,
}

/// Says yes once to the calls of a task's ground truth, and no to everything else.
#[derive(Debug, Clone, Copy)]
pub struct IdealUser<'a>(pub &'a UserTask);

impl IdealUser<'_> {
    /// Whether this call serves the task: one of the ground truth, with the same arguments.
    #[must_use]
    pub fn wants(&self, tool: &str, arguments: &str) -> bool {
        let made: Option<Map<String, Value>> = serde_json::from_str(arguments).ok();
        made.is_some_and(|made| {
            let mut steps = self.0.steps.iter();
            steps.any(|step| step.tool == tool && same_arguments(&step.arguments, &made))
        })
    }
}
