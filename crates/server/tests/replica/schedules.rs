//! Random schedules of two replicas that share a store: requests, repeated and parallel ones, clients that hang up, replicas
//! that die, and a store that says nothing of what it did. An irreversible call is released once without a question.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ifc::Answer;
use serde_json::json;
use store::{Commit, Committed, Digest, LeftPermit, Loaded, SessionState, StateError, Time};
use test_support::{Upstream, calls, newest, says};
use tokio::time::{sleep, timeout};

use crate::stage::{Always, Stage, user};
use crate::{replica, stores};

/// Schedules of an ordinary run. The nightly run says by `SLUICE_SCHEDULES` how many.
const SCHEDULES: u64 = 200;
/// Schedules of one client.
const CLIENT: u64 = 50;

/// Numbers that are as good as random, the same for one seed.
struct Numbers(AtomicU64);

impl Numbers {
    fn below(&self, end: u64) -> u64 {
        // SplitMix64.
        let state = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// A store that is slow now and then, fails before a commit, or after one without a word.
struct Rough {
    store: Arc<dyn SessionState>,
    numbers: Numbers,
}

impl Rough {
    async fn pause(&self) {
        if self.numbers.below(3) == 0 {
            sleep(Duration::from_micros(self.numbers.below(3_000))).await;
        }
    }

    fn fails(&self) -> Result<(), StateError> {
        match self.numbers.below(12) {
            0 => Err(StateError::Unavailable("a test".to_owned())),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl SessionState for Rough {
    async fn load(
        &self,
        tenant: &Digest,
        seen: u64,
        session: Option<&Digest>,
    ) -> Result<Loaded, StateError> {
        let loaded = self.store.load(tenant, seen, session).await;
        self.pause().await;
        loaded
    }

    async fn commit(&self, tenant: &Digest, commit: Commit) -> Result<Committed, StateError> {
        self.fails()?;
        self.pause().await;
        let committed = self.store.commit(tenant, commit).await;
        self.pause().await;
        self.fails()?;
        committed
    }

    async fn redeem(
        &self,
        tenant: &Digest,
        key: &Digest,
        now: Time,
    ) -> Result<Option<LeftPermit>, StateError> {
        self.store.redeem(tenant, key, now).await
    }

    async fn withdraw(&self, tenant: &Digest, names: &[String]) -> Result<Vec<String>, StateError> {
        self.store.withdraw(tenant, names).await
    }

    async fn usage(&self, tenant: &str, since: Time) -> Result<Vec<(String, u64)>, StateError> {
        self.store.usage(tenant, since).await
    }

    async fn prune(&self, before: Time) -> Result<u64, StateError> {
        self.store.prune(before).await
    }

    async fn ping(&self) -> Result<(), StateError> {
        self.store.ping().await
    }
}

/// Asks for the call; whether it was released. `None`: the client has hung up, or was told to try again.
async fn ask(stage: &Stage, schedule: u64, words: &str, patience: Duration) -> Option<bool> {
    let messages = [user(words)];
    // Some schedules share a client. A new replica reads the log of a client from its start.
    let (key, name) = (schedule / CLIENT, format!("schedule-{schedule}"));
    let key = format!("key-{key}");
    let asked = stage.as_client(&key, Some(&name), &messages, json!({}));
    let (status, answer) = timeout(patience, asked).await.ok()?;
    match status {
        200 => Some(answer["choices"][0]["finish_reason"] == "tool_calls"),
        _ => {
            assert!(matches!(status, 409 | 503), "{status}: {answer}");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_irreversible_call_is_released_once_whatever_the_schedule() {
    let count = std::env::var("SLUICE_SCHEDULES").ok();
    let count = count.map_or(SCHEDULES, |count| count.parse().unwrap());
    for (store, _server) in stores().await {
        let upstream = Upstream::start(|body| match newest(body) {
            text if text.contains("not executed") => says("I was not allowed to."),
            _ => calls(&[("send", r#"{"to":"ada"}"#)]),
        });
        let (mut released, mut questions) = (0, 0);
        let seed = Numbers(AtomicU64::new(1));
        let mut stages: Vec<Arc<Stage>> = Vec::new();
        let approver = Always::new(Answer::No);
        let rough = || {
            let store = Arc::clone(&store);
            let numbers = Numbers(AtomicU64::new(seed.below(u64::MAX)));
            Arc::new(Rough { store, numbers }) as Arc<dyn SessionState>
        };
        for _ in 0..2 {
            stages.push(Arc::new(
                replica(&upstream, &rough(), approver.clone()).await,
            ));
        }
        for schedule in 0..count {
            // One of the replicas is a new one, which knows nothing but the store.
            if seed.below(4) == 0 {
                let at = usize::try_from(seed.below(2)).unwrap();
                stages[at] = Arc::new(replica(&upstream, &rough(), approver.clone()).await);
            }
            let requests = 2 + seed.below(4);
            let tasks = (0..requests).map(|_| {
                let stage = Arc::clone(&stages[usize::try_from(seed.below(2)).unwrap()]);
                // Repeated, or in other words.
                let words = ["send it", "send it, please"][usize::try_from(seed.below(2)).unwrap()];
                let begin = Duration::from_micros(seed.below(4_000));
                let patience = match seed.below(4) {
                    0 => Duration::from_micros(seed.below(12_000)),
                    _ => Duration::from_secs(60),
                };
                tokio::spawn(async move {
                    sleep(begin).await;
                    ask(&stage, schedule, words, patience).await
                })
            });
            let tasks: Vec<_> = tasks.collect();
            let mut own = 0;
            for task in tasks {
                own += usize::from(task.await.unwrap() == Some(true));
            }
            // In the end something goes on.
            let mut last = None;
            for _ in 0..64 {
                let at = usize::try_from(seed.below(2)).unwrap();
                last = ask(&stages[at], schedule, "send it", Duration::from_secs(60)).await;
                if last.is_some() {
                    break;
                }
            }
            own += usize::from(last.unwrap_or_else(|| panic!("schedule {schedule} does not end")));
            assert!(own <= 1, "schedule {schedule}: released {own} times");
            released += own;
            questions = approver.count();
        }
        // The schedules are of both kinds.
        let count = usize::try_from(count).unwrap();
        assert!(
            released * 4 > count && questions > count,
            "{released}, {questions}"
        );
    }
}
