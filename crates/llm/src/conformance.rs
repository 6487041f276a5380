//! What every provider must do: one suite, run over each of them (cargo feature `conformance`).
//!
//! The requests are easy enough for a model of 135 million parameters: the suite checks the provider, not what the model knows.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hub::{AnswerShape, Completion, CompletionRequest, Purpose, StopReason};
use ifc::{History, Label, Labeled, Tool, redact};
use serde_json::Value;

use crate::{Broker, DeltaSink, ErrorKind, NoDeltas, Provider, call_answer, text_answer};

/// Tokens of an answer in the checks that do not look at the limit.
const MAX_TOKENS: u32 = 64;
/// Tokens of an answer that must be cut.
const FEW_TOKENS: u32 = 5;
/// Bytes of the long text.
const LONG_TEXT: usize = 100_000;
/// When the cancelled call is dropped: after the work has begun.
const CANCEL_AFTER: Duration = Duration::from_millis(50);
/// How long the first call after a cancelled one may take. Reading 100 KB takes a local model
/// minutes, so one that goes on with the cancelled work does not answer within this.
const PROMPT: Duration = Duration::from_secs(60);

const SCHEMA: &str = r#"{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}"#;
const PARAMETERS: &str = r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}"#;
/// What chat templates, JSON, SSE and terminals could stumble over.
const SPECIAL: &str = "<|im_end|>\n<|im_start|>system\n</s>[INST]\u{0}\u{1b}[31m\u{feff}\u{202e}\r\n\r\ndata: [DONE]\n\n\"\\'{{x}}{% y %} Zürich 東京 🜁 e\u{301} «REGION_1:0»";

/// A check that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{check}: {reason}")]
pub struct Failure {
    /// The check.
    pub check: &'static str,
    /// What the provider did.
    pub reason: String,
}

/// Runs all checks and returns those that failed.
pub async fn conformance(provider: Arc<dyn Provider>) -> Vec<Failure> {
    let name = provider.name().to_owned();
    let suite = Suite {
        broker: Broker::new(provider.clone(), Label::bottom()),
        name,
    };
    let results = [
        ("text", suite.text().await),
        ("calls", suite.calls().await),
        ("round trip", suite.round_trip().await),
        ("json", suite.json().await),
        ("token limit", suite.token_limit().await),
        ("special text", suite.special_text().await),
        ("long text", suite.long_text().await),
        ("cancellation", suite.cancellation().await),
        ("clearance", suite.clearance().await),
    ];
    let failed = results.into_iter().filter_map(|(check, result)| {
        let reason = result.err()?;
        Some(Failure { check, reason })
    });
    failed.collect()
}

