//! A proxy between a scripted upstream and a client that speaks as real ones do.

use std::sync::{Arc, Mutex};

use hub::trace::Event;
use hub::{Screening, Settings};
use ifc::{
    Answer, Call, Dimension, Draft, Effect, Exceeded, History, Label, Labeled, Lattice, Nonce,
    Policy, PolicyError, Relevance, Rule, Screener, Sink,
};
use llm::{Broker, HttpConfig, HttpProvider};
use reqwest::Client;
use screen::NaiveTainting;
use serde_json::{Value, json};
use server::desk::{Answered, Other, QuestionOrigin};
use server::proxy::{Approver, Observer, Proxy, ProxySetup};
use server::{Parts, QuestionView};

use test_support::Upstream;

pub(crate) fn untrusted() -> Label {
    Lattice::four_point().whole(Dimension::Integrity)
}

pub(crate) fn secret() -> Label {
    Lattice::four_point().whole(Dimension::Confidentiality)
}

/// The rules: what `inbox` returns is untrusted, what `vault` returns is secret; `send` is for
/// what is trusted and public; `note` takes anything; everything else is unknown.
pub(crate) struct Rules {
    /// What may be said to the user.
    pub(crate) answer: Label,
}

impl Rules {
    fn of_call(&self, call: &Call) -> Result<Rule, PolicyError> {
        let tool = call.tool.strip_prefix("mcp__notes__");
        let (limit, effect) = match tool.unwrap_or(&call.tool) {
            "inbox" | "vault" | "clock" => (Label::top(), Effect::Read),
            "note" => (Label::top(), Effect::Write),
            "post" => (Label::bottom(), Effect::Write),
            "send" => (Label::bottom(), Effect::Irreversible),
            other => return Err(PolicyError(format!("there is no rule for {other}"))),
        };
        let name = format!("{}.limit", call.tool);
        Ok(Rule::asking(name, effect, limit))
    }
}

impl Policy for Rules {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        match sink {
            Sink::Call(call) => self.of_call(call),
            Sink::Answer(release) => {
                let name = format!(
                    "{}.answer.limit",
                    release.apps.iter().cloned().collect::<String>()
                );
                Ok(Rule::asking(name, Effect::Read, self.answer.clone()))
            }
            Sink::Address(_) => Ok(Rule {
                exceeded: Exceeded::Deny,
                ..Rule::asking("answer.addresses", Effect::Write, Label::bottom())
            }),
            _ => Err(PolicyError("no rule".to_owned())),
        }
    }

    fn label_result(&self, call: &Call, result: String, _: bool) -> Labeled {
        match call.tool.as_str() {
            "inbox" => Labeled::label_tcb(result, untrusted()),
            "vault" => Labeled::label_tcb(result, secret()),
            "clock" | "note" | "post" | "send" => Labeled::trusted_tcb(result),
            _ => Labeled::unknown(result),
        }
    }
}

/// Masks every labelled region: the agent sees nothing that is not trusted and public.
pub(crate) struct Nothing;

impl Screener for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn screen(&self, _: &History, _: Option<&Draft>, _: &Nonce) -> ifc::Screening {
        ifc::Screening::Decided(Relevance::Only(std::collections::BTreeSet::new()))
    }
}

/// Answers every question the same, and keeps them.
pub(crate) struct Always {
    pub(crate) answer: Answer,
    pub(crate) asked: Mutex<Vec<(String, QuestionView)>>,
}

impl Always {
    pub(crate) fn new(answer: Answer) -> Arc<Self> {
        let asked = Mutex::default();
        Arc::new(Self { answer, asked })
    }

