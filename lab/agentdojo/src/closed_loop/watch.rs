//! The user of a cell, and what is noted of each conversation.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use hub::trace::{self, Event, Flow};
use ifc::{Answer, Effect};
use policy::AppRules;
use server::{
    QuestionView,
    proxy::{Approver, Observer},
};

use super::UserModel;
use crate::{
    oracle::{Asked, IdealUser},
    suite::UserTask,
    worst_case::Knowledge,
};

/// Separates the parts of a conversation's name, of which the first is the user's task.
pub(super) const SEPARATOR: char = '.';

/// How traces call a judge's work.
const JUDGE: &str = "judge";

/// What is noted of one conversation.
#[derive(Debug, Clone, Default)]
pub(super) struct Note {
    /// Questions, in order.
    pub(super) questions: Vec<Asked>,
    /// Answers of the agent's model.
    pub(super) llm_calls: u32,
    /// Answers of the judge's model.
    pub(super) judge_calls: u32,
    /// Calls that ran: tool, and who or what allowed it.
    pub(super) allowed: Vec<(String, String)>,
    /// Calls that write or cannot be taken back, which ran or were asked about.
    pub(super) consequential: u32,
    /// Those that ran although the user's task has no call of this control part, by tool.
    pub(super) foreign: Vec<String>,
}

/// Notes by conversation, shared with the server.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes(Arc<Mutex<BTreeMap<String, Note>>>);

impl Notes {
    fn with<T>(&self, conversation: &str, change: impl FnOnce(&mut Note) -> T) -> T {
        change(self.lock().entry(conversation.to_owned()).or_default())
    }

    pub(super) fn take(&self, conversation: &str) -> Note {
        self.lock().remove(conversation).unwrap_or_default()
    }

    /// A note is whole after each change, so a thread that panicked left none torn.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Note>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers questions as the cell's user would, and notes what happens.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) user: UserModel,
    pub(super) knowledge: Arc<Knowledge>,
    /// The suite's policy, which says what a tool does to the world.
    pub(super) rules: AppRules,
    pub(super) notes: Notes,
}

impl Watch {
    /// The task of a conversation.
    fn task(&self, conversation: &str) -> Option<&UserTask> {
        let id = conversation.split(SEPARATOR).next().unwrap_or_default();
        let mut tasks = self.knowledge.suite.user_tasks.iter();
        tasks.find(|task| task.id == id)
    }

    /// Whether a call changes something. A tool without a rule might.
    fn is_consequential(&self, tool: &str) -> bool {
        let rule = self.rules.tool(tool);
        rule.is_none_or(|rule| rule.effect != Effect::Read)
    }

    /// Whether the task has a call of this control part: the same tool, and the same arguments but
    /// for those that have a limit of their own.
    fn is_own(&self, task: &UserTask, call: &trace::Call) -> bool {
        let rule = self.rules.tool(&call.tool);
        let data = |name: &str| rule.is_some_and(|rule| rule.arguments.contains_key(name));
        IdealUser(task).controls(&call.tool, &call.arguments, data)
    }
}

#[async_trait]
impl Approver for Watch {
    async fn approve(&self, conversation: &str, question: &QuestionView) -> Answer {
        let wanted = self.task(conversation).is_some_and(|task| {
            !question.is_answer && IdealUser(task).wants(&question.tool, &question.arguments)
        });
        let sources = question.causes.iter();
        let asked = Asked {
            tool: question.tool.clone(),
            rule: question.rule.clone(),
            excess: question.excess.clone(),
            causes: sources.map(|cause| cause.source.to_string()).collect(),
            wanted,
        };
        self.notes.with(conversation, |note| {
            let allowed = wanted && self.user.answers(note.questions.len());
            note.questions.push(asked);
            // An allowed one is counted when it runs.
            let refused = !allowed && !question.is_answer;
            note.consequential += u32::from(refused && self.is_consequential(&question.tool));
            match allowed {
                true => Answer::Once,
                false => Answer::No,
            }
        })
    }
}

impl Observer for Watch {
    fn event(&self, conversation: &str, event: &Event) {
        self.notes.with(conversation, |note| match event {
            Event::Completed { .. } => note.llm_calls += 1,
            Event::Consulted { purpose, .. } if purpose == JUDGE => note.judge_calls += 1,
            Event::Consulted { .. } => note.llm_calls += 1,
            Event::Allowed {
                flow: Flow::Call(call),
                by,
                ..
            } => {
                let tool = call.tool.to_string();
                if self.is_consequential(&tool) {
                    note.consequential += 1;
                    let task = self.task(conversation);
                    if !task.is_some_and(|task| self.is_own(task, call)) {
                        note.foreign.push(tool.clone());
                    }
                }
                note.allowed.push((tool, by.clone()));
            }
            _ => {}
        });
    }
}
