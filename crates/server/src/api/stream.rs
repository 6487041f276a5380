//! An answer as server-sent events.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::response::{IntoResponse, Response, Sse, sse::Event};
use futures_core::Stream;
use hub::Usage;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::{Dialect, answer::Choice, error::ApiError, frame::Frame};

/// How long a stream may be silent before it shows that it is alive, and how long one waits for its first piece before its
/// HTTP status is sent: errors within that get their own status, later ones are an event. Agents wait for 60 s to 300 s.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// What happens to an answer.
pub(crate) enum StreamItem {
    Text(String),
    Done(Choice, Usage),
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

/// Runs `run` and streams what it sends, as `answer` writes it. It is stopped when the client goes.
pub(crate) async fn stream<D: Dialect, F>(
    mut answer: D,
    silence: Duration,
    run: impl FnOnce(StreamSender) -> F,
) -> Result<Response, ApiError>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, mut items) = mpsc::unbounded_channel();
    // Held before the first wait: dropping it stops the answer when the client goes.
    let task = AbortOnDrop(tokio::spawn(run(StreamSender(sender))));
    let first = match timeout(silence, items.recv()).await {
        Ok(Some(StreamItem::Failed(error))) => return Err(error),
        Ok(Some(item)) => Some(item),
        Ok(None) => return Err(stopped()),
        // Nothing yet. The status goes out now, and an error after it is an event.
        Err(_) => None,
    };
    let mut events = Events {
        ready: answer.start().into(),
        answer,
        items,
        has_ended: false,
        silence,
        alive: Box::pin(sleep(silence)),
        _task: task,
    };
    if let Some(item) = first {
        events.add(item);
    }
    Ok(Sse::new(events).into_response())
}

fn stopped() -> ApiError {
    let status = axum::http::StatusCode::SERVICE_UNAVAILABLE;
    ApiError::new(status, "the answer was stopped; try again")
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Events<D> {
    answer: D,
    ready: VecDeque<Frame>,
    items: mpsc::UnboundedReceiver<StreamItem>,
    has_ended: bool,
    silence: Duration,
    /// When the stream was silent for long enough.
    alive: Pin<Box<Sleep>>,
    _task: AbortOnDrop,
}

impl<D: Dialect> Events<D> {
    fn add(&mut self, item: StreamItem) {
        let answer = &mut self.answer;
        self.ready.extend(match &item {
            StreamItem::Text(piece) => answer.text(piece),
            StreamItem::Done(choice, usage) => answer.end(choice, usage),
            StreamItem::Failed(error) => answer.failed(error),
        });
        self.has_ended |= !matches!(item, StreamItem::Text(_));
    }
}

impl<D: Dialect> Stream for Events<D> {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let events = &mut *self;
        loop {
            if let Some(frame) = events.ready.pop_front() {
                let until = Instant::now() + events.silence;
                events.alive.as_mut().reset(until);
                return Poll::Ready(Some(Ok(frame.event())));
            }
            if events.has_ended {
                return Poll::Ready(None);
            }
            match events.items.poll_recv(context) {
                Poll::Ready(Some(item)) => events.add(item),
                // Its task ended without a word.
                Poll::Ready(None) => events.add(StreamItem::Failed(stopped())),
                Poll::Pending => {
                    ready!(events.alive.as_mut().poll(context));
                    events.ready = events.answer.alive().into();
                }
            }
        }
    }
}
