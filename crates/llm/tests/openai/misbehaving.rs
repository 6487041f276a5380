//! A real TCP server that answers as it is told, however wrong that is.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};

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

#[derive(Clone)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Received>>,
    connections: Mutex<usize>,
    closed: Notify,
}

pub(crate) struct Server {
    pub(crate) base_url: String,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Gives one reply to each connection; later ones are closed.
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Seen::default());
        let for_task = seen.clone();
        let task = tokio::spawn(async move {
            let mut replies = replies.into_iter();
            while let Ok((stream, _)) = listener.accept().await {
                *for_task.connections.lock().unwrap() += 1;
                let reply = replies.next().unwrap_or(Reply::Close);
                tokio::spawn(serve(stream, reply, for_task.clone()));
            }
        });
        Self {
            base_url,
            seen,
            task,
        }
    }

    /// How many requests have come.
    pub(crate) fn count(&self) -> usize {
        self.seen.requests.lock().unwrap().len()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.seen.connections.lock().unwrap()
    }

    pub(crate) fn request(&self, at: usize) -> Received {
        self.seen.requests.lock().unwrap().get(at).unwrap().clone()
    }

    /// Waits until a client has closed a connection that hangs.
    pub(crate) async fn closed(&self) {
        self.seen.closed.notified().await;
    }
}

async fn serve(mut stream: TcpStream, reply: Reply, seen: Arc<Seen>) {
    let Some(request) = read_request(&mut stream).await else {
        return;
    };
    seen.requests.lock().unwrap().push(request);
    match reply {
        Reply::Close => {}
        Reply::Bytes(bytes, size) => {
            for piece in bytes.chunks(size.min(bytes.len().max(1))) {
                if stream.write_all(piece).await.is_err() {
                    return;
                }
                if size < bytes.len() {
                    stream.flush().await.unwrap_or_default();
                    tokio::time::sleep(Duration::from_micros(500)).await;
                }
            }
            stream.shutdown().await.unwrap_or_default();
            // Closing with unread input would reset the connection under the client's reading.
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap_or_default();
        }
        Reply::Hang(bytes) => {
            stream.write_all(&bytes).await.unwrap_or_default();
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap_or_default();
            seen.closed.notify_one();
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
        if let Some(end) = end {
            let (head, body) = bytes.split_at(end + 4);
            let head = String::from_utf8(head.to_vec()).unwrap();
            let length = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(0, |(_, value)| value.parse().unwrap());
            if body.len() >= length {
                let body = body.to_vec();
                return Some(Received { head, body });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
