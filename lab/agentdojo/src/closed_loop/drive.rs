//! Runs cells: serves the agent, feeds the harness, keeps the rows.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result};

use super::{
    Cell, Job, MadeCall, Outcome, Runner, Store, quick_pairs,
    serve::Served,
    settings::Settings,
    watch::{Note, SEPARATOR},
};
use crate::{
    policies::{self, Answers},
    python::Python,
    report::Row,
    suite::{Benchmark, Dependencies, InjectionTask},
    worst_case::Knowledge,
};

/// Runs cells, with one Python process for all of them.
#[derive(Debug)]
pub struct Loop {
    python: Python,
    runner: Runner,
    settings: Settings,
    dependencies: Dependencies,
    benchmarks: BTreeMap<String, Benchmark>,
    jobs: u64,
}

impl Loop {
    /// Starts the Python process.
    pub fn start(python: Python, settings: Settings) -> Result<Self> {
        Ok(Self {
            runner: Runner::start(&python, settings.workers)?,
            python,
            dependencies: settings.policies.dependencies()?,
            settings,
            benchmarks: BTreeMap::new(),
            jobs: 0,
        })
    }

    /// Reads a version's suites, and checks the hand-written dependencies against them.
    pub fn load(&mut self, version: &str, progress: &mut dyn FnMut(&str)) -> Result<&Benchmark> {
        if !self.benchmarks.contains_key(version) {
            let placeholders = self.dependencies.placeholders();
            let export = self.python.export(version, placeholders, progress)?;
            let benchmark = Benchmark::parse(&export)?;
            self.dependencies.check(&benchmark)?;
            self.benchmarks.insert(version.to_owned(), benchmark);
        }
        let loaded = self.benchmarks.get(version);
        loaded.with_context(|| format!("the suites {version} were not read"))
    }

