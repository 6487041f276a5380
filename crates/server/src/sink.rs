//! What watches every front: metrics, spans and the audit log.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hub::trace::Event;

/// Ends what a trace says of a call which another front has decided on, and left the permit.
pub const REDEEMED: &str = ", by another front";

tokio::task_local! {
    /// The number of the request that this task works on.
    static REQUEST: u64;
    /// Whose token the request of HTTP has that this task answers, once it is known.
    static SENDER: Arc<OnceLock<Sender>>;
}

static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// Where an event happened.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// `proxy`, `gateway` or `session`.
    pub front: &'static str,
    /// The name of the tenant, where tokens have one.
    pub tenant: Option<&'a str>,
    /// The name of the conversation, as in traces.
    pub conversation: &'a str,
    /// The user of the request, where the front names one, or else the name of the agent's token.
    pub asker: Option<&'a str>,
    /// The request: a number that this process uses once; 0 outside of a request.
    pub request: u64,
}

impl<'a> At<'a> {
    /// The place of the request that the present task works on.
    pub fn new(front: &'static str, conversation: &'a str) -> Self {
        Self {
            front,
            tenant: None,
            conversation,
            asker: None,
            request: REQUEST.try_with(|number| *number).unwrap_or_default(),
        }
    }
}

/// A request that begins: one of an agent to the proxy, or one of an MCP client to the gateway.
#[derive(Debug, Clone, Copy)]
pub struct Began<'a> {
    /// `chat` for a request of an agent; otherwise the method of MCP.
    pub method: &'a str,
    /// The tool of a call, by the gateway's list.
    pub tool: Option<&'a str>,
    /// The model that is asked for, if it is known to be a name of the upstream's.
    pub model: Option<&'a str>,
    /// The span that the client names as its own.
    pub parent: Option<TraceContext>,
}

/// What time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Decisions on the calls of a step, and making the prompt of the next one.
    Check,
    /// A dependency screening, with the model that it asks.
    Screening,
}

/// Watches what happens. It decides nothing, and may refuse that anything is done by [`EventSink::written`].
#[async_trait]
pub trait EventSink: Send + Sync {
    /// One event. Must return quickly: the conversation waits.
    fn event(&self, at: &At<'_>, event: &Event);

    /// A request begins.
    fn began(&self, _at: &At<'_>, _request: &Began<'_>) {}

    /// A request is over, after this time. An error has a word of a fixed list, such as a status of HTTP.
    fn ended(&self, _at: &At<'_>, _outcome: Result<(), &str>, _time: Duration) {}

    /// Time was spent.
    fn took(&self, _work: Work, _time: Duration) {}

    /// The span of the request, which the upstream's spans belong to.
    fn context(&self, _request: u64) -> Option<TraceContext> {
        None
    }

    /// The same, if apps may know it.
    fn context_for_apps(&self, _request: u64) -> Option<TraceContext> {
        None
    }

    /// Waits until all events so far are kept. What cannot be kept must not be done.
    ///
    /// # Errors
    /// Why they cannot be kept.
    async fn written(&self) -> Result<(), String> {
        Ok(())
    }
}

/// The token of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sender {
    pub(crate) token: Option<String>,
    pub(crate) tenant: Option<String>,
}

/// Answers a request of HTTP. Returns whose token it has, too.
pub(crate) async fn with_sender<T>(work: impl Future<Output = T>) -> (Sender, T) {
    let found = Arc::<OnceLock<Sender>>::default();
    let done = SENDER.scope(Arc::clone(&found), work).await;
    (found.get().cloned().unwrap_or_default(), done)
}

/// The request has the token of this name, which is this tenant's.
pub(crate) fn set_sender(token: &str, tenant: Option<&str>) {
    let (token, tenant) = (Some(token.to_owned()), tenant.map(str::to_owned));
    // Outside of a service no one asks.
    let _ = SENDER.try_with(|found| found.set(Sender { token, tenant }));
}

/// All sinks of a process.
#[derive(Clone, Default)]
pub struct Sinks(Arc<[Arc<dyn EventSink>]>);

impl Sinks {
    /// These sinks, which get each event in this order.
    pub fn new(sinks: Vec<Arc<dyn EventSink>>) -> Self {
        Self(sinks.into())
    }

