//! Traces by OTLP, with the names of OpenTelemetry's conventions for GenAI and MCP.
//!
//! | span | from | to |
//! |---|---|---|
//! | `invoke_agent` | a request of an agent | the end of its answer |
//! | `chat MODEL` | the prompt | the completion, which may be one for a screener (`sluice.purpose`) |
//! | `execute_tool TOOL` | the decision on a call | its result; of a call that does not run, the decision |
//! | `tools/call TOOL` and other methods | a request of an MCP client | its answer |
//!
//! The client executes the calls of a conversation with the proxy, so such a call ends when a later request brings its
//! result.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use hub::trace::{Call, Event, Usage};
use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
    TraceState, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter as Otlp, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracer, SdkTracerProvider, Span, SpanData, SpanExporter,
};

use reqwest::blocking::Client;

use super::metrics::Metrics;
use super::names::{Decision, PolicyNames};
use crate::sink::{At, Began, EventSink, TraceContext};

/// How long the collector may take for one batch. Meanwhile spans wait, and beyond some thousands they are dropped.
const PATIENCE: Duration = Duration::from_secs(5);
/// Calls that wait for their results. A client may never bring one.
const MOST_WAITING: usize = 4_096;
const ERROR: &str = "error.type";

/// Sends what happens to a collector, in batches, on a thread of its own.
pub struct Spans {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    names: Arc<PolicyNames>,
    content: bool,
    /// Whether apps are told the spans of their calls.
    for_apps: bool,
    /// By the number of the request.
    requests: Mutex<HashMap<u64, Request>>,
    /// The calls that clients execute, by digests of what they are.
    calls: Mutex<HashMap<u64, Span>>,
    hasher: RandomState,
}

/// A request that is being answered.
struct Request {
    span: Span,
    model: Option<String>,
    /// Whether it is itself the call of a tool.
    is_call: bool,
}

impl Spans {
    /// Sends spans to the collector at this address (`http://127.0.0.1:4318`). With `content` they have the arguments of
    /// calls.
    ///
    /// # Errors
    /// The address is none, or the system has no more threads.
    pub fn new(
        endpoint: &str,
        names: Arc<PolicyNames>,
        metrics: Arc<Metrics>,
        content: bool,
    ) -> Result<Self, String> {
        let base = endpoint.trim_end_matches('/');
        // TLS is the collector's, which runs beside this program.
        if !base.starts_with("http://") {
            return Err(format!(
                "{endpoint} is no address of http://; run a collector beside the service"
            ));
        }
        let failed =
            |error: &dyn fmt::Display| format!("cannot send traces to {endpoint}: {error}");
        let exporter = Otlp::builder().with_http().with_http_client(client()?);
        let exporter = exporter.with_endpoint(format!("{base}/v1/traces"));
        let inner = exporter.build().map_err(|error| failed(&error))?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name("sluice");
        let provider = SdkTracerProvider::builder()
            // The client does not decide whether it is recorded.
            .with_sampler(Sampler::AlwaysOn)
            .with_batch_exporter(Counted { inner, metrics })
            .with_resource(resource.with_attribute(version).build())
            .build();
        Ok(Self {
            tracer: provider.tracer("sluice"),
            provider,
            names,
            content,
            for_apps: false,
            requests: Mutex::default(),
            calls: Mutex::default(),
            hasher: RandomState::new(),
        })
    }

    /// The same spans, which apps are told if that is `true`.
    #[must_use]
    pub fn for_apps(self, for_apps: bool) -> Self {
        Self { for_apps, ..self }
    }

    /// Sends what waits. It blocks for some seconds at most.
    pub fn flush(&self) {
        // What is lost is counted.
        let _ = self.provider.force_flush();
    }

    fn start(
        &self,
        name: String,
        kind: SpanKind,
        parent: Option<SpanContext>,
        attributes: Vec<KeyValue>,
        begun: Option<SystemTime>,
    ) -> Span {
        let parent = parent.map(|parent| Context::new().with_remote_span_context(parent));
        let mut builder = self.tracer.span_builder(name).with_kind(kind);
        builder = builder.with_attributes(attributes);
        builder.start_time = begun;
        (self.tracer).build_with_context(builder, &parent.unwrap_or_default())
    }

