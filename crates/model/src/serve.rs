//! The socket to `sluice`: commands in, events out.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use model_files::protocol::{self, Command};

use crate::engine::{self, Config};
use crate::link::{Job, Link};

/// llama.cpp recurses while it parses grammars and templates of tokens.
const STACK_BYTES: usize = 64 << 20;

/// Loads the model and serves completions until the socket closes.
pub(crate) fn serve(socket: UnixStream, config: Config) -> io::Result<()> {
    let link = Arc::new(Link::new(socket.try_clone()?));
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
                link.cancel(id);
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
