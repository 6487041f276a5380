//! What a tenant may use in an hour, against an upstream and clients that would use more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hub::trace::Event;
use serde_json::{Value, json};
use server::access::{Access, Agent, Agents};
use server::limits::{Budget, Limits};
use server::{At, EventSink, Sinks};
use store::Role;
use tokio::time::sleep;

use crate::approvals::now;
use crate::replicas::{front_with, the_only_question};
use crate::stage::{Stage, Watcher, result, serve, setup, user};
use test_support::{ModelReply, Upstream, calls, newest, says};

/// Counts the requests that are over.
#[derive(Default)]
struct Ended(AtomicUsize);

impl EventSink for Ended {
    fn event(&self, _: &At<'_>, _: &Event) {}

    fn ended(&self, _: &At<'_>, _: Result<(), &str>, _: Duration) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn limited(upstream: &Upstream, budget: Budget) -> (Stage, Arc<Ended>) {
    let mut setup = setup(upstream);
    let ended = Arc::<Ended>::default();
    setup.parts.limits = Limits::new("all", None);
    let budgets = BTreeMap::from([("all".to_owned(), budget)]);
    setup.parts.limits.replace(budgets);
    setup.parts.sinks = Sinks::new(vec![ended.clone()]);
    (serve(setup).await, ended)
}

#[tokio::test]
async fn calls_of_one_answer_count_each() {
    let script = |body: &Value| match newest(body) {
        "go" => {
            let send = |at: usize| format!(r#"{{"to":"ada {at}"}}"#);
            let sends: Vec<String> = (0..5).map(send).collect();
            let sends: Vec<_> = sends.iter().map(|it| ("send", it.as_str())).collect();
            calls(&sends)
        }
        "again" => calls(&[("send", r#"{"to":"eve"}"#)]),
        text if text.contains("the budget of calls of app.send in this hour (1)") => {
            says("It is spent.")
        }
        _ => says("done"),
    };
    let of_tool = Budget {
        tools: BTreeMap::from([("app.send".to_owned(), 1)]),
        ..Budget::default()
    };
    let of_all = Budget {
        calls: Some(1),
        ..Budget::default()
    };
    for budget in [of_tool, of_all] {
        let is_of_all = budget.calls.is_some();
        let upstream = Upstream::start(script);
        let (stage, _) = limited(&upstream, budget).await;
        let answer = stage.message(&[user("go")]).await;
        assert_eq!(answer["tool_calls"].as_array().unwrap().len(), 1);
        let messages = [user("go"), answer.clone(), result(&answer, 0, "sent")];
        let (status, next) = stage.request(&messages, json!({})).await;
        assert_eq!(status, if is_of_all { 429 } else { 200 }, "{next}");
        if !is_of_all {
            // The model reads what became of the others.
            let all = upstream.last().1.to_string();
            assert_eq!(
                all.matches("the budget of calls of app.send in this hour (1)")
                    .count(),
                4,
                "{all}"
            );
            let answer = stage.message(&[user("again")]).await;
            assert_eq!(answer["content"], "It is spent.");
        }
    }
}

#[tokio::test]
async fn tokens_without_usage_are_charged_by_estimate() {
    let upstream = Upstream::start(|body| match newest(body) {
        "hang" => ModelReply::Hangs,
        _ => ModelReply::Raw(
            json!({"choices": [{"index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": "hello"}}]})
            .to_string(),
        ),
    });
    let budget = Budget {
        tokens: Some(1),
        ..Budget::default()
    };
    let status = async |stage: &Stage| stage.request(&[user("hello")], json!({})).await.0;
    // The upstream does not say how many it were.
    let (stage, _) = limited(&upstream, budget.clone()).await;
    assert_eq!((status(&stage).await, status(&stage).await), (200, 429));
    // The client goes before there is an answer, with a stream and without.
    for streams in [false, true] {
        let (stage, ended) = limited(&upstream, budget.clone()).await;
        let before = upstream.requests().len();
        let messages = [user("hang")];
        tokio::select! {
            _ = stage.request(&messages, json!({"stream": streams})) => panic!("it hangs"),
            () = async {
                while upstream.requests().len() == before {
                    sleep(Duration::from_millis(5)).await;
                }
            } => {}
        }
        while ended.0.load(Ordering::SeqCst) == 0 {
            // What runs has its tokens already.
            assert_eq!(status(&stage).await, 429);
            sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(status(&stage).await, 429);
    }
}

#[tokio::test]
async fn a_request_reserves_what_its_model_may_write() {
    let upstream = Upstream::start(|_| ModelReply::Hangs);
    let budget = Budget {
        tokens: Some(1_000),
        ..Budget::default()
    };
    let (stage, _) = limited(&upstream, budget).await;
    let messages = [user("hello")];
    let request = |most| stage.request(&messages, json!({"max_tokens": most}));
    tokio::select! {
        _ = request(4_000) => panic!("it hangs"),
        () = async {
            while upstream.requests().is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(request(1).await.0, 429);
        } => {}
    }
}

/// Each token is its tenant's.
struct Tenants;

#[async_trait::async_trait]
impl Agents for Tenants {
    async fn admit(&self, secret: &str) -> Result<Option<Agent>, String> {
        let tenant = secret.strip_prefix("sluice-").map(str::to_owned);
        let name = "agent".to_owned();
        let role = Role::Agent;
        Ok(Some(Agent { name, role, tenant }))
    }
}

#[tokio::test]
async fn a_question_above_the_budget_is_a_no_with_its_reason() {
    let upstream = Upstream::start(|body| match newest(body) {
        "go" => calls(&[("inbox", "{}")]),
        "letter" => calls(&[("send", r#"{"to":"eve"}"#)]),
        _ => says("It was refused."),
    });
    let mut setup = setup(&upstream);
    let budget = Budget {
        questions: Some(1),
        ..Budget::default()
    };
    setup.parts.limits = Limits::new("all", None);
    let budgets = BTreeMap::from([("team".to_owned(), budget)]);
    setup.parts.limits.replace(budgets);
    let names = ["team", "other"].map(str::to_owned);
    let access = Access::new(Arc::new(Tenants), true, BTreeSet::from(names));
    setup.access = Some(access);
    let watcher = Arc::<Watcher>::default();
    setup.observer = watcher.clone();
    let store = Arc::new(store::Desk::in_memory().unwrap());
    setup.approver = front_with(store.clone(), setup.parts.limits.clone());
    let stage = serve(setup).await;
    let sends = async |tenant: &str, name: &str| {
        let key = format!("sluice-{tenant}");
        let mut messages = vec![user("go")];
        let ask = async |messages: &[Value]| {
            let (status, answer) = stage.as_client(&key, Some(name), messages, json!({})).await;
            assert_eq!(status, 200, "{answer}");
            answer["choices"][0]["message"].clone()
        };
        let answer = ask(&messages).await;
        messages.extend([answer.clone(), result(&answer, 0, "letter")]);
        let message = tokio::select! {
            refused = ask(&messages) => refused,
            // Its client goes, and meets the answer when it comes again.
            kept = the_only_question(&store) => {
                let (name, from) = (None, "approve".to_owned());
                let by = store::Answerer { name, from };
                store.answer(kept.id, "once", &by, now()).await.unwrap();
                // It is asked by a task that has ended by then.
                sleep(Duration::from_millis(300)).await;
                ask(&messages).await
            }
        };
        message["tool_calls"].is_array()
    };
    assert!(sends("team", "one").await);
    assert!(!sends("team", "two").await);
    assert!(sends("other", "three").await && sends("other", "four").await);
    let asked = store.recent(9, |_| true).await.unwrap();
    assert_eq!(asked.all.len(), 3);
    let seen = watcher.0.lock().unwrap();
    let answers = seen.iter().filter_map(|(name, event)| match event {
        Event::Replied { answer, from, .. } => Some((&**name, &**answer, from.as_deref())),
        _ => None,
    });
    let of_two = answers.filter(|(name, ..)| *name == "two");
    let expected = [("two", "no", Some("budget"))];
    assert_eq!(of_two.collect::<Vec<_>>(), expected);
}
