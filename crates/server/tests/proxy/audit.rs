//! The audit log of a proxy: which entries a run leaves, and that nothing is done without them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use ifc::Answer;
use serde_json::{Value, json};
use server::Sinks;
use server::audit::{Audit, AuditKeys, AuditSetup, Entry, Note, verify};
use store::{AuditBatch, AuditChain, AuditEntry, AuditLog, ChainId, StateError, Store, Time};

use crate::stage::{Always, result, serve, setup, user};
use test_support::{ModelReply, Upstream, calls, newest, says};

/// A log that can fail.
struct Failing(Arc<dyn AuditLog>, AtomicBool);

#[async_trait]
impl AuditLog for Failing {
    fn store(&self) -> String {
        self.0.store()
    }

    async fn append(&self, batch: &AuditBatch) -> Result<(), StateError> {
        match self.1.load(Ordering::SeqCst) {
            true => Err(StateError::Unavailable("it is gone".to_owned())),
            false => self.0.append(batch).await,
        }
    }

    async fn chains(&self, most: Option<usize>) -> Result<Vec<AuditChain>, StateError> {
        self.0.chains(most).await
    }

    async fn entries(&self, chain: ChainId, after: u64) -> Result<Vec<AuditEntry>, StateError> {
        self.0.entries(chain, after).await
    }

    async fn read(
        &self,
        after: (Time, ChainId, u64),
    ) -> Result<Vec<(ChainId, AuditEntry)>, StateError> {
        self.0.read(after).await
    }

    async fn remove(&self, chain: ChainId, number: u64, head: &str) -> Result<bool, StateError> {
        self.0.remove(chain, number, head).await
    }
}

fn keys() -> AuditKeys {
    AuditKeys::new(b"the secret of the deployment").unwrap()
}

fn audit() -> (Arc<Failing>, Arc<Audit>) {
    let log = Store::in_memory().unwrap().audit();
    let log = Arc::new(Failing(log, AtomicBool::new(false)));
    let audit = Audit::open(log.clone(), keys().into(), AuditSetup::default());
    (log, audit)
}

async fn texts(log: &dyn AuditLog) -> Vec<String> {
    let begin = (Time::from_millis(0), ChainId::from_bytes([0; 16]), 0);
    let all = log.read(begin).await;
    all.unwrap()
        .into_iter()
        .map(|(_, entry)| entry.text)
        .collect()
}

fn script(body: &Value) -> ModelReply {
    match newest(body) {
        "go" => calls(&[("inbox", r#"{"page":"canary-1"}"#)]),
        "canary-2" => calls(&[
            ("post", r#"{"to":"canary-3"}"#),
            ("post", "no JSON canary-4"),
            ("unknown", r#"{"a":"canary-5"}"#),
        ]),
        _ => says("canary-6"),
    }
}

#[tokio::test]
async fn a_run_leaves_exactly_these_entries_without_contents() {
    let upstream = Upstream::start(script);
    let mut runs = Vec::new();
    for answer in [Answer::Once, Answer::No] {
        let (log, audit) = audit();
        let mut setup = setup(&upstream);
        setup.parts.sinks = Sinks::new(vec![audit.clone()]);
        Always::answering(&mut setup, answer);
        let stage = serve(setup).await;
        let mut messages = vec![user("go")];
        let call = stage.step(&mut messages, "canary-2").await;
        assert_eq!(call["tool_calls"][0]["function"]["name"], "inbox");
        let (_, answer) = stage
            .as_client("key", Some("talk"), &messages, json!({}))
            .await;
        let answer = answer["choices"][0]["message"].clone();
        if answer["tool_calls"][0]["function"]["name"] == "post" {
            messages.extend([answer.clone(), result(&answer, 0, "canary-7")]);
            stage.message(&messages).await;
        }
        audit.close(Note::new("stop", "done")).await.unwrap();
        let texts = texts(&*log).await;
        for text in &texts {
            assert!(!text.contains("canary") && !text.contains("eve"), "{text}");
        }
        let report = verify(&*log, &[keys().public()], &[]).await.unwrap();
        assert_eq!((report.faults, report.open), (vec![], vec![]));
        let lines = texts.iter().map(|text| {
            let note = serde_json::from_str::<Entry>(text).unwrap().note;
            let parts = ["tool", "rule", "effect", "by", "from"].map(|name| note.text(name));
            let parts: Vec<&str> = parts.into_iter().flatten().collect();
            format!("{} {}: {}", note.kind, note.outcome, parts.join(" "))
        });
        runs.push(lines.collect::<Vec<_>>());
    }
    let begin = [
        "decision allow: inbox inbox.limit policy inbox.limit",
        "result done: inbox",
        "decision ask: post post.limit write",
    ];
    let once = ["answer once: program", "grant once: post"];
    let no = ["answer no: program", "refusal no: post"];
    let others = ["decision reject: ", "decision deny: unknown"];
    let allowed = [
        &begin[..],
        &once,
        &others,
        &["result done: post", "stop done: "],
    ]
    .concat();
    let refused = [&begin[..], &no, &others, &["stop done: "]].concat();
    assert_eq!(runs, [allowed, refused]);
}

#[tokio::test]
async fn nothing_is_handed_over_that_is_not_in_the_log() {
    let upstream = Upstream::start(script);
    let (log, audit) = audit();
    let mut setup = setup(&upstream);
    setup.parts.sinks = Sinks::new(vec![audit.clone()]);
    let stage = serve(setup).await;
    log.1.store(true, Ordering::SeqCst);
    let messages = [user("go")];
    let (status, answer) = stage.request(&messages, json!({})).await;
    assert_eq!(status, 503, "{answer}");
    assert!(
        answer["error"]["message"].to_string().contains("audit log"),
        "{answer}"
    );
    assert!(answer.get("choices").is_none());
    log.1.store(false, Ordering::SeqCst);
    let mut attempts = 0;
    while stage.request(&messages, json!({})).await.0 != 200 {
        attempts += 1;
        assert!(attempts < 100);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // What was decided while the log failed is in it too: the entries wait.
    assert!(texts(&*log).await.len() >= 2);
}
