//! What every page has: head, navigation, and foreign text that is safe to show.

use axum::http::{StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use hub::trace::{escape, escape_lines};
use maud::{DOCTYPE, Markup, html};
use store::Time;

use super::logins::Login;

/// The pages, by path and name. A login with an approver's token has the first one only.
pub(crate) const NAVIGATION: [(&str, &str); 6] = [
    ("/", "Questions"),
    ("/sessions", "Sessions"),
    ("/permissions", "Permissions"),
    ("/memory", "Memory"),
    ("/apps", "Apps"),
    ("/policy", "Policy"),
];
/// Characters of foreign text in a title or a row of a list; the page of its own has all of it.
pub(crate) const SHORT: usize = 160;

/// A page, whose `h1` is the title. `path` is the entry of the navigation to which it belongs.
pub(crate) fn page(login: &Login, path: &str, title: &str, content: Markup) -> Response {
    document(title, html! {}, navigation(login, path), content)
}

/// A page whose content is replaced each time that `GET poll` answers. Without JavaScript it is loaded again every five
/// seconds if `is_idle`: where a link may have the focus, that would be lost.
pub(crate) fn live_page(
    login: &Login,
    path: &str,
    title: &str,
    poll: &str,
    is_idle: bool,
    content: Markup,
) -> Response {
    let head = html! { @if is_idle { noscript { meta http-equiv="refresh" content="5"; } } };
    let content = live(Some(poll), content);
    document(title, head, navigation(login, path), content)
}

/// The part of a page that is replaced each time that `GET poll` answers; `None`: no more.
pub(super) fn live(poll: Option<&str>, content: Markup) -> Markup {
    html! {
        @if poll.is_some() {
            script src="/desk.js" defer {}
            noscript { p { a href="" { "Look for news" } } }
        }
        div #live data-poll=[poll] { (content) }
    }
}

/// A page that says one thing.
pub(crate) fn notice(login: &Login, status: StatusCode, title: &str, text: &str) -> Response {
    let content = html! { p { (line(text)) } p { a href="/" { "All questions" } } };
    (status, page(login, "", title, content)).into_response()
}

/// A page without navigation, for a browser that has no login.
pub(super) fn bare(title: &str, head: Markup, content: Markup) -> Response {
    document(title, head, html! {}, content)
}

fn document(title: &str, head: Markup, navigation: Markup, content: Markup) -> Response {
    let title = short(title);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – Sluice" }
                link rel="stylesheet" href="/style.css";
                link rel="icon" href="data:,";
                (head)
            }
            body {
                (navigation)
                main #main tabindex="-1" {
                    h1 aria-live="polite" { (title) }
                    (content)
                }
            }
        }
    };
    (
        [(CONTENT_TYPE, "text/html; charset=utf-8")],
        page.into_string(),
    )
        .into_response()
}

fn navigation(login: &Login, path: &str) -> Markup {
    let own = if login.is_owner() {
        NAVIGATION.len()
    } else {
        1
    };
    html! {
        a .skip href="#main" { "Skip to the content" }
        header {
            nav aria-label="Pages" {
                ul {
                    @for (to, name) in NAVIGATION.iter().take(own) {
                        li { a href=(to) aria-current=[(*to == path).then_some("page")] { (name) } }
                    }
                }
            }
            form method="post" action="/logout" {
                (login.csrf())
                span .muted { (line(login.name())) }
                button .button type="submit" { "Log out" }
            }
        }
    }
}

/// Foreign text on one line: control, bidirectional and invisible characters are written as escapes.
pub(crate) fn line(text: &str) -> String {
    escape(text)
}

/// Foreign text of several lines, for a `pre`.
pub(crate) fn lines(text: &str) -> String {
    escape_lines(text)
}

/// The beginning of a foreign text, on one line.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => line(text.get(..end).unwrap_or_default()) + "…",
        None => line(text),
    }
}

/// All of a foreign text in a box that scrolls by itself, also by keyboard.
pub(crate) fn boxed(name: &str, text: &str) -> Markup {
    html! { pre .box tabindex="0" role="group" aria-label=(line(name)) { (lines(text)) } }
}

/// Labels of a text.
pub(crate) fn chips(labels: &[String]) -> Markup {
    html! { @for label in labels { span .chip { (line(label)) } " " } }
}

/// A length of time, in a unit of which there are two at least.
pub(crate) fn span(from: Time, to: Time) -> String {
    let seconds = to.millis().saturating_sub(from.millis()).max(0) / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
