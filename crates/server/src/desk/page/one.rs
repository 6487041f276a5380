//! One question, in full, and its answers.

use std::sync::Arc;

use axum::Form;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use hub::question::{Shown, ShownArgument, ShownChoice, ShownSource};
use maud::{Markup, html};
use serde::Deserialize;
use store::{DeskError, KeptQuestion, QuestionId};

use super::super::front::now;
use super::layout::{boxed, chips, line, lines, live, notice, page, span};
use super::list::{failed, name, version_of};
use super::logins::Login;
use super::shared::Shared;

/// The answer that is always possible.
const NO: &str = "no";
/// The answers that allow what is shown and nothing later, so that one step is enough.
const ONE_STEP: [&str; 2] = [NO, "once"];
/// The answers that trust a text.
const TRUST: [&str; 4] = ["trust", "trust-session", "value", "source"];

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(login): Extension<Login>,
    Path(id): Path<String>,
) -> Response {
    match find(&shared, &login, id).await {
        Some(kept) => question(&login, &kept, None),
        None => unknown(&login),
    }
}

#[derive(Deserialize)]
pub(super) struct Given {
    answer: String,
    #[serde(default)]
    confirm: String,
}

pub(super) async fn answer(
    State(shared): State<Arc<Shared>>,
    Extension(login): Extension<Login>,
    Path(id): Path<String>,
    Form(given): Form<Given>,
) -> Response {
    let Some(kept) = find(&shared, &login, id).await else {
        return unknown(&login);
    };
    let shown = read(&kept);
    let offered = choices(&login, &kept, shown.as_ref());
    // What the page did not show cannot be allowed on it.
    let Some(choice) = offered.iter().find(|it| it.answer == given.answer) else {
        let offered = offered.into_iter().map(|it| it.answer).collect();
        return refused(&shared, &login, kept.id, &DeskError::NotOffered(offered)).await;
    };
    if !ONE_STEP.contains(&choice.answer.as_str()) && given.confirm.is_empty() {
        return second_step(&login, &kept, shown.as_ref(), choice);
    }
    match login.answer(&shared.store, kept.id, &choice.answer).await {
        Ok(()) => (StatusCode::SEE_OTHER, [(LOCATION, "/")]).into_response(),
        Err(error) => refused(&shared, &login, kept.id, &error).await,
    }
}

/// The question, if this login may see it. One that cannot be read is one that it may not see.
async fn find(shared: &Shared, login: &Login, id: String) -> Option<KeptQuestion> {
    // By its whole id: a shortened one is for terminals.
    id.parse::<QuestionId>().ok()?;
    let found = shared.store.find(&id).await.ok()?;
    found.filter(|kept| login.may_see(&kept.question.head(kept.id)))
}

fn unknown(login: &Login) -> Response {
    let text = "It was taken back, it waited too long, or it cannot be read.";
    notice(
        login,
        StatusCode::NOT_FOUND,
        "There is no such question",
        text,
    )
}

/// What the question shows. `None` if it cannot be read: then it can only be denied.
fn read(kept: &KeptQuestion) -> Option<Shown> {
    serde_json::from_str(&kept.question.shown).ok()
}

/// The answers that the page offers to this login, `no` first.
fn choices(login: &Login, kept: &KeptQuestion, shown: Option<&Shown>) -> Vec<ShownChoice> {
    let question = &kept.question;
    let mut offered = vec![ShownChoice {
        answer: NO.to_owned(),
        ..ShownChoice::default()
    }];
    let may_allow = question.may_allow(login.approver());
    let Some(shown) = shown.filter(|it| may_allow && !it.is_unreadable) else {
        return offered;
    };
    let is_offered = |choice: &&ShownChoice| {
        // Trust is for texts that are shown in full.
        let is_shown = !TRUST.contains(&&*choice.answer) || !shown.trusted.is_empty();
        is_shown && choice.answer != NO && question.choices.contains(&choice.answer)
    };
    offered.extend(shown.choices.iter().filter(is_offered).cloned());
    offered
}

/// The question again, with why the answer does not count, and the one that came first.
async fn refused(shared: &Shared, login: &Login, id: QuestionId, error: &DeskError) -> Response {
    let status = match error {
        DeskError::Answered(_) => StatusCode::CONFLICT,
        DeskError::NotAllowed(_) => StatusCode::FORBIDDEN,
        DeskError::NotOffered(_) => StatusCode::BAD_REQUEST,
        DeskError::Unknown | DeskError::Expired | DeskError::Left => StatusCode::GONE,
        other => return failed(login, other),
    };
    let problem = format!("Your answer does not count: {error}.");
    match find(shared, login, id.to_string()).await {
        Some(kept) => (status, question(login, &kept, Some(&problem))).into_response(),
        None => unknown(login),
    }
}

