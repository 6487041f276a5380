//! Who may see the pages: a login by a one-time code that the terminal printed, or by an approver's token.
//!
//! Cookies are kept in memory, as digests. A login by a token has the rights of the token for as long as the token is valid.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Form;
use axum::extract::{Extension, Query, State};
use axum::http::header::{LOCATION, RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode, header::COOKIE};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use store::{KeptToken, NewQuestion, Role};

use super::super::front::{blocking, fresh_token, now};
use super::{Origin, Shared, layout};

/// How long a code is valid.
const CODE: Duration = Duration::from_secs(10 * 60);
/// How long a login lasts without a use.
const UNUSED: Duration = Duration::from_secs(12 * 60 * 60);
/// Logins at once; the one that was not used for longest gives way.
const MOST: usize = 64;
/// Wrong codes and tokens in a minute. Tokens are too long to be guessed; this keeps a guesser from costing much.
const MOST_FAILURES: usize = 20;
const MINUTE: Duration = Duration::from_secs(60);

type Digest = [u8; 32];

fn hash(text: &str) -> Digest {
    Sha256::digest(text).into()
}

/// A browser that has logged in.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    name: String,
    /// `None`: the user who started the desk.
    token: Option<KeptToken>,
    csrf: String,
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

    /// Whether it may see, and therefore count, this question.
    pub(crate) fn may_see(&self, question: &NewQuestion) -> bool {
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

/// The logins of this process.
pub(super) struct Logins {
    store: Arc<store::Desk>,
    user: String,
    kept: Mutex<Kept>,
}

impl Logins {
    pub(super) fn new(store: Arc<store::Desk>, user: String) -> Self {
        let kept = Mutex::default();
        Self { store, user, kept }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new code, which is valid once. The one before is no longer.
    pub(super) fn new_code(&self) -> Result<String, String> {
        let code = fresh_token()?;
        self.kept().code = Some(Printed::new(&code, Instant::now()));
        Ok(code)
    }

    /// The valid token with this secret, if it is one of an approver.
    async fn admit(&self, given: String) -> Option<KeptToken> {
        let token = blocking(&self.store, move |store| store.admit(&given, now())).await;
        let token = token.ok().flatten();
        token.filter(|token| token.role == Role::Approver)
    }

    /// A new login, and its cookie.
    fn begin(&self, token: Option<KeptToken>) -> Result<String, String> {
        let (secret, csrf) = (fresh_token()?, fresh_token()?);
        let name = token.as_ref().map_or(&self.user, |token| &token.name);
        let name = name.clone();
        let login = Login { name, token, csrf };
        self.kept().insert(hash(&secret), login, Instant::now());
        Ok(secret)
    }

    /// The login of a request. `is_use` says that a person made it, and not a page that looks for news.
    pub(super) async fn of(
        &self,
        headers: &HeaderMap,
        origin: &Origin,
        is_use: bool,
    ) -> Option<Login> {
        let digest = hash(cookie(headers, origin)?);
        let login = self.kept().login(&digest, is_use, Instant::now())?;
        let Some(token) = login.token.clone() else {
            return Some(login);
        };
        let tokens = blocking(&self.store, store::Desk::tokens).await.ok()?;
        let mut same = tokens.iter().filter(|it| it.name == token.name);
        // A name can be given again, to another token.
        let is_valid = |it: &KeptToken| {
            it.created == token.created && it.expires.is_none_or(|expires| now() < expires)
        };
        same.any(is_valid).then_some(login)
    }

    pub(super) fn end(&self, headers: &HeaderMap, origin: &Origin) {
        if let Some(secret) = cookie(headers, origin) {
            self.kept().logins.remove(&hash(secret));
        }
    }
}

/// The code that was printed last.
struct Printed {
    digest: Digest,
    since: Instant,
    is_used: bool,
}

impl Printed {
    fn new(code: &str, since: Instant) -> Self {
        let (digest, is_used) = (hash(code), false);
        Self {
            digest,
            since,
            is_used,
        }
    }
}

#[derive(Default)]
struct Kept {
    code: Option<Printed>,
    /// The logins by the digest of their cookie, and when they were last used.
    logins: BTreeMap<Digest, (Login, Instant)>,
    /// When codes and tokens were wrong.
    failures: VecDeque<Instant>,
}

impl Kept {
    /// Takes the code, which is valid once.
    fn take_code(&mut self, given: &str, now: Instant) -> Result<(), &'static str> {
        let old = "This address is older than ten minutes, or `sluice desk` has printed a newer one. Press Enter in its terminal for \
                   another.";
        let used = "This address was used already. If that was not you, press Ctrl-C in the terminal of `sluice desk`.";
        let code = self.code.as_mut().filter(|code| code.digest == hash(given));
        match code {
            Some(code) if code.is_used => Err(used),
            Some(code) if now.duration_since(code.since) < CODE => {
                code.is_used = true;
                Ok(())
            }
            _ => Err(old),
        }
    }

    /// Whether too many codes and tokens were wrong lately.
    fn is_limited(&mut self, now: Instant) -> bool {
        self.failures.retain(|at| now.duration_since(*at) < MINUTE);
        self.failures.len() >= MOST_FAILURES
    }

    fn insert(&mut self, digest: Digest, login: Login, now: Instant) {
        if self.logins.len() >= MOST {
            let oldest = self.logins.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(digest, _)| *digest);
            oldest.map(|digest| self.logins.remove(&digest));
        }
        self.logins.insert(digest, (login, now));
    }

    fn login(&mut self, digest: &Digest, is_use: bool, now: Instant) -> Option<Login> {
        self.logins
            .retain(|_, (_, used)| now.duration_since(*used) < UNUSED);
        let (login, used) = self.logins.get_mut(digest)?;
        if is_use {
            *used = now;
        }
        Some(login.clone())
    }
}

