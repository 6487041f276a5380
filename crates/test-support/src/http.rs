//! A server that answers requests as a test says, and records them.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::bytes::{Stream, host, tls_host};

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Such as `POST`.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// By names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The whole body.
    pub body: String,
}

impl Request {
    /// The value of a header, empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The body as JSON, `null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Whether it is a JSON-RPC message of this method.
    pub fn asks(&self, method: &str) -> bool {
        self.json()["method"] == method
    }

    /// The JSON-RPC id, as JSON.
    pub fn id(&self) -> String {
        self.json()["id"].to_string()
    }

    /// The JSON-RPC answer with this result.
    pub fn result(&self, result: &str) -> String {
        let id = self.id();
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
    }

    /// Reads one request.
    fn read(stream: &mut dyn Stream) -> io::Result<Self> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.lines();
        let mut first = lines.next().unwrap().split(' ');
        let mut request = Self {
            method: first.next().unwrap().to_owned(),
            path: first.next().unwrap().to_owned(),
            ..Self::default()
        };
        let headers = lines.filter_map(|line| line.split_once(':'));
        request.headers = headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = request.header("content-length").parse().unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        request.body = String::from_utf8(body).unwrap();
        Ok(request)
    }
}

type Writes = dyn FnOnce(&mut dyn Stream) -> io::Result<()> + Send;

/// What a request is answered with. The connection ends behind it.
pub enum Reply {
    /// Status, headers, body.
    Whole(u16, Vec<(String, String)>, String),
    /// Whatever this writes.
    Raw(Box<Writes>),
}

/// A status without a body.
pub fn status(status: u16) -> Reply {
    Reply::Whole(status, Vec::new(), String::new())
}

/// A body of JSON.
pub fn json(body: impl ToString) -> Reply {
    json_with(200, &[], body)
}

/// The same with a status and headers.
pub fn json_with(status: u16, headers: &[(&str, &str)], body: impl ToString) -> Reply {
    let own = [("Content-Type", "application/json")];
    let all = own.iter().chain(headers);
    let all = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Reply::Whole(status, all.collect(), body.to_string())
}

/// A stream of events whose text is written as it is.
pub fn events(write: impl FnOnce(&mut dyn Stream) -> io::Result<()> + Send + 'static) -> Reply {
    Reply::Raw(Box::new(move |to| {
        to.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
        )?;
        to.flush()?;
        write(to)
    }))
}

#[derive(Default)]
struct Seen {
    /// Whether requests are not kept.
    is_forgetful: bool,
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
}

/// A running server.
pub struct Server {
    /// Its port on 127.0.0.1.
    pub port: u16,
    seen: Arc<Seen>,
}

impl Server {
    /// Plain HTTP.
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let seen = Arc::<Seen>::default();
        let address = host(handler(&seen, answer));
        let port = address.port();
        Self { port, seen }
    }

    /// Plain HTTP that keeps no request, for loads whose memory is measured.
    pub fn forgetful(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let seen = Arc::new(Seen {
            is_forgetful: true,
            ..Seen::default()
        });
        let port = host(handler(&seen, answer)).port();
        Self { port, seen }
    }

    /// TLS for these names, with the certificate that clients have to trust.
    pub fn start_tls(
        names: &[&str],
        answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> (Self, String) {
        let seen = Arc::<Seen>::default();
        let (address, certificate) = tls_host(names, handler(&seen, answer));
        let port = address.port();
        (Self { port, seen }, certificate)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// How many connections were opened.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }
}

fn handler(
    seen: &Arc<Seen>,
    answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> impl Fn(&mut dyn Stream) -> io::Result<()> + Send + Sync + 'static {
    let seen = Arc::clone(seen);
    move |stream| {
        seen.connections.fetch_add(1, Ordering::SeqCst);
        let request = Request::read(stream)?;
        if !seen.is_forgetful {
            seen.requests.lock().unwrap().push(request.clone());
        }
        match answer(&request) {
            Reply::Whole(status, headers, body) => {
                let length = body.len();
                let mut head = format!(
                    "HTTP/1.1 {status} OK\r\nContent-Length: {length}\r\nConnection: close\r\n"
                );
                for (name, value) in headers {
                    head += &format!("{name}: {value}\r\n");
                }
                stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
            }
            Reply::Raw(write) => write(stream)?,
        }
        stream.flush()
    }
}
