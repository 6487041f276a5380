//! Private sessions: every query stands alone (SecGPT §4.2.5).

use std::sync::Arc;

use hub::CompletionRequest;
use hub::trace::Event;
use ifc::{Label, Lattice, Permissible, Permissions};
use llm::{Broker, Scripted, text_answer};

use crate::stage::{AlwaysAsks, Stage, echo_once, runs, users};

/// Answers with everything that the user has said in this conversation.
fn remembers(request: &CompletionRequest) -> hub::Completion {
    text_answer(users(request).join("|"))
}

fn broker() -> Broker {
    let model = Scripted::new("scripted", remembers);
    Broker::new(Arc::new(model), Label::top())
}

#[tokio::test]
async fn a_private_query_knows_of_no_other_and_leaves_nothing_behind() {
    for (private, expected) in [(false, "first|second"), (true, "second")] {
        let mut stage = Stage::start("ok", broker(), |setup| setup.private = private);
        stage.ask("first").await.unwrap();
        let spokes: Vec<u32> = stage.session.spokes().map(|(_, pid)| pid).collect();
        assert_eq!(spokes.is_empty(), private);
        let second = stage.ask("second").await.unwrap();
        assert_eq!(second.result.unwrap().reveal_tcb(), expected);
        let trace = stage.trace();
        let pids: Vec<u32> = trace
            .iter()
            .filter_map(|event| match event {
                Event::SpokeStarted { pid, .. } => Some(*pid),
                _ => None,
            })
            .collect();
        // An app that has seen a private query serves no other.
        assert_eq!(pids.len(), if private { 2 } else { 1 });
        assert!(!private || pids.into_iter().all(|pid| !runs(pid)));
        let starts = |event: &Event| matches!(event, Event::SessionStarted { private: own, .. } if *own == private);
        assert!(starts(&trace[0]));
    }
}

/// A private query that fails leaves nothing behind either.
#[tokio::test]
async fn an_interrupted_private_query_leaves_nothing_behind() {
    let model = Scripted::new("scripted", remembers).with_pace(std::time::Duration::from_secs(60));
    let broker = Broker::new(Arc::new(model), Label::top());
    let mut stage = Stage::start("ok", broker, |setup| setup.private = true);
    let (thinking, cancel) = (stage.when_thinking(), Arc::clone(&stage.cancel));
    let interrupt = tokio::spawn(async move {
        let pid = thinking.await;
        cancel.notify_one();
        pid
    });
    let outcome = stage.ask("first").await.unwrap();
    assert_eq!(outcome.result, Err(hub::Stop::Interrupted));
    assert_eq!(stage.session.spokes().count(), 0);
    assert!(!runs(interrupt.await.unwrap()));
}

/// What somebody allowed for good elsewhere.
struct Elsewhere;

impl Permissions for Elsewhere {
    fn can_keep(&self, _: Permissible<'_>) -> bool {
        true
    }

    fn find(&self, _: Permissible<'_>, _: &Label) -> Option<String> {
        panic!("a private session looks at no permission")
    }

    fn keep(&self, _: Permissible<'_>, _: &Label) -> Result<String, String> {
        panic!("a private session keeps no permission")
    }
}

#[tokio::test]
async fn a_private_session_neither_uses_nor_keeps_permissions() {
    let model = Scripted::new("scripted", echo_once);
    let broker = Broker::new(Arc::new(model), Label::top());
    let mut stage = Stage::start("ok", broker, |setup| {
        setup.private = true;
        setup.permissions = Some(Arc::new(Elsewhere));
        setup.parts.policy = Arc::new(AlwaysAsks);
        // So that a call depends on something that has a name.
        setup.apps[0].descriptions = Lattice::four_point().label("untrusted").unwrap();
    });
    let outcome = stage.ask("go").await.unwrap();
    assert_eq!(outcome.refused, 1);
    let choices = stage.watcher.choices.concat();
    assert!(!choices.is_empty() && !choices.contains(&ifc::Answer::Always));
}
