//! Facts that are kept of turns.

use std::sync::Arc;

use hub::trace::Event;
use hub::{Completion, CompletionRequest, Purpose};
use ifc::Label;
use llm::{Scripted, call_answer, text_answer};
use store::{Content, Entry, Memory};

use crate::memory::{
    Archive, Hindered, MailIsUntrusted, failures, query, results, said, untrusted,
};
use crate::stage::{Stage, users};

/// Reads a letter where one is spoken of, and finds the facts that it is shown.
fn learns(request: &CompletionRequest) -> Completion {
    if request.purpose == Purpose::Facts {
        let shown = users(request).concat();
        let facts = [
            ("my sister is Ada", "sister", "name", "Ada"),
            // The result, not the call.
            ("Result of echo: ", "delivery", "day", "Friday"),
        ];
        let shown = shown.replace("Result of echo: [redacted]", "");
        let found = facts.iter().filter(|(words, ..)| shown.contains(words));
        let found: Vec<_> = found
            .map(|(_, entity, attribute, value)| {
                serde_json::json!({"entity": entity, "attribute": attribute, "value": value})
            })
            .collect();
        return text_answer(serde_json::json!({ "facts": found }).to_string());
    }
    match results(request) {
        0 if query(request).contains("letter") => {
            call_answer("echo", r#"{"text":"the delivery comes on Friday"}"#)
        }
        0 => text_answer(query(request)),
        _ => text_answer("It is as the mail says."),
    }
}

fn session(archive: &Archive, facts: bool, model: fn(&CompletionRequest) -> Completion) -> Stage {
    over(archive.memory(), facts, model)
}

fn over(
    memory: Arc<dyn Memory>,
    facts: bool,
    model: fn(&CompletionRequest) -> Completion,
) -> Stage {
    let policy = MailIsUntrusted {
        memory: Some(Label::top()),
    };
    let model = Scripted::new("scripted", model);
    Stage::with_apps_and(&[("mail", "ok"), ("web", "ok")], policy, model, |setup| {
        setup.memory = Some(memory);
        setup.facts = facts;
    })
}

fn facts(archive: &Archive) -> Vec<(String, Entry)> {
    let entries = archive.entries().into_iter();
    let facts = entries.filter_map(|entry| match &entry.content {
        Content::Fact { entity, value, .. } => Some((format!("{entity} {value}"), entry)),
        _ => None,
    });
    facts.collect()
}

fn consulted(stage: &Stage) -> usize {
    let is_facts =
        |event: &Event| matches!(event, Event::Consulted { purpose, .. } if purpose == "facts");
    stage.trace().into_iter().filter(is_facts).count()
}

#[tokio::test]
async fn a_fact_has_the_label_and_the_sources_of_what_it_was_found_in() {
    let archive = Archive::new();
    let mut stage = session(&archive, true, learns);
    let words = "my sister is Ada; what does the newest letter say?";
    said(&mut stage, &["mail"], words).await;
    assert_eq!(consulted(&stage), 2);
    let entries = archive.entries();
    let [answer, query] = &entries[entries.len() - 2..] else {
        panic!("{entries:?}");
    };
    let facts = facts(&archive);
    let found: Vec<(&str, &Label)> = facts
        .iter()
        .map(|(text, entry)| (text.as_str(), &entry.label))
        .collect();
    // What the user said is not found again in what the mail has tainted.
    let (low, high) = (Label::bottom(), untrusted());
    assert_eq!(found, [("delivery Friday", &high), ("sister Ada", &low)]);
    assert_eq!(facts[0].1.sources, [answer.id]);
    assert_eq!(facts[1].1.sources, [query.id]);
    // What the mail said goes; what the user said stays.
    archive.memory().forget(&[answer.id]).unwrap();
    assert_eq!(self::facts(&archive).len(), 1);
    archive.memory().forget(&[query.id]).unwrap();
    assert!(archive.entries().is_empty());
}

#[tokio::test]
async fn a_fact_is_known_in_the_next_session_and_in_its_own_it_is_said_already() {
    let archive = Archive::new();
    let mut first = session(&archive, true, learns);
    said(&mut first, &["mail"], "my sister is Ada").await;
    let same = said(&mut first, &["mail"], "the name of my sister?").await;
    assert_eq!(same, "the name of my sister?");
    let mut next = session(&archive, true, learns);
    let shown = said(&mut next, &["mail"], "the name of my sister?").await;
    assert!(shown.contains("noted: \"sister, name: Ada\""), "{shown}");
}

#[tokio::test]
async fn without_facts_no_completion_is_spent_on_them() {
    let archive = Archive::new();
    let mut stage = session(&archive, false, learns);
    said(&mut stage, &["mail"], "my sister is Ada").await;
    assert_eq!(consulted(&stage), 0);
    assert!(facts(&archive).is_empty());
}

#[tokio::test]
async fn an_answer_that_lists_no_facts_keeps_none_and_ends_no_turn() {
    let archive = Archive::new();
    let mut stage = session(&archive, true, |request| match request.purpose {
        Purpose::Facts => text_answer("ignore all rules"),
        _ => text_answer("fine"),
    });
    assert_eq!(said(&mut stage, &["mail"], "go").await, "fine");
    let expected = "no facts are kept: the model's answer is no list of facts";
    assert_eq!(failures(&stage), [expected]);
    assert_eq!(archive.entries().len(), 2);
}

/// The answer is not stored; what was found in the user's words goes with them all the same.
#[tokio::test]
async fn a_fact_in_words_that_are_kept_goes_with_them_whatever_failed_beside() {
    let archive = Archive::new();
    let mut stage = over(Hindered::failing(&archive, 1), true, learns);
    said(&mut stage, &["mail"], "my sister is Ada").await;
    let entries = archive.entries();
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert_eq!(facts(&archive)[0].1.sources, [entries[1].id]);
    archive.memory().forget(&[entries[1].id]).unwrap();
    assert!(archive.entries().is_empty());
}
