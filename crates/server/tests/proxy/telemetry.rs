//! A service as it is seen from outside: metrics, log lines, traces and health, after real conversations.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use axum::{Router, extract::State, routing::post};
use hub::trace::{Call, Event, Flow, Usage};
use ifc::Answer;
use serde_json::{Value, json};
use server::proxy::ProxyRoutes;
use server::service::{Fronts, Listener, Service, ServiceSetup, Stopping};
use server::telemetry::{Check, Endpoints, Logs, MeteredState, Metrics, PolicyNames, Spans};
use server::{At, Began, EventSink, Sinks, TraceContext};
use store::{NewQuestion, NewToken, Role, Time};
use tokio::net::TcpListener;
use tracing_subscriber::fmt::MakeWriter;

use crate::stage::{Always, Stage, body, result, setup, user};
use test_support::{ModelReply, Upstream, calls, newest, says};

/// What no metric, log line or span may have: texts of users, models and tools, and keys.
const CANARIES: [&str; 5] = [
    "canary-user",
    "canary-call",
    "canary-result",
    "canary-answer",
    "canary-key",
];
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

fn script(body: &Value) -> ModelReply {
    match newest(body) {
        "go canary-user" => calls(&[("inbox", r#"{"q":"canary-call"}"#)]),
        "canary-result" => calls(&[("send", r#"{"to":"canary-call"}"#)]),
        "break" => ModelReply::Fails(500, "canary-answer".to_owned()),
        "odd" => calls(&[("canary-call", "{}"), ("unknown", r#"{"a":"canary-call"}"#)]),
        _ => says("canary-answer"),
    }
}

/// A service with all sinks.
struct Watched {
    stage: Stage,
    metrics: Arc<Metrics>,
    spans: Arc<Spans>,
    upstream: Upstream,
    admin: String,
}

/// A desk with two questions, the older one of 90 seconds ago, and the token of an admin.
async fn desk() -> (Arc<store::Desk>, String) {
    let desk = store::Desk::in_memory().unwrap();
    let now = Time::from(SystemTime::now()).millis();
    for (key, ago) in [(1, 90_000), (2, 10_000)] {
        let question = NewQuestion {
            front: "proxy".to_owned(),
            session: String::new(),
            conversation: "talk".to_owned(),
            tenant: None,
            asker: None,
            app: "app".to_owned(),
            tool: "send".to_owned(),
            effect: "irreversible".to_owned(),
            choices: vec!["once".to_owned()],
            approvers: Vec::new(),
            shown: "{}".to_owned(),
            expires: Time::from_millis(now + 900_000),
            key: Some([key; 32]),
        };
        let asked = Time::from_millis(now - ago);
        desk.ask(&question, asked).await.unwrap();
    }
    let new = NewToken {
        name: "prometheus".to_owned(),
        role: Role::Admin,
        tenant: None,
        apps: Vec::new(),
        effects: Vec::new(),
        expires: None,
    };
    let token = desk.new_token(&new, Time::from_millis(now)).await.unwrap();
    (Arc::new(desk), token)
}

struct Answers(Arc<Mutex<Result<(), String>>>);

#[async_trait::async_trait]
impl Check for Answers {
    async fn check(&self) -> Result<(), String> {
        self.0.lock().unwrap().clone()
    }
}

async fn watched(collector: &str, state: Arc<Mutex<Result<(), String>>>) -> Watched {
    let upstream = Upstream::start(script);
    let names = Arc::new(PolicyNames::default());
    let known = ["inbox", "send"].map(|tool| ("app".to_owned(), tool.to_owned()));
    names.replace(known);
    let metrics = Arc::new(Metrics::new(names.clone()));
    let spans = Spans::new(collector, names.clone(), metrics.clone(), false);
    let spans = Arc::new(spans.unwrap());
    let logs = Arc::new(Logs::new(names, false));
    let mut setup = setup(&upstream);
    setup.parts.sinks = Sinks::new(vec![metrics.clone(), logs, spans.clone()]);
    Always::answering(&mut setup, Answer::No);
    let (desk, admin) = desk().await;
    let endpoints = Endpoints {
        metrics: metrics.clone(),
        checks: vec![("state", Arc::new(Answers(state)))],
        desk,
    };
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let url = format!("http://{}/v1", listener.address());
    let service = ServiceSetup {
        fronts: Fronts::of_proxy(ProxyRoutes::new(setup).unwrap()),
        page: None,
        desk: String::new(),
        endpoints,
        drain: Duration::ZERO,
        stopping: Stopping::default(),
    };
    let service = Service::new(listener, service);
    tokio::spawn(service.serve(std::future::pending()));
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    let client = client.build().unwrap();
    Watched {
        stage: Stage { url, client },
        metrics,
        spans,
        upstream,
        admin,
    }
}

impl Watched {
    async fn get(&self, path: &str) -> (u16, String) {
        let base = self.stage.url.strip_suffix("/v1").unwrap();
        let request = self.stage.client.get(format!("{base}{path}"));
        let response = request.bearer_auth(&self.admin).send().await;
        let response = response.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// One request of the conversation `talk`; its status, and the message of its answer.
    async fn say(&self, messages: &[Value]) -> (u16, Value) {
        let request = self
            .stage
            .client
            .post(format!("{}/chat/completions", self.stage.url));
        let request = request.header("content-type", "application/json");
        let request = request
            .header("x-sluice-conversation", "talk")
            .bearer_auth("canary-key");
        let request = request
            .header("traceparent", PARENT)
            .header("tracestate", "a=canary-user");
        let response = request
            .body(body(messages, json!({})).to_string())
            .send()
            .await
            .unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        (status, answer["choices"][0]["message"].clone())
    }

    /// A conversation with a call that runs and one that is refused, one with calls that cannot run, and a failure.
    async fn converse(&self) {
        let mut messages = vec![user("go canary-user")];
        let (_, answer) = self.say(&messages).await;
        let sent = self.upstream.last().0;
        let context = sent["traceparent"].as_str();
        assert!(
            context.starts_with(&PARENT[..36]) && context != PARENT,
            "{context}"
        );
        assert!(!sent.contains_key("tracestate"));
        messages.push(answer.clone());
        messages.push(result(&answer, 0, "canary-result"));
        assert_eq!(self.say(&messages).await.0, 200);
        // What is made without the result is no place for what the client may have made of it.
        let (bodies, headers) = (self.upstream.requests(), self.upstream.headers());
        let (with, without): (Vec<_>, Vec<_>) = (bodies.iter().zip(&headers).skip(1))
            .partition(|(body, _)| body.to_string().contains("canary-result"));
        assert!(!with.is_empty() && with.iter().all(|it| it.1.contains_key("traceparent")));
        assert!(!without.is_empty() && without.iter().all(|it| !it.1.contains_key("traceparent")));
        assert_eq!(self.say(&[user("odd")]).await.0, 200);
        assert_eq!(self.say(&[user("break")]).await.0, 500);
        let (status, _) = self.get("/nowhere").await;
        assert_eq!(status, 404);
    }
}

#[tokio::test]
async fn each_metric_changes_and_none_has_a_text() {
    let lines = Lines::default();
    let log = tracing_subscriber::fmt().json().with_writer(lines.clone());
    let _log = tracing::subscriber::set_default(log.with_max_level(tracing::Level::DEBUG).finish());
    // Nothing listens there.
    let it = watched("http://127.0.0.1:9", Arc::new(Mutex::new(Ok(())))).await;
    let before = it.metrics.encode().unwrap();
    it.converse().await;
    // What is not of the proxy.
    let at = At::new("gateway", "client-1");
    let started = Event::SpokeStarted {
        app: "mail".to_owned(),
        pid: 1,
        layers: Vec::new(),
        given_up: Vec::new(),
        tools: Vec::new(),
        start_ms: 5,
    };
    it.metrics.event(&at, &started);
    let (app, reason) = ("mail".to_owned(), "canary-result".into());
    it.metrics.event(&at, &Event::SpokeEnded { app, reason });
    for outcome in [
        "refused: canary-result",
        "cut off after 1 s; 7 bytes sent, 11 received",
    ] {
        let (app, to) = ("mail".to_owned(), "canary-result:443".to_owned());
        it.metrics.event(
            &at,
            &Event::Egress {
                app,
                to,
                outcome: outcome.into(),
            },
        );
    }
    let store = store::Store::in_memory().unwrap();
    let state = MeteredState::new(store.state(), it.metrics.clone());
    store::SessionState::ping(&state).await.unwrap();
    let failing = std::future::ready(Err::<(), _>("gone"));
    it.metrics.stored("commit", failing).await.unwrap_err();
    it.metrics.reload(false);
    it.metrics.login_denied("desk");
    let spans = it.spans.clone();
    tokio::task::spawn_blocking(move || spans.flush())
        .await
        .unwrap();

    let (status, after) = it.get("/metrics").await;
    assert_eq!(status, 200);
    for part in [
        r#"sluice_requests_total{front="proxy",dialect="chat",status="200",tenant=""} 3"#,
        r#"sluice_requests_total{front="proxy",dialect="chat",status="500",tenant=""} 1"#,
        r#"sluice_requests_total{front="other",dialect="other",status="404",tenant=""} 1"#,
        r#"sluice_requests_in_flight{front="proxy"} 0"#,
        r#"sluice_request_seconds_count{front="proxy"} 4"#,
        r#"sluice_model_call_seconds_count{provider="upstream"}"#,
        r#"sluice_model_calls_total{provider="upstream",purpose="step",tenant=""}"#,
        r#"sluice_tokens_total{provider="upstream",kind="prompt",tenant=""}"#,
        r#"sluice_decisions_total{front="proxy",outcome="allowed",rule="inbox.limit",app="app",tool="inbox"} 1"#,
        r#"sluice_decisions_total{front="proxy",outcome="asked",rule="send.limit",app="app",tool="send"} 1"#,
        r#"sluice_decisions_total{front="proxy",outcome="refused_by_user",rule="",app="app",tool="send"} 1"#,
        r#"sluice_decisions_total{front="proxy",outcome="denied",rule="",app="app",tool="other"} 1"#,
        r#"sluice_decisions_total{front="proxy",outcome="rejected",rule="",app="",tool="other"} 1"#,
        r#"sluice_answers_total{answer="no",from="program"} 1"#,
        "sluice_questions_waiting 2",
        "sluice_questions_oldest_seconds 9",
        "sluice_check_seconds_count",
        "sluice_screening_seconds_count",
        "sluice_spokes 0",
        r#"sluice_spoke_starts_total{app="mail"} 1"#,
        r#"sluice_spoke_deaths_total{app="mail"} 1"#,
        r#"sluice_egress_connections_total{app="mail",outcome="refused"} 1"#,
        r#"sluice_egress_connections_total{app="mail",outcome="cut"} 1"#,
        r#"sluice_egress_bytes_total{app="mail",direction="received"} 11"#,
        r#"sluice_store_seconds_count{operation="ping"} 1"#,
        r#"sluice_store_errors_total{operation="commit"} 1"#,
        r#"sluice_reloads_total{outcome="refused"} 1"#,
        r#"sluice_logins_denied_total{front="desk"} 1"#,
        r#"sluice_errors_total{kind="500"} 1"#,
        "sluice_build_info{version=",
    ] {
        assert!(after.contains(part), "{part} is not in\n{after}");
        let stays = ["sluice_spokes 0", "sluice_build_info{version="].contains(&part);
        assert_eq!(before.contains(part), stays, "{part}");
    }
    assert!(after.ends_with("# EOF\n"));
    let lost = after
        .lines()
        .find_map(|line| line.strip_prefix("sluice_spans_lost_total "));
    assert!(lost.unwrap().parse::<u64>().unwrap() > 0);
    let log = lines.text();
    for part in [
        r#""decision":"asked""#,
        r#""decision":"denied""#,
        r#""tool":"send""#,
        "request over",
        r#""status":"500""#,
        r#""status":404"#,
        "request refused",
        "the store fails",
    ] {
        assert!(log.contains(part), "{part} is not in\n{log}");
    }
    for canary in CANARIES {
        assert!(!after.contains(canary) && !log.contains(canary), "{canary}");
    }
    each_panel_shows_what_there_is(&after);
}

/// The dashboard and the alerts name metrics of this list only.
fn each_panel_shows_what_there_is(metrics: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let dashboard: Value = serde_json::from_str(&read("sluice.json")).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter();
    let targets = targets.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut all: Vec<String> = targets
        .map(|it| it["expr"].as_str().unwrap().to_owned())
        .collect();
    assert!(all.len() > 25);
    all.push(read("alerts.yaml"));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for text in all {
        let words = text.split(|c| !is_name(c));
        for name in words.filter(|word| word.starts_with("sluice_")) {
            let line = |line: &str| {
                let rest = line.strip_prefix(name);
                rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            };
            assert!(metrics.lines().any(line), "{name} of {text}");
        }
    }
}

#[tokio::test]
async fn readiness_says_what_is_missing() {
    let state = Arc::new(Mutex::new(Ok(())));
    let it = watched("http://127.0.0.1:9", state.clone()).await;
    assert_eq!(it.get("/healthz").await.0, 200);
    assert_eq!(it.get("/readyz").await.0, 200);
    *state.lock().unwrap() = Err("the database does not answer".to_owned());
    let (status, body) = it.get("/readyz").await;
    assert_eq!(status, 503);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        body["reasons"],
        json!(["state: the database does not answer"])
    );
    assert_eq!(it.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn a_collector_gets_a_conversation_as_spans() {
    let batches = Arc::new(Mutex::new(Vec::new()));
    let collector = Router::new()
        .route("/v1/traces", post(collect))
        .with_state(batches.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, collector).await });
    let it = watched(&url, Arc::new(Mutex::new(Ok(())))).await;
    it.converse().await;
    call_at_a_gateway(&*it.spans);
    let spans = it.spans.clone();
    tokio::task::spawn_blocking(move || spans.flush())
        .await
        .unwrap();

    let batches = batches.lock().unwrap();
    let spans: Vec<Span> = batches.iter().flat_map(|batch| Span::all(batch)).collect();
    let named = |name: &str| -> Vec<&Span> {
        let all = spans.iter();
        all.filter(|span| span.name == name).collect()
    };
    let agents = named("invoke_agent");
    assert_eq!(agents.len(), 4);
    for agent in &agents {
        assert_eq!(agent.parent, PARENT[36..52], "{agent:?}");
    }
    let chats = spans.iter().filter(|it| it.name.starts_with("chat"));
    assert_eq!(named("chat big").len() + 1, chats.count());
    let tools = [
        "execute_tool inbox",
        "execute_tool send",
        "execute_tool other",
    ];
    for name in ["chat big"].iter().chain(&tools) {
        assert_ne!(named(name).len(), 0, "{name}");
        for span in named(name) {
            assert!(
                agents.iter().any(|agent| agent.id == span.parent),
                "{span:?}"
            );
        }
    }
    let is_of_gateway = |name: &str| name.starts_with("tools/") || name == "chat judge";
    let mut of_agent = spans.iter().filter(|span| !is_of_gateway(&span.name));
    assert!(of_agent.all(|span| span.trace == PARENT[3..35]));
    let has = |name: &str, key: &str, value: &str| {
        let mut named = named(name).into_iter();
        named.any(|span| {
            span.attributes
                .contains(&(key.to_owned(), value.to_owned()))
        })
    };
    assert!(has("execute_tool inbox", "sluice.decision", "allowed"));
    assert!(has("execute_tool inbox", "sluice.rule", "inbox.limit"));
    assert!(has(
        "execute_tool send",
        "sluice.decision",
        "refused_by_user"
    ));
    assert!(has("execute_tool send", "sluice.label", "untrusted"));
    assert!(has("execute_tool send", "error.type", "refused_by_user"));
    assert!(has("invoke_agent", "error.type", "500"));
    assert!(has("invoke_agent", "gen_ai.conversation.id", "talk"));
    assert!(has("chat big", "gen_ai.operation.name", "chat"));
    // A call of an MCP client is one span, with what was decided.
    let [call] = named("tools/call send")[..] else {
        panic!("{spans:?}");
    };
    assert_eq!(call.parent, "");
    // A model that is consulted for another purpose than the agent's is named by its provider.
    assert_eq!(named("chat judge")[0].parent, call.id);
    assert!(has("chat judge", "sluice.purpose", "plan"));
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "send"),
        ("gen_ai.operation.name", "execute_tool"),
        ("sluice.decision", "allowed"),
        ("sluice.tenant", "team-a"),
        ("error.type", "tool_error"),
    ] {
        assert!(has("tools/call send", key, value), "{key} of {call:?}");
    }
    for batch in batches.iter() {
        let batch = String::from_utf8_lossy(batch);
        assert!(
            CANARIES.iter().all(|canary| !batch.contains(canary)),
            "{batch}"
        );
    }
}

/// What a gateway shows of a call.
fn call_at_a_gateway(spans: &dyn EventSink) {
    let at = At {
        tenant: Some("team-a"),
        request: u64::MAX,
        ..At::new("gateway", "client-1")
    };
    let began = Began {
        method: "tools/call",
        tool: Some("send"),
        model: None,
        parent: None,
    };
    spans.began(&at, &began);
    let context = spans.context(at.request).unwrap();
    assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
    let call = Call {
        app: "app".to_owned(),
        tool: "send".into(),
        arguments: r#"{"to":"canary-call"}"#.into(),
        label: Vec::new(),
        data: BTreeMap::new(),
    };
    let (flow, by) = (Flow::Call(call.clone()), "policy send.limit".to_owned());
    spans.event(&at, &Event::Allowed { step: 1, flow, by });
    let (purpose, provider) = ("plan".to_owned(), "judge".to_owned());
    let usage = Usage {
        prompt_tokens: 1,
        cached_tokens: 0,
        completion_tokens: 1,
        first_token_ms: None,
        total_ms: 1,
    };
    let consulted = Event::Consulted {
        purpose,
        provider,
        usage,
    };
    spans.event(&at, &consulted);
    let returned = Event::Returned {
        call,
        bytes: 5,
        is_error: true,
        label: Vec::new(),
        regions: 0,
        refused: None,
    };
    spans.event(&at, &returned);
    spans.ended(&at, Ok(()), Duration::ZERO);
}

async fn collect(State(batches): State<Arc<Mutex<Vec<Bytes>>>>, batch: Bytes) {
    batches.lock().unwrap().push(batch);
}

/// A span as the collector reads it.
#[derive(Debug, Default)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    attributes: Vec<(String, String)>,
}

impl Span {
    /// Those of an `ExportTraceServiceRequest`.
    fn all(batch: &[u8]) -> Vec<Self> {
        let of = |number| move |message: Vec<u8>| fields(&message, number);
        let spans = fields(batch, 1).into_iter().flat_map(of(2)).flat_map(of(2));
        spans.map(|span| Self::read(&span)).collect()
    }

    fn read(span: &[u8]) -> Self {
        let text = |message: &[u8], number| {
            let field = fields(message, number).into_iter().next();
            String::from_utf8(field.unwrap_or_default()).unwrap()
        };
        let hex = |number| {
            let bytes = fields(span, number).into_iter().flatten();
            bytes.map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let attributes = fields(span, 9).into_iter().map(|pair| {
            let value = fields(&pair, 2).into_iter().next().unwrap_or_default();
            (text(&pair, 1), text(&value, 1))
        });
        Self {
            trace: hex(1),
            id: hex(2),
            parent: hex(4),
            name: text(span, 5),
            attributes: attributes.collect(),
        }
    }
}

/// The fields of a message of Protocol Buffers with this number that have a length.
fn fields(mut message: &[u8], wanted: u64) -> Vec<Vec<u8>> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = message[0];
            *message = &message[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let length = match tag & 7 {
            0 => {
                varint(&mut message);
                continue;
            }
            1 => 8,
            5 => 4,
            _ => usize::try_from(varint(&mut message)).unwrap(),
        };
        let (field, rest) = message.split_at(length);
        if tag >> 3 == wanted && tag & 7 == 2 {
            found.push(field.to_vec());
        }
        message = rest;
    }
    found
}

/// The log, in memory.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
