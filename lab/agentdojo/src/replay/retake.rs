//! A step that is taken once more without what stands in its way, before a question.
//!
//! Nobody can ask the recorded model. It is taken to make a call again if the values of its control part
//! are in sight, or stand nowhere, as wherever a call is brought below what the model had read.

use ifc::{Prompt, REDACTED};
use serde_json::{Map, Value};

use super::drive::{Replay, nothing, proposal};
use super::script::Call;
use crate::value_match::{argument_values, lacks};
use crate::worst_case::may_leave_open;
use hub::{Completion, ProposedCall};

impl Replay<'_> {
    /// The calls that are open, as far as they would be made of this prompt.
    pub(super) fn retake(&mut self, prompt: &Prompt) -> Completion {
        let may_leave_open = may_leave_open(prompt);
        let mut calls = Vec::new();
        self.left_out.clear();
        for call in &self.open {
            let shown = match may_leave_open {
                true => self.left_open(call, prompt),
                false => proposal(call),
            };
            // What is left open is not needed for making the call; only the rest must be in sight.
            let control = Call {
                arguments: shown.arguments.clone(),
                ..Call::clone(call)
            };
            match self.departs(&control, prompt.label()) {
                true => self.left_out.push(call),
                false => calls.push(shown),
            }
        }
        if calls.is_empty() {
            calls.push(nothing());
        }
        Completion {
            calls,
            ..Completion::default()
        }
    }

    /// A call without what its arguments would only carry and the prompt does not show.
    fn left_open(&self, call: &Call, prompt: &Prompt) -> ProposedCall {
        let arguments: Option<Map<String, Value>> = serde_json::from_str(&call.arguments).ok();
        let carriers = self.suite.carriers.get(&call.tool);
        let (Some(mut arguments), Some(carriers)) = (arguments, carriers) else {
            return proposal(call);
        };
        for (name, value) in &mut arguments {
            let values = argument_values(&value.to_string());
            let history = self.agent.history();
            let hidden = lacks(history, prompt.label(), &self.withheld, &values);
            if hidden && carriers.contains(name) {
                *value = Value::from(REDACTED);
            }
        }
        ProposedCall {
            tool: call.tool.clone(),
            arguments: Value::Object(arguments).to_string(),
        }
    }
}