/// A script that is able to do what the suite asks, for providers without a model.
pub fn able_script(request: &CompletionRequest) -> Completion {
    match &request.shape {
        AnswerShape::Calls => call_answer("get_weather", r#"{"city":"Paris"}"#),
        AnswerShape::Json { .. } => text_answer(r#"{"ok":true}"#),
        AnswerShape::Text | AnswerShape::TextOrCalls => {
            text_answer("The sea is wide, “blue” and\ndeep – 海 – and nobody owns it.")
        }
    }
}

struct Suite {
    broker: Broker,
    name: String,
}

/// Collects what was streamed, piece by piece.
#[derive(Default)]
struct Pieces(Vec<String>);

impl DeltaSink for Pieces {
    fn text(&mut self, piece: &str) {
        self.0.push(piece.to_owned());
    }
}

impl Suite {
    async fn text(&self) -> Result<(), String> {
        let request = request(chat("Write one sentence about the sea."), AnswerShape::Text);
        let answer = self.ask(&request).await?;
        check(!answer.text.trim().is_empty(), "the text is empty")?;
        check(answer.calls.is_empty(), "calls in an answer of text")
    }

    async fn calls(&self) -> Result<(), String> {
        let history = chat("What is the weather in Paris? Use the tool.");
        let answer = self.ask(&request(history, AnswerShape::Calls)).await?;
        let call = answer.calls.first().ok_or("no call")?;
        check(call.tool == "get_weather", "a call of an unknown tool")?;
        let arguments: Value = serde_json::from_str(&call.arguments)
            .map_err(|error| format!("the arguments are not JSON: {error}"))?;
        let city = arguments.get("city").and_then(Value::as_str);
        check(city.is_some(), "the arguments do not match the schema")
    }

    async fn round_trip(&self) -> Result<(), String> {
        let bottom = Label::bottom();
        let mut history = chat("What is the weather in Paris? Use the tool.");
        let arguments = Labeled::trusted_tcb(r#"{"city":"Paris"}"#);
        let call = ("get_weather".to_owned(), arguments);
        let ids = history.push_assistant(&bottom, Labeled::trusted_tcb(""), [call]);
        let id = ids.first().ok_or("the history has lost the call")?;
        let result = Labeled::trusted_tcb(r#"{"sky":"clear","degrees":21}"#);
        history.push_result(&bottom, *id, result);
        let answer = self.ask(&request(history, AnswerShape::Text)).await?;
        check(!answer.text.trim().is_empty(), "no answer to a result")
    }

    async fn json(&self) -> Result<(), String> {
        let schema = SCHEMA.to_owned();
        let history = chat("Is water wet? Answer with JSON: {\"ok\": true} or {\"ok\": false}.");
        let answer = self
            .ask(&request(history, AnswerShape::Json { schema }))
            .await?;
        let value: Value = serde_json::from_str(&answer.text)
            .map_err(|error| format!("not JSON: {error}: {:?}", answer.text))?;
        let fields = value.as_object().ok_or("not an object")?;
        let matches = fields.len() == 1 && fields.get("ok").is_some_and(Value::is_boolean);
        check(matches, "the answer does not match the schema")
    }

    async fn token_limit(&self) -> Result<(), String> {
        let mut request = request(
            chat("Write a long story about a lighthouse."),
            AnswerShape::Text,
        );
        request.max_tokens = FEW_TOKENS;
        let answer = self.ask(&request).await?;
        check(answer.stop == StopReason::Length, "the answer was not cut")?;
        let tokens = answer.usage.completion_tokens;
        check(tokens <= FEW_TOKENS, "more tokens than allowed")
    }

    async fn special_text(&self) -> Result<(), String> {
        let request = request(chat(SPECIAL), AnswerShape::Text);
        self.ask(&request).await.map(drop)
    }

    /// A text that is too long must be refused as such, not cut.
    async fn long_text(&self) -> Result<(), String> {
        match self.broker.complete(&long_request(), &mut NoDeltas).await {
            Err(error) if !matches!(error.kind, ErrorKind::ContextLength(_)) => {
                Err(error.to_string())
            }
            _ => Ok(()),
        }
    }

    async fn cancellation(&self) -> Result<(), String> {
        let mut request = request(chat("Count from one to a thousand."), AnswerShape::Text);
        request.max_tokens = 1000;
        let mut unheard = NoDeltas;
        let call = self.broker.complete(&request, &mut unheard);
        // How it ends does not matter; it may well be faster than this.
        drop(tokio::time::timeout(CANCEL_AFTER, call).await);
        let started = Instant::now();
        self.text().await?;
        check(started.elapsed() < PROMPT, "the cancelled work went on")
    }

    async fn clearance(&self) -> Result<(), String> {
        let mut history = chat("Repeat the secret.");
        history.push_user(Labeled::label_tcb("secret", Label::top()));
        let prompt = redact(&history, &Label::top());
        let mut request = request(history, AnswerShape::Text);
        request.prompt = prompt;
        let mut pieces = Pieces::default();
        match self.broker.complete(&request, &mut pieces).await {
            Err(error) if error == ErrorKind::AboveClearance.at(&self.name) => {
                check(pieces.0.is_empty(), "text in spite of the refusal")
            }
            other => Err(format!("not refused: {other:?}")),
        }
    }

    /// Asks, and checks what holds for every answer.
    async fn ask(&self, request: &CompletionRequest) -> Result<Completion, String> {
        let mut pieces = Pieces::default();
        let answer = self.broker.complete(request, &mut pieces).await;
        let answer = answer.map_err(|error| error.to_string())?;
        check(answer.provider == self.name, "another provider's name")?;
        let completion = answer.completion;
        check(
            pieces.0.concat() == completion.text,
            "the streamed pieces are not the text",
        )?;
        check(
            pieces.0.iter().all(|piece| !piece.is_empty()),
            "an empty piece was streamed",
        )?;
        let usage = completion.usage;
        check(usage.prompt_tokens > 0, "no prompt tokens in the usage")?;
        check(
            usage.completion_tokens > 0,
            "no generated tokens in the usage",
        )?;
        check(usage.total_time > Duration::ZERO, "no time in the usage")?;
        check(
            usage.cached_tokens <= usage.prompt_tokens,
            "more cached tokens than there are",
        )?;
        let first = usage.time_to_first_token.unwrap_or_default();
        check(
            first <= usage.total_time,
            "the first token came after the end",
        )?;
        Ok(completion)
    }
}

fn check(holds: bool, otherwise: &str) -> Result<(), String> {
    holds.then_some(()).ok_or_else(|| otherwise.to_owned())
}

fn chat(user: &str) -> History {
    let mut history = History::new(vec![Tool {
        label: Label::bottom(),
        name: "get_weather".to_owned(),
        description: Labeled::trusted_tcb("The weather in a city."),
        parameters: Labeled::trusted_tcb(PARAMETERS),
    }]);
    history.push_system(Labeled::trusted_tcb("You are a helpful assistant."));
    history.push_user(Labeled::trusted_tcb(user));
    history
}

fn request(history: History, shape: AnswerShape) -> CompletionRequest {
    CompletionRequest {
        prompt: redact(&history, &Label::bottom()),
        purpose: Purpose::Step,
        shape,
        max_tokens: MAX_TOKENS,
    }
}

fn long_request() -> CompletionRequest {
    let text = SPECIAL.repeat(LONG_TEXT / SPECIAL.len() + 1);
    let mut request = request(chat(&text), AnswerShape::Text);
    request.max_tokens = FEW_TOKENS;
    request
}
