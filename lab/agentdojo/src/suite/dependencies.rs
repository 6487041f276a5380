//! Dependencies that no comparison of values finds, written by hand (`dependencies.toml`).

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::{Benchmark, UserTask, find_text};

/// What the hand-written file says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dependencies {
    /// By suite: values that the user leaves to the agent, so that they depend on nothing.
    invented: BTreeMap<String, Vec<String>>,
    /// Arguments that AgentDojo's `placeholder_args` calls so (`$code`), with a regular expression: each stands
    /// for the last match, or its group, in the newest result that has one.
    placeholders: BTreeMap<String, String>,
    /// Steps of tasks.
    step: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    suite: String,
    /// One task, or several whose prompts share a part.
    tasks: Vec<String>,
    /// The tool of the step; `None` is the answer.
    tool: Option<String>,
    /// Only the calls with this value among their arguments.
    with: Option<String>,
    /// The arguments that it is for; none if it decides over the step.
    #[serde(default)]
    arguments: Vec<String>,
    /// Texts in results of earlier calls that the step depends on.
    #[serde(default)]
    needs: Vec<String>,
    /// Earlier calls, by tool, whose whole results the step depends on.
    #[serde(default)]
    results: Vec<String>,
    /// Benchmark versions that this is about; all if empty.
    #[serde(default)]
    versions: Vec<String>,
}

impl Dependencies {
    /// The file that belongs to the pinned version of AgentDojo.
    pub fn builtin() -> Result<Self> {
        Self::parse(include_str!("dependencies.toml")).context("dependencies.toml")
    }

    /// Reads such a file.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// What placeholders in arguments stand for.
    pub fn placeholders(&self) -> &BTreeMap<String, String> {
        &self.placeholders
    }

    /// Checks that every entry speaks of a task, a call and texts that are there.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self, benchmark: &Benchmark) -> Result<()> {
        let about = |entry: &&Entry| entry.is_about(&benchmark.version);
        for entry in self.step.iter().filter(about) {
            for id in &entry.tasks {
                let wrong = |what: String| {
                    let suite = &entry.suite;
                    anyhow!("dependencies.toml, {suite} {id}: {what}; correct the entry")
                };
                let suite = benchmark.suites.get(&entry.suite);
                let task = suite.and_then(|suite| suite.user_tasks.iter().find(|t| t.id == *id));
                let task = task.ok_or_else(|| wrong("there is no such task".to_owned()))?;
                entry.check(task).map_err(wrong)?;
            }
        }
        Ok(())
    }

    /// What the file says of a step of a task; `None` if nothing. Step `task.steps.len()` is the
    /// answer.
    pub(super) fn of<'a>(
        &'a self,
        version: &'a str,
        suite: &'a str,
        task: &'a UserTask,
        step: usize,
    ) -> impl Iterator<Item = &'a Entry> {
        self.step.iter().filter(move |entry| {
            entry.suite == suite
                && entry.is_about(version)
                && entry.tasks.contains(&task.id)
                && entry.matches(task, step)
        })
    }

    pub(super) fn is_invented(&self, suite: &str, value: &str) -> bool {
        let invented = self.invented.get(suite);
        invented.is_some_and(|values| values.iter().any(|known| known == value))
    }
}

impl Entry {
    fn is_about(&self, version: &str) -> bool {
        self.versions.is_empty() || self.versions.iter().any(|known| known == version)
    }

    fn matches(&self, task: &UserTask, step: usize) -> bool {
        match (&self.tool, task.steps.get(step)) {
            (None, None) => step == task.steps.len(),
            (Some(tool), Some(step)) => {
                // As JSON text, so that `with` may be any part of an argument at any depth.
                let arguments = || serde_json::Value::Object(step.arguments.clone()).to_string();
                let with = self.with.as_ref();
                *tool == step.tool && with.is_none_or(|with| arguments().contains(with.as_str()))
            }
            _ => false,
        }
    }

    fn check(&self, task: &UserTask) -> Result<(), String> {
        let steps: Vec<usize> = (0..=task.steps.len())
            .filter(|step| self.matches(task, *step))
            .collect();
        // An entry may fit several calls of a task. The last one has the most results before it.
        let Some(last) = steps.last() else {
            let tool = self.tool.as_deref().unwrap_or("answer");
            return Err(format!("there is no such step: {tool}"));
        };
        let arguments = task.steps.get(*last).map(|step| &step.arguments);
        for name in &self.arguments {
            if !arguments.is_some_and(|arguments| arguments.contains_key(name)) {
                return Err(format!("the call has no argument `{name}`"));
            }
        }
        for text in &self.needs {
            if self.holders(task, *last, text).next().is_none() {
                return Err(format!("no earlier result holds `{text}`"));
            }
        }
        for tool in &self.results {
            if self
                .results(task, *last)
                .all(|at| task.steps.get(at).is_none_or(|s| s.tool != *tool))
            {
                return Err(format!("no earlier call of `{tool}`"));
            }
        }
        Ok(())
    }

    pub(super) fn texts(&self) -> &[String] {
        &self.needs
    }

    pub(super) fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The earlier steps whose results hold `text`.
    pub(super) fn holders<'a>(
        &self,
        task: &'a UserTask,
        step: usize,
        text: &'a str,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let earlier = task.steps.iter().take(step).enumerate();
        earlier
            .filter_map(move |(at, step)| (!find_text(&step.result, text).is_empty()).then_some(at))
    }

    /// The earlier steps whose whole results count.
    pub(super) fn results<'a>(
        &'a self,
        task: &'a UserTask,
        step: usize,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let earlier = task.steps.iter().take(step).enumerate();
        earlier.filter_map(|(at, step)| self.results.contains(&step.tool).then_some(at))
    }
}
