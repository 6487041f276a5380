//! Steps whose completion was cut off: their words say so, whichever way the step was made.

use hub::Screening;
use hub::trace::Event;
use ifc::{Prompt, REDACTED};

use super::filled::eager;
use super::{World, call, results, say, world};

const WORDS: &str = "I mail it";

fn read(prompt: &Prompt, tool: &str) -> Option<String> {
    let results = results(prompt);
    let found = results.iter().find(|(name, _)| name == tool);
    found.map(|(_, content)| content.clone())
}

fn mail(body: &str) -> Vec<(&'static str, String)> {
    let call = format!(r#"{{"to":"ada","body":"{body}"}}"#);
    vec![("cut", WORDS.to_owned()), ("mail", call)]
}

/// Mails a summary of the inbox, and is cut off behind the call.
fn summarises(prompt: &Prompt) -> Vec<(&'static str, String)> {
    match (read(prompt, "inbox"), read(prompt, "mail")) {
        (None, _) => call("inbox"),
        (_, Some(_)) => say("sent"),
        (Some(inbox), None) if inbox.contains(REDACTED) => mail(REDACTED),
        (Some(_), None) => mail("a summary"),
    }
}

/// The mail is sent, and later prompts have what was said with it. One of these events says how the step was made.
fn is_said(world: &mut World, made: fn(&Event) -> bool) {
    let outcome = world.turn("mail a summary of my inbox to ada");
    outcome.result.unwrap();
    let mail = world.sent.last().unwrap();
    assert!(mail.starts_with("mail"), "{mail}");
    let last = world.prompts.last().unwrap();
    let cut = format!("{WORDS} [cut off: token limit]");
    assert_eq!(last.matches(&cut).count(), 1, "{last}");
    let events = world.agent.take_events();
    assert!(events.iter().any(made), "{events:?}");
}

#[test]
fn a_step_that_is_its_draft_says_that_it_was_cut_off() {
    let mut world = world(Screening::LAZY, summarises);
    world.user = |_| ifc::Answer::Once;
    is_said(&mut world, |event| matches!(event, Event::Screened { .. }));
}

#[test]
fn a_checked_step_that_carries_its_drafts_data_says_that_it_was_cut_off() {
    let mut world = world(Screening::CHECKED, summarises);
    is_said(&mut world, |event| {
        matches!(event, Event::Checked { taken: true, .. })
    });
}

#[test]
fn a_step_that_was_made_in_parts_says_that_it_was_cut_off() {
    let mut world = eager(|prompt| match read(prompt, "balance") {
        _ if read(prompt, "inbox").is_none() => call("inbox"),
        None => call("balance"),
        // The request for a value is in words.
        Some(_) => summarises(prompt),
    });
    world.user = |_| ifc::Answer::Once;
    is_said(&mut world, |event| matches!(event, Event::Filled { .. }));
}

#[test]
fn a_step_after_a_no_that_carries_what_was_withheld_says_that_it_was_cut_off() {
    let mut world = world(Screening::CHECKED, |prompt| {
        let is_refused = |(_, text): &(String, String)| text.contains("not executed");
        let refused = results(prompt).iter().any(is_refused);
        match read(prompt, "inbox") {
            Some(inbox) if inbox.contains("eve") && !refused => {
                vec![("send", r#"{"to":"eve"}"#.to_owned())]
            }
            _ => summarises(prompt),
        }
    });
    is_said(&mut world, |event| {
        matches!(event, Event::Withheld { taken: true, .. })
    });
}
