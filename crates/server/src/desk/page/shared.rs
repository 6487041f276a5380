//! What all handlers share: the store, the logins, and under which names the page is served.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST, HeaderName, ORIGIN, SET_COOKIE};
use tokio::sync::watch;

use super::super::front::{fresh_token, now};
use super::logins::{Login, Logins, hash};
use crate::audit::{Audit, Note};
use crate::locks::lock;

/// The headers of a request by which a browser says where it comes from.
const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";
pub(super) const FETCH_USER: &str = "sec-fetch-user";

pub(super) struct Shared {
    pub(super) store: Arc<store::Desk>,
    pub(super) user: String,
    pub(super) report: fn(&str),
    pub(super) audit: Option<Arc<Audit>>,
    /// The name of the page on this machine, with its port. It is random: cookies do not know ports, and at `127.0.0.1` the
    /// browser would send ours to every other server of this machine, and treat that server's pages as of the same site.
    /// Browsers resolve `*.localhost` themselves.
    pub(super) own: String,
    pub(super) hosts: Vec<String>,
    pub(super) logins: Mutex<Logins>,
    /// Whether the page ends, so that no request may wait for news.
    pub(super) closing: watch::Sender<bool>,
}

impl Shared {
    /// Notes a login in the audit log.
    pub(super) async fn note(
        &self,
        outcome: &str,
        who: Option<&str>,
        by: &str,
    ) -> Result<(), String> {
        let Some(audit) = &self.audit else {
            return Ok(());
        };
        let note = Note::new("login", outcome).with("front", "desk");
        audit.note(note.with("who", who).with("by", by));
        audit.written().await
    }

    pub(super) fn logins(&self) -> MutexGuard<'_, Logins> {
        lock(&self.logins)
    }

    /// A new code, which is valid once. The one before is no longer.
    pub(super) fn new_code(&self) -> Result<String, String> {
        let code = fresh_token()?;
        self.logins().print(&code, Instant::now());
        Ok(code)
    }

    /// The login of a request. `is_use` says that a person made it, and not a page that looks for news.
    pub(super) async fn login(
        &self,
        headers: &HeaderMap,
        origin: &Origin,
        is_use: bool,
    ) -> Option<Login> {
        let digest = hash(cookie(headers, origin)?);
        let login = self.logins().find(&digest, is_use, Instant::now())?;
        let Some(token) = &login.token else {
            return Some(login);
        };
        let tokens = self.store.tokens().await.ok()?;
        // A name can be given again, to another token.
        let mut same =
            (tokens.iter()).filter(|it| (&it.name, it.created) == (&token.name, token.created));
        let is_valid = same.any(|it| it.expires.is_none_or(|expires| now() < expires));
        is_valid.then_some(login)
    }

    /// The name that a request asks for, if it is one of ours. Another one was made to resolve to us (DNS rebinding).
    pub(super) fn origin(&self, headers: &HeaderMap) -> Option<Origin> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next()?.to_str().ok()?.to_ascii_lowercase();
        if hosts.next().is_some() {
            return None;
        }
        if host == self.own {
            return Some(Origin(format!("http://{host}")));
        }
        let name = host.rsplit_once(':').map_or(&*host, |(name, _)| name);
        let is_known = self.hosts.iter().any(|it| it.eq_ignore_ascii_case(name));
        is_known.then(|| Origin(format!("https://{host}")))
    }
}

/// The name under which a request came, as browsers write it in `Origin`.
#[derive(Debug, Clone)]
pub(super) struct Origin(String);

impl Origin {
    fn is_secure(&self) -> bool {
        self.0.starts_with("https:")
    }

    /// The name of the cookie. One of a site with TLS does not count without it, and the other way round.
    fn cookie(&self) -> &'static str {
        match self.is_secure() {
            true => "__Host-sluice",
            false => "sluice",
        }
    }

    /// Whether a page of ours sent this. Browsers say so in one of two headers at least, and `null` in `Origin` for a page
    /// whose referrer policy is ours.
    pub(super) fn sent(&self, headers: &HeaderMap) -> bool {
        let site = headers.get(FETCH_SITE).map(|it| it == "same-origin");
        let origin = headers.get(ORIGIN).filter(|it| *it != "null");
        let origin = origin.map(|it| it.as_bytes() == self.0.as_bytes());
        let mut known = site.into_iter().chain(origin).peekable();
        known.peek().is_some() && known.all(|is_own| is_own)
    }
}

pub(super) fn cookie<'a>(headers: &'a HeaderMap, origin: &Origin) -> Option<&'a str> {
    let all = headers.get_all(COOKIE).iter();
    let all = all.filter_map(|it| it.to_str().ok());
    let mut all = all.flat_map(|it| it.split(';'));
    all.find_map(|it| it.trim().strip_prefix(origin.cookie())?.strip_prefix('='))
}

pub(super) fn set_cookie(origin: &Origin, value: &str, more: &str) -> [(HeaderName, String); 1] {
    let secure = if origin.is_secure() { "; Secure" } else { "" };
    let name = origin.cookie();
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}");
    [(SET_COOKIE, cookie)]
}

/// Whether a request that changes nothing may be answered: a person may follow a link of another site, and the browser
/// sends no cookie then; other sites may embed and load nothing.
pub(super) fn is_harmless(headers: &HeaderMap) -> bool {
    let is = |name, value: &str| headers.get(name).is_some_and(|it| it == value);
    let is_own = is(FETCH_SITE, "same-origin") || is(FETCH_SITE, "none");
    is_own || is(FETCH_MODE, "navigate") || !headers.contains_key(FETCH_SITE)
}