    /// One that a proxy asks.
    pub(crate) fn answering(setup: &mut ProxySetup, answer: Answer) -> Arc<Self> {
        let own = Self::new(answer);
        setup.approver = own.clone();
        own
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait::async_trait]
impl Approver for Always {
    async fn ask_beside(
        &self,
        origin: &QuestionOrigin,
        question: &QuestionView,
        _: Other<'_>,
    ) -> Answered {
        let mut asked = self.asked.lock().unwrap();
        asked.push((origin.conversation.clone(), question.clone()));
        Answered::here(self.answer, None, "program")
    }
}

/// Keeps all events.
#[derive(Default)]
pub(crate) struct Watcher(pub(crate) Mutex<Vec<(String, Event)>>);

impl Observer for Watcher {
    fn event(&self, conversation: &str, event: &Event) {
        let mut seen = self.0.lock().unwrap();
        seen.push((conversation.to_owned(), event.clone()));
    }
}

/// A running proxy.
pub(crate) struct Stage {
    pub(crate) url: String,
    pub(crate) client: Client,
}

/// The parts of a proxy before `upstream`, with lazy naive tainting; every question is dropped.
pub(crate) fn setup(upstream: &Upstream) -> ProxySetup {
    setup_with(upstream, |_| {})
}

/// The same with another provider in some way.
pub(crate) fn setup_with(upstream: &Upstream, change: impl FnOnce(&mut HttpConfig)) -> ProxySetup {
    setup_at(&upstream.url, change)
}

/// The same before a server at this base URL.
pub(crate) fn setup_at(url: &str, change: impl FnOnce(&mut HttpConfig)) -> ProxySetup {
    let mut config = HttpConfig::new("upstream", url, "default");
    config.pass_through = true;
    config.retry.attempts = 0;
    config.images = true;
    change(&mut config);
    let provider = Arc::new(HttpProvider::new(config).unwrap());
    let policy = Arc::new(Rules {
        answer: Label::top(),
    });
    let lattice = Arc::new(Lattice::four_point());
    let broker = Arc::new(Broker::new(provider.clone(), Label::top()));
    let parts = Parts::new(broker, policy, lattice, Arc::new(NaiveTainting));
    let mut setup = ProxySetup::new(parts, "app");
    setup.parts.settings = Settings {
        screening: Screening::LAZY,
        ..Settings::default()
    };
    setup.models = Some(provider);
    setup
}

pub(crate) async fn serve(setup: ProxySetup) -> Stage {
    let proxy = Proxy::bind(setup).await.unwrap();
    let url = proxy.base_url();
    tokio::spawn(proxy.serve(std::future::pending()));
    let client = Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap();
    Stage { url, client }
}

/// All tools that the tests use.
pub(crate) fn tools() -> Value {
    let tool = |name: &str| {
        json!({"type": "function", "function": {"name": name, "description": "a tool",
            "parameters": {"type": "object", "properties": {}}}})
    };
    let names = ["inbox", "vault", "clock", "note", "post", "send", "unknown"];
    names.map(tool).into()
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The result of a call of this answer.
pub(crate) fn result(answer: &Value, index: usize, text: &str) -> Value {
    let id = &answer["tool_calls"][index]["id"];
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

impl Stage {
    /// One request with these messages and all tools, beside whatever `more` says.
    pub(crate) async fn request(&self, messages: &[Value], more: Value) -> (u16, Value) {
        self.as_client("key", None, messages, more).await
    }

    /// The same for a client with a key and perhaps a named conversation.
    pub(crate) async fn as_client(
        &self,
        key: &str,
        conversation: Option<&str>,
        messages: &[Value],
        more: Value,
    ) -> (u16, Value) {
        let (status, text) = self.raw(key, conversation, body(messages, more)).await;
        (status, serde_json::from_str(&text).unwrap())
    }

    pub(crate) async fn raw(
        &self,
        key: &str,
        conversation: Option<&str>,
        body: Value,
    ) -> (u16, String) {
        let mut request = self
            .client
            .post(format!("{}/chat/completions", self.url))
            .header("content-type", "application/json")
            .bearer_auth(key)
            .body(body.to_string());
        if let Some(name) = conversation {
            request = request.header("x-sluice-conversation", name);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.text().await.unwrap())
    }

    /// The message of the only choice of a streamed answer.
    pub(crate) async fn streamed(&self, messages: &[Value]) -> Value {
        let body = body(messages, json!({"stream": true}));
        let (status, stream) = self.raw("key", None, body).await;
        assert_eq!(status, 200, "{stream}");
        assemble(&chunks(&stream), 0).0
    }

    /// The conversation goes on with an answer that makes a call, and with the call's result.
    pub(crate) async fn step(&self, messages: &mut Vec<Value>, text: &str) -> Value {
        let answer = self.message(messages).await;
        messages.push(answer.clone());
        messages.push(result(&answer, 0, text));
        answer
    }

    /// The message of the only choice of a request that must succeed.
    pub(crate) async fn message(&self, messages: &[Value]) -> Value {
        let (status, answer) = self.request(messages, json!({})).await;
        assert_eq!(status, 200, "{answer}");
        answer["choices"][0]["message"].clone()
    }
}

pub(crate) fn body(messages: &[Value], more: Value) -> Value {
    let mut body = json!({"model": "big", "messages": messages, "tools": tools()});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The chunks of a streamed answer; `[DONE]` must be the last line.
pub(crate) fn chunks(stream: &str) -> Vec<Value> {
    let mut lines: Vec<&str> = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .collect();
    assert_eq!(lines.pop(), Some("[DONE]"), "{stream}");
    lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Puts the chunks of one choice together, as clients do.
pub(crate) fn assemble(chunks: &[Value], index: usize) -> (Value, Value) {
    let mut text = String::new();
    let mut calls: Vec<Value> = Vec::new();
    let mut finish = Value::Null;
    let choices = chunks
        .iter()
        .flat_map(|chunk| chunk["choices"].as_array().unwrap());
    for choice in choices.filter(|choice| choice["index"] == index) {
        let delta = &choice["delta"];
        text.push_str(delta["content"].as_str().unwrap_or_default());
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            assert_eq!(call["index"], calls.len());
            calls.push(call.clone());
        }
        if !choice["finish_reason"].is_null() {
            assert!(finish.is_null());
            finish = choice["finish_reason"].clone();
        }
    }
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        message["tool_calls"] = Value::from(calls);
    }
    (message, finish)
}
