//! An answer as server-sent events.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::response::{
    IntoResponse, Response, Sse,
    sse::{Event, KeepAlive},
};
use futures_core::Stream;
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinHandle};

use super::response::ApiError;

/// How long a streamed answer waits for its first piece before its HTTP status is sent. Errors
/// within it get their own status; later ones are an event.
const STATUS_WAIT: Duration = Duration::from_secs(10);
/// How often a silent stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// One event of a stream, as the client gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The kind of the event, where an API names it.
    pub(crate) event: Option<&'static str>,
    pub(crate) data: String,
}

impl Frame {
    pub(crate) fn data(value: &Value) -> Self {
        Self {
            event: None,
            data: value.to_string(),
        }
    }

    /// The last events of OpenAI's streams.
    pub(crate) fn last(chunks: &[Value]) -> Vec<Self> {
        let done = Self {
            event: None,
            data: "[DONE]".to_owned(),
        };
        chunks.iter().map(Self::data).chain([done]).collect()
    }
}

pub(crate) enum StreamItem {
    Frame(Frame),
    Done,
    /// There is no answer, or no rest of it.
    Failed(ApiError),
}

/// The sending side of a streamed answer. Unbounded, but an answer is bounded by its tokens.
#[derive(Clone)]
pub(crate) struct StreamSender(mpsc::UnboundedSender<StreamItem>);

impl StreamSender {
    /// The receiver is gone only when the task is about to be stopped.
    pub(crate) fn send(&self, item: StreamItem) {
        let _ = self.0.send(item);
    }
}

/// Runs `answer` and streams what it sends, after the frames of `start`; an error becomes one by `failed`. It is stopped
/// when the client goes.
pub(crate) async fn stream<F>(
    start: Vec<Frame>,
    failed: fn(&ApiError) -> Frame,
    answer: impl FnOnce(StreamSender) -> F,
) -> Result<Response, ApiError>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, mut items) = mpsc::unbounded_channel();
    // Held before the first wait: dropping it stops the answer when the client goes.
    let task = AbortOnDrop(tokio::spawn(answer(StreamSender(sender))));
    let first = tokio::time::timeout(STATUS_WAIT, items.recv()).await;
    let mut ready: Vec<Event> = start.into_iter().map(event).collect();
    let mut ended = false;
    match first {
        Ok(Some(StreamItem::Failed(error))) => return Err(error),
        Ok(Some(StreamItem::Frame(frame))) => ready.push(event(frame)),
        Ok(Some(StreamItem::Done)) => ended = true,
        Ok(None) => return Err(stopped()),
        // Nothing yet. The status goes out now, and an error after it is an event.
        Err(_) => {}
    }
    let events = Events {
        ready: ready.into_iter(),
        items,
        ended,
        failed,
        _task: task,
    };
    Ok(Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response())
}

fn stopped() -> ApiError {
    let status = axum::http::StatusCode::SERVICE_UNAVAILABLE;
    ApiError::new(status, "the answer was stopped; try again")
}

fn event(frame: Frame) -> Event {
    let event = Event::default().data(frame.data);
    match frame.event {
        Some(kind) => event.event(kind),
        None => event,
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Events {
    ready: std::vec::IntoIter<Event>,
    items: mpsc::UnboundedReceiver<StreamItem>,
    ended: bool,
    failed: fn(&ApiError) -> Frame,
    _task: AbortOnDrop,
}

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(event) = self.ready.next() {
            return Poll::Ready(Some(Ok(event)));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        match self.items.poll_recv(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None | Some(StreamItem::Done)) => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Ready(Some(StreamItem::Failed(error))) => {
                self.ended = true;
                Poll::Ready(Some(Ok(event((self.failed)(&error)))))
            }
            Poll::Ready(Some(StreamItem::Frame(frame))) => Poll::Ready(Some(Ok(event(frame)))),
        }
    }
}
