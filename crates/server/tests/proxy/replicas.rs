//! Questions that outlive the process that has asked them.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ifc::Answer;
use serde_json::json;
use server::desk::{Approver, Desk, DeskSetup, QuestionOrigin};
use server::limits::Limits;
use store::{Answerer, PoolSettings, Store};
use test_support::{Postgres, Upstream};

use crate::approvals::{now, script, view};
use crate::stage::{result, serve, setup, user};

/// The variable with the store of a process that asks.
const ASKS: &str = "SLUICE_TEST_ASKS";

/// The store at the URL of a database, or in a file.
async fn store_at(place: &str) -> Arc<store::Desk> {
    match place.starts_with("postgres://") {
        true => {
            let store = Store::postgres(place, &PoolSettings::default()).await;
            store.unwrap().desk()
        }
        false => Arc::new(store::Desk::open(place.as_ref()).unwrap()),
    }
}

/// The desk of one replica.
fn front(store: Arc<store::Desk>) -> Arc<Desk> {
    front_with(store, Limits::default())
}

pub(crate) fn front_with(store: Arc<store::Desk>, limits: Limits) -> Arc<Desk> {
    let setup = DeskSetup {
        front: "proxy".to_owned(),
        session: String::new(),
        asker: Some("eve".to_owned()),
        timeout: Duration::from_secs(600),
        outlives: true,
        keep_for: "until you revoke it".to_owned(),
        notice: None,
        limits,
        report: |line| assert!(line.is_empty(), "{line}"),
    };
    Desk::new(store, setup).unwrap()
}

fn origin() -> QuestionOrigin {
    QuestionOrigin {
        key: Some([7; 32]),
        ..QuestionOrigin::of("c")
    }
}

/// The process that other tests kill.
#[tokio::test]
#[ignore = "a process of other tests"]
async fn asks_until_it_is_killed() {
    if let Ok(place) = std::env::var(ASKS) {
        front(store_at(&place).await).ask(&origin(), &view()).await;
    }
}

pub(crate) async fn the_only_question(store: &store::Desk) -> store::KeptQuestion {
    loop {
        if let [kept] = store.waiting(now()).await.unwrap().all.as_slice() {
            return kept.clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A process that asks is killed, the question is answered, and the client comes to another one.
async fn outlives_its_process(place: &str) {
    let store = store_at(place).await;
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "--ignored", "replicas::asks_until_it_is_killed"])
        .env(ASKS, place)
        .stdout(Stdio::null());
    let mut child = child.spawn().unwrap();
    let kept = the_only_question(&store).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    let by = Answerer {
        name: Some("ada".to_owned()),
        from: "approve".to_owned(),
    };
    store.answer(kept.id, "once", &by, now()).await.unwrap();
    let next = front(store_at(place).await);
    let answered = next.ask(&origin(), &view()).await;
    assert!(killed.elapsed() < Duration::from_secs(2));
    assert_eq!((answered.answer, answered.by), (Answer::Once, Some(by)));
    assert!(store.waiting(now()).await.unwrap().all.is_empty());
}

#[tokio::test]
async fn an_answer_after_a_kill_counts_at_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    outlives_its_process(folder.path().join("state/desk.db").to_str().unwrap()).await;
    let Some(server) = Postgres::fast() else {
        return;
    };
    outlives_its_process(&server.database()).await;
}

/// The client of a front that stops is told to come again. Nothing was answered, and the question waits.
#[tokio::test]
async fn a_question_stays_when_its_front_stops() {
    let store = Arc::new(store::Desk::in_memory().unwrap());
    let desk = front(Arc::clone(&store));
    let upstream = Upstream::start(script);
    let mut setup = setup(&upstream);
    setup.approver = desk.clone();
    setup.desk = Some(desk.clone());
    let stage = Arc::new(serve(setup).await);
    let first = stage.message(&[user("go")]).await;
    let messages = vec![user("go"), first.clone(), result(&first, 0, "mail")];
    let going = {
        let (stage, messages) = (stage.clone(), messages.clone());
        tokio::spawn(async move { stage.as_client("key", None, &messages, json!({})).await })
    };
    let kept = the_only_question(&store).await;
    desk.close().await;
    let (status, answer) = going.await.unwrap();
    assert_eq!(status, 503, "{answer}");
    let waiting = the_only_question(&store).await;
    assert_eq!((waiting.id, waiting.answer), (kept.id, None));
    // It asks nothing new either.
    let (status, _) = stage.as_client("key", None, &messages, json!({})).await;
    assert_eq!(status, 503);
}
