//! Metrics for Prometheus.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::response::Response;
use hub::trace::{Event, UNANSWERED, Usage};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tracing::{info, warn};

use super::names::PolicyNames;
use crate::api::error::Reason;
use crate::api::route::Route;
use crate::sink::{At, EventSink, Sender, Work};

type Labels = Vec<(&'static str, String)>;
type Label<'a> = (&'static str, &'a str);

/// Counters, which have `_total` behind their names, and what they count.
const COUNTERS: &str = "\
requests: Requests that were answered, by the status of HTTP
model_calls: Completions by a language model
tokens: Tokens to models (`prompt`, of these `cached`) and from them (`completion`)
decisions: Decisions on calls, messages and answers
answers: Questions that were answered, or not in time (`none`)
spoke_starts: Starts of apps
spoke_deaths: Apps that ended by themselves or did not start
egress_connections: Connections of apps
egress_bytes: Bytes that apps sent and received
store_errors: Operations of the store that failed
reloads: Configurations that were loaded (`ok`) or not (`refused`)
logins_denied: Tokens and codes that were not accepted, at the proxy those of the upstream too
spans_lost: Spans that the collector did not take
errors: Failures: statuses of requests, and kinds of what went wrong in them";
const GAUGES: &str = "\
requests_in_flight: Requests that are being answered
questions_waiting: Questions that wait for an answer, of all replicas
questions_oldest_seconds: How long the oldest question has waited
spokes: Apps that run
build_info: 1, with the version of the program";
const TIMES: &str = "\
request_seconds: From a request to the end of its answer
model_call_seconds: Time of a completion
check_seconds: Time of the decisions of a step and of making its prompt
screening_seconds: Time of a dependency screening
store_seconds: Time of an operation of the store";
/// What is done with the store.
const OPERATIONS: &str = "load commit redeem withdraw usage prune ping token questions";

/// The names of such a list, with what is said of them.
fn list(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.lines().filter_map(|line| line.split_once(": "))
}

/// Bounds of a histogram: the least of them in seconds, the factor from one to the next, and how many there are.
#[derive(Clone)]
struct Buckets(f64, f64, u16);

impl Buckets {
    fn of(name: &str) -> Self {
        match name {
            // A request waits for its model, and may wait for a person.
            "request_seconds" => Self(0.005, 2.0, 14),
            "model_call_seconds" => Self(0.05, 2.0, 12),
            "store_seconds" => Self(0.00025, 2.0, 14),
            // Rules take microseconds, a model that screens takes seconds.
            _ => Self(0.00001, 4.0, 10),
        }
    }
}

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(self.0, self.1, self.2))
    }
}

/// The metrics of a process. It is a sink of all fronts; what is no event of a front is counted by its methods.
pub struct Metrics {
    registry: Registry,
    names: Arc<PolicyNames>,
    counters: HashMap<&'static str, Family<Labels, Counter>>,
    gauges: HashMap<&'static str, Family<Labels, Gauge>>,
    times: HashMap<&'static str, Family<Labels, Histogram, Buckets>>,
    /// Whether the last operation of the store has failed.
    is_lost: AtomicBool,
}

impl Metrics {
    /// Metrics at zero. Tools that are not in `names` are called `other`.
    pub fn new(names: Arc<PolicyNames>) -> Self {
        let mut all = Self {
            registry: Registry::with_prefix("sluice"),
            names,
            counters: HashMap::new(),
            gauges: HashMap::new(),
            times: HashMap::new(),
            is_lost: AtomicBool::new(false),
        };
        for (name, help) in list(COUNTERS) {
            let family = Family::default();
            all.registry.register(name, help, family.clone());
            all.counters.insert(name, family);
        }
        for (name, help) in list(GAUGES) {
            let family = Family::default();
            all.registry.register(name, help, family.clone());
            all.gauges.insert(name, family);
        }
        for (name, help) in list(TIMES) {
            let family = Family::new_with_constructor(Buckets::of(name));
            all.registry.register(name, help, family.clone());
            all.times.insert(name, family);
        }
        all.count("spans_lost", 0, &[]);
        // A rate needs a number from before the first failure.
        for operation in OPERATIONS.split(' ') {
            all.count("store_errors", 0, &[("operation", operation)]);
        }
        all.set("build_info", 1, &[("version", env!("CARGO_PKG_VERSION"))]);
        all
    }

