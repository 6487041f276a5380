//! Questions over HTTP.

use std::{sync::Arc, time::Duration};

use hub::trace::Event;
use ifc::{Call, Labeled, Policy, PolicyError, Rule, Sink};
use reqwest::StatusCode;
use serde_json::{Value, json};
use server::desk::{Answered, Approver, Desk as Asking, DeskSetup, QuestionOrigin};
use server::limits::Limits;
use server::proxy::ProxySetup;
use tokio::task::JoinHandle;

use crate::stage::{Always, Stage, Watcher, body, result, serve, setup, untrusted, user};
use test_support::{ModelReply, Upstream, calls, newest, says};

pub(crate) fn script(body: &Value) -> ModelReply {
    match newest(body) {
        "go" | "once more" => calls(&[("inbox", "{}")]),
        "mail" => calls(&[("post", r#"{"to":"bob"}"#)]),
        "send it" => calls(&[("send", r#"{"to":"bob"}"#)]),
        text if text.contains("not executed") => says("refused"),
        _ => says("done"),
    }
}

/// How long a desk waits where no test is about that.
const PATIENCE: Duration = Duration::from_secs(600);

struct Desk {
    stage: Arc<Stage>,
    token: String,
    _upstream: Upstream,
}

/// The desk of a front, over a store of its own.
pub(crate) fn asking(timeout: Duration) -> Arc<Asking> {
    let store = Arc::new(store::Desk::in_memory().unwrap());
    asking_at(store, timeout)
}

pub(crate) fn asking_at(store: Arc<store::Desk>, timeout: Duration) -> Arc<Asking> {
    let setup = DeskSetup {
        front: "proxy".to_owned(),
        session: String::new(),
        asker: Some("eve".to_owned()),
        timeout,
        outlives: false,
        keep_for: "until you revoke it".to_owned(),
        notice: None,
        limits: Limits::default(),
        report: |line| assert!(line.is_empty(), "{line}"),
    };
    Asking::new(store, setup).unwrap()
}

async fn desk(timeout: Duration) -> Desk {
    desk_before(timeout, Arc::default()).await
}

async fn desk_before(timeout: Duration, watcher: Arc<Watcher>) -> Desk {
    desk_at(asking(timeout), watcher).await
}

async fn desk_at(desk: Arc<Asking>, watcher: Arc<Watcher>) -> Desk {
    let upstream = Upstream::start(script);
    let setup = setup(&upstream);
    desk_with(desk, watcher, setup, upstream).await
}

async fn desk_with(
    desk: Arc<Asking>,
    watcher: Arc<Watcher>,
    mut setup: ProxySetup,
    upstream: Upstream,
) -> Desk {
    setup.observer = watcher;
    setup.approver = desk.clone();
    setup.desk = Some(desk.clone());
    Desk {
        stage: Arc::new(serve(setup).await),
        token: desk.token().to_owned(),
        _upstream: upstream,
    }
}

impl Desk {
    fn url(&self, id: &str) -> String {
        let base = self.stage.url.strip_suffix("/v1").unwrap();
        format!("{base}/sluice/v1/approvals{id}")
    }

    async fn list(&self, token: &str) -> (StatusCode, Value) {
        let get = self.stage.client.get(self.url("")).bearer_auth(token);
        let response = get.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap())
    }

    async fn open(&self) -> Vec<Value> {
        let (status, list) = self.list(&self.token).await;
        assert_eq!(status, 200);
        list["approvals"].as_array().unwrap().clone()
    }

    /// Waits for a question.
    async fn question(&self) -> Value {
        loop {
            if let Some(question) = self.open().await.first() {
                return question.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Answers the next question with no; what came of it.
    async fn refuse(&self, going: JoinHandle<Value>) -> Value {
        let question = self.question().await;
        let id = question["id"].as_str().unwrap();
        let no = json!({"answer": "no"});
        assert_eq!(self.answer(&self.token, id, no).await, 200);
        going.await.unwrap()
    }

    async fn answer(&self, token: &str, id: &str, answer: Value) -> StatusCode {
        let post = self.stage.client.post(self.url(&format!("/{id}")));
        let post = post
            .bearer_auth(token)
            .header("content-type", "application/json")
            .body(answer.to_string());
        post.send().await.unwrap().status()
    }

    /// Reads a mail that asks for something, in the background. Resolves with the answer.
    fn goes(
        &self,
        conversation: Option<&'static str>,
        mail: &'static str,
        begin: &'static str,
    ) -> JoinHandle<Value> {
        let stage = self.stage.clone();
        tokio::spawn(async move {
            let mut messages = vec![user(begin)];
            for text in [Some(mail), None] {
                let (status, answer) = stage
                    .as_client("key", conversation, &messages, json!({}))
                    .await;
                assert_eq!(status, 200, "{answer}");
                let message = answer["choices"][0]["message"].clone();
                let Some(text) = text else { return message };
                messages.push(message.clone());
                messages.push(result(&message, 0, text));
            }
            Value::Null
        })
    }
}

#[tokio::test]
async fn a_question_shows_everything_and_a_yes_runs_the_call() {
    let desk = desk(PATIENCE).await;
    let going = desk.goes(None, "mail", "go");
    let question = desk.question().await;
    let id = question["id"].as_str().unwrap().to_owned();
    for (name, expected) in [
        ("front", json!("proxy")),
        ("asker", json!("eve")),
        ("app", json!("app")),
        ("tool", json!("post")),
        ("effect", json!("write")),
        // No session without a name that the client gave.
        ("choices", json!(["once", "no"])),
        ("answer", Value::Null),
    ] {
        assert_eq!(question[name], expected, "{name}");
    }
    let to = json!({"name": "to", "value": r#""bob""#, "mixed": [], "is_covered": false});
    for (name, expected) in [
        ("arguments", json!([to])),
        ("rule", json!("post.limit")),
        ("limit", json!([])),
        ("excess", json!(["untrusted"])),
        ("is_answer", json!(false)),
    ] {
        assert_eq!(question["shown"][name], expected, "{name}");
    }
    assert_eq!(question["shown"]["sources"][0]["after"], "mail");
    assert!(question["expires_in_ms"].as_u64().unwrap() > 20_000);
    let token = desk.token.clone();
    let session = json!({"answer": "session"});
    assert_eq!(desk.answer(&token, &id, session).await, 400);
    assert_eq!(
        desk.answer(&token, &id, json!({"answer": "maybe"})).await,
        400
    );
    let once = json!({"answer": "once"});
    assert_eq!(desk.answer(&token, &id, once.clone()).await, 200);
    // Twice, and for something else.
    assert_eq!(desk.answer(&token, &id, once.clone()).await, 404);
    assert_eq!(desk.answer(&token, "0", once).await, 404);
    let answer = going.await.unwrap();
    assert_eq!(answer["tool_calls"][0]["function"]["name"], "post");
    assert!(desk.open().await.is_empty());
}

#[tokio::test]
async fn no_and_no_answer_are_no() {
    let patient = desk(PATIENCE).await;
    let going = patient.goes(None, "mail", "go");
    assert_eq!(patient.refuse(going).await["content"], "refused");

    let hasty = desk(Duration::from_secs(2)).await;
    let going = hasty.goes(None, "mail", "go");
    let id = hasty.question().await["id"].as_str().unwrap().to_owned();
    assert_eq!(going.await.unwrap()["content"], "refused");
    assert!(hasty.open().await.is_empty());
    let late = json!({"answer": "once"});
    assert_eq!(hasty.answer(&hasty.token, &id, late).await, 404);
}

#[tokio::test]
async fn only_who_knows_the_token_sees_and_answers() {
    let desk = desk(PATIENCE).await;
    let going = desk.goes(None, "mail", "go");
    let id = desk.question().await["id"].as_str().unwrap().to_owned();
    let once = json!({"answer": "once"});
    let longer = format!("{}0", desk.token);
    for token in ["", "wrong", "key", &longer] {
        let (status, list) = desk.list(token).await;
        assert_eq!(status, 401);
        assert!(list.get("approvals").is_none());
        assert_eq!(desk.answer(token, &id, once.clone()).await, 401);
    }
    // A web page under a name that resolves to us.
    let get = desk.stage.client.get(desk.url("")).bearer_auth(&desk.token);
    let rebound = get.header("host", "evil.example").send().await.unwrap();
    assert_eq!(rebound.status(), 403);
    assert_eq!(desk.open().await.len(), 1);
    desk.answer(&desk.token, &id, json!({"answer": "no"})).await;
    going.await.unwrap();
}

/// Agents break off after five minutes of silence and send the request again, one of them without `stream`.
#[tokio::test]
async fn a_repeated_request_meets_its_question_or_the_answer() {
    let desk = desk(PATIENCE).await;
    let stage = &desk.stage;
    let first = stage.message(&[user("go")]).await;
    let messages = [user("go"), first.clone(), result(&first, 0, "mail")];
    let sends = |streams| {
        let (stage, body) = (stage.clone(), body(&messages, json!({"stream": streams})));
        tokio::spawn(async move { stage.raw("key", None, body).await })
    };
    let streaming = sends(true);
    let question = desk.question().await;
    streaming.abort();
    let whole = sends(false);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let open = desk.open().await;
    assert_eq!((open.len(), &open[0]["id"]), (1, &question["id"]));
    // Nobody waits when it is answered.
    whole.abort();
    let id = question["id"].as_str().unwrap();
    assert_eq!(
        desk.answer(&desk.token, id, json!({"answer": "once"}))
            .await,
        200
    );
    let (status, answer) = sends(false).await.unwrap();
    assert!(status == 200 && answer.contains("tool_calls"), "{answer}");
    // Once is once.
    let again = sends(false);
    assert_ne!(desk.question().await["id"], question["id"]);
    again.abort();
}

/// The model of a repeated request may want another call beside the first one. An answer is for what was shown.
#[tokio::test]
async fn an_answer_allows_no_call_that_its_question_did_not_show() {
    let tries = std::sync::atomic::AtomicUsize::new(0);
    let upstream = Upstream::start(move |body| match newest(body) {
        "mail" => match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => calls(&[("post", r#"{"to":"ann"}"#), ("post", r#"{"to":"bob"}"#)]),
            _ => calls(&[("post", r#"{"to":"ann"}"#), ("post", r#"{"to":"eve"}"#)]),
        },
        _ => script(body),
    });
    let parts = setup(&upstream);
    let desk = desk_with(asking(PATIENCE), Arc::default(), parts, upstream).await;
    let stage = &desk.stage;
    let (_, first) = stage
        .as_client("key", Some("talk"), &[user("go")], json!({}))
        .await;
    let first = &first["choices"][0]["message"];
    let messages = [user("go"), first.clone(), result(first, 0, "mail")];
    let sends = || {
        let (stage, body) = (stage.clone(), body(&messages, json!({})));
        tokio::spawn(async move { stage.raw("key", Some("talk"), body).await })
    };
    let beside = |question: &Value| {
        let value = &question["shown"]["waiting"][0]["arguments"][0]["value"];
        value.as_str().unwrap().to_owned()
    };
    let given_up = sends();
    let shown = desk.question().await;
    assert_eq!(beside(&shown), r#""bob""#);
    given_up.abort();
    let again = sends();
    let both = async {
        loop {
            if let [_, other] = &desk.open().await[..] {
                return other.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let other = tokio::time::timeout(Duration::from_secs(10), both).await;
    let other = other.expect("what is new was asked about");
    assert_eq!(beside(&other), r#""eve""#);
    let id = shown["id"].as_str().unwrap();
    let each = desk.answer(&desk.token, id, json!({"answer": "each"}));
    assert_eq!(each.await, 200);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let open = desk.open().await;
    assert!(!again.is_finished() && open[0]["id"] == other["id"]);
    again.abort();
}

#[tokio::test]
async fn yes_for_the_session_holds_in_its_conversation_only_and_never_for_the_irreversible() {
    let desk = desk(PATIENCE).await;
    let going = desk.goes(Some("talk"), "mail", "go");
    let question = desk.question().await;
    let choices = json!(["once", "trust", "trust-session", "session", "no"]);
    assert_eq!(question["choices"], choices);
    assert_eq!(question["conversation"], "talk");
    let id = question["id"].as_str().unwrap();
    let session = json!({"answer": "session"});
    assert_eq!(desk.answer(&desk.token, id, session).await, 200);
    going.await.unwrap();
    // Not asked again here: nobody would answer.
    let again = desk.goes(Some("talk"), "mail", "once more").await.unwrap();
    assert_eq!(again["tool_calls"][0]["function"]["name"], "post");
    for conversation in [Some("other"), None] {
        let other = desk.refuse(desk.goes(conversation, "mail", "go")).await;
        assert_eq!(other["content"], "refused");
    }
    let going = desk.goes(Some("talk"), "send it", "go");
    let choices = json!(["once", "trust", "trust-session", "no"]);
    assert_eq!(desk.question().await["choices"], choices);
    assert_eq!(desk.refuse(going).await["content"], "refused");
}

/// A mail that is trusted is this mail, in its conversation, for as long as was said. Its text comes with
/// every request anew.
#[tokio::test]
async fn trust_is_for_the_text_and_its_conversation() {
    for (word, after) in [("trust", "refused"), ("trust-session", "post")] {
        let desk = desk(PATIENCE).await;
        let going = desk.goes(Some("talk"), "mail", "go");
        let question = desk.question().await;
        let text = json!({"source": "result of inbox", "text": "mail"});
        assert_eq!(question["shown"]["trusted"], json!([text]));
        let meaning = &question["shown"]["choices"][1]["meaning"];
        assert!(
            meaning
                .as_str()
                .unwrap()
                .contains("except irreversible actions"),
            "{meaning}"
        );
        let id = question["id"].as_str().unwrap();
        let status = desk.answer(&desk.token, id, json!({"answer": word})).await;
        assert_eq!(status, 200);
        let said = |message: Value| match message["tool_calls"][0]["function"]["name"].as_str() {
            Some(tool) => tool.to_owned(),
            None => message["content"].as_str().unwrap().to_owned(),
        };
        assert_eq!(said(going.await.unwrap()), "post");
        // The user speaks again, which begins another task.
        for (conversation, mail, expected) in [
            ("talk", "mail", after),
            ("talk", "send it", "refused"),
            ("other", "mail", "refused"),
        ] {
            let going = desk.goes(Some(conversation), mail, "once more");
            let message = match expected {
                "refused" => desk.refuse(going).await,
                _ => going.await.unwrap(),
            };
            let case = format!("{word}, {conversation}, {mail}");
            assert_eq!(said(message), expected, "{case}");
        }
    }
}

/// The proxy remembers with the step that its call is the user's own word: what the client brings as its result is
/// no more influenced by the mail than the tool's rule says.
#[tokio::test]
async fn a_yes_endorses_its_call_in_the_requests_that_follow() {
    for answer in ["once", "no"] {
        let watcher = Arc::<Watcher>::default();
        let desk = desk_before(PATIENCE, watcher.clone()).await;
        let next = async |messages: &[Value]| {
            let client = desk
                .stage
                .as_client("key", Some("talk"), messages, json!({}));
            let (status, answer) = client.await;
            assert_eq!(status, 200, "{answer}");
            answer["choices"][0]["message"].clone()
        };
        let mut messages = vec![user("go")];
        let read = next(&messages).await;
        messages.extend([read.clone(), result(&read, 0, "mail")]);
        let answered = async {
            let question = desk.question().await;
            let choices = question["shown"]["choices"].as_array().unwrap();
            let once = choices.iter().find(|it| it["answer"] == "once").unwrap();
            let own = "this call, which then counts as your own request.";
            assert_eq!(once["meaning"], own);
            let id = question["id"].as_str().unwrap();
            desk.answer(&desk.token, id, json!({"answer": answer}))
                .await
        };
        let (posted, status) = tokio::join!(next(&messages), answered);
        assert_eq!(status, 200);
        let seen = |watcher: &Watcher| -> Vec<Vec<String>> {
            let events = watcher.0.lock().unwrap();
            let labels = events.iter().filter_map(|(_, event)| match event {
                Event::Returned { call, label, .. } if call.tool.as_str() == "post" => {
                    Some(label.to_vec())
                }
                _ => None,
            });
            labels.collect()
        };
        if answer == "no" {
            assert_eq!(posted["content"], "refused");
            assert!(seen(&watcher).is_empty());
            continue;
        }
        messages.extend([posted.clone(), result(&posted, 0, "posted")]);
        next(&messages).await;
        assert_eq!(seen(&watcher), [Vec::<String>::new()]);
    }
}

/// A state folder that several processes share.
struct State(tempfile::TempDir);

impl State {
    fn open(&self) -> store::Desk {
        store::Desk::open(&self.0.path().join("sluice/desk.db")).unwrap()
    }
}

pub(crate) fn now() -> store::Time {
    std::time::SystemTime::now().into()
}

#[tokio::test]
async fn another_process_answers_and_the_trace_says_who() {
    let state = State(tempfile::tempdir().unwrap());
    let watcher = Arc::<Watcher>::default();
    let asking = asking_at(Arc::new(state.open()), PATIENCE);
    let desk = desk_at(asking, watcher.clone()).await;
    let other = state.open();
    for (answer, expected) in [("once", "tool_calls"), ("no", "content")] {
        let going = desk.goes(None, "mail", "go");
        desk.question().await;
        let kept = other.waiting(now()).await.unwrap().all.remove(0);
        assert_eq!((&*kept.question.app, &*kept.question.tool), ("app", "post"));
        let by = store::Answerer {
            name: Some("ada".to_owned()),
            from: "page".to_owned(),
        };
        other.answer(kept.id, answer, &by, now()).await.unwrap();
        let answered = std::time::Instant::now();
        let message = going.await.unwrap();
        assert!(!message[expected].is_null(), "{message}");
        assert!(answered.elapsed() < Duration::from_secs(2));
        assert_eq!(other.waiting(now()).await.unwrap().all, []);
    }
    let events = watcher.0.lock().unwrap();
    let replies = events.iter().filter_map(|(_, event)| match event {
        Event::Replied { answer, by, from } => {
            Some((answer.as_str(), by.as_deref(), from.as_deref()))
        }
        _ => None,
    });
    let by = |answer| (answer, Some("ada"), Some("page"));
    assert_eq!(replies.collect::<Vec<_>>(), [by("once"), by("no")]);
}

/// What a limited token, the token of another front and a revoked one can do: nothing, not even count.
#[tokio::test]
async fn a_token_sees_and_answers_what_it_may_and_nothing_else() {
    let store = Arc::new(store::Desk::in_memory().unwrap());
    let desk = desk_at(asking_at(store.clone(), PATIENCE), Arc::default()).await;
    let other = desk_at(asking_at(store.clone(), PATIENCE), Arc::default()).await;
    let token = async |name: &str, apps: &[&str], effects: &[&str]| {
        let new = store::NewToken {
            name: name.to_owned(),
            role: store::Role::Approver,
            tenant: None,
            apps: apps.iter().map(|app| (*app).to_owned()).collect(),
            effects: effects.iter().map(|effect| (*effect).to_owned()).collect(),
            expires: None,
        };
        store.new_token(&new, now()).await.unwrap()
    };
    let going = desk.goes(None, "mail", "go");
    let id = desk.question().await["id"].as_str().unwrap().to_owned();
    let once = json!({"answer": "once"});
    let blind = [
        other.token.clone(),
        token("mail", &["mail"], &[]).await,
        token("reads", &[], &["read"]).await,
    ];
    for token in &blind {
        // At any front.
        for front in [&desk, &other] {
            let (status, list) = front.list(token).await;
            let is_foreign = status == 401 && *token == other.token;
            assert!(is_foreign || list == json!({"approvals": []}), "{list}");
            let status = front.answer(token, &id, once.clone()).await;
            assert!(status == 404 || is_foreign, "{status}");
        }
    }
    let ada = token("ada", &["app"], &["write"]).await;
    let (_, list) = other.list(&ada).await;
    assert_eq!(list["approvals"][0]["id"], *id);
    let revoked = token("bob", &[], &[]).await;
    assert!(store.revoke("bob").await.unwrap());
    assert_eq!(other.answer(&revoked, &id, once.clone()).await, 401);
    // At the front of another process.
    assert_eq!(other.answer(&ada, &id, once.clone()).await, 200);
    assert_eq!(desk.answer(&ada, &id, once).await, 409);
    let message = going.await.unwrap();
    assert_eq!(message["tool_calls"][0]["function"]["name"], "post");
    let kept = store.find(&id).await.unwrap().unwrap().answer.unwrap();
    assert_eq!(kept.to_string(), "once, by ada from http");
}

#[tokio::test]
async fn a_question_goes_with_its_request_and_with_its_front() {
    let store = Arc::new(store::Desk::in_memory().unwrap());
    let asking = asking_at(store.clone(), PATIENCE);
    let desk = desk_at(asking.clone(), Arc::default()).await;
    let going = desk.goes(None, "mail", "go");
    desk.question().await;
    asking.close().await;
    assert_eq!(store.waiting(now()).await.unwrap().all, []);
    assert_eq!(going.await.unwrap()["content"], "refused");
    // A closed desk asks nothing more.
    let closed = desk.goes(None, "mail", "once more").await.unwrap();
    assert_eq!(closed["content"], "refused");
    assert_eq!(store.recent(10, |_| true).await.unwrap().all, []);
}

/// The rules, where others have to approve each question.
struct Approved(Arc<dyn Policy>);

impl Policy for Approved {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let approvers = Some(["ada", "eve"].map(str::to_owned).into());
        self.0.rule(sink).map(|rule| Rule { approvers, ..rule })
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        self.0.label_result(call, result, is_error)
    }
}

#[tokio::test]
async fn what_others_approve_is_allowed_by_them_alone() {
    let upstream = Upstream::start(script);
    let mut parts = setup(&upstream);
    parts.parts.policy = Arc::new(Approved(parts.parts.policy));
    let store = Arc::new(store::Desk::in_memory().unwrap());
    let asking = asking_at(store.clone(), PATIENCE);
    let desk = desk_with(asking, Arc::default(), parts, upstream).await;
    let going = desk.goes(None, "mail", "go");
    let question = desk.question().await;
    let id = question["id"].as_str().unwrap();
    assert_eq!(question["approvers"], json!(["ada", "eve"]));
    // The front's own token has no name, eve has asked, and bob is no approver.
    let once = json!({"answer": "once"});
    assert_eq!(desk.answer(&desk.token, id, once.clone()).await, 403);
    for (name, status) in [("eve", 403), ("bob", 403), ("ada", 200)] {
        let new = store::NewToken {
            name: name.to_owned(),
            role: store::Role::Approver,
            tenant: None,
            apps: vec![],
            effects: vec![],
            expires: None,
        };
        let token = store.new_token(&new, now()).await.unwrap();
        assert_eq!(
            desk.answer(&token, id, once.clone()).await,
            status,
            "{name}"
        );
    }
    let message = going.await.unwrap();
    assert_eq!(message["tool_calls"][0]["function"]["name"], "post");

    // Neither does a program answer in their place.
    let upstream = Upstream::start(script);
    let mut parts = setup(&upstream);
    parts.parts.policy = Arc::new(Approved(parts.parts.policy));
    let program = Always::answering(&mut parts, ifc::Answer::Once);
    let stage = serve(parts).await;
    let mut messages = vec![user("go")];
    stage.step(&mut messages, "mail").await;
    let message = stage.message(&messages).await;
    assert_eq!(
        (program.count(), &message["content"]),
        (1, &json!("refused"))
    );
}

/// `each` allows the other calls of the step, so a token that is for the first call's app alone must not give it.
#[tokio::test]
async fn a_token_sees_no_question_with_a_call_of_another_app() {
    let store = Arc::new(store::Desk::in_memory().unwrap());
    let view = view();
    let desk = asking_at(store.clone(), PATIENCE);
    let going = tokio::spawn(async move { desk.ask(&QuestionOrigin::of("c"), &view).await });
    let kept = loop {
        if let Some(kept) = store.waiting(now()).await.unwrap().all.pop() {
            break kept;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    for (apps, sees) in [
        (&["mail"][..], false),
        (&["bank"], false),
        (&["mail", "bank"], true),
        (&[], true),
    ] {
        let new = store::NewToken {
            name: "ada".to_owned(),
            role: store::Role::Approver,
            tenant: None,
            apps: apps.iter().map(|app| (*app).to_owned()).collect(),
            effects: vec![],
            expires: None,
        };
        let secret = store.new_token(&new, now()).await.unwrap();
        let token = store.admit(&secret, now()).await.unwrap().unwrap();
        assert_eq!(
            token.may_see(&kept.question.head(kept.id)),
            sees,
            "{apps:?}"
        );
        store.revoke("ada").await.unwrap();
    }
    going.abort();
}

/// What is typed where the question was asked is one answer of several: the first one counts, and it stays on record.
#[tokio::test]
async fn an_answer_at_the_terminal_goes_through_the_store() {
    let store = Arc::new(store::Desk::in_memory().unwrap());
    let desk = asking_at(store.clone(), PATIENCE);
    for (elsewhere, expected) in [(true, ifc::Answer::No), (false, ifc::Answer::Once)] {
        let (typed, other) = tokio::sync::oneshot::channel();
        let desk = desk.clone();
        let going = tokio::spawn(async move {
            let view = view();
            let other = async { other.await.unwrap() };
            desk.beside(&QuestionOrigin::of("c"), &view, other).await
        });
        let kept = loop {
            if let Some(kept) = store.waiting(now()).await.unwrap().all.pop() {
                break kept;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let by = store::Answerer {
            name: Some("ada".to_owned()),
            from: "page".to_owned(),
        };
        if elsewhere {
            store.answer(kept.id, "no", &by, now()).await.unwrap();
        }
        let once = Answered::here(ifc::Answer::Once, Some("eve".to_owned()), "terminal");
        typed.send(once.clone()).unwrap();
        let answered = going.await.unwrap();
        assert_eq!(answered.answer, expected);
        assert_eq!(answered.by, if elsewhere { Some(by) } else { once.by });
        let recorded = store.read(&[kept.id]).await.unwrap().all.remove(0).answer;
        assert_eq!(recorded.map(|recorded| recorded.by), answered.by);
    }
}

/// A client that asks without end fills the desk of its own front alone.
#[tokio::test]
async fn a_front_leaves_room_at_the_desk_to_the_others() {
    let store = Arc::new(store::Desk::in_memory().unwrap());
    let [full, other] = [0, 1].map(|_| asking_at(store.clone(), PATIENCE));
    let asks = |desk: &Arc<Asking>| {
        let (desk, view) = (desk.clone(), view());
        tokio::spawn(async move { desk.put(&QuestionOrigin::of("c"), &view).await })
    };
    let waiting = async |count: usize| {
        while store.waiting(now()).await.unwrap().all.len() < count {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let mut going: Vec<_> = (0..128).map(|_| asks(&full)).collect();
    waiting(128).await;
    let refused = full.put(&QuestionOrigin::of("c"), &view()).await;
    assert!(matches!(refused, Err(store::DeskError::TooMany)));
    going.push(asks(&other));
    waiting(129).await;
    // What is taken back makes room.
    going.remove(0).abort();
    waiting(128).await;
    going.push(asks(&full));
    waiting(129).await;
    going.drain(..).for_each(|asked| asked.abort());
    // One agent leaves room to those of its front.
    let asks = |agent: &str| {
        let (desk, view) = (other.clone(), view());
        let (agent, tenant) = (Some(agent.to_owned()), Some("team".to_owned()));
        let origin = QuestionOrigin {
            agent,
            tenant,
            ..QuestionOrigin::of("c")
        };
        tokio::spawn(async move { desk.put(&origin, &view).await })
    };
    while !store.waiting(now()).await.unwrap().all.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    going.extend((0..32).map(|_| asks("a")));
    waiting(32).await;
    let refused = asks("a").await.unwrap();
    assert!(matches!(refused, Err(store::DeskError::TooMany)));
    going.push(asks("b"));
    waiting(33).await;
    going.iter().for_each(JoinHandle::abort);
}

/// A question about a call of one app, with which one of another app waits.
pub(crate) fn view() -> hub::question::QuestionView {
    let label = untrusted();
    let call = |app: &str| Call {
        app: app.to_owned(),
        tool: "act".to_owned(),
        arguments: ifc::Arguments::parse("{}", &label).unwrap(),
        label: label.clone(),
    };
    let (monitor, history) = (ifc::Monitor::new(), ifc::History::default());
    let decision = monitor.decide(&NothingUntrusted, &history, call("mail"));
    let question = match decision {
        ifc::Decision::Ask(question) => Ok(question),
        other => Err(other),
    };
    let question = question.unwrap();
    let asked = hub::Asked::Call(question.with_waiting(vec![call("mail"), call("bank")]));
    hub::question::QuestionView::new(&asked, vec![], &ifc::Lattice::four_point())
}

/// A policy under which nothing untrusted is done unasked.
struct NothingUntrusted;

impl Policy for NothingUntrusted {
    fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
        Ok(Rule::asking(
            "rule",
            ifc::Effect::Write,
            ifc::Label::bottom(),
        ))
    }
}

/// What a program reads of the API is what is served, and nothing more is.
#[tokio::test]
async fn the_api_is_as_its_document_says() {
    let desk = desk(PATIENCE).await;
    let base = desk.url("").replace("/sluice/v1/approvals", "");
    let get = desk
        .stage
        .client
        .get(format!("{base}/sluice/v1/openapi.json"));
    let text = get.send().await.unwrap().text().await.unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let mut served = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let Ok(name) = method.to_uppercase().parse::<reqwest::Method>() else {
                continue;
            };
            let url = format!("{base}{}", path.replace("{id}", &"0".repeat(32)));
            if method == "parameters" {
                continue;
            }
            let status = desk
                .stage
                .client
                .request(name, url)
                .send()
                .await
                .unwrap()
                .status();
            let is_open = operation["security"] == json!([]);
            assert_eq!(status, if is_open { 200 } else { 401 }, "{method} {path}");
            served += 1;
        }
    }
    assert_eq!(served, 4);
    // A member that the document leaves out would be missed by those who read it.
    for schema in ["Approval", "Shown", "Argument", "Failure", "Counted"] {
        document["components"]["schemas"][schema]["additionalProperties"] = json!(false);
    }
    let check = |schema: &str, value: &Value| {
        let mut whole = document.clone();
        whole["$ref"] = json!(format!("#/components/schemas/{schema}"));
        let validator = jsonschema::validator_for(&whole).unwrap();
        let found: Vec<String> = validator
            .iter_errors(value)
            .map(|it| it.to_string())
            .collect();
        assert!(found.is_empty(), "{found:#?}");
    };
    let going = desk.goes(None, "send it", "go");
    let question = desk.question().await;
    check("Approvals", &json!({"approvals": [question]}));
    let id = question["id"].as_str().unwrap();
    let send = |answer: &str| {
        let post = desk
            .stage
            .client
            .post(desk.url(&format!("/{id}")))
            .bearer_auth(&desk.token);
        let post = post.header("content-type", "application/json");
        post.body(json!({"answer": answer}).to_string()).send()
    };
    let json = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    check(
        "Failure",
        &json(send("always").await.unwrap().text().await.unwrap()),
    );
    check(
        "Counted",
        &json(send("no").await.unwrap().text().await.unwrap()),
    );
    going.await.unwrap();
}
