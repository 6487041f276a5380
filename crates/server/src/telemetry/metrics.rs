//! Metrics for Prometheus.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hub::trace::{Event, Flow, UNANSWERED, Usage};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

use super::names::PolicyNames;
use crate::sink::{At, EventSink, Work};

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge>;
type Seconds = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics of a process. It is a sink of all fronts; what is no event of a front is counted by its methods.
pub struct Metrics {
    registry: Registry,
    names: Arc<PolicyNames>,
    requests: Counters,
    in_flight: Gauges,
    request_seconds: Seconds,
    model_calls: Counters,
    model_seconds: Seconds,
    tokens: Counters,
    decisions: Counters,
    answers: Counters,
    waiting: Gauges,
    oldest: Gauges,
    check_seconds: Seconds,
    screening_seconds: Seconds,
    spokes: Gauge,
    spoke_starts: Counters,
    spoke_ends: Counters,
    connections: Counters,
    connection_bytes: Counters,
    store_seconds: Seconds,
    store_errors: Counters,
    reloads: Counters,
    denied_logins: Counters,
    spans_lost: Counter,
    errors: Counters,
}

impl Metrics {
    /// Metrics at zero. Tools that are not in `names` are called `other`.
    pub fn new(names: Arc<PolicyNames>) -> Self {
        let mut registry = Registry::with_prefix("sluice");
        let to = &mut registry;
        let version = ("version".into(), env!("CARGO_PKG_VERSION").into());
        let build = to.sub_registry_with_labels([version].into_iter());
        let info: Gauge = add(build, "build_info", "1, with the version of the program");
        info.set(1);
        // From 5 ms to 41 s: a request waits for its model, and may wait for a person.
        let request: fn() -> Histogram = || Histogram::new(exponential_buckets(0.005, 2.0, 14));
        let model: fn() -> Histogram = || Histogram::new(exponential_buckets(0.05, 2.0, 12));
        // From 10 µs to 2.6 s: rules take microseconds, a model that screens takes seconds.
        let check: fn() -> Histogram = || Histogram::new(exponential_buckets(0.00001, 4.0, 10));
        let store: fn() -> Histogram = || Histogram::new(exponential_buckets(0.00025, 2.0, 14));
        Self {
            requests: add(
                to,
                "requests",
                "Requests that were answered, by the status of HTTP",
            ),
            in_flight: add(to, "requests_in_flight", "Requests that are being answered"),
            request_seconds: timed(
                to,
                "request_seconds",
                "From a request to the end of its answer",
                request,
            ),
            model_calls: add(to, "model_calls", "Completions by a language model"),
            model_seconds: timed(to, "model_call_seconds", "Time of a completion", model),
            tokens: add(
                to,
                "tokens",
                "Tokens that went to models (`prompt`, of these `cached`) and came from them (`completion`)",
            ),
            decisions: add(to, "decisions", "Decisions on calls, messages and answers"),
            answers: add(
                to,
                "answers",
                "Questions that were answered, or not in time (`none`)",
            ),
            waiting: add(
                to,
                "questions_waiting",
                "Questions that wait for an answer, of all replicas",
            ),
            oldest: add(
                to,
                "questions_oldest_seconds",
                "How long the oldest question has waited",
            ),
            check_seconds: timed(
                to,
                "check_seconds",
                "Time of a decision with the making of its prompt",
                check,
            ),
            screening_seconds: timed(
                to,
                "screening_seconds",
                "Time of a dependency screening",
                check,
            ),
            spokes: add(to, "spokes", "Apps that run"),
            spoke_starts: add(to, "spoke_starts", "Starts of apps"),
            spoke_ends: add(
                to,
                "spoke_deaths",
                "Apps that ended by themselves or did not start",
            ),
            connections: add(to, "egress_connections", "Connections of apps"),
            connection_bytes: add(to, "egress_bytes", "Bytes that apps sent and received"),
            store_seconds: timed(
                to,
                "store_seconds",
                "Time of an operation of the store",
                store,
            ),
            store_errors: add(to, "store_errors", "Operations of the store that failed"),
            reloads: add(
                to,
                "reloads",
                "Configurations that were loaded (`ok`) or refused (`refused`)",
            ),
            denied_logins: add(
                to,
                "logins_denied",
                "Tokens and codes that were not accepted, at the proxy those of the upstream too",
            ),
            spans_lost: add(to, "spans_lost", "Spans that the collector did not take"),
            errors: add(
                to,
                "errors",
                "Failures: statuses of requests, and kinds of what went wrong in them",
            ),
            registry,
            names,
        }
    }