/// The cookie's value. A cookie of a site with TLS does not count without it, and the other way round.
fn cookie<'a>(headers: &'a HeaderMap, origin: &Origin) -> Option<&'a str> {
    let all = headers.get_all(COOKIE).iter();
    let mut all = all
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(';'));
    all.find_map(|it| it.trim().strip_prefix(origin.cookie())?.strip_prefix('='))
}

/// To the login, with nothing that depends on what was asked for.
pub(super) fn to_login() -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, "/login")]).into_response()
}

#[derive(Deserialize)]
pub(super) struct Code {
    code: Option<String>,
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(origin): Extension<Origin>,
    Query(query): Query<Code>,
) -> Response {
    let Some(code) = query.code else {
        return form(StatusCode::OK, None);
    };
    let is_limited = shared.logins.kept().is_limited(Instant::now());
    if is_limited {
        return limited();
    }
    let taken = shared.logins.kept().take_code(&code, Instant::now());
    enter(&shared, &origin, taken.map(|()| None))
}

#[derive(Deserialize)]
pub(super) struct Token {
    token: String,
}

pub(super) async fn admit(
    State(shared): State<Arc<Shared>>,
    Extension(origin): Extension<Origin>,
    Form(given): Form<Token>,
) -> Response {
    let is_limited = shared.logins.kept().is_limited(Instant::now());
    if is_limited {
        return limited();
    }
    let token = shared.logins.admit(given.token.trim().to_owned()).await;
    let wrong =
        "This token is unknown, revoked or expired. `sluice token list` shows the valid ones.";
    enter(&shared, &origin, token.map(Some).ok_or(wrong))
}

pub(super) async fn leave(
    State(shared): State<Arc<Shared>>,
    Extension(origin): Extension<Origin>,
    headers: HeaderMap,
) -> Response {
    shared.logins.end(&headers, &origin);
    let gone = [(SET_COOKIE, origin.set_cookie("", "; Max-Age=0"))];
    (gone, to_login()).into_response()
}

/// Sets the cookie. The page leads on by itself: a browser that came by a link of another site would not send the cookie
/// with a redirect. Without an admission, the error says why there is no login.
fn enter(shared: &Shared, origin: &Origin, admitted: Result<Option<KeptToken>, &str>) -> Response {
    let token = match admitted {
        Ok(token) => token,
        Err(why) => {
            shared.logins.kept().failures.push_back(Instant::now());
            return form(StatusCode::FORBIDDEN, Some(why));
        }
    };
    let by = token.as_ref().map(|token| token.name.clone());
    let Ok(secret) = shared.logins.begin(token) else {
        let why = "The system has no randomness.";
        return form(StatusCode::INTERNAL_SERVER_ERROR, Some(why));
    };
    // So that the user notices a login of another person.
    (shared.report)(&match by {
        Some(name) => format!("logged in: {name}, with a token"),
        None => "logged in: a browser, with the printed address".to_owned(),
    });
    let onward = html! { meta http-equiv="refresh" content="0; url=/"; };
    let content = html! { p { a href="/" { "Go to the questions" } } };
    let cookie = [(SET_COOKIE, origin.set_cookie(&secret, ""))];
    let page = layout::bare("You are logged in", onward, content);
    (cookie, page).into_response()
}

fn limited() -> Response {
    let text = "Too many wrong codes and tokens. Try again in a minute.";
    let page = form(StatusCode::TOO_MANY_REQUESTS, Some(text));
    ([(RETRY_AFTER, "60")], page).into_response()
}

fn form(status: StatusCode, problem: Option<&str>) -> Response {
    let content = html! {
        @if let Some(problem) = problem { p .alert role="alert" { (problem) } }
        p { "Open the address that " code { "sluice desk" } " printed, or enter the token of an approver ("
            code { "sluice token new NAME" } ")." }
        form .card method="post" action="/login" {
            label for="token" { "Token" }
            input #token name="token" type="password" autocomplete="current-password" required;
            button .button type="submit" { "Log in" }
        }
        p { a href="/" { "I have logged in before" } }
    };
    (status, layout::bare("Log in to Sluice", html! {}, content)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_unused_logins_expire() {
        let (mut kept, start) = (Kept::default(), Instant::now());
        for (after, expected) in [(CODE / 2, true), (CODE, false)] {
            kept.code = Some(Printed::new("code", start));
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
            kept.login(&hash("a"), is_use, at).is_some()
        };
        // What a page does by itself is no use.
        assert!(is_there(11, true) && is_there(22, false) && !is_there(23, true));
        for number in 0..=MOST {
            kept.insert(hash(&number.to_string()), login.clone(), start);
        }
        assert_eq!(kept.logins.len(), MOST);
    }
}
