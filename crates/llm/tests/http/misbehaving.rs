//! A real TCP server that answers as it is told, however wrong that is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use test_support::Request;

/// What to do with one request.
#[derive(Clone)]
pub(crate) enum Reply {
    /// These bytes, in pieces of this size, then the end of the connection.
    Bytes(Vec<u8>, usize),
    /// These bytes, then silence.
    Hang(Vec<u8>),
    /// Nothing.
    Close,
}

impl Reply {
    pub(crate) fn stream(events: &str) -> Self {
        Self::bytes(events.as_bytes())
    }

    pub(crate) fn stream_in(events: &str, size: usize) -> Self {
        Self::Bytes(stream_head(events.as_bytes()), size)
    }

    pub(crate) fn bytes(events: &[u8]) -> Self {
        Self::Bytes(stream_head(events), usize::MAX)
    }

    /// Promises more than it sends.
    pub(crate) fn cut(events: &str) -> Self {
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100000\r\n\r\n";
        Self::Bytes([head, events].concat().into_bytes(), usize::MAX)
    }

    pub(crate) fn hang_after(events: &str) -> Self {
        Self::Hang(stream_head(events.as_bytes()))
    }

    pub(crate) fn json(status: u16, headers: &str, body: &Value) -> Self {
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n",
            body.len()
        );
        Self::Bytes((head + &body).into_bytes(), usize::MAX)
    }
}

fn stream_head(events: &[u8]) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    [head.as_bytes(), events].concat()
}

pub(crate) struct Server {
    pub(crate) base_url: String,
    server: test_support::Server,
    closed: Arc<AtomicBool>,
}

impl Server {
    /// Gives one reply to each connection; later ones are closed.
    pub(crate) fn start(replies: Vec<Reply>) -> Self {
        let replies = Mutex::new(replies.into_iter());
        let closed = Arc::new(AtomicBool::new(false));
        let is_closed = Arc::clone(&closed);
        let server = test_support::Server::start(move |_| {
            let reply = replies.lock().unwrap().next();
            let is_closed = Arc::clone(&is_closed);
            test_support::Reply::Raw(Box::new(move |stream| match reply {
                None | Some(Reply::Close) => Ok(()),
                Some(Reply::Bytes(bytes, size)) => {
                    for piece in bytes.chunks(size.min(bytes.len().max(1))) {
                        stream.write_all(piece)?;
                        if size < bytes.len() {
                            thread::sleep(Duration::from_micros(500));
                        }
                    }
                    Ok(())
                }
                Some(Reply::Hang(bytes)) => {
                    stream.write_all(&bytes)?;
                    let ended = stream.read(&mut [0]);
                    is_closed.store(true, Ordering::SeqCst);
                    ended.map(drop)
                }
            }))
        });
        Self {
            base_url: server.url("/v1"),
            server,
            closed,
        }
    }

    /// How many requests have come.
    pub(crate) fn count(&self) -> usize {
        self.server.requests().len()
    }

    pub(crate) fn connections(&self) -> usize {
        self.server.connections()
    }

    pub(crate) fn request(&self, at: usize) -> Request {
        self.server.requests()[at].clone()
    }

    /// Waits until a client has closed a connection that hangs.
    pub(crate) async fn closed(&self) {
        while !self.closed.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
