//! The list of the questions that wait, and of those that were answered lately.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hub::question::Shown;
use hub::state::hex;
use maud::{Markup, html};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use store::{DeskError, KeptQuestion, NewQuestion, QuestionId};
use tokio::time::timeout;

use super::super::front::now;
use super::layout::{line, live_page, notice, short, span};
use super::login::to_login;
use super::logins::Login;
use super::shared::{Origin, Shared};

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
        let waiting = shared.store.waiting_for(now(), |head| login.may_see(head));
        let (waiting, answered) = (
            waiting.await?,
            shared
                .store
                .recent(ANSWERED, |head| login.may_see(head))
                .await?,
        );
        let mut unreadable = [waiting.unreadable, answered.unreadable].concat();
        unreadable.retain(|_| login.is_owner());
        Ok(Self {
            waiting: waiting.all,
            answered: answered.all,
            unreadable,
        })
    }

    /// Changes with what the login sees of this question or of all, and with nothing else.
    fn version(&self, only: Option<QuestionId>) -> String {
        let all = self.waiting.iter().chain(&self.answered);
        version_of(all.filter(|it| only.is_none_or(|only| it.id == only)))
    }
}

pub(super) fn version_of<'a>(questions: impl IntoIterator<Item = &'a KeptQuestion>) -> String {
    let mut hash = Sha256::new();
    for question in questions {
        hash.update(question.id.as_bytes());
        hash.update([u8::from(question.answer.is_some())]);
    }
    hex(&hash.finalize().into())
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
        @if apps.len() > 1 || pages > 1 || !filter.app.is_empty() {
            form .actions method="get" action="/" {
                label for="app" { "App" }
                select #app name="app" {
                    option value="" { "all" }
                    @for app in &apps { option value=(app) selected[*app == filter.app] { (app) } }
                }
                button .button type="submit" { "Show" }
                @for page in 1..=pages {
                    @if pages > 1 {
                        button .button name="page" value=(page) aria-label={ "Page " (page) }
                            aria-current=[(page == at).then_some("page")] { (page) }
                    }
                }
            }
        }
        @for id in &seen.unreadable {
            p .alert { "The question " (line(id)) " cannot be read; it can be answered with no at its terminal." }
        }
        ol .list { @for question in rows { (row(question)) } }
        @if !seen.answered.is_empty() {
            h2 { "Answered" }
            ol .list { @for question in &seen.answered { (row(question)) } }
        }
    };
    let poll = format!("/version?known={}", seen.version(None));
    live_page(&login, "/", &title, &poll, chosen.is_empty(), content)
}

fn row(kept: &KeptQuestion) -> Markup {
    let (question, now) = (&kept.question, now());
    html! {
        li {
            a id={ "q-" (kept.id) } href={ "/questions/" (kept.id) } { (call(question)) }
            p .muted {
                span .chip .warn[!["read", "write"].contains(&&*question.effect)] { (line(&question.effect)) } " "
                @if let Some(answer) = &kept.answer {
                    (line(&answer.to_string())) ", " (span(answer.at, now)) " ago"
                } @else {
                    @if let Some(name) = &question.asker { "for " (short(name)) " " }
                    @if let Some(name) = &question.tenant { "of " (short(name)) " " }
                    "waits " (span(kept.asked, now)) ", stays " (span(now, question.expires))
                    @if !question.approvers.is_empty() { ", for " (short(&question.approvers.join(", "))) }
                }
            }
        }
    }
}

/// The app and the tool: `mail.send`.
pub(super) fn name(question: &NewQuestion) -> String {
    match question.tool.is_empty() {
        true => question.app.clone(),
        false => format!("{}.{}", question.app, question.tool),
    }
}

/// The call on one line: `mail.send(to: "bob", …)`.
fn call(question: &NewQuestion) -> String {
    let what = match serde_json::from_str::<Shown>(&question.shown) {
        Err(_) => " (unreadable)".to_owned(),
        Ok(Shown {
            text: Some(text), ..
        }) => format!(": {text}"),
        Ok(Shown { arguments, .. }) => {
            let arguments = arguments.iter();
            let arguments = arguments.map(|it| format!("{}: {}", it.name, it.value));
            format!("({})", arguments.collect::<Vec<_>>().join(", "))
        }
    };
    short(&(name(question) + &what))
}

#[derive(Deserialize)]
pub(super) struct Known {
    #[serde(default)]
    known: String,
    /// The id of the only question that counts.
    #[serde(default)]
    only: String,
}

/// Answers once the list, or one question, differs from what the browser knows, or 204 if it does not for a while.
pub(super) async fn version(
    State(shared): State<Arc<Shared>>,
    Extension(origin): Extension<Origin>,
    headers: HeaderMap,
    Query(Known { known, only }): Query<Known>,
) -> Response {
    let only = only.parse().ok();
    let (mut closing, begun) = (shared.closing.subscribe(), Instant::now());
    let (mut last, mut looks) = (None, 0);
    while begun.elapsed() < PATIENCE {
        let version = shared.store.version().await.ok();
        if version.is_none() || version != last || looks >= LOOKS {
            (last, looks) = (version, 0);
            // The token may have been revoked meanwhile.
            let Some(login) = shared.login(&headers, &origin, false).await else {
                return to_login();
            };
            match Seen::read(&shared, &login)
                .await
                .map(|seen| seen.version(only))
            {
                Ok(version) if version == known => {}
                Ok(version) => return version.into_response(),
                Err(error) => return failed(&login, &error),
            }
        }
        looks += 1;
        let closed = closing.wait_for(|is_closing| *is_closing);
        if timeout(LOOK, closed).await.is_ok() {
            break;
        }
    }
    StatusCode::NO_CONTENT.into_response()
}

/// The file of the desk cannot be read.
pub(super) fn failed(login: &Login, error: &DeskError) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    notice(
        login,
        status,
        "The questions cannot be read",
        &error.to_string(),
    )
}

pub(super) async fn nothing_here(Extension(login): Extension<Login>) -> Response {
    notice(&login, StatusCode::NOT_FOUND, "There is no such page", "")
}
