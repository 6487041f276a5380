//! Benchmarks and queries, with what is expected of them.

use models::{PlannedCall, SummaryPart, Task, WorstCase};
use serde_json::{Map, Value};

use super::system::System;

pub(super) struct Benchmark {
    pub(super) name: &'static str,
    /// SecGPT's category of it.
    pub(super) category: &'static str,
    pub(super) apps: Vec<String>,
    pub(super) queries: Vec<Query>,
}

pub(super) struct Query {
    /// What the user says. No query's words are in another's.
    pub(super) text: String,
    /// The tools that are to be called, in this order.
    pub(super) steps: Vec<String>,
    /// Whether another order is as good.
    pub(super) any_order: bool,
    pub(super) reference: Reference,
    /// How the model without mistakes serves it: the calls, and the answer.
    pub(super) plan: Vec<PlannedCall>,
    pub(super) answer: Vec<SummaryPart>,
    /// The apps whose tools are called, for the planner.
    pub(super) needs: Vec<String>,
}

/// What the answer, or what was done, is compared with.
pub(super) enum Reference {
    /// The letters that were typed make this text.
    Typed(String),
    /// The answer has all of these words in it.
    Says(Vec<String>),
    /// The answer is JSON like this: compared field by field.
    Like(Map<String, Value>),
}

impl Benchmark {
    /// The arguments of `sluice`; `None` where the system is no other than the one before.
    pub(super) fn arguments(&self, system: System) -> Option<Vec<String>> {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match system {
            System::SluicePlanned if self.apps.is_empty() => None,
            System::SluicePlanned => Some(Vec::new()),
            _ if self.apps.is_empty() => Some(own(&["--no-app"])),
            _ => {
                let named = self.apps.iter().flat_map(|app| ["--app", app]);
                Some(named.map(str::to_owned).collect())
            }
        }
    }

    /// A model that knows every query by heart.
    pub(super) fn model(&self) -> WorstCase {
        let tasks = self.queries.iter().map(|query| {
            let task = Task::new(query.plan.clone(), query.answer.clone());
            let needs: Vec<&str> = query.needs.iter().map(String::as_str).collect();
            task.about(&query.text, &needs)
        });
        // A query of another benchmark needs nothing and is answered with nothing.
        let none = Task::new(Vec::new(), Vec::new()).about("a query of another benchmark", &[""]);
        WorstCase::at(none, tasks.collect())
    }
}