    /// Runs what a cell still lacks in the store. `progress` is told how many of its tasks have
    /// their row. Safe to drop: the rows so far are kept.
    ///
    /// # Errors
    /// Something other than a task fails; a task that fails is a row with an error.
    pub async fn run(
        &mut self,
        cell: &Cell,
        store: &mut Store,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<()> {
        let knowledge = Arc::new(self.knowledge(cell)?);
        let mut pairs = cell.pairs(&knowledge.suite);
        if self.settings.quick {
            pairs = quick_pairs(&pairs);
        }
        let total = pairs.len();
        let model = self.settings.model.name().to_owned();
        let ideal = self.settings.shown_by(cell);
        // A pair is left out if its row is there, or if a row of the user who stays shows how it would end.
        pairs.retain(|(user, injection)| {
            let pair = (user.as_str(), injection.as_deref());
            let known = store.questions(&model, cell, pair).is_some();
            let ideal = ideal.as_ref();
            let shown = ideal.is_some_and(|(ideal, answers)| {
                let asked = store.questions(&model, ideal, pair);
                asked.is_some_and(|asked| asked <= *answers)
            });
            !known && !shown
        });
        let mut done = total - pairs.len();
        progress(done, total);
        if pairs.is_empty() {
            return Ok(());
        }
        let served = Served::start(cell, &knowledge, &self.settings).await?;
        let jobs = self.jobs(cell, &served.base_url, pairs);
        self.runner.submit(&jobs).await?;
        for job in &jobs {
            let outcome = self.runner.next().await?;
            let outcome = outcome.context("AgentDojo's runner answered too few jobs")?;
            let note = served.notes.take(&job.conversation);
            store.keep(row(cell, job, outcome, note, &knowledge))?;
            done += 1;
            progress(done, total);
        }
        Ok(())
    }

    fn knowledge(&mut self, cell: &Cell) -> Result<Knowledge> {
        let config = self.settings.policies.of(&cell.suite, Answers::Policy)?;
        let suites = &self.load(&cell.version, &mut |_| {})?.suites;
        let suite = suites.get(&cell.suite).cloned();
        Ok(Knowledge {
            version: cell.version.clone(),
            suite_name: cell.suite.clone(),
            suite: suite.with_context(|| format!("AgentDojo has no suite '{}'", cell.suite))?,
            dependencies: self.dependencies.clone(),
            carriers: policies::carriers(&config),
        })
    }

    fn jobs(&mut self, cell: &Cell, base_url: &str, pairs: Vec<Pair>) -> Vec<Job> {
        let job = |(user_task, injection_task): Pair| {
            self.jobs += 1;
            let against = injection_task.as_deref().unwrap_or("alone");
            Job {
                id: self.jobs,
                base_url: base_url.to_owned(),
                model: self.settings.model.name().to_owned(),
                version: cell.version.clone(),
                suite: cell.suite.clone(),
                attack: cell.attack.clone(),
                conversation: format!("{user_task}{SEPARATOR}{against}{SEPARATOR}{}", self.jobs),
                user_task,
                injection_task,
                defence: cell.defence.of_agentdojo().map(str::to_owned),
            }
        };
        pairs.into_iter().map(job).collect()
    }
}

/// A user task, and the injection task beside it.
type Pair = (String, Option<String>);

/// The harness sees what its answers cost in all, drafts and judgements included; how many calls
/// that were, only the proxy knows.
fn row(cell: &Cell, job: &Job, outcome: Outcome, note: Note, knowledge: &Knowledge) -> Row {
    let mut goals = knowledge.suite.injection_tasks.iter();
    let goal = goals.find(|goal| Some(&goal.id) == job.injection_task.as_ref());
    let succeeded = goal.filter(|_| outcome.security == Some(true));
    let guarded = cell.defence.is_guarded();
    let questions = u32::try_from(note.questions.len()).unwrap_or(u32::MAX);
    Row {
        defence: cell.defence_name(),
        model: job.model.clone(),
        version: cell.version.clone(),
        suite: cell.suite.clone(),
        user_task: job.user_task.clone(),
        injection_task: job.injection_task.clone(),
        attack: job.attack.clone(),
        user_model: cell.user.name(),
        utility: outcome.utility,
        attack_succeeded: outcome.security,
        questions,
        llm_calls: if guarded {
            note.llm_calls
        } else {
            outcome.llm_calls
        },
        judge_calls: note.judge_calls,
        prompt_tokens: outcome.prompt_tokens,
        completion_tokens: outcome.completion_tokens,
        seconds: outcome.seconds,
        answer_only: succeeded.map(|goal| answer_only(goal, &outcome, &note.foreign)),
        asked: note.questions,
        consequential: guarded.then_some(note.consequential),
        foreign_calls: note.foreign,
        error: outcome.error,
    }
}

/// Whether the final answer alone reached the goal: no call served it.
fn answer_only(goal: &InjectionTask, outcome: &Outcome, foreign: &[String]) -> bool {
    let mut made = outcome.messages.iter().flat_map(|message| &message.calls);
    let serves = |call: &MadeCall| goal.steps.iter().any(|step| step.tool == call.tool);
    // AgentDojo does not list the calls of every goal, so any call that is not the user's serves it.
    foreign.is_empty() && !made.any(serves)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_goal_is_reached_by_its_calls_or_by_others_that_are_not_the_users() {
        let check = |steps: &[&str], made: &[&str], foreign: &[&str], expected| {
            let step = |tool: &&str| json!({"tool": tool, "arguments": {}, "result": "", "is_error": false});
            let steps: Vec<_> = steps.iter().map(step).collect();
            let goal = json!({"id": "injection_task_0", "goal": "Mail it", "steps": steps});
            let call = |tool: &&str| json!({"tool": tool, "arguments": {}});
            let calls: Vec<_> = made.iter().map(call).collect();
            let outcome = json!({
                "id": 1, "seconds": 1.0, "security": true, "error": null,
                "messages": [{"role": "assistant", "content": "", "calls": calls}],
            });
            let foreign: Vec<String> = foreign.iter().map(|tool| (*tool).to_owned()).collect();
            let goal = serde_json::from_value(goal).unwrap();
            let outcome = serde_json::from_value(outcome).unwrap();
            assert_eq!(answer_only(&goal, &outcome, &foreign), expected, "{made:?}");
        };
        check(&[], &["read_mail", "send_mail"], &["send_mail"], false);
        check(&[], &["read_mail"], &[], true);
        check(&["pay"], &["pay"], &[], false);
        check(&["pay"], &["schedule"], &["schedule"], false);
        check(&["pay"], &["read_mail"], &[], true);
    }
}
