//! The threads that serve connections, each with a runtime of its own.

use std::{
    io,
    sync::Arc,
    thread::{self, available_parallelism},
};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// One thread for each processor, until it is dropped. A connection stays with the thread that it was given to, and so
/// does what is asked of an upstream for it. Threads that share a runtime take each other's work, for which they wake
/// each other several times a request.
#[derive(Debug)]
pub(super) struct Threads(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    /// Held by each connection of this thread.
    connection: Arc<()>,
    /// The thread ends with it.
    _end: oneshot::Sender<()>,
}

/// A connection's place on a thread, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) runtime: Handle,
    _connection: Arc<()>,
}

impl Threads {
    /// Starts them.
    ///
    /// # Errors
    /// The system has no more threads or descriptors.
    pub(super) fn start() -> io::Result<Self> {
        let count = available_parallelism().map_or(1, usize::from);
        (0..count)
            .map(|_| Worker::start())
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// A place on the thread with the fewest connections.
    pub(super) fn place(&self) -> Option<Place> {
        let connections = |worker: &&Worker| Arc::strong_count(&worker.connection);
        let worker = self.0.iter().min_by_key(connections)?;
        Some(Place {
            runtime: worker.runtime.clone(),
            _connection: worker.connection.clone(),
        })
    }
}

impl Worker {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        thread::Builder::new()
            .name("sluice-http".to_owned())
            .spawn(move || {
                // Never sent: it is dropped.
                let _: Result<(), _> = runtime.block_on(ended);
                // Does not wait for a screening that is still at work.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            runtime: handle,
            connection: Arc::new(()),
            _end: end,
        })
    }
}
