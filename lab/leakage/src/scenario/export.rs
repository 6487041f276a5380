//! A task for another system.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Scenario;
use crate::task::Categories;

impl Scenario {
    /// The task for another system: the conversation and the tools as an OpenAI-compatible API takes them, and the
    /// ground truth.
    #[must_use]
    pub fn export(&self) -> Value {
        let app = &self.domain.app;
        let mut messages = vec![json!({"role": "system", "content": app.about.system})];
        let mut number = 0;
        for exchange in &self.exchanges {
            messages.push(json!({"role": "user", "content": exchange.user}));
            let mut calls = Vec::new();
            let mut results = Vec::new();
            for (tool, arguments, result) in &exchange.calls {
                number += 1;
                let id = format!("call_{number}");
                let arguments = Value::Object(arguments.clone()).to_string();
                let function = json!({"name": tool, "arguments": arguments});
                calls.push(json!({"id": id, "type": "function", "function": function}));
                let content = result.to_string();
                results.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
            }
            messages.push(json!({"role": "assistant", "content": "", "tool_calls": calls}));
            messages.extend(results);
            messages.push(json!({"role": "assistant", "content": exchange.answer}));
        }
        messages.push(json!({"role": "user", "content": self.task.user}));
        let tools = app.tools.iter().map(|tool| {
            let function = json!({
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema(),
            });
            json!({"type": "function", "function": function})
        });
        let truth = self.task.calls.iter().zip(&self.truth.calls);
        let truth = truth.map(|(call, arguments)| {
            let flows = call
                .args
                .iter()
                .filter(|(_, argument)| !argument.flows.is_empty());
            let flows: BTreeMap<&String, &Categories> = flows
                .map(|(name, argument)| (name, &argument.flows))
                .collect();
            json!({
                "tool": call.tool,
                "arguments": arguments,
                "control": call.control,
                "flows": flows,
            })
        });
        json!({
            "domain": self.domain.name(),
            "task": self.task.id,
            "seeded": self.seeded,
            "pattern": self.task.pattern,
            "injected": self.injected.as_ref().map(|injected| &injected.text),
            "messages": messages,
            "tools": tools.collect::<Vec<_>>(),
            "truth": truth.collect::<Vec<_>>(),
            "told": self.truth.told,
        })
    }
}
