//! Who answers questions, and what became of them.

use std::future::Future;
use std::pin::Pin;

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
    /// Whether the desk's store took it, which knows the approvers.
    pub(super) is_kept: bool,
}

impl Answered {
    /// There was no answer.
    pub const NOT: Self = Self {
        answer: Answer::No,
        by: None,
        is_kept: false,
    };

    /// An answer that was given here, and not at the desk.
    pub fn here(answer: Answer, name: Option<String>, from: &str) -> Self {
        let from = from.to_owned();
        Self {
            answer,
            by: Some(Answerer { name, from }),
            is_kept: false,
        }
    }

    /// The same if it counts, else no: the question offers this answer, and where it has approvers, one of them gave it. That
    /// is known of the desk's answers alone.
    #[must_use]
    pub(crate) fn counted(self, choices: &[Answer], has_approvers: bool) -> Self {
        match choices.contains(&self.answer) && (self.is_kept || !has_approvers) {
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

/// An answer that is given in another way than at the desk.
pub type Other<'a> = Pin<Box<dyn Future<Output = Answered> + Send + 'a>>;

/// Answers questions. No answer is no: an approver must return.
#[async_trait]
pub trait Approver: Send + Sync {
    /// The answer. Anything but a clear yes must be [`Answer::No`]. Several questions may be open
    /// at once; dropping the future takes the question back.
    async fn approve(&self, conversation: &str, question: &QuestionView) -> Answer;

    /// The answer, and who gave it. Fronts call this one.
    async fn ask(&self, conversation: &str, question: &QuestionView) -> Answered {
        Answered::here(self.approve(conversation, question).await, None, "program")
    }

    /// The same, where there is another way to answer. The first answer counts.
    async fn ask_beside(
        &self,
        conversation: &str,
        question: &QuestionView,
        other: Other<'_>,
    ) -> Answered {
        tokio::select! {
            answered = other => answered,
            answered = self.ask(conversation, question) => answered,
        }
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
