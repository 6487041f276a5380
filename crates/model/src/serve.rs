//! The socket to `sluice`: commands in, events out.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

use model_files::protocol::{self, Command, Event, Request};

use crate::engine::{self, Config};

/// llama.cpp recurses while it parses grammars and templates of tokens.
const STACK_BYTES: usize = 64 << 20;

/// A completion in the queue.
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) request: Request,
    pub(crate) received: Instant,
}

/// What the engine's thread shares with the one that reads the socket.
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
    /// Whether nobody waits for this completion any more.
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

    /// Forgets a completion that has ended.
    pub(crate) fn forget(&self, id: u64) {
        self.state().cancelled.remove(&id);
    }

    fn close(&self) {
        self.state().is_closed = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Loads the model and serves completions until the socket closes.
///
/// # Errors
/// The socket breaks, what comes over it is no command, or there is no thread for the model.
pub(crate) fn serve(socket: UnixStream, config: Config) -> io::Result<()> {
    let link = Arc::new(Link {
        socket: socket.try_clone()?,
        state: Mutex::default(),
    });
    let (jobs, queue) = mpsc::channel();
    let shared = Arc::clone(&link);
    let engine = thread::Builder::new()
        .name("model".into())
        .stack_size(STACK_BYTES)
        .spawn(move || engine::run(&config, &shared, &queue))?;
    let result = loop {
        match protocol::read(&socket) {
            Ok(Command::Complete { id, request }) => {
                let received = Instant::now();
                // Without the engine nothing is answered, and it has said why.
                let _ = jobs.send(Job {
                    id,
                    request,
                    received,
                });
            }
            Ok(Command::Cancel { id }) => {
                link.state().cancelled.insert(id);
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    link.close();
    drop(jobs);
    // It ends at its next token, and llama.cpp frees what it holds.
    let _ = engine.join();
    result
}
