//! The list of the questions that wait, and of those that were answered lately.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hub::question::Shown;
use maud::{Markup, html};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use store::{DeskError, KeptQuestion, NewQuestion, Time};
use tokio::time::timeout;

use super::super::front::{blocking, now};
use super::layout::{line, live_page, page, short, span};
use super::login::{Login, to_login};
use super::{Origin, Shared};

/// Questions on one page.
const ON_PAGE: usize = 100;
/// Answered questions that the list shows.
const ANSWERED: usize = 20;
/// How long a browser's request for news waits for some.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the file is looked at while one waits.
const LOOK: Duration = Duration::from_millis(100);
/// After how many looks the questions are read in any case: one may have expired.
const LOOKS: u32 = 20;

/// What a login may see of the desk, oldest first and newest first.
struct Seen {
    waiting: Vec<KeptQuestion>,
    answered: Vec<KeptQuestion>,
    /// Questions that cannot be read. Only the one who started the desk is told.
    unreadable: Vec<String>,
}

impl Seen {
    async fn read(shared: &Shared, login: &Login) -> Result<Self, DeskError> {
        // All answered ones are read: those that a login may not see must not take the room of others.
        let read = |store: &store::Desk| Ok((store.waiting(now())?, store.recent(usize::MAX)?));
        let (waiting, mut answered) = blocking(&shared.store, read).await?;
        let visible = |all: Vec<KeptQuestion>| {
            let all = all.into_iter();
            all.filter(|it| login.may_see(&it.question))
        };
        let mut unreadable = waiting.unreadable;
        unreadable.append(&mut answered.unreadable);
        unreadable.retain(|_| login.is_owner());
        Ok(Self {
            waiting: visible(waiting.all).collect(),
            answered: visible(answered.all).take(ANSWERED).collect(),
            unreadable,
        })
    }

    /// Changes with what the login sees, and with nothing else.
    fn version(&self) -> String {
        let mut hash = Sha256::new();
        for question in self.waiting.iter().chain(&self.answered) {
            hash.update(question.id.as_bytes());
            hash.update([u8::from(question.answer.is_some())]);
        }
        hash.finalize()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

#[derive(Deserialize)]
pub(super) struct Filter {
    #[serde(default)]
    app: String,
    page: Option<usize>,
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(login): Extension<Login>,
    Query(filter): Query<Filter>,
) -> Response {
    let seen = match Seen::read(&shared, &login).await {
        Ok(seen) => seen,
        Err(error) => return failed(&login, &error),
    };
    let now = now();
    // As they are shown: an address of the page holds no invisible character.
    let app = |kept: &KeptQuestion| short(&kept.question.app);
    let apps: BTreeSet<String> = seen.waiting.iter().map(app).collect();
    let is_chosen = |kept: &&KeptQuestion| filter.app.is_empty() || app(kept) == filter.app;
    let chosen: Vec<&KeptQuestion> = seen.waiting.iter().filter(is_chosen).collect();
    let pages = chosen.len().div_ceil(ON_PAGE).max(1);
    let at = filter.page.unwrap_or(1).clamp(1, pages);
    let title = match chosen.len() {
        0 => "No question waits".to_owned(),
        1 => "1 question waits".to_owned(),
        count => format!("{count} questions wait"),
    };
    let rows = chosen.iter().skip((at - 1) * ON_PAGE).take(ON_PAGE);
    let content = html! {
        @if apps.len() > 1 || !filter.app.is_empty() { (apps_form(&apps, &filter.app)) }
        @for id in &seen.unreadable {
            p .alert { "The question " (line(id)) " cannot be read; it can be answered with no at its terminal." }
        }
        ol .list { @for question in rows { (row(question, now)) } }
        @if pages > 1 {
            nav aria-label="Pages of the list" {
                ul {
                    @for number in 1..=pages {
                        li { a href=(link(&filter.app, number)) aria-current=[(number == at).then_some("page")] { (number) } }
                    }
                }
            }
        }
        @if !seen.answered.is_empty() {
            h2 { "Answered" }
            ol .list { @for question in &seen.answered { (answered_row(question, now)) } }
        }
    };
    let poll = format!("/version?known={}", seen.version());
    live_page(&login, "/", &title, &poll, content)
}

fn apps_form(apps: &BTreeSet<String>, chosen: &str) -> Markup {
    html! {
        form .actions method="get" action="/" {
            label for="app" { "App" }
            select #app name="app" {
                option value="" { "all" }
                @for app in apps { option value=(app) selected[app == chosen] { (app) } }
            }
            button .button type="submit" { "Show" }
        }
    }
}

/// An address within the page; `app` is any text.
fn link(app: &str, page: usize) -> String {
    let query = [("app", app.to_owned()), ("page", page.to_string())];
    let mut address = "/?".to_owned();
    for (name, value) in query {
        let value = value
            .bytes()
            .map(|byte| match byte.is_ascii_alphanumeric() {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02x}"),
            });
        address += &format!("{name}={}&", value.collect::<String>());
    }
    address
}

