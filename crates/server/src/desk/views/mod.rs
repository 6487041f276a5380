//! The pages beside the questions: sessions as a flow, permissions, memory, apps and policy.
//!
//! They show what the user's own commands show, so they are for the one who started the desk. An approver's token sees
//! questions alone.

mod flow;
mod lists;
mod overview;

pub use overview::{AppFacts, Apps, Decisions, Item, Listed, Overview, ToolDecisions, ToolFacts};

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{Path, Query, Request, State},
    http::StatusCode,
    middleware::{Next, from_fn},
    response::{IntoResponse, Redirect, Response},
    routing::{MethodRouter, get},
};
use maud::Markup;
use serde::Deserialize;
use tokio::{sync::watch, task::spawn_blocking, time::sleep};

use super::page::{
    layout::{live_page, notice, page},
    logins::Login,
};

/// How long a browser's request for news of a session waits for some.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the file is looked at while one waits.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Clone)]
struct Views {
    overview: Arc<dyn Overview>,
    closing: watch::Receiver<bool>,
}

/// The pages, for a router that has put the login into the extensions of each request.
pub(super) fn router<S>(overview: Arc<dyn Overview>, closing: watch::Receiver<bool>) -> Router<S> {
    Router::new()
        .route(
            "/sessions",
            view(["/sessions", "Sessions"], lists::sessions),
        )
        .route("/sessions/{id}", get(session))
        .route("/sessions/{id}/version", get(version))
        .route(
            "/permissions",
            view(["/permissions", "Permissions"], lists::permissions),
        )
        .route("/permissions/{id}/revoke", get(confirm).post(revoke))
        .route("/memory", view(["/memory", "Memory"], lists::memories))
        .route("/apps", view(["/apps", "Apps"], lists::apps))
        .route("/policy", view(["/policy", "Policy"], lists::policy))
        .route_layer(from_fn(owner_only))
        .with_state(Views { overview, closing })
}

/// An approver has been given questions to answer, and not what the user's agents read. The answer is the same for all
/// paths, so that it says nothing about what there is.
async fn owner_only(Extension(login): Extension<Login>, request: Request, next: Next) -> Response {
    if login.is_owner() {
        return next.run(request).await;
    }
    let text = "A login by token sees questions. The one who started the desk sees this page.";
    notice(&login, StatusCode::FORBIDDEN, "Not for this login", text)
}

#[derive(Deserialize)]
struct At {
    page: Option<usize>,
    /// The number of a conversation; empty for all.
    #[serde(default)]
    c: String,
}

type Read = fn(&dyn Overview, usize) -> Result<Markup, String>;

fn view(place: [&'static str; 2], read: Read) -> MethodRouter<Views> {
    get(
        move |State(views): State<Views>,
              Extension(login): Extension<Login>,
              Query(at): Query<At>| async move {
            let number = at.page.unwrap_or_default();
            show(&views, &login, place, move |overview| {
                read(overview, number)
            })
            .await
        },
    )
}

/// A page of what `read` gives on a thread where it may block, or of its error.
async fn show(
    views: &Views,
    login: &Login,
    [path, title]: [&str; 2],
    read: impl FnOnce(&dyn Overview) -> Result<Markup, String> + Send + 'static,
) -> Response {
    match blocking(views, read).await {
        Ok(content) => page(login, path, title, content),
        Err(why) => failed(login, &why),
    }
}

async fn blocking<T: Send + 'static>(
    views: &Views,
    read: impl FnOnce(&dyn Overview) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let overview = Arc::clone(&views.overview);
    let read = spawn_blocking(move || read(&*overview)).await;
    read.unwrap_or_else(|_| Err("an error in Sluice; the other pages are not affected".to_owned()))
}

fn failed(login: &Login, why: &str) -> Response {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    notice(login, status, "This cannot be shown", why)
}

async fn session(
    State(views): State<Views>,
    Extension(login): Extension<Login>,
    Path(id): Path<String>,
    Query(at): Query<At>,
) -> Response {
    let (own, conversation) = (id.clone(), at.c.parse().ok());
    let read = blocking(&views, move |overview| {
        // Before the events: what is written between the two is news.
        let bytes = overview.session_bytes(&own).unwrap_or_default();
        let part = overview.session(&own, at.page, conversation)?;
        let part = part.ok_or("there is no such session")?;
        // News are at the end.
        let known = (part.page + 1 == part.pages).then_some(bytes);
        Ok((flow::session(&own, &part, conversation), known))
    });
    let (path, title) = ("/sessions", format!("Session {id}"));
    match read.await {
        Ok((content, Some(bytes))) => {
            let poll = format!("/sessions/{id}/version?known={bytes}");
            live_page(&login, path, &title, &poll, false, content)
        }
        Ok((content, None)) => page(&login, path, &title, content),
        Err(why) => failed(&login, &why),
    }
}

#[derive(Deserialize)]
struct Known {
    known: u64,
}

/// Answers 200 once a session has other bytes than the browser knows, or 204 after a while.
async fn version(
    State(views): State<Views>,
    Path(id): Path<String>,
    Query(Known { known }): Query<Known>,
) -> StatusCode {
    let mut closing = views.closing.clone();
    let news = async {
        loop {
            let id = id.clone();
            let bytes = blocking(&views, move |overview| Ok(overview.session_bytes(&id)));
            if bytes.await != Ok(Some(known)) {
                break;
            }
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = news => StatusCode::OK,
        () = sleep(PATIENCE) => StatusCode::NO_CONTENT,
        _ = closing.wait_for(|is_closing| *is_closing) => StatusCode::NO_CONTENT,
    }
}

/// The second step: what would be revoked, and the form that does it.
async fn confirm(
    State(views): State<Views>,
    Extension(login): Extension<Login>,
    Path(id): Path<String>,
) -> Response {
    let (csrf, place) = (login.csrf(), ["/permissions", "Revoke this permission?"]);
    show(&views, &login, place, move |overview| {
        lists::revoking(overview, &id, &csrf)
    })
    .await
}

async fn revoke(
    State(views): State<Views>,
    Extension(login): Extension<Login>,
    Path(id): Path<String>,
) -> Response {
    match blocking(&views, move |overview| overview.revoke(&id)).await {
        Ok(()) => Redirect::to("/permissions").into_response(),
        Err(why) => failed(&login, &why),
    }
}
