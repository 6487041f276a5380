//! Tokens of agents, approvers and admins. Only their digests are stored.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::DeskError;
use super::questions::QuestionHead;
use crate::{QuestionId, Time};

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sends requests to the proxy and the gateway. It sees no question.
    Agent,
    /// Sees questions and answers them.
    Approver,
    /// Sees and answers all questions, and reads metrics and the audit log.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Agent, Self::Approver, Self::Admin];

    /// `approver`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }
}

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Who has it. It is the name under which answers are recorded.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The tenant of an agent, or the one whose questions it shows; `None`: all.
    pub tenant: Option<String>,
    /// The apps whose questions it shows; empty: all.
    pub apps: Vec<String>,
    /// The effects of the calls whose questions it shows; empty: all.
    pub effects: Vec<String>,
    /// Until when.
    pub expires: Option<Time>,
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptToken {
    /// Who has it.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The tenant of an agent, or the one whose questions it shows; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The apps whose questions it shows; empty: all.
    pub apps: Vec<String>,
    /// The effects of the calls whose questions it shows; empty: all.
    pub effects: Vec<String>,
    /// Since when.
    pub created: Time,
    /// Until when.
    pub expires: Option<Time>,
    /// When it was last used, to the minute.
    #[serde(skip)]
    pub last_used: Option<Time>,
}

impl KeptToken {
    pub(super) fn new(new: &NewToken, now: Time) -> Self {
        let new = new.clone();
        Self {
            name: new.name,
            role: new.role,
            tenant: new.tenant,
            apps: new.apps,
            effects: new.effects,
            created: now,
            expires: new.expires,
            last_used: None,
        }
    }

    /// Whether it admits now.
    pub(super) fn counts(&self, now: Time) -> bool {
        // Not before it was made: a clock that is set back must not extend it.
        self.created <= now && self.expires.is_none_or(|end| now < end)
    }

    /// Whether it shows this question. One that it does not show, it cannot count either.
    pub fn may_see(&self, question: &QuestionHead) -> bool {
        let has = |limits: &[String], all: &str| {
            let mut all = all.split(", ");
            limits.is_empty() || all.all(|one| limits.iter().any(|it| it == one))
        };
        let is_own = self.tenant.is_none() || self.tenant == question.tenant;
        let is_shown = has(&self.apps, &question.app) && has(&self.effects, &question.effects);
        self.role != Role::Agent && is_own && is_shown
    }
}

/// A new secret of 256 random bits, and its digest.
pub(super) fn fresh() -> Result<(String, [u8; 32]), DeskError> {
    let random = || QuestionId::random().map_err(DeskError::System);
    let secret = format!("sluice-{}{}", random()?, random()?);
    let digest = digest(&secret);
    Ok((secret, digest))
}

pub(super) fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}