    /// Whether nothing watches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Shows an event to all.
    pub fn event(&self, at: &At<'_>, event: &Event) {
        self.0.iter().for_each(|sink| sink.event(at, event));
    }

    /// Waits until all have kept what they were shown.
    ///
    /// # Errors
    /// Why one of them cannot.
    pub async fn written(&self) -> Result<(), String> {
        for sink in self.0.iter() {
            sink.written().await?;
        }
        Ok(())
    }

    /// Says how long something took that began then.
    pub(crate) fn took(&self, work: Work, begun: Instant) {
        let time = begun.elapsed();
        self.0.iter().for_each(|sink| sink.took(work, time));
    }

    /// The span of the request that this task works on, if apps may know it.
    pub(crate) fn for_apps(&self) -> Option<TraceContext> {
        let request = REQUEST.try_with(|number| *number).ok()?;
        self.0
            .iter()
            .find_map(|sink| sink.context_for_apps(request))
    }

    /// Shows a request to all from its begin to its end. Without sinks nothing is counted.
    pub(crate) fn begin(&self, mut at: At<'_>, began: &Began<'_>) -> Watched {
        if !self.is_empty() {
            at.request = REQUESTS.fetch_add(1, Ordering::Relaxed) + 1;
            self.0.iter().for_each(|sink| sink.began(&at, began));
        }
        let context = || self.0.iter().find_map(|sink| sink.context(at.request));
        Watched {
            context: context().or(began.parent),
            sinks: self.clone(),
            front: at.front,
            tenant: at.tenant.map(str::to_owned),
            conversation: at.conversation.to_owned(),
            asker: at.asker.map(str::to_owned),
            request: at.request,
            begun: Instant::now(),
            // What says nothing more was given up: its client is gone.
            outcome: Err("cancelled".to_owned()),
        }
    }
}

/// A request that is shown to the sinks. It is over when this is dropped.
pub(crate) struct Watched {
    sinks: Sinks,
    front: &'static str,
    tenant: Option<String>,
    conversation: String,
    asker: Option<String>,
    request: u64,
    begun: Instant,
    outcome: Result<(), String>,
    /// What the request's own requests name as their parent: our span, or else that of the client.
    pub(crate) context: Option<TraceContext>,
}

impl Watched {
    /// The work on the request.
    pub(crate) fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        REQUEST.scope(self.request, work)
    }

    /// Where its events happen.
    pub(crate) fn at(&self) -> At<'_> {
        At {
            front: self.front,
            tenant: self.tenant.as_deref(),
            conversation: &self.conversation,
            asker: self.asker.as_deref(),
            request: self.request,
        }
    }

    /// How it ended.
    pub(crate) fn end(&mut self, outcome: Result<(), String>) {
        self.outcome = outcome;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let at = self.at();
        let outcome = self.outcome.as_ref().map(|&()| ()).map_err(String::as_str);
        let sinks = self.sinks.0.iter();
        sinks.for_each(|sink| sink.ended(&at, outcome, self.begun.elapsed()));
    }
}

/// A span by its numbers, as `traceparent` names it (W3C Trace Context, version 00). A client chooses them freely, so they
/// are labelled like other text of its. What else it may say of a trace (`tracestate`) is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace. Never 0.
    pub trace: u128,
    /// The span. Never 0.
    pub span: u64,
    /// Whether the trace is recorded.
    pub sampled: bool,
}

impl TraceContext {
    /// Reads the value of a header. Anything that is not exactly of the form is none.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let mut hex = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let is_lower_hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            let part = Some(part).filter(|part| part.bytes().all(is_lower_hex))?;
            u128::from_str_radix(part, 16).ok()
        };
        let version = hex(2)?;
        let context = Self {
            trace: hex(32)?,
            span: u64::try_from(hex(16)?).ok()?,
            sampled: hex(2)? & 1 == 1,
        };
        let is_over = parts.next().is_none();
        (version == 0 && is_over && context.trace != 0 && context.span != 0).then_some(context)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trace,
            span,
            sampled,
        } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(*sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_has_one_form() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(TraceContext::parse(good).unwrap().to_string(), good);
        for bad in [
            "",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-secret",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
        // Flags that we do not know are not passed on.
        let odd = TraceContext::parse(&good.replace("-01", "-fe")).unwrap();
        assert!(!odd.sampled && odd.to_string().ends_with("-00"));
    }
}
