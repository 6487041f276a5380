//! Taking connections from inside a spoke's network.

use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
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
