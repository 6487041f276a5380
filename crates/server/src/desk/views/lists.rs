//! Sessions, permissions, memories, apps and rules as lists.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::overview::{
    AppFacts, Apps, Decisions, Item, Listed, Overview, ToolDecisions, ToolFacts,
};
use crate::desk::page::layout::{boxed, chips, line};

/// A label as chips. The least label has words too.
pub(super) fn label(names: &[String]) -> Markup {
    match names {
        [] => html! { span .chip { "trusted, public" } },
        [any] if any == "any" => html! { span .chip { "anything" } },
        names => chips(names),
    }
}

/// Links to the other pages, where there are some.
pub(super) fn pages(page: usize, pages: usize, link: &dyn Fn(usize) -> String) -> Markup {
    html! { @if pages > 1 {
        nav .actions aria-label="Pages of the list" {
            @if page > 0 { a href=(link(0)) { "First" } a rel="prev" href=(link(page - 1)) { "Previous" } }
            span { "Page " (page + 1) " of " (pages) }
            @if page + 1 < pages { a rel="next" href=(link(page + 1)) { "Next" } a href=(link(pages - 1)) { "Last" } }
        }
    } }
}

pub(super) fn sessions(overview: &dyn Overview, page: usize) -> Result<Markup, String> {
    list(overview, Listed::Sessions, page, |it| {
        html! { a href={ "/sessions/" (it.id) } { (it.id) } }
    })
}

pub(super) fn permissions(overview: &dyn Overview, page: usize) -> Result<Markup, String> {
    list(overview, Listed::Permissions, page, |it| {
        html! { p { (line(&it.text)) } a .button href={ "/permissions/" (it.id) "/revoke" } { "Revoke…" } }
    })
}

pub(super) fn memories(overview: &dyn Overview, page: usize) -> Result<Markup, String> {
    list(overview, Listed::Memories, page, |it| {
        html! {
            (label(&it.label)) (boxed("Memory", &it.text))
            p { "To delete it: " code { "sluice memory forget " (it.id) } }
        }
    })
}

fn list(
    overview: &dyn Overview,
    what: Listed,
    page: usize,
    row: fn(&Item) -> Markup,
) -> Result<Markup, String> {
    let (items, all) = overview.list(what, page)?;
    let (path, none) = match what {
        Listed::Sessions => ("sessions", "There are no sessions here."),
        Listed::Permissions => ("permissions", "No call is allowed for always."),
        Listed::Memories => ("memory", "Nothing is remembered here."),
    };
    Ok(html! {
        @if items.is_empty() { p { (none) } }
        ul .list { @for it in &items { li { p .muted { (line(&it.about)) } (row(it)) } } }
        (pages(page, all, &|page| format!("/{path}?page={page}")))
    })
}

pub(super) fn revoking(overview: &dyn Overview, id: &str, csrf: &Markup) -> Result<Markup, String> {
    let (all, _) = overview.list(Listed::Permissions, 0)?;
    let found = all.iter().find(|it| it.id == id);
    let it = found.ok_or("there is no such permission any more")?;
    Ok(html! {
        p { (line(&it.text)) }
        p .muted { (line(&it.about)) }
        form .actions method="post" action={ "/permissions/" (it.id) "/revoke" } {
            a .button href="/permissions" { "Keep it" }
            (csrf)
            button .button .no type="submit" { "Revoke" }
        }
    })
}

pub(super) fn apps(overview: &dyn Overview, _: usize) -> Result<Markup, String> {
    let apps = overview.apps()?;
    Ok(sections(&apps, |app| {
        html! {
            ul { @for it in &app.about { li { (line(it)) } } }
            ul .list { @for tool in &app.tools {
                li { (name(tool)) @for it in &tool.notes { p { (line(it)) } } }
            } }
        }
    }))
}

pub(super) fn policy(overview: &dyn Overview, _: usize) -> Result<Markup, String> {
    let (apps, decisions) = (overview.apps()?, overview.decisions());
    let key = |app: &AppFacts, tool: &ToolFacts| format!("{}.{}", app.name, tool.name);
    let named = apps.apps.iter();
    let named = named.flat_map(|app| app.tools.iter().map(|tool| key(app, tool)));
    let named: BTreeSet<String> = named.collect();
    let others = decisions
        .tools
        .iter()
        .filter(|(key, _)| !named.contains(*key));
    let others: Vec<_> = others.collect();
    Ok(html! {
        p .muted { (when(&decisions)) }
        (sections(&apps, |app| html! { ul .list { @for tool in &app.tools {
            li {
                (name(tool))
                @for (words, names) in &tool.labels { p { (line(words)) " " (label(names)) } }
                @for it in &tool.notes { p { (line(it)) } }
                @if let Some(place) = &tool.place { p .muted { (line(place)) } }
                @if let Some(found) = decisions.tools.get(&key(app, tool)) { (made(found)) }
            }
        } } }))
        @if !others.is_empty() {
            h2 { "Tools without a rule in this configuration" }
            ul .list { @for (key, found) in others { li { code { (line(key)) } (made(found)) } } }
        }
    })
}

fn sections(apps: &Apps, of: impl Fn(&AppFacts) -> Markup) -> Markup {
    html! {
        @match apps.file.as_str() {
            "" => p { "There is no configuration. " code { "sluice app add" } " makes one." },
            file => p { "From " code { (line(file)) } },
        }
        @for app in &apps.apps { section { h2 { (line(&app.name)) } (of(app)) } }
    }
}

fn name(tool: &ToolFacts) -> Markup {
    html! { h3 { code { (line(&tool.name)) } " " span .muted { (tool.effect) } } }
}

fn when(decisions: &Decisions) -> String {
    let read = match &decisions.read {
        Some(at) => format!("Decisions of the last week, read at {at}."),
        None => "The decisions of the last week are being read; load the page again.".to_owned(),
    };
    let more =
        " There are more traces than are read here; `sluice policy explain SESSION` reads any.";
    read + if decisions.is_partial { more } else { "" }
}

fn made(found: &ToolDecisions) -> Markup {
    let [allowed, asked, denied] = found.counts;
    html! { details {
        summary { (allowed) " allowed, " (asked) " asked, " (denied) " denied" }
        ul { @for (session, words) in &found.last {
            li { a href={ "/sessions/" (session) } { (session) } " " (line(words)) }
        } }
    } }
}
