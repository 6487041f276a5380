//! The only way out of a spoke: listeners inside its network, relayed to configured places.
//!
//! The sandbox gives the hub a listening socket that lives in the spoke's own network namespace.
//! Whatever connects there is joined with a connection that the hub makes to the configured
//! destination. The spoke cannot choose where a connection goes: it chooses a port, the user's
//! configuration chooses the destination.

use std::io;
use std::net::TcpListener as StdListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use hub::trace::Event;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

/// One relayed port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// The port on the spoke's own 127.0.0.1.
    pub listen: u16,
    /// Where the hub connects: `host:port`.
    pub to: String,
}

/// Connections of one spoke at a time; a mail app needs one.
const CONNECTIONS: usize = 16;
/// How long a destination may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long one connection may live. A spoke ends with its session; this bounds a forgotten one.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(600);

/// Relays every listener until the returned set is dropped. Outcomes go to `events`.
pub(crate) fn relay(
    app: &str,
    listeners: Vec<(u16, OwnedFd)>,
    egress: &[Egress],
    events: &mpsc::Sender<Event>,
) -> io::Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    for (port, listener) in listeners {
        // A listener that nobody configured leads nowhere: it is dropped, and refuses.
        let Some(Egress { to, .. }) = egress.iter().find(|egress| egress.listen == port) else {
            continue;
        };
        let listener = StdListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        tasks.spawn(accept(listener, app.to_owned(), to.clone(), events.clone()));
    }
    Ok(tasks)
}

async fn accept(listener: TcpListener, app: String, to: String, events: mpsc::Sender<Event>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok((inside, _)) = listener.accept().await else {
            // The spoke's network is gone, or the hub has no descriptors left: either way closed.
            return;
        };
        while connections.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            report(
                &events,
                &app,
                &to,
                "refused: too many connections".to_owned(),
            );
            continue;
        };
        let (app, to, events) = (app.clone(), to.clone(), events.clone());
        connections.spawn(async move {
            let outcome = join(inside, &to).await;
            report(&events, &app, &to, outcome);
            drop(place);
        });
    }
}

/// Joins the spoke's end with a fresh connection; says what became of it.
async fn join(mut inside: TcpStream, to: &str) -> String {
    let mut outside = match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(to)).await {
        Err(_) => return format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()),
        Ok(Err(error)) => return format!("no connection: {error}"),
        Ok(Ok(outside)) => outside,
    };
    let relayed = tokio::io::copy_bidirectional(&mut inside, &mut outside);
    match tokio::time::timeout(CONNECTION_LIFETIME, relayed).await {
        Err(_) => format!("cut off after {} s", CONNECTION_LIFETIME.as_secs()),
        Ok(Err(error)) => format!("broken: {error}"),
        Ok(Ok((sent, received))) => format!("{sent} bytes sent, {received} received"),
    }
}

fn report(events: &mpsc::Sender<Event>, app: &str, to: &str, outcome: String) {
    // A spoke that connects faster than the hub writes loses entries, not the hub its memory.
    let _ = events.try_send(Event::Egress {
        app: app.to_owned(),
        to: to.to_owned(),
        outcome,
    });
}