fn row(kept: &KeptQuestion, now: Time) -> Markup {
    let question = &kept.question;
    html! {
        li {
            a id={ "q-" (kept.id) } href={ "/questions/" (kept.id) } { (call(question)) }
            p .muted {
                span .chip .warn[question.effect != "read"] { (line(&question.effect)) }
                " waits " (span(kept.asked, now)) ", stays " (span(now, question.expires))
                @if !question.approvers.is_empty() { ", for " (short(&question.approvers.join(", "))) }
            }
        }
    }
}

fn answered_row(kept: &KeptQuestion, now: Time) -> Markup {
    html! {
        li {
            a id={ "q-" (kept.id) } href={ "/questions/" (kept.id) } { (call(&kept.question)) }
            @if let Some(answer) = &kept.answer {
                p .muted { (line(&answer.to_string())) ", " (span(answer.at, now)) " ago" }
            }
        }
    }
}

/// The call on one line: `mail.send(to: "bob", …)`.
pub(super) fn call(question: &NewQuestion) -> String {
    let name = match question.tool.is_empty() {
        true => format!("{}: ", question.app),
        false => format!("{}.{}", question.app, question.tool),
    };
    let Ok(shown) = serde_json::from_str::<Shown>(&question.shown) else {
        return short(&format!("{name} (unreadable)"));
    };
    if let Some(text) = &shown.text {
        return short(&format!("{name} {text}"));
    }
    let arguments = shown.arguments.iter();
    let arguments = arguments.map(|it| format!("{}: {}", it.name, it.value));
    short(&format!(
        "{name}({})",
        arguments.collect::<Vec<_>>().join(", ")
    ))
}

#[derive(Deserialize)]
pub(super) struct Known {
    #[serde(default)]
    known: String,
}

/// Answers once the list differs from the one that the browser knows, or 204 if it does not for a while.
pub(super) async fn version(
    State(shared): State<Arc<Shared>>,
    Extension(origin): Extension<Origin>,
    headers: HeaderMap,
    Query(Known { known }): Query<Known>,
) -> Response {
    let (mut closing, begun) = (shared.closing.subscribe(), Instant::now());
    let (mut last, mut looks) = (None, 0);
    while begun.elapsed() < PATIENCE {
        let version = blocking(&shared.store, store::Desk::version).await.ok();
        if version.is_none() || version != last || looks >= LOOKS {
            (last, looks) = (version, 0);
            // The token may have been revoked meanwhile.
            let Some(login) = shared.logins.of(&headers, &origin, false).await else {
                return to_login();
            };
            match Seen::read(&shared, &login).await.map(|seen| seen.version()) {
                Ok(version) if version == known => {}
                Ok(version) => return version.into_response(),
                Err(error) => return failed(&login, &error),
            }
        }
        looks += 1;
        if timeout(LOOK, closing.wait_for(|is_closing| *is_closing))
            .await
            .is_ok()
        {
            break;
        }
    }
    StatusCode::NO_CONTENT.into_response()
}

/// The file of the desk cannot be read.
pub(super) fn failed(login: &Login, error: &DeskError) -> Response {
    let content = html! { p .alert role="alert" { (line(&error.to_string())) } };
    let page = page(login, "", "The questions cannot be read", content);
    (StatusCode::SERVICE_UNAVAILABLE, page).into_response()
}

pub(super) async fn nothing_here(Extension(login): Extension<Login>) -> Response {
    let content = html! { p { a href="/" { "Go to the questions" } } };
    let page = page(&login, "", "There is no such page", content);
    (StatusCode::NOT_FOUND, page).into_response()
}
