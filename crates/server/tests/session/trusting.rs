//! The user vouches for what an app returned: one question for all that it asks for.

use std::sync::Arc;

use hub::trace::Event;
use hub::{Completion, CompletionRequest, Purpose};
use ifc::{
    Answer, Call, Dimension, Effect, Label, Labeled, Lattice, Policy, PolicyError, Rule, Sink,
    Until,
};
use llm::{Broker, Scripted, call_answer, text_answer};
use store::{Content, Memory};

use crate::memory::{Archive, failures, untrusted};
use crate::stage::{Everything, Stage, newest_results, users};

/// The task that `echo` returns is untrusted, and it wants trusted text; it can be undone.
struct Untrusted;

impl Policy for Untrusted {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        if let Sink::MemoryWrite(_) = sink {
            let name = "memory.limit".to_owned();
            return Ok(Rule::asking(name, Effect::Write, Label::top()));
        }
        let rule = Everything.rule(sink)?;
        Ok(match sink {
            Sink::Call(_) => Rule {
                limit: Label::bottom(),
                effect: Effect::Write,
                ..rule
            },
            _ => rule,
        })
    }

    fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
        let untrusted = Lattice::four_point().whole(Dimension::Integrity);
        match result.contains("invite") {
            true => Labeled::label_tcb(result, untrusted),
            false => Labeled::trusted_tcb(result),
        }
    }
}

/// Echoes a task for each query, and then three things that it asks for.
fn delegated(request: &CompletionRequest) -> Completion {
    let (done, users) = (newest_results(request).len(), users(request).len());
    match (done, users) {
        (0, 1) => call_answer("echo", r#"{"text":"invite three"}"#),
        (0..=3, users) => call_answer("echo", format!(r#"{{"text":"{users} {done}"}}"#)),
        _ => text_answer("done"),
    }
}

#[tokio::test]
async fn one_answer_is_enough_for_a_task_and_for_this_one() {
    for (until, asked) in [(Until::Task, 2), (Until::Session, 1)] {
        let broker = Broker::new(Arc::new(Scripted::new("scripted", delegated)), Label::top());
        let mut stage = Stage::start("ok", broker, |setup| {
            setup.parts.policy = Arc::new(Untrusted);
        });
        stage.watcher.says = Some(Answer::Trust(until));
        for (query, answered) in [("do what it asks", 1), ("and the rest", asked)] {
            let outcome = stage.ask(query).await.unwrap();
            assert_eq!(outcome.refused, 0, "{until:?}");
            assert_eq!(stage.watcher.questions.len(), answered, "{until:?}");
        }
        let trust = stage.watcher.questions[0].trust.clone().unwrap();
        assert_eq!((trust.app.as_str(), trust.effect), ("test", Effect::Write));
        assert!(trust.texts[0].text.contains("invite three"));
        let events = stage.trace();
        let by_trust = |event: &&Event| matches!(event, Event::Allowed { by, .. } if by.starts_with("user, who trusts"));
        assert!(events.iter().filter(by_trust).count() >= 6);
        let trusted = |event: &&Event| matches!(event, Event::Trusted { .. });
        assert_eq!(events.iter().filter(trusted).count(), asked);
    }
}

/// As `delegated`; and it finds a fact in whatever it is shown.
fn delegated_with_facts(request: &CompletionRequest) -> Completion {
    match request.purpose {
        Purpose::Facts => {
            text_answer(r#"{"facts":[{"entity":"invitations","attribute":"count","value":"3"}]}"#)
        }
        _ => delegated(request),
    }
}

/// A memory outlives the user's word for a text, and keeps the text's own label; what follows from it goes with it.
#[tokio::test]
async fn what_the_user_vouches_for_is_remembered_as_what_it_is() {
    for (until, facts) in [
        (Until::Task, false),
        (Until::Session, false),
        (Until::Task, true),
    ] {
        let archive = Archive::new();
        let model = Scripted::new("scripted", delegated_with_facts);
        let broker = Broker::new(Arc::new(model), Label::top());
        let mut stage = Stage::start("ok", broker, |setup| {
            setup.parts.policy = Arc::new(Untrusted);
            setup.memory = Some(archive.memory());
            setup.facts = facts;
        });
        stage.watcher.says = Some(Answer::Trust(until));
        let mut answers = Vec::new();
        for query in ["do what it asks", "and the rest"] {
            stage.ask(query).await.unwrap();
            let said = archive.entries().into_iter();
            let mut said =
                said.filter(|entry| matches!(entry.content, Content::Interaction { .. }));
            answers.push(said.next().unwrap());
        }
        assert_eq!(failures(&stage), [""; 0], "{until:?}, {facts}");
        for answer in &answers {
            assert_eq!(answer.label, untrusted(), "{until:?}, {facts}");
        }
        let learnt = |entry: &store::Entry| matches!(entry.content, Content::Fact { .. });
        assert_eq!(archive.entries().iter().any(learnt), facts);
        let gone = archive
            .memory()
            .forget(&[answers[0].id])
            .unwrap()
            .family
            .entries;
        assert!(gone.contains(&answers[1]), "{until:?}, {facts}");
    }
}
