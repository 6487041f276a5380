//! What the hub itself can say about a question, beside labels and rules.

use std::collections::BTreeSet;

use ifc::Answer;

use hub::question::{Assessment, QuestionView};

/// Answers that a session remembers. A question shows no more, and a session has no end.
const MOST: usize = 256;

/// What was planned, and what the user has answered in this session.
#[derive(Default)]
pub(super) struct Assessor {
    /// The apps that the planner found to be needed, if it was asked and found any.
    needed: Option<BTreeSet<String>>,
    /// App, tool and arguments of each call, oldest first.
    answered: Vec<([String; 3], Answer)>,
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
        let answered = self.answered.iter();
        let about = answered.filter(|([app, tool, _], _)| {
            (app.as_str(), tool.as_str()) == (&*question.app, &*question.tool)
        });
        let mut newest = about.clone().rev();
        let same = newest.find(|([.., arguments], _)| *arguments == question.arguments);
        let needed = self.needed.as_ref();
        Assessment {
            unplanned: needed.is_some_and(|needed| !needed.contains(&question.app)),
            same: same.map(|(_, answer)| *answer),
            before: about.map(|(_, answer)| *answer).collect(),
        }
    }

    pub(super) fn answered(&mut self, question: &QuestionView, answer: Answer) {
        if question.is_answer {
            return;
        }
        if self.answered.len() == MOST {
            self.answered.remove(0);
        }
        let call = [&question.app, &question.tool, &question.arguments];
        self.answered.push((call.map(String::clone), answer));
    }
}
