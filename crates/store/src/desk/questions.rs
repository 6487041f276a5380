//! A question at the desk, and its answer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{QuestionId, Time};

/// Names what is asked: the same key is the same question, in all processes that share a store.
pub type QuestionKey = [u8; 32];

/// A question whose process has not said for so long that it still asks waits no longer, in milliseconds.
pub(super) const SILENCE_MS: i64 = 10_000;

/// What a front puts to the desk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewQuestion {
    /// Which front asks: `proxy`, `gateway`, `guard`, `run` …
    pub front: String,
    /// The id of its trace; empty if it keeps none.
    pub session: String,
    /// The conversation, as the front names it.
    pub conversation: String,
    /// The tenant whose agent asks, if there are tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The user of the session, if known. If not, no one may allow what has approvers.
    pub asker: Option<String>,
    /// The app.
    pub app: String,
    /// The tool; empty for an answer.
    pub tool: String,
    /// `read`, `write` or `irreversible`.
    pub effect: String,
    /// The names of the answers that are offered.
    pub choices: Vec<String>,
    /// Who may allow it; if empty, everyone who may answer at all.
    pub approvers: Vec<String>,
    /// What is shown, as JSON.
    pub shown: String,
    /// Until when it waits.
    pub expires: Time,
    /// With a key, the question outlives its process, and who asks again with the same key gets the same question.
    #[serde(skip)]
    pub key: Option<QuestionKey>,
}

/// A question that was put to the desk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Its id.
    pub id: QuestionId,
    /// Until when it waits.
    pub expires: Time,
    /// False if it was there before, under its key.
    pub is_new: bool,
}

/// What says who may see a question, without what it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionHead {
    /// Its id.
    pub id: QuestionId,
    /// The apps, with `, ` between them.
    pub app: String,
    /// The effects of what its answers allow, with `, ` between them.
    pub effects: String,
    /// The tenant whose agent asks.
    pub tenant: Option<String>,
}

/// An answer, for the one who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// The answer.
    Answer(KeptAnswer),
    /// The answer is for one call, and another request has taken it.
    UsedUp,
}

/// A question at the desk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptQuestion {
    /// Its id.
    pub id: QuestionId,
    /// Since when it waits.
    pub asked: Time,
    /// When its process last said that it still asks.
    pub alive: Time,
    /// What is asked.
    pub question: NewQuestion,
    /// The answer, once there is one.
    pub answer: Option<KeptAnswer>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAnswer {
    /// Its name.
    pub answer: String,
    /// Who gave it.
    pub by: Answerer,
    /// When.
    pub at: Time,
}

/// Who answered, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answerer {
    /// The user, or the name of the token.
    pub name: Option<String>,
    /// `terminal`, `approve`, `page`, `http` or `client`.
    pub from: String,
}

/// Questions, and what could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Questions {
    /// Those that could be read.
    pub all: Vec<KeptQuestion>,
    /// The ids of the others.
    pub unreadable: Vec<String>,
}

impl NewQuestion {
    /// What says who may see it.
    pub fn head(&self, id: QuestionId) -> QuestionHead {
        QuestionHead {
            id,
            app: self.app.clone(),
            effects: self.effects().to_owned(),
            tenant: self.tenant.clone(),
        }
    }

    /// The effects of what its answers allow, with `, ` between them: `each` allows other calls too.
    pub fn effects(&self) -> &str {
        match self.choices.iter().any(|it| it == "each") {
            true => "read, write, irreversible",
            false => &self.effect,
        }
    }

    /// Whether one with a token of this name may allow it. Names that differ in case alone may be those of one person.
    pub fn may_allow(&self, name: Option<&str>) -> bool {
        let is_asker = |name: &str| {
            let asker = self.asker.as_ref();
            asker.is_none_or(|asker| asker.to_lowercase() == name.to_lowercase())
        };
        let mut approvers = self.approvers.iter();
        self.approvers.is_empty()
            || name.is_some_and(|name| !is_asker(name) && approvers.any(|it| it == name))
    }
}

impl KeptQuestion {
    /// Whether an answer still counts.
    pub fn waits(&self, now: Time) -> bool {
        self.answer.is_none() && now < self.question.expires && !self.is_left(now)
    }

    /// Whether its process has ended, and no other one will ask it again.
    pub(super) fn is_left(&self, now: Time) -> bool {
        let silent = now.millis().saturating_sub(self.alive.millis());
        self.question.key.is_none() && silent >= SILENCE_MS
    }
}

impl KeptAnswer {
    /// Whether it allows what was shown and nothing later, so that one request alone may act by it.
    pub fn is_for_one(&self) -> bool {
        ["once", "each"].contains(&self.answer.as_str())
    }
}

impl fmt::Display for KeptAnswer {
    /// `once, by ada from page`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.answer, self.by)
    }
}

impl fmt::Display for Answerer {
    /// `by ada from page`, or `from page`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "by {name} ")?;
        }
        write!(f, "from {}", self.from)
    }
}
