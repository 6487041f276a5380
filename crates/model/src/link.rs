//! What the engine's thread shares with the one that reads the socket.

use std::collections::HashSet;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use model_files::protocol::{self, Event, Request};

pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) request: Request,
    pub(crate) received: Instant,
}

pub(crate) struct Link {
    socket: UnixStream,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    cancelled: HashSet<u64>,
}

impl Link {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            state: Mutex::default(),
        }
    }

    pub(crate) fn is_cancelled(&self, id: u64) -> bool {
        let state = self.state();
        state.is_closed || state.cancelled.contains(&id)
    }

    /// Sends an event. If `sluice` does not take it, nothing more is wanted.
    pub(crate) fn send(&self, event: &Event) {
        let sent = protocol::encode(event).and_then(|frame| (&self.socket).write_all(&frame));
        if sent.is_err() {
            self.close();
        }
    }

    pub(crate) fn cancel(&self, id: u64) {
        self.state().cancelled.insert(id);
    }

    /// Forgets a completion that has ended.
    pub(crate) fn forget(&self, id: u64) {
        self.state().cancelled.remove(&id);
    }

    pub(crate) fn close(&self) {
        self.state().is_closed = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
