//! The trace of all conversations, which one thread writes.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use hub::trace::Event;
use tokio::sync::oneshot;

use super::observer::Observer;
use crate::api::error::ApiError;
use crate::trace_file::TraceFile;

/// Takes what conversations record, in order, and writes it down: no conversation waits for the records of another one
/// before its own are needed.
pub(super) struct TraceWriter {
    /// Gone once it is dropped, which ends the thread.
    queue: Option<mpsc::Sender<Item>>,
    thread: Option<JoinHandle<()>>,
}

enum Item {
    Record(String, Box<Event>),
    /// Answered when everything before it is written, or with the reason why the trace has ended.
    Written(oneshot::Sender<Result<(), String>>),
}

impl TraceWriter {
    /// # Errors
    /// The system has no more threads.
    pub(super) fn start(trace: TraceFile, observer: Arc<dyn Observer>) -> io::Result<Self> {
        let (queue, items) = mpsc::channel();
        let thread = thread::Builder::new().name("sluice-trace".to_owned());
        let thread = thread.spawn(move || write(trace, &items, &*observer))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Takes an event down. Nothing that follows from it may be done before [`TraceWriter::written`].
    pub(super) fn record(&self, conversation: &str, event: Event) {
        if let Some(queue) = &self.queue {
            // Without its thread nothing is ever written, which `written` says.
            let _ = queue.send(Item::Record(conversation.to_owned(), Box::new(event)));
        }
    }

    /// Waits until everything that was recorded so far is written.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) async fn written(&self) -> Result<(), ApiError> {
        let (reply, written) = oneshot::channel();
        let queue = self.queue.as_ref();
        let sent = queue.is_some_and(|queue| queue.send(Item::Written(reply)).is_ok());
        match (sent, written.await) {
            (true, Ok(written)) => written.map_err(ApiError::internal),
            _ => Err(ApiError::internal("the trace is not written any more")),
        }
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // What was recorded last is on disk before the program ends.
            let _ = thread.join();
        }
    }
}

/// Writes until the queue is closed. Records behind a line that was cut could not be read, and a gap would say that
/// nothing happened: after the first failure nothing is written, and so nothing is done.
fn write(mut trace: TraceFile, items: &mpsc::Receiver<Item>, observer: &dyn Observer) {
    let mut state = Ok(());
    for item in items {
        match item {
            Item::Record(conversation, event) if state.is_ok() => {
                if let Err(error) = trace.append_to(Some(&conversation), *event) {
                    let reason = format!("{error}, and start the proxy again");
                    observer.failed(&reason);
                    state = Err(reason);
                }
            }
            Item::Record(..) => {}
            // A conversation that was given up waits no more.
            Item::Written(reply) => drop(reply.send(state.clone())),
        }
    }
}
