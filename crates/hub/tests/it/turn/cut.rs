//! Steps whose completion was cut off: their words say so, whichever way the step was made.

use hub::Screening;
use hub::trace::Event;
use ifc::{Prompt, REDACTED};

use super::filled::eager;
use super::{Step, World, call, content, has, say, sees, world};

const WORDS: &str = "I mail it";

fn mail(body: &str) -> Step {
    let call = format!(r#"{{"to":"ada","body":"{body}"}}"#);
    vec![("cut", WORDS.to_owned()), ("mail", call)]
}

/// Mails a summary of the inbox, and is cut off behind the call.
fn summarises(prompt: &Prompt) -> Step {
    match content(prompt, "inbox") {
        None => call("inbox"),
        Some(_) if has(prompt, "mail") => say("sent"),
        Some(inbox) if inbox.contains(REDACTED) => mail(REDACTED),
        Some(_) => mail("a summary"),
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
    let mut world = eager(|prompt| match () {
        () if !has(prompt, "inbox") => call("inbox"),
        () if !has(prompt, "balance") => call("balance"),
        // The request for a value is in words.
        () => summarises(prompt),
    });
    world.user = |_| ifc::Answer::Once;
    is_said(&mut world, |event| matches!(event, Event::Filled { .. }));
}

#[test]
fn a_step_after_a_no_that_carries_what_was_withheld_says_that_it_was_cut_off() {
    let mut world = world(Screening::CHECKED, |prompt| {
        match content(prompt, "inbox") {
            Some(inbox) if inbox.contains("eve") && !sees(prompt, "not executed") => {
                vec![("send", r#"{"to":"eve"}"#.to_owned())]
            }
            _ => summarises(prompt),
        }
    });
    is_said(&mut world, |event| {
        matches!(event, Event::Withheld { taken: true, .. })
    });
}
