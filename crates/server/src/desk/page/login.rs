//! The login: by the one-time code that the terminal printed, or by an approver's token.

use std::sync::Arc;
use std::time::Instant;

use axum::Form;
use axum::extract::{Extension, Query, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::html;
use serde::Deserialize;
use store::{KeptToken, Role};

use super::super::front::{fresh_token, now};
use super::layout;
use super::logins::{Login, hash};
use super::shared::{Origin, Shared, cookie, set_cookie};

const WRONG: &str =
    "This token is unknown, revoked or expired. `sluice token list` shows the valid ones.";

const AGENT: &str =
    "This token is one of an agent, which sees no questions. `sluice token new NAME` makes one.";

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
    method: Method,
    Query(Code { code }): Query<Code>,
) -> Response {
    // A preview of a link asks for the headers alone.
    let Some(code) = code.filter(|_| method == Method::GET) else {
        return form(StatusCode::OK, "");
    };
    let taken = shared.logins().take_code(&code, Instant::now());
    enter(&shared, &origin, taken).await
}

#[derive(Deserialize)]
pub(super) struct Token {
    token: String,
}

pub(super) async fn admit(
    State(shared): State<Arc<Shared>>,
    Extension(origin): Extension<Origin>,
    Form(Token { token }): Form<Token>,
) -> Response {
    let admitted = match shared.store.admit(token.trim(), now()).await {
        Ok(Some(token)) if token.role == Role::Agent => Err(AGENT),
        Ok(token) => token.map(Some).ok_or(WRONG),
        Err(_) => {
            let why = "Tokens cannot be checked now. Try again.";
            return form(StatusCode::SERVICE_UNAVAILABLE, why);
        }
    };
    enter(&shared, &origin, admitted).await
}

pub(super) async fn leave(
    State(shared): State<Arc<Shared>>,
    Extension(origin): Extension<Origin>,
    headers: HeaderMap,
) -> Response {
    let digest = cookie(&headers, &origin).map(hash);
    digest.map(|digest| shared.logins().all.remove(&digest));
    (set_cookie(&origin, "", "; Max-Age=0"), to_login()).into_response()
}

/// Sets the cookie. The page leads on by itself: a browser that came by a link of another site would not send the cookie with
/// a redirect.
///
/// Wrong codes and tokens are not counted: 256 random bits are not guessed, and behind a proxy a limit would be one for all,
/// by which a stranger keeps the user out.
async fn enter(
    shared: &Shared,
    origin: &Origin,
    admitted: Result<Option<KeptToken>, &str>,
) -> Response {
    let token = match admitted {
        Ok(token) => token,
        Err(why) => {
            // It is refused in any case.
            let _ = shared.note("failed", None, why).await;
            return form(StatusCode::FORBIDDEN, why);
        }
    };
    let (Ok(secret), Ok(csrf)) = (fresh_token(), fresh_token()) else {
        let why = "The system has no randomness.";
        return form(StatusCode::INTERNAL_SERVER_ERROR, why);
    };
    let name = token.as_ref().map_or(&shared.user, |token| &token.name);
    // So that the user notices a login of another person.
    let by = if token.is_some() {
        "a token"
    } else {
        "the printed address"
    };
    if let Err(why) = shared.note("done", Some(name), by).await {
        return form(StatusCode::SERVICE_UNAVAILABLE, &why);
    }
    (shared.report)(&format!("logged in: {name}, with {by}"));
    let name = name.clone();
    let login = Login { name, token, csrf };
    (shared.logins()).insert(hash(&secret), login, Instant::now());
    let onward = html! { meta http-equiv="refresh" content="0; url=/"; };
    let content = html! { p { a href="/" { "Go to the questions" } } };
    let page = layout::bare("You are logged in", onward, content);
    (set_cookie(origin, &secret, ""), page).into_response()
}

fn form(status: StatusCode, problem: &str) -> Response {
    let content = html! {
        @if !problem.is_empty() { p .alert role="alert" { (problem) } }
        p { "Open the address that " code { "sluice desk" } " printed, or enter the token of an approver ("
            code { "sluice token new NAME" } ")." }
        form .card method="post" action="/login" {
            label for="token" { "Token" }
            input #token name="token" type="password" autocomplete="current-password" required;
            button .button type="submit" { "Log in" }
        }
        p { a href="/" { "Go on, if this browser is logged in already" } }
    };
    (status, layout::bare("Log in to Sluice", html! {}, content)).into_response()
}
