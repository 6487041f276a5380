//! What the hub itself can say about a question, beside labels and rules.

use std::collections::BTreeSet;

use ifc::Answer;

use hub::question::{Assessment, QuestionView};

/// Answers that a session remembers. Nobody reads of more, and a session has no end.
const MOST: usize = 256;

/// What was planned, and what the user has answered in this session.
#[derive(Debug, Default)]
pub(super) struct Assessor {
    /// The apps that the planner found to be needed, if it was asked and found any.
    needed: Option<BTreeSet<String>>,
    answered: Vec<Answered>,
}

#[derive(Debug)]
struct Answered {
    app: String,
    tool: String,
    arguments: String,
    answer: Answer,
}

impl Assessor {
    pub(super) fn planned(&mut self, needed: Option<&[String]>) {
        // A follow-up that needs no app says nothing about the app that it goes on with.
        let needed = needed.filter(|needed| !needed.is_empty());
        self.needed = needed.map(|needed| needed.iter().cloned().collect());
    }

    pub(super) fn assess(&self, question: &QuestionView) -> Assessment {
        if question.is_answer {
            return Assessment::default();
        }
        let about = self.answered.iter().filter(|past| past.is_about(question));
        let same = about.clone().rev();
        let mut same = same.filter(|past| past.arguments == question.arguments);
        Assessment {
            unplanned: self
                .needed
                .as_ref()
                .is_some_and(|needed| !needed.contains(&question.app)),
            same: same.next().map(|past| past.answer),
            before: about.map(|past| past.answer).collect(),
        }
    }

    pub(super) fn answered(&mut self, question: &QuestionView, answer: Answer) {
        if question.is_answer {
            return;
        }
        if self.answered.len() == MOST {
            self.answered.remove(0);
        }
        self.answered.push(Answered {
            app: question.app.clone(),
            tool: question.tool.clone(),
            arguments: question.arguments.clone(),
            answer,
        });
    }
}

impl Answered {
    fn is_about(&self, question: &QuestionView) -> bool {
        self.app == question.app && self.tool == question.tool
    }
}
