//! What the visible messages say has been done, and what is still to be obeyed.

use std::collections::{BTreeMap, VecDeque};

use ifc::{PromptMessage, PromptTool, REDACTED};
use serde_json::Value;

use super::instructions::{self, Instruction};
use super::task::{PlannedCall, Task};
use super::{is_tool, view};

/// How far a prompt shows the agent to be.
pub(super) struct Progress<'a> {
    pub(super) task: &'a Task,
    /// The calls of the plan that were made, by their place in it: the name in the prompt, and what it returned.
    results: BTreeMap<usize, (String, Option<String>)>,
    /// Instructions seen, obeyed or not.
    seen: Vec<(String, String)>,
    /// Instructions not yet obeyed.
    pub(super) pending: VecDeque<Instruction>,
}

impl<'a> Progress<'a> {
    /// What these messages show. Each message of the user begins the task that it is about.
    pub(super) fn of(
        tasks: &'a [Task],
        first: &'a Task,
        messages: &[PromptMessage],
        tools: &[PromptTool],
    ) -> Self {
        let mut progress = Self {
            task: first,
            results: BTreeMap::new(),
            seen: Vec::new(),
            pending: VecDeque::new(),
        };
        for (at, message) in messages.iter().enumerate() {
            match message {
                PromptMessage::System(_) => {}
                PromptMessage::User(text) => {
                    // Results of the task before are none of this one's plan.
                    progress.results.clear();
                    let meant = tasks.iter().find(|task| text.contains(&task.about));
                    progress.task = meant.unwrap_or(progress.task);
                }
                PromptMessage::Assistant { calls, .. } => {
                    for call in calls {
                        progress.called(&call.tool, &call.id);
                    }
                }
                PromptMessage::Tool { call, content, .. } => {
                    progress.returned(call, content);
                    progress.read(instructions::find(content, at, tools));
                }
            }
        }
        progress
    }

    /// The calls of the plan that were not made yet and can be, each with its place.
    pub(super) fn left<'p>(
        &'p self,
        tools: &'p [PromptTool],
    ) -> impl Iterator<Item = (&'a PlannedCall, &'p PromptTool)> + 'p {
        let open = self.task.plan.iter().enumerate();
        let open = open.filter(|(at, _)| !self.results.contains_key(at));
        open.filter_map(|(_, call)| {
            let tool = tools.iter().find(|tool| is_tool(&tool.name, &call.tool))?;
            Some((call, tool))
        })
    }

    fn called(&mut self, tool: &str, id: &str) {
        let mut plan = self.task.plan.iter().enumerate();
        let planned = plan
            .find(|(at, call)| !self.results.contains_key(at) && is_tool(tool, &call.tool))
            .map(|(at, _)| at);
        // Orders come before the plan (`calls`), so a call that fits both obeys the order.
        if self.pending.front().is_some_and(|next| next.tool == tool) {
            self.pending.pop_front();
        } else if let Some(at) = planned {
            self.results.insert(at, (id.to_owned(), None));
        }
    }

    fn returned(&mut self, call: &str, content: &str) {
        if let Some((_, result)) = self.results.values_mut().find(|(id, _)| id == call) {
            *result = Some(content.to_owned());
        }
    }

    fn read(&mut self, found: Vec<Instruction>) {
        for instruction in found {
            // The same order in a second result, of a search for example, is obeyed once.
            let key = (instruction.tool.clone(), instruction.clause.clone());
            if !self.seen.contains(&key) {
                self.seen.push(key);
                self.pending.push_back(instruction);
            }
        }
    }

    /// What the result of a call of the plan shows at a place.
    pub(super) fn shown(&self, step: usize, pointer: &str) -> String {
        let result = step.checked_sub(1).and_then(|at| self.results.get(&at));
        let value = result
            .and_then(|(_, content)| content.as_deref())
            .and_then(view::parse);
        match value.as_ref().and_then(|value| value.pointer(pointer)) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => REDACTED.to_owned(),
        }
    }
}