    /// A call was decided on: it runs, or it is over.
    fn decided(&self, at: &At<'_>, call: &Call, it: &Decision<'_>) {
        let runs = it.outcome.starts_with("allowed");
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", it.tool.to_owned()),
            KeyValue::new("sluice.app", it.app.to_owned()),
            KeyValue::new("sluice.decision", it.outcome),
            KeyValue::new("sluice.rule", it.rule.to_owned()),
            KeyValue::new("sluice.label", it.label.clone()),
        ];
        if self.content {
            let arguments = it.text.as_str().to_owned();
            attributes.push(KeyValue::new("gen_ai.tool.call.arguments", arguments));
        }
        if !runs {
            attributes.push(KeyValue::new(ERROR, it.outcome));
        }
        let mut requests = lock(&self.requests);
        let Some(request) = requests.get_mut(&at.request) else {
            return;
        };
        if request.is_call {
            return request.span.set_attributes(attributes);
        }
        let parent = Some(request.span.span_context().clone());
        drop(requests);
        let name = format!("execute_tool {}", it.tool);
        let span = self.start(name, SpanKind::Internal, parent, attributes, None);
        if runs {
            let key = self.key(at, call);
            let mut calls = lock(&self.calls);
            if calls.len() >= MOST_WAITING {
                // Those whose results never come. Dropping a span ends it.
                calls.clear();
            }
            calls.insert(key, span);
        }
    }

    /// A model has answered, for a step of the agent's or for another purpose of ours.
    fn completed(&self, at: &At<'_>, provider: &str, purpose: &str, usage: &Usage) {
        let requests = lock(&self.requests);
        let Some(request) = requests.get(&at.request) else {
            return;
        };
        let parent = request.span.span_context().clone();
        // The agent names the model of its steps.
        let model = request.model.as_deref().filter(|_| purpose == "step");
        let model = model.unwrap_or(provider).to_owned();
        drop(requests);
        let name = format!("chat {model}");
        let (input, output) = (usage.prompt_tokens, usage.completion_tokens);
        let attributes = vec![
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.provider.name", provider.to_owned()),
            KeyValue::new("gen_ai.request.model", model),
            KeyValue::new("gen_ai.usage.input_tokens", i64::from(input)),
            KeyValue::new("gen_ai.usage.output_tokens", i64::from(output)),
            KeyValue::new("sluice.purpose", purpose.to_owned()),
        ];
        // The event comes at its end.
        let begun = SystemTime::now().checked_sub(Duration::from_millis(usage.total_ms));
        self.start(name, SpanKind::Client, Some(parent), attributes, begun)
            .end();
    }

    /// Names a call of a conversation.
    fn key(&self, at: &At<'_>, call: &Call) -> u64 {
        let call = (&call.app, call.tool.as_str(), call.arguments.as_str());
        self.hasher.hash_one((at.tenant, at.conversation, call))
    }

    /// A call is over.
    fn returned(&self, at: &At<'_>, call: &Call, error: Option<&'static str>) {
        let attributes = error.map(|error| KeyValue::new(ERROR, error));
        let mut requests = lock(&self.requests);
        match requests.get_mut(&at.request) {
            Some(request) if request.is_call => request.span.set_attributes(attributes),
            _ => {
                drop(requests);
                if let Some(mut span) = lock(&self.calls).remove(&self.key(at, call)) {
                    span.set_attributes(attributes);
                    span.end();
                }
            }
        }
    }
}

impl EventSink for Spans {
    fn event(&self, at: &At<'_>, event: &Event) {
        if let Some(it) = self.names.decision(event) {
            // What is asked about is not decided yet.
            if let Some(call) = it.call.filter(|_| it.outcome != "asked") {
                self.decided(at, call, &it);
            }
            return;
        }
        match event {
            Event::Completed {
                provider, usage, ..
            } => self.completed(at, provider, "step", usage),
            Event::Consulted {
                purpose,
                provider,
                usage,
            } => self.completed(at, provider, purpose, usage),
            Event::Returned { call, is_error, .. } => {
                self.returned(at, call, is_error.then_some("tool_error"));
            }
            Event::CallFailed { call, .. } => self.returned(at, call, Some("call_failed")),
            Event::CallUnknown { call, .. } => self.returned(at, call, Some("call_unknown")),
            _ => {}
        }
    }

    fn began(&self, at: &At<'_>, began: &Began<'_>) {
        let is_agent = at.front == "proxy";
        let (key, method) = match is_agent {
            true => ("gen_ai.operation.name", "invoke_agent"),
            false => ("mcp.method.name", began.method),
        };
        let tool = began.tool.map(|tool| format!(" {tool}"));
        let name = format!("{method}{}", tool.unwrap_or_default());
        let named = |key, value: &str| KeyValue::new(key, value.to_owned());
        let mut attributes = vec![
            named(key, method),
            named("gen_ai.conversation.id", at.conversation),
        ];
        attributes.extend(at.tenant.map(|name| named("sluice.tenant", name)));
        let parent = began.parent.map(|parent| {
            let (trace, span) = (TraceId::from(parent.trace), SpanId::from(parent.span));
            SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::NONE)
        });
        let request = Request {
            span: self.start(name, SpanKind::Server, parent, attributes, None),
            model: began.model.map(str::to_owned),
            is_call: !is_agent,
        };
        lock(&self.requests).insert(at.request, request);
    }

    fn ended(&self, at: &At<'_>, outcome: Result<(), &str>, _time: Duration) {
        let request = lock(&self.requests).remove(&at.request);
        if let Some(Request { mut span, .. }) = request {
            if let Err(error) = outcome {
                span.set_attribute(KeyValue::new(ERROR, error.to_owned()));
                span.set_status(Status::error(""));
            }
            span.end();
        }
    }

    fn context(&self, request: u64) -> Option<TraceContext> {
        let requests = lock(&self.requests);
        let context = requests.get(&request)?.span.span_context();
        Some(TraceContext {
            trace: u128::from_be_bytes(context.trace_id().to_bytes()),
            span: u64::from_be_bytes(context.span_id().to_bytes()),
            sampled: true,
        })
    }

    fn context_for_apps(&self, request: u64) -> Option<TraceContext> {
        self.context(request).filter(|_| self.for_apps)
    }
}

/// A client that blocks its thread, which is that of the exporter. It is made outside of the runtime, where it would panic.
fn client() -> Result<Client, String> {
    let made = thread::spawn(|| {
        llm::set_up_tls();
        let client = Client::builder().timeout(PATIENCE).no_proxy();
        client.tls_certs_only([]).build()
    });
    let made = made
        .join()
        .map_err(|_| "the client of the collector does not start")?;
    made.map_err(|error| error.to_string())
}

/// Counts the spans that the collector does not take.
#[derive(Debug)]
struct Counted {
    inner: Otlp,
    metrics: Arc<Metrics>,
}

impl SpanExporter for Counted {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let exported = self.inner.export(batch).await;
        if exported.is_err() {
            self.metrics.spans_lost(count);
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
