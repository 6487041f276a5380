//! The browsers that have logged in. A login by a token has the rights of the token.
//!
//! They are kept in memory, by digests of their cookies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use maud::{Markup, html};
use sha2::{Digest as _, Sha256};
use store::{Answerer, DeskError, KeptToken, QuestionHead, QuestionId};

use super::super::front::now;

/// How long a code is valid.
const CODE: Duration = Duration::from_secs(10 * 60);
/// How long a login lasts without a use.
const UNUSED: Duration = Duration::from_secs(12 * 60 * 60);
/// Logins at once; the one that was not used for longest gives way.
const MOST: usize = 64;
const OLD: &str = "This address is older than ten minutes, or `sluice desk` has printed a newer one. Press Enter in its terminal \
                   for another.";
const USED: &str = "This address was used already. If that was not you, press Ctrl-C in the terminal of `sluice desk`.";

pub(super) type Digest = [u8; 32];

pub(super) fn hash(text: &str) -> Digest {
    Sha256::digest(text).into()
}

/// A browser that has logged in.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(super) name: String,
    /// `None`: the user who started the desk.
    pub(super) token: Option<KeptToken>,
    pub(super) csrf: String,
}

impl Login {
    /// Whether this is the user who started the desk, and not an approver with a token.
    pub(crate) fn is_owner(&self) -> bool {
        self.token.is_none()
    }

    /// Who answers.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The name under which it counts as an approver.
    pub(super) fn approver(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.name.as_str())
    }

    pub(super) async fn answer(
        &self,
        store: &store::Desk,
        id: QuestionId,
        answer: &str,
    ) -> Result<(), DeskError> {
        let (from, now) = ("page", now());
        let by = || Answerer {
            name: Some(self.name.clone()),
            from: from.to_owned(),
        };
        match &self.token {
            Some(token) => store.answer_by(id, answer, token, from, now).await,
            None => store.answer(id, answer, &by(), now).await,
        }
    }

    /// Whether it may see, and therefore count, this question.
    pub(crate) fn may_see(&self, question: &QuestionHead) -> bool {
        let limits = self.token.as_ref();
        limits.is_none_or(|token| token.may_see(question))
    }

    /// The hidden field that each form has which changes something.
    pub(crate) fn csrf(&self) -> Markup {
        html! { input type="hidden" name="csrf" value=(self.csrf); }
    }

    pub(super) fn is_csrf(&self, given: &str) -> bool {
        hash(given) == hash(&self.csrf)
    }
}

/// The code that was printed last, and the browsers that have logged in.
#[derive(Default)]
pub(super) struct Logins {
    code: Option<(Digest, Instant)>,
    is_used: bool,
    /// By the digest of their cookie, with their last use.
    pub(super) all: BTreeMap<Digest, (Login, Instant)>,
}

impl Logins {
    pub(super) fn print(&mut self, code: &str, now: Instant) {
        (self.code, self.is_used) = (Some((hash(code), now)), false);
    }

    /// Takes the code, which is valid once.
    pub(super) fn take_code(
        &mut self,
        given: &str,
        now: Instant,
    ) -> Result<Option<KeptToken>, &'static str> {
        let code = self.code.filter(|(code, _)| *code == hash(given));
        match code {
            Some(_) if self.is_used => Err(USED),
            Some((_, since)) if now.duration_since(since) < CODE => {
                self.is_used = true;
                Ok(None)
            }
            _ => Err(OLD),
        }
    }

    pub(super) fn insert(&mut self, digest: Digest, login: Login, now: Instant) {
        let oldest = self.all.iter().min_by_key(|(_, (_, used))| *used);
        if let Some((&oldest, _)) = oldest.filter(|_| self.all.len() >= MOST) {
            self.all.remove(&oldest);
        }
        self.all.insert(digest, (login, now));
    }

    pub(super) fn find(&mut self, digest: &Digest, is_use: bool, now: Instant) -> Option<Login> {
        let is_recent = |used: Instant| now.duration_since(used) < UNUSED;
        self.all.retain(|_, (_, used)| is_recent(*used));
        let (login, used) = self.all.get_mut(digest)?;
        if is_use {
            *used = now;
        }
        Some(login.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_unused_logins_expire() {
        let (mut kept, start) = (Logins::default(), Instant::now());
        for (after, expected) in [(CODE / 2, true), (CODE, false)] {
            kept.print("code", start);
            assert_eq!(kept.take_code("code", start + after).is_ok(), expected);
        }
        let login = Login {
            name: "ada".to_owned(),
            token: None,
            csrf: String::new(),
        };
        kept.insert(hash("a"), login.clone(), start);
        let mut is_there = |hours: u64, is_use| {
            let at = start + Duration::from_secs(hours * 3600);
            kept.find(&hash("a"), is_use, at).is_some()
        };
        // What a page does by itself is no use.
        assert!(is_there(11, true) && is_there(22, false) && !is_there(23, true));
        for number in 0..=MOST {
            kept.insert(hash(&number.to_string()), login.clone(), start);
        }
        assert_eq!(kept.all.len(), MOST);
    }
}
