//! Who answers questions, and what became of them.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use hub::trace::{Event, UNANSWERED};
use ifc::Answer;
use store::{Answerer, DeskError, QuestionId, QuestionKey, Taken};

use crate::QuestionView;

/// Where the no to a question comes from that is above its tenant's budget.
const BUDGET: &str = "budget";

/// Where a question comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuestionOrigin {
    /// The conversation, as the front names it.
    pub conversation: String,
    /// The name of the token of the agent that asks, if it has one.
    pub agent: Option<String>,
    /// The tenant whose agent asks, if there are tenants.
    pub tenant: Option<String>,
    /// Names the request that asks: one that is sent again asks the same.
    pub key: Option<QuestionKey>,
}

impl QuestionOrigin {
    /// A question of this conversation, which is not asked again.
    pub fn of(conversation: &str) -> Self {
        Self {
            conversation: conversation.to_owned(),
            ..Self::default()
        }
    }
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// Who gave it. `None`: there was no answer, which is a no.
    pub by: Option<Answerer>,
    /// Where it is, if the desk's store took it, which knows the approvers.
    pub(super) kept: Option<KeptAt>,
    /// Whether the question waits on, in the store, while this process ends or cannot read it.
    pub(super) is_left: bool,
}

/// Where an answer is.
#[derive(Clone)]
pub(super) struct KeptAt {
    pub(super) store: Arc<store::Desk>,
    pub(super) id: QuestionId,
    pub(super) is_keyed: bool,
}

impl PartialEq for KeptAt {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for KeptAt {}

impl fmt::Debug for KeptAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.id, f)
    }
}

impl Answered {
    /// There was no answer.
    pub const NOT: Self = Self {
        answer: Answer::No,
        by: None,
        kept: None,
        is_left: false,
    };

    /// The question waits on. Who asks again meets it.
    pub(super) const LEFT: Self = Self {
        is_left: true,
        ..Self::NOT
    };

    /// An answer that was given here, and not at the desk.
    pub fn here(answer: Answer, name: Option<String>, from: &str) -> Self {
        let from = from.to_owned();
        Self {
            answer,
            by: Some(Answerer { name, from }),
            ..Self::NOT
        }
    }

    /// The tenant may ask no more for now.
    pub(super) fn over_budget() -> Self {
        Self::here(Answer::No, None, BUDGET)
    }

    /// Whether no person was asked, because the tenant may ask no more for now.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.by.as_ref().is_some_and(|by| by.from == BUDGET)
    }

    /// The same if it counts, else no: the question offers this answer, and where it has approvers, one of them gave it. That
    /// is known of the desk's answers alone.
    #[must_use]
    pub(crate) fn counted(self, choices: &[Answer], has_approvers: bool) -> Self {
        match choices.contains(&self.answer) && (self.kept.is_some() || !has_approvers) {
            true => self,
            false => Self {
                answer: Answer::No,
                ..self
            },
        }
    }

    /// Whether the question waits on, and who asks again meets it.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left
    }

    /// Whether the store gives the answer to who asks again, in any process.
    pub(crate) fn is_for_all(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_keyed)
    }

    /// Takes the answer from the store, to act by it. False if it is for one call, and another request has taken it. `None` if
    /// the store does not have it.
    pub(crate) async fn claim(&self) -> Option<Result<bool, DeskError>> {
        let KeptAt { store, id, .. } = self.kept.as_ref()?;
        let taken = store.take(*id, SystemTime::now().into()).await;
        Some(taken.map(|taken| matches!(taken, Some(Taken::Answer(_)))))
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

/// Another way to answer a question.
pub type Other<'a> = Pin<Box<dyn Future<Output = Answered> + Send + 'a>>;

/// Answers questions. No answer is no: an approver must return.
#[async_trait]
pub trait Approver: Send + Sync {
    /// The answer, and who gave it: the first one, also of `other`. Anything but a clear yes must be [`Answer::No`]. Several
    /// questions may be open at once; dropping the future takes the question back.
    async fn ask_beside(
        &self,
        origin: &QuestionOrigin,
        question: &QuestionView,
        other: Other<'_>,
    ) -> Answered;

    /// The same, where there is no other way to answer.
    async fn ask(&self, origin: &QuestionOrigin, question: &QuestionView) -> Answered {
        self.ask_beside(origin, question, Box::pin(pending())).await
    }
}

/// Every call that would need a yes is dropped.
#[derive(Debug, Clone, Copy, Default)]
pub struct DropCalls;

#[async_trait]
impl Approver for DropCalls {
    async fn ask_beside(&self, _: &QuestionOrigin, _: &QuestionView, _: Other<'_>) -> Answered {
        Answered::here(Answer::No, None, "program")
    }
}
