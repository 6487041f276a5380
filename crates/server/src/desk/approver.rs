//! Who answers questions, and what became of them.

use async_trait::async_trait;
use hub::trace::{Event, UNANSWERED};
use ifc::Answer;
use store::Answerer;

use crate::QuestionView;

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// Who gave it. `None`: there was no answer, which is a no.
    pub by: Option<Answerer>,
}

impl Answered {
    /// There was no answer.
    pub const NOT: Self = Self {
        answer: Answer::No,
        by: None,
    };

    /// An answer from there, by a person whose name is not known.
    pub fn from(answer: Answer, from: &str) -> Self {
        let (name, from) = (None, from.to_owned());
        let by = Some(Answerer { name, from });
        Self { answer, by }
    }

    /// The same if the question offers this answer, else no.
    #[must_use]
    pub fn among(self, choices: &[Answer]) -> Self {
        match choices.contains(&self.answer) {
            true => self,
            false => Self {
                answer: Answer::No,
                ..self
            },
        }
    }

    /// For the trace.
    pub(crate) fn event(&self) -> Event {
        let answer = match self.by {
            Some(_) => self.answer.name(),
            None => UNANSWERED,
        };
        Event::Replied {
            answer: answer.to_owned(),
            by: self.by.as_ref().and_then(|by| by.name.clone()),
            from: self.by.as_ref().map(|by| by.from.clone()),
        }
    }
}

/// Answers questions. No answer is no: an approver must return.
#[async_trait]
pub trait Approver: Send + Sync {
    /// The answer. Anything but a clear yes must be [`Answer::No`]. Several questions may be open
    /// at once; dropping the future takes the question back.
    async fn approve(&self, conversation: &str, question: &QuestionView) -> Answer;

    /// The answer, and who gave it. Fronts call this one.
    async fn ask(&self, conversation: &str, question: &QuestionView) -> Answered {
        Answered::from(self.approve(conversation, question).await, "program")
    }
}

/// Every call that would need a yes is dropped.
#[derive(Debug, Clone, Copy, Default)]
pub struct DropCalls;

#[async_trait]
impl Approver for DropCalls {
    async fn approve(&self, _: &str, _: &QuestionView) -> Answer {
        Answer::No
    }
}