    /// The metrics in the text format of OpenMetrics.
    ///
    /// # Errors
    /// None is known: the text is in memory.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        self.set("spokes", crate::spoke::running(), &[]);
        let mut text = String::new();
        encode(&mut text, &self.registry).map(|()| text)
    }

    /// The questions that wait in the store and the age of the oldest; `None` if the store does not say.
    pub fn set_waiting(&self, waiting: Option<(usize, Duration)>) {
        if let Some((count, oldest)) = waiting {
            self.set("questions_waiting", count, &[]);
            let seconds = usize::try_from(oldest.as_secs()).unwrap_or(usize::MAX);
            self.set("questions_oldest_seconds", seconds, &[]);
            return;
        }
        // No number is better than an old one.
        for name in ["questions_waiting", "questions_oldest_seconds"] {
            self.gauges.get(name).inspect(|gauge| gauge.clear());
        }
        self.error("desk");
    }

    /// Does an operation of the store, times it, and counts its failure. The log says when the store is lost, and when it is
    /// back.
    ///
    /// # Errors
    /// Those of the operation.
    pub async fn stored<T, E: fmt::Display>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let (of, begun) = ([("operation", operation)], Instant::now());
        let done = work.await;
        self.time("store_seconds", begun.elapsed(), &of);
        let was_lost = self.is_lost.swap(done.is_err(), Ordering::Relaxed);
        match &done {
            Err(reason) => {
                self.count("store_errors", 1, &of);
                if !was_lost {
                    warn!(operation, %reason, "the store fails; requests that need it are refused with 503");
                }
            }
            Ok(_) if was_lost => info!(operation, "the store answers again"),
            Ok(_) => {}
        }
        done
    }

    /// A configuration was loaded while the service ran, or was refused.
    pub fn reload(&self, is_ok: bool) {
        let outcome = if is_ok { "ok" } else { "refused" };
        self.count("reloads", 1, &[("outcome", outcome)]);
    }

    /// A token or a code was not accepted at this front.
    pub fn login_denied(&self, front: &'static str) {
        self.count("logins_denied", 1, &[("front", front)]);
    }

    /// Spans that the collector did not take.
    pub fn spans_lost(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.count("spans_lost", count, &[]);
    }

    /// Something failed, by a word of a fixed list.
    pub fn error(&self, kind: &str) {
        self.count("errors", 1, &[("kind", kind)]);
    }

    /// A request that begins.
    pub(crate) fn request(self: &Arc<Self>, route: Route) -> MeasuredRequest {
        let (front, dialect) = route.names();
        self.in_flight(front, 1);
        MeasuredRequest {
            metrics: Arc::clone(self),
            front,
            dialect,
            begun: Instant::now(),
        }
    }

    fn in_flight(&self, front: &'static str, by: i64) {
        if let Some(family) = self.gauges.get("requests_in_flight") {
            family
                .get_or_create(&labels(&[("front", front)]))
                .inc_by(by);
        }
    }

    fn completed(&self, at: &At<'_>, provider: &str, purpose: &str, usage: &Usage) {
        let (of, tenant) = (("provider", provider), at.tenant.unwrap_or_default());
        let (tenant, time) = (("tenant", tenant), Duration::from_millis(usage.total_ms));
        self.count("model_calls", 1, &[of, ("purpose", purpose), tenant]);
        self.time("model_call_seconds", time, &[of]);
        for (kind, count) in [
            ("prompt", usage.prompt_tokens),
            ("cached", usage.cached_tokens),
            ("completion", usage.completion_tokens),
        ] {
            self.count("tokens", count.into(), &[of, ("kind", kind), tenant]);
        }
    }

    fn decision(&self, at: &At<'_>, outcome: &str, rule: &str, app: &str, tool: &str) {
        let [front, outcome, rule] = [("front", at.front), ("outcome", outcome), ("rule", rule)];
        let of = [front, outcome, rule, ("app", app), ("tool", tool)];
        self.count("decisions", 1, &of);
    }

    fn connected(&self, app: &str, outcome: &str) {
        let kind = match outcome {
            refused if refused.starts_with("refused") => "refused",
            cut if cut.contains("; ") => "cut",
            passed if passed.ends_with(" received") => "passed",
            _ => "failed",
        };
        self.count("egress_connections", 1, &[("app", app), ("outcome", kind)]);
        // `[REASON; ]N bytes sent, N received`, as a passage words it.
        let numbers = outcome.rsplit("; ").next();
        let numbers = numbers.and_then(|it| it.strip_suffix(" received"));
        if let Some((sent, received)) = numbers.and_then(|it| it.split_once(" bytes sent, ")) {
            for (direction, bytes) in [("sent", sent), ("received", received)] {
                let of = [("app", app), ("direction", direction)];
                self.count("egress_bytes", bytes.parse().unwrap_or(0), &of);
            }
        }
    }

    fn count(&self, name: &str, by: u64, of: &[Label<'_>]) {
        if let Some(family) = self.counters.get(name) {
            family.get_or_create(&labels(of)).inc_by(by);
        }
    }

    fn set(&self, name: &str, to: usize, of: &[Label<'_>]) {
        if let Some(family) = self.gauges.get(name) {
            let to = i64::try_from(to).unwrap_or(i64::MAX);
            family.get_or_create(&labels(of)).set(to);
        }
    }

    fn time(&self, name: &str, time: Duration, of: &[Label<'_>]) {
        if let Some(family) = self.times.get(name) {
            family
                .get_or_create(&labels(of))
                .observe(time.as_secs_f64());
        }
    }
}

/// A request that is being answered. It is over when this is dropped: with the last byte, or with its client.
pub(crate) struct MeasuredRequest {
    metrics: Arc<Metrics>,
    front: &'static str,
    dialect: &'static str,
    begun: Instant,
}

impl MeasuredRequest {
    /// It was answered so.
    pub(crate) fn answered(&self, response: &Response, sender: &Sender) {
        let (front, dialect, status) = (self.front, self.dialect, response.status().as_u16());
        let (token, tenant) = (sender.token.as_deref(), sender.tenant.as_deref());
        if status >= 400 {
            let seconds = self.begun.elapsed().as_secs_f64();
            let reason = response.extensions().get().map(|Reason(words)| *words);
            info!(
                front,
                dialect, token, tenant, status, seconds, reason, "request refused"
            );
        }
        if status == 401 || status == 403 && front == "desk" {
            self.metrics.login_denied(front);
        }
        let (front, dialect) = (("front", front), ("dialect", dialect));
        let (status, tenant) = (status.to_string(), tenant.unwrap_or_default());
        let (status, tenant) = (("status", &*status), ("tenant", tenant));
        let of = [front, dialect, status, tenant];
        self.metrics.count("requests", 1, &of);
    }
}

impl Drop for MeasuredRequest {
    fn drop(&mut self) {
        let of = [("front", self.front)];
        self.metrics.in_flight(self.front, -1);
        self.metrics
            .time("request_seconds", self.begun.elapsed(), &of);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl EventSink for Metrics {
    fn event(&self, at: &At<'_>, event: &Event) {
        if let Some(it) = self.names.decision(event) {
            return self.decision(at, it.outcome, it.rule, it.app, it.tool);
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
            Event::Rejected { .. } => self.decision(at, "rejected", "", "", "other"),
            Event::Replied { answer, from, .. } => {
                // An answer is the name of one of ours.
                let answer = if answer == UNANSWERED { "none" } else { answer };
                let from = from.as_deref().unwrap_or_default();
                self.count("answers", 1, &[("answer", answer), ("from", from)]);
            }
            Event::Screened {
                failure: Some(_), ..
            } => self.error("screening"),
            Event::CallFailed { .. } => self.error("call_failed"),
            Event::CallUnknown { .. } => self.error("call_unknown"),
            Event::MemoryFailed { .. } => self.error("memory"),
            Event::SpokeStarted { app, .. } => self.count("spoke_starts", 1, &[("app", app)]),
            // In a session they end with it.
            Event::SpokeEnded { app, .. } if at.front != "session" => {
                self.count("spoke_deaths", 1, &[("app", app)]);
            }
            Event::Egress { app, outcome, .. } => self.connected(app, outcome),
            Event::NameDenied { app, .. } => self.connected(app, "refused"),
            _ => {}
        }
    }

    fn ended(&self, _at: &At<'_>, outcome: Result<(), &str>, _time: Duration) {
        // A refusal is a decision, and no failure.
        if let Err(kind) = outcome
            && kind != "refused"
        {
            self.error(kind);
        }
    }

    fn took(&self, work: Work, time: Duration) {
        let name = match work {
            Work::Check => "check_seconds",
            Work::Screening => "screening_seconds",
        };
        self.time(name, time, &[]);
    }
}

fn labels(of: &[Label<'_>]) -> Labels {
    of.iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}
