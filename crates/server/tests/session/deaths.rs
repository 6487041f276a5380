//! The app, the spoke or the model dies in the middle of a turn; or the user has enough.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hub::Stop;
use hub::trace::Event;
use ifc::Label;
use llm::{Broker, HttpConfig, HttpProvider, Scripted, call_answer, text_answer};
use sandbox::{Access, Mount, Quota};

use crate::stage::{Stage, descendants, runs};

/// A model that takes its time over a long answer.
fn slow() -> Scripted {
    let words = "word ".repeat(500);
    Scripted::new("slow", move |_| text_answer(words.clone())).with_pace(Duration::from_millis(50))
}

fn kill(pid: u32) {
    assert!(
        Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

/// Runs a turn with the slow model and kills one of the spoke's processes meanwhile.
async fn killed_while_thinking(victim: fn(&[u32]) -> u32) {
    let mut stage = Stage::with_model("ok", slow());
    let thinking = stage.when_thinking();
    let killer = tokio::spawn(async move {
        let spoke = thinking.await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let inside = descendants(spoke);
        assert!(inside.len() >= 2, "a spoke and its app: {inside:?}");
        kill(victim(&inside));
        inside
    });
    let outcome = stage.ask("go").await.unwrap();
    let inside = killer.await.unwrap();
    // Before the model had said its words, and before the turn's time was over.
    let Err(Stop::Spoke(reason)) = outcome.result else {
        panic!("{outcome:?}")
    };
    assert!(!reason.is_empty());
    let trace = stage.trace();
    assert!(
        matches!(trace.last(), Some(Event::SpokeEnded { .. })),
        "{trace:?}"
    );
    assert!(
        trace
            .iter()
            .any(|event| matches!(event, Event::Stopped { .. }))
    );
    assert_eq!(stage.session.spokes().count(), 0);
    assert!(
        !inside.iter().any(|pid| runs(*pid)),
        "nothing is left running"
    );
}

#[tokio::test]
async fn a_killed_spoke_is_reported_while_the_model_thinks() {
    killed_while_thinking(|inside| inside[0]).await;
}

#[tokio::test]
async fn a_killed_app_is_reported_while_the_model_thinks() {
    killed_while_thinking(|inside| *inside.last().unwrap()).await;
}

#[tokio::test]
async fn after_a_death_the_next_query_gets_a_fresh_spoke() {
    let mut stage = Stage::new("answer-then-exit");
    let first = stage.said().await;
    assert!(
        first.contains("hello") || first.contains("the app failed"),
        "{first}"
    );
    let spokes: Vec<u32> = stage.session.spokes().map(|(_, pid)| pid).collect();
    while spokes.iter().any(|pid| runs(*pid)) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The hub reads the spoke's last words a moment later.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let again = stage.said().await;
    assert!(
        again.contains("hello") || again.contains("the app failed"),
        "{again}"
    );
    let starts = stage
        .trace()
        .iter()
        .filter(|event| matches!(event, Event::SpokeStarted { .. }))
        .count();
    assert_eq!(starts, 2);
}

#[tokio::test]
async fn an_app_that_fills_its_folder_is_ended_and_the_user_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().canonicalize().unwrap();
    let fill =
        r#"{"text":"i=0; while true; do head -c 1000000 /dev/zero > /data/$i; i=$((i+1)); done"}"#;
    let model = Scripted::new("scripted", move |_| call_answer("echo", fill));
    let broker = Broker::new(Arc::new(model), Label::top());
    let mut stage = Stage::start("run", broker, |setup| {
        let spec = &mut setup.apps[0].spoke.sandbox;
        spec.mounts.push(Mount {
            source: source.clone(),
            target: "/data".into(),
            access: Access::ReadWrite,
            executable: false,
        });
        spec.quotas.push(Quota {
            folder: source.clone(),
            bytes: 4 << 20,
        });
    });
    let why = "holds more than its size of 4 MiB; delete what is not needed";
    let said = stage.said().await;
    assert!(said.contains(why), "{said}");
    // It does not start again before there is room.
    let said = stage.said().await;
    assert!(said.contains(why), "{said}");
    assert_eq!(stage.session.spokes().count(), 0);
}

#[tokio::test]
async fn ctrl_c_ends_the_turn_and_keeps_the_session() {
    let mut stage = Stage::with_model("ok", slow());
    let thinking = stage.when_thinking();
    let cancel = Arc::clone(&stage.cancel);
    tokio::spawn(async move {
        thinking.await;
        cancel.notify_one();
    });
    let outcome = stage.ask("go").await.unwrap();
    assert_eq!(outcome.result.unwrap_err(), Stop::Interrupted);
    let spokes: Vec<u32> = stage.session.spokes().map(|(_, pid)| pid).collect();
    assert!(
        spokes.len() == 1 && runs(spokes[0]),
        "the conversation goes on"
    );
    assert!(matches!(stage.trace().last(), Some(Event::Stopped { .. })));
}

#[tokio::test]
async fn a_call_that_is_interrupted_is_cancelled_at_the_app_and_is_unknown_ever_after() {
    let mut stage = Stage::new("answer-the-second");
    let allowed = stage.when(|event| matches!(event, Event::Allowed { .. }));
    let cancel = Arc::clone(&stage.cancel);
    tokio::spawn(async move {
        allowed.await;
        // The frame is sent right after the record; the app takes it a moment later.
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.notify_one();
    });
    let outcome = stage.ask("go").await.unwrap();
    assert_eq!(outcome.result.unwrap_err(), Stop::Interrupted);
    assert_eq!(outcome.unknown, 1);
    let trace = stage.trace();
    let unknown = |event: &&Event| matches!(event, Event::CallUnknown { .. });
    assert_eq!(trace.iter().filter(unknown).count(), 1, "{trace:?}");
    assert!(!format!("{trace:?}").contains("not executed"), "{trace:?}");
    // The spoke lives, and the app was told once that nobody waits any more. The model sees that
    // the first call may have run.
    stage.watcher.wire = None;
    let said = stage.said().await;
    assert!(
        said.contains("it is not known whether this call ran"),
        "{said}"
    );
    assert_eq!(stage.session.spokes().count(), 1);
}

#[tokio::test]
async fn an_app_hears_that_nobody_waits_for_a_call_any_more() {
    // Calls `echo` in every turn, whatever came before.
    let model = Scripted::new("scripted", |request| {
        match request.prompt.messages().last() {
            Some(ifc::PromptMessage::Tool { content, .. }) => text_answer(content.clone()),
            _ => llm::call_answer("echo", r#"{"text":"hello"}"#),
        }
    });
    let mut stage = Stage::with_model("answer-the-second", model);
    let allowed = stage.when(|event| matches!(event, Event::Allowed { .. }));
    let cancel = Arc::clone(&stage.cancel);
    tokio::spawn(async move {
        allowed.await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.notify_one();
    });
    stage.ask("go").await.unwrap();
    stage.watcher.wire = None;
    assert_eq!(stage.said().await, "cancelled 1");
}

#[tokio::test]
async fn a_model_that_fails_ends_the_turn_with_its_reason() {
    let mut config = HttpConfig::new("away", "http://127.0.0.1:1/v1", "m");
    config.retry.attempts = 0;
    let away = Arc::new(HttpProvider::new(config).unwrap());
    let broker = Broker::new(away, Label::top());
    let mut stage = Stage::start("ok", broker, |_| {});
    let said = stage.said().await;
    assert!(said.starts_with("stopped: provider `away`"), "{said}");
}

#[tokio::test]
async fn a_turn_that_takes_too_long_is_ended() {
    let broker = Broker::new(Arc::new(slow()), Label::top());
    let mut stage = Stage::start("ok", broker, |setup| {
        setup.parts.turn_timeout = Duration::from_secs(1);
    });
    let outcome = stage.ask("go").await.unwrap();
    assert_eq!(outcome.result.unwrap_err(), Stop::Timeout(1));
}