fn question(login: &Login, kept: &KeptQuestion, problem: Option<&str>) -> Response {
    let (shown, asked) = (read(kept), &kept.question);
    let offered = choices(login, kept, shown.as_ref());
    let state = html! {
        p .muted {
            "Asked by " (line(&asked.front))
            @if let Some(name) = &asked.asker { " for " (line(name)) }
            @if let Some(name) = &asked.tenant { " of " (line(name)) }
            @if !asked.conversation.is_empty() { " in " (line(&asked.conversation)) }
            ", " (span(kept.asked, now())) " ago."
        }
        @if let Some(answer) = &kept.answer {
            p .alert role="status" { "Answered: " (line(&answer.to_string())) ", " (span(answer.at, now())) " ago." }
        } @else if kept.waits(now()) {
            h2 { "Answer" }
            p .muted { "It waits for another " (span(now(), asked.expires)) "." }
            @if offered.len() == 1 && !asked.approvers.is_empty() {
                p {
                    "To allow it, log in with a token of " (line(&asked.approvers.join(", ")))
                    ". The one who asked cannot."
                }
            }
            @for choice in &offered { (button(login, kept, choice, false)) }
        } @else {
            p .alert role="status" { "This question waits no longer: it was taken back, or it waited too long." }
        }
    };
    let poll = || format!("/version?only={}&known={}", kept.id, version_of([kept]));
    let poll = kept.waits(now()).then(poll);
    let content = html! {
        @if let Some(problem) = problem { p .alert role="alert" { (line(problem)) } }
        @match &shown {
            Some(shown) if shown.is_unreadable => {
                p .alert { "The arguments cannot be read, so this call can only be denied." }
                (contents(shown))
            }
            Some(shown) => (contents(shown)),
            None => p .alert { "This question cannot be shown, so it can only be denied." },
        }
        // Not all of the page: boxes stay where they were scrolled to.
        (live(poll.as_deref(), state))
        p { a href="/" { "All questions" } }
    };
    page(login, "/", &name(asked), content)
}

/// Everything that the question shows.
fn contents(shown: &Shown) -> Markup {
    // A text with the call's values may have swayed the screener to leave it out.
    let (relevant, others): (Vec<_>, Vec<_>) = shown
        .sources
        .iter()
        .partition(|it| it.is_relevant || !it.shared.is_empty());
    html! {
        @for sentence in &shown.title { p { (line(sentence)) } }
        (arguments(&shown.arguments))
        @if let Some(text) = &shown.text { (boxed("Text", text)) }
        @if !shown.waiting.is_empty() {
            h2 { "Other calls of this step" }
            @for call in &shown.waiting {
                h3 { (line(&call.app)) "." (line(&call.tool)) }
                (arguments(&call.arguments))
            }
        }
        h2 { "Why this is asked" }
        @for reason in &shown.reasons { p { (line(reason)) } }
        @for source in relevant { (excerpt(source)) }
        @if !others.is_empty() {
            details {
                summary { "Texts that the screener found irrelevant (" (others.len()) ")" }
                @for source in others { (excerpt(source)) }
            }
        }
        @if let Some(rest) = rest(shown) { p { "It may depend on " (line(&rest)) "." } }
        @for note in &shown.notes { p { (line(note)) } }
        @if !shown.trusted.is_empty() {
            h2 { "What trust would cover" }
            @for text in &shown.trusted {
                h3 { (line(&text.source)) }
                (boxed(&text.source, &text.text))
            }
        }
    }
}

/// What a call may depend on beside the sources.
fn rest(shown: &Shown) -> Option<String> {
    let has_more = shown.sources.is_empty() && !shown.excess.is_empty();
    let labels = || has_more.then(|| format!("text labelled {}", shown.excess.join(", ")));
    shown.descriptions.clone().or_else(labels)
}

fn arguments(all: &[ShownArgument]) -> Markup {
    html! {
        dl {
            @for argument in all {
                dt { (line(&argument.name)) }
                dd {
                    (boxed(&argument.name, &argument.value))
                    @for word in &argument.mixed {
                        p .alert { "Letters of several alphabets look alike here: " (line(word)) }
                    }
                }
            }
        }
    }
}

/// A text that the call may depend on, with the place of what it has in common with the call.
fn excerpt(source: &ShownSource) -> Markup {
    html! {
        figure .card {
            figcaption {
                (line(&source.source)) " "
                @if !source.writers.is_empty() { "by " (line(&source.writers.join(" and "))) " " }
                (chips(&source.label))
                @if source.times > 1 { "(" (source.times) " times)" }
            }
            pre .box tabindex="0" role="group" aria-label=(line(&source.source)) {
                (lines(&source.before)) mark { (lines(&source.text)) } (lines(&source.after))
            }
        }
    }
}

/// The form of one answer, with what it allows beyond this call. Each has its own, so that Enter in no field is a yes.
fn button(login: &Login, kept: &KeptQuestion, choice: &ShownChoice, confirms: bool) -> Markup {
    let (words, kind) = match choice.answer.as_str() {
        NO => ("Deny".to_owned(), "no"),
        "once" => ("Allow once".to_owned(), "yes"),
        _ if confirms => (format!("Yes: {}", line(&choice.words)), "yes"),
        _ => (format!("Allow: {}…", line(&choice.words)), "yes"),
    };
    let meaning = format!("means-{}", choice.answer);
    let allows = match choice.answer.as_str() {
        "once" if choice.meaning.is_empty() => "Nothing beyond this question.",
        _ => choice.meaning.as_str(),
    };
    html! {
        form .answer method="post" action={ "/questions/" (kept.id) } {
            (login.csrf())
            input type="hidden" name="answer" value=(choice.answer);
            @if confirms { input type="hidden" name="confirm" value="1"; }
            button #{ "give-" (choice.answer) } .{ "button " (kind) } type="submit" aria-describedby=(meaning) { (words) }
            span #(meaning) { (line(allows)) }
        }
    }
}

/// The second step of an answer that allows more than this call.
fn second_step(
    login: &Login,
    kept: &KeptQuestion,
    shown: Option<&Shown>,
    choice: &ShownChoice,
) -> Response {
    let content = html! {
        p { "This allows more than one call. Read what it covers." }
        p { a .button href={ "/questions/" (kept.id) } { "Back" } }
        (button(login, kept, choice, true))
        @if let Some(shown) = shown { (contents(shown)) }
    };
    let title = format!("{}: {}?", name(&kept.question), choice.words);
    page(login, "/", &title, content)
}
