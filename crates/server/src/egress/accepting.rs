//! Taking connections from inside a spoke's network.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long to wait after an error that may pass, as when the hub has no descriptor left.
pub(super) const RETRY: Duration = Duration::from_millis(50);

/// The next connection. Until the hub has a descriptor for it, nothing gets out.
pub(super) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((inside, _)) => return inside,
            Err(_) => sleep(RETRY).await,
        }
    }
}

/// Accepts connections until it is dropped. Those that `handle` takes run side by side, as many as there are places.
pub(super) async fn accept_all<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    places: Arc<Semaphore>,
    full: impl Fn(),
    handle: impl Fn(TcpStream) -> Option<F>,
) {
    let mut connections = JoinSet::new();
    loop {
        let inside = accept(&listener).await;
        // A `JoinSet` keeps what has finished until it is taken out, and this loop never ends.
        while connections.try_join_next().is_some() {}
        // Not queued: each connection that waits would hold a descriptor of the hub's.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            full();
            continue;
        };
        if let Some(handling) = handle(inside) {
            connections.spawn(async move {
                handling.await;
                drop(place);
            });
        }
    }
}
