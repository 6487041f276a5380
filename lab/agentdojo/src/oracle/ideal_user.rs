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
    pub fn wants(&self, tool: &str, arguments: &str) -> bool {
        // Without data arguments the control part is the whole call.
        self.controls(tool, arguments, |_| false)
    }

    /// Which step of the ground truth this call is.
    pub fn step(&self, tool: &str, arguments: &str) -> Option<usize> {
        let made: Map<String, Value> = serde_json::from_str(arguments).ok()?;
        let mut steps = self.0.steps.iter();
        steps.position(|step| step.tool == tool && same_arguments(&step.arguments, &made))
    }

    /// Whether a call of the ground truth has the same control part: the same tool, and the same
    /// arguments but for the data arguments.
    pub fn controls(&self, tool: &str, arguments: &str, is_data: impl Fn(&str) -> bool) -> bool {
        let made: Option<Map<String, Value>> = serde_json::from_str(arguments).ok();
        let control = |arguments: Map<String, Value>| -> Map<String, Value> {
            let fields = arguments.into_iter();
            fields.filter(|(name, _)| !is_data(name)).collect()
        };
        made.map(control).is_some_and(|made| {
            let mut steps = self.0.steps.iter().filter(|step| step.tool == tool);
            steps.any(|step| same_arguments(&control(step.arguments.clone()), &made))
        })
    }
}
