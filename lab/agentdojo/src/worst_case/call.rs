//! Calls of the worst-case agent.

use serde_json::{Map, Value};

use crate::suite::Step;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
}

impl Call {
    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.arguments.insert(name.to_owned(), value);
    }

    pub(super) fn of(step: &Step) -> Self {
        Self {
            tool: step.tool.clone(),
            arguments: step.arguments.clone(),
        }
    }
}
