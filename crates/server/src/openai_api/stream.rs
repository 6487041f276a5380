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

/// An item of a streamed answer.
pub(crate) enum StreamItem {
    /// A piece.
    Chunk(Value),
    /// The answer is complete.
    Done,
    /// There is no answer, or no rest of it.
    Failed(ApiError),
}

/// The sending side of a streamed answer. Unbounded, but an answer is bounded by its tokens.
#[derive(Clone)]
pub(crate) struct StreamSender(mpsc::UnboundedSender<StreamItem>);

impl StreamSender {
    /// Nobody listens any more only when the task is about to be stopped.
    pub(crate) fn send(&self, item: StreamItem) {
        let _ = self.0.send(item);
    }
}

/// Runs `answer` and streams what it sends, after the chunks of `start`. It is stopped when the
/// client goes.
pub(crate) async fn stream<F>(
    start: Vec<Value>,
    answer: impl FnOnce(StreamSender) -> F,
) -> Result<Response, ApiError>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, mut items) = mpsc::unbounded_channel();
    // Held before the first wait: dropping it stops the answer when the client goes.
    let task = AbortOnDrop(tokio::spawn(answer(StreamSender(sender))));
    let first = tokio::time::timeout(STATUS_WAIT, items.recv()).await;
    let mut ready: Vec<Event> = start.iter().map(data).collect();
    let mut ended = false;
    match first {
        Ok(Some(StreamItem::Failed(error))) => return Err(error),
        Ok(Some(first)) => ready.push(event(&first, &mut ended)),
        Ok(None) => return Err(stopped()),
        // Nothing yet. The status goes out now, and an error after it is an event.
        Err(_) => {}
    }
    let events = Events {
        ready: ready.into_iter(),
        items,
        ended,
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

fn data(value: &Value) -> Event {
    Event::default().data(value.to_string())
}

fn event(item: &StreamItem, ended: &mut bool) -> Event {
    match item {
        StreamItem::Chunk(value) => data(value),
        StreamItem::Done => {
            *ended = true;
            Event::default().data("[DONE]")
        }
        StreamItem::Failed(error) => {
            *ended = true;
            data(&error.body())
        }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The events of one streamed answer.
struct Events {
    ready: std::vec::IntoIter<Event>,
    items: mpsc::UnboundedReceiver<StreamItem>,
    ended: bool,
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
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(item)) => {
                let mut ended = false;
                let event = event(&item, &mut ended);
                self.ended = ended;
                Poll::Ready(Some(Ok(event)))
            }
        }
    }
}