    /// The metrics in the text format of OpenMetrics.
    ///
    /// # Errors
    /// None is known: the text is in memory.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        self.spokes.set(whole(crate::spoke::running()));
        let mut text = String::new();
        encode(&mut text, &self.registry).map(|()| text)
    }

    /// The questions that wait in the store and the age of the oldest; `None` if the store does not say.
    pub fn set_waiting(&self, waiting: Option<(usize, Duration)>) {
        let Some((count, oldest)) = waiting else {
            // No number is better than an old one.
            self.waiting.clear();
            self.oldest.clear();
            self.error("desk");
            return;
        };
        self.waiting.get_or_create(&Labels::new()).set(whole(count));
        let seconds = i64::try_from(oldest.as_secs()).unwrap_or(i64::MAX);
        self.oldest.get_or_create(&Labels::new()).set(seconds);
    }

    /// An operation of the store, and whether it succeeded.
    pub fn store(&self, operation: &'static str, time: Duration, is_ok: bool) {
        let labels = labels(&[("operation", operation)]);
        self.store_seconds
            .get_or_create(&labels)
            .observe(time.as_secs_f64());
        if !is_ok {
            self.store_errors.get_or_create(&labels).inc();
        }
    }

    /// A configuration was loaded while the service ran, or was refused.
    pub fn reload(&self, is_ok: bool) {
        let outcome = if is_ok { "ok" } else { "refused" };
        self.reloads
            .get_or_create(&labels(&[("outcome", outcome)]))
            .inc();
    }

    /// A token or a code was not accepted at this front.
    pub fn login_denied(&self, front: &'static str) {
        self.denied_logins
            .get_or_create(&labels(&[("front", front)]))
            .inc();
    }

    /// Spans that the collector did not take.
    pub fn spans_lost(&self, count: usize) {
        self.spans_lost
            .inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Something failed, by a word of a fixed list.
    pub fn error(&self, kind: &str) {
        self.errors.get_or_create(&labels(&[("kind", kind)])).inc();
    }

    pub(super) fn request_begins(&self, front: &'static str) {
        self.in_flight
            .get_or_create(&labels(&[("front", front)]))
            .inc();
    }

    pub(super) fn request_ends(&self, front: &'static str, time: Duration) {
        let labels = labels(&[("front", front)]);
        self.in_flight.get_or_create(&labels).dec();
        self.request_seconds
            .get_or_create(&labels)
            .observe(time.as_secs_f64());
    }

    pub(super) fn request_answered(&self, front: &'static str, dialect: &'static str, status: u16) {
        let status = status.to_string();
        let labels = [("front", front), ("dialect", dialect), ("status", &status)];
        self.requests.get_or_create(&self::labels(&labels)).inc();
        let is_denied = match status.as_str() {
            "401" => true,
            "403" => front == "desk",
            _ => false,
        };
        if is_denied {
            self.login_denied(front);
        }
    }

    fn completed(&self, at: &At<'_>, provider: &str, purpose: &str, usage: &Usage) {
        let tenant = at.tenant.unwrap_or_default();
        let of = [
            ("provider", provider),
            ("purpose", purpose),
            ("tenant", tenant),
        ];
        self.model_calls.get_or_create(&labels(&of)).inc();
        let seconds = Duration::from_millis(usage.total_ms).as_secs_f64();
        let provider_only = labels(&[("provider", provider)]);
        self.model_seconds
            .get_or_create(&provider_only)
            .observe(seconds);
        for (kind, count) in [
            ("prompt", usage.prompt_tokens),
            ("cached", usage.cached_tokens),
            ("completion", usage.completion_tokens),
        ] {
            let of = [("provider", provider), ("kind", kind), ("tenant", tenant)];
            self.tokens.get_or_create(&labels(&of)).inc_by(count.into());
        }
    }

    fn decided(&self, at: &At<'_>, flow: &Flow, outcome: &str, rule: &str) {
        let (app, tool) = match flow {
            Flow::Call(call) => (&*call.app, self.names.tool(&call.app, &call.tool)),
            Flow::Message(message) => (&*message.from, "message"),
            Flow::Answer { apps, .. } => (apps.first().map_or("", String::as_str), "answer"),
        };
        self.decisions
            .get_or_create(&labels(&[
                ("front", at.front),
                ("outcome", outcome),
                ("rule", rule),
                ("app", app),
                ("tool", tool),
            ]))
            .inc();
    }

    fn connected(&self, app: &str, outcome: &str) {
        let kind = match outcome {
            refused if refused.starts_with("refused") => "refused",
            cut if cut.contains("; ") => "cut",
            passed if passed.ends_with(" received") => "passed",
            _ => "failed",
        };
        self.connections
            .get_or_create(&labels(&[("app", app), ("outcome", kind)]))
            .inc();
        // `[REASON; ]N bytes sent, N received`, as a passage words it.
        let numbers = outcome
            .rsplit("; ")
            .next()
            .and_then(|it| it.strip_suffix(" received"));
        let Some((sent, received)) = numbers.and_then(|it| it.split_once(" bytes sent, ")) else {
            return;
        };
        for (direction, bytes) in [("sent", sent), ("received", received)] {
            let labels = labels(&[("app", app), ("direction", direction)]);
            self.connection_bytes
                .get_or_create(&labels)
                .inc_by(bytes.parse().unwrap_or(0));
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl EventSink for Metrics {
    fn event(&self, at: &At<'_>, event: &Event) {
        match event {
            Event::Completed {
                provider, usage, ..
            } => self.completed(at, provider, "step", usage),
            Event::Consulted {
                purpose,
                provider,
                usage,
            } => {
                self.completed(at, provider, purpose, usage);
            }
            Event::Allowed { flow, by, .. } => {
                // `policy RULE`; all other words say that the user has allowed it, and how.
                match by.strip_prefix("policy ") {
                    Some(rule) => {
                        let rule = rule.split_whitespace().next().unwrap_or_default();
                        self.decided(at, flow, "allowed", rule);
                    }
                    None => self.decided(at, flow, "allowed_by_user", ""),
                }
            }
            Event::Asked { flow, rule, .. } => self.decided(at, flow, "asked", rule),
            Event::Denied { flow, rule, .. } => {
                self.decided(at, flow, "denied", rule.as_deref().unwrap_or_default());
            }
            Event::Answered { flow, allowed, .. } => {
                let outcome = if *allowed {
                    "allowed_by_user"
                } else {
                    "refused_by_user"
                };
                self.decided(at, flow, outcome, "");
            }
            Event::Rejected { .. } => {
                let labels = [("front", at.front), ("outcome", "rejected"), ("rule", "")];
                let mut labels = labels.to_vec();
                labels.extend([("app", ""), ("tool", "other")]);
                self.decisions.get_or_create(&self::labels(&labels)).inc();
            }
            Event::Replied { answer, from, .. } => {
                // An answer is the name of one of ours.
                let answer = if answer == UNANSWERED { "none" } else { answer };
                let from = from.as_deref().unwrap_or_default();
                let labels = labels(&[("answer", answer), ("from", from)]);
                self.answers.get_or_create(&labels).inc();
            }
            Event::Screened {
                failure: Some(_), ..
            } => self.error("screening"),
            Event::CallFailed { .. } => self.error("call_failed"),
            Event::CallUnknown { .. } => self.error("call_unknown"),
            Event::MemoryFailed { .. } => self.error("memory"),
            Event::SpokeStarted { app, .. } => {
                self.spoke_starts
                    .get_or_create(&labels(&[("app", app)]))
                    .inc();
            }
            // In a session they end with it.
            Event::SpokeEnded { app, .. } if at.front != "session" => {
                self.spoke_ends
                    .get_or_create(&labels(&[("app", app)]))
                    .inc();
            }
            Event::Egress { app, outcome, .. } => self.connected(app, outcome),
            Event::NameDenied { app, .. } => self.connected(app, "refused"),
            _ => {}
        }
    }

    fn ended(&self, _at: &At<'_>, outcome: Result<(), &str>) {
        // A refusal is a decision, and no failure.
        if let Err(kind) = outcome
            && kind != "refused"
        {
            self.error(kind);
        }
    }

    fn took(&self, work: Work, time: Duration) {
        let to = match work {
            Work::Check => &self.check_seconds,
            Work::Screening => &self.screening_seconds,
        };
        to.get_or_create(&Labels::new()).observe(time.as_secs_f64());
    }
}

fn labels(of: &[(&'static str, &str)]) -> Labels {
    of.iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}

fn add<M: Metric + Clone + Default>(to: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    to.register(name, help, metric.clone());
    metric
}

fn timed(to: &mut Registry, name: &str, help: &str, new: fn() -> Histogram) -> Seconds {
    let metric = Seconds::new_with_constructor(new);
    to.register(name, help, metric.clone());
    metric
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
