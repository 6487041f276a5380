//! Calls of the worst-case agent.

use serde_json::{Map, Value};

use crate::suite::Step;

/// A call to be proposed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
}

impl Call {
    /// Arguments that are no object are none.
    pub(super) fn new(tool: &str, arguments: Value) -> Self {
        Self {
            tool: tool.to_owned(),
            arguments: match arguments {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            },
        }
    }

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
