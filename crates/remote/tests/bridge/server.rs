//! A server on loopback that answers as a test says, and keeps what it was asked.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// By names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The JSON-RPC id, as it is written.
    pub(crate) fn id(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["id"].to_string()
    }

    /// The JSON-RPC method.
    pub(crate) fn asks(&self, method: &str) -> bool {
        self.body.contains(&format!("\"method\":\"{method}\""))
    }

    /// An answer with this result.
    pub(crate) fn result(&self, result: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
            self.id()
        )
    }
}

type Writes = dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send;

/// What a request is answered with.
pub(crate) enum Reply {
    /// Status, headers, body.
    Whole(u16, Vec<(String, String)>, String),
    /// Whatever is written, until the connection is closed.
    Raw(Box<Writes>),
}

pub(crate) fn json(body: String) -> Reply {
    json_with(200, &[], body)
}

pub(crate) fn json_with(status: u16, headers: &[(&str, &str)], body: String) -> Reply {
    let mut all = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    all.extend(
        headers
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned())),
    );
    Reply::Whole(status, all, body)
}

pub(crate) fn status(status: u16) -> Reply {
    Reply::Whole(status, Vec::new(), String::new())
}

/// A stream of events whose text is written as it is.
pub(crate) fn events(
    text: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> Reply {
    Reply::Raw(Box::new(move |to| {
        to.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
        )?;
        to.flush()?;
        text(to)
    }))
}

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

pub(crate) struct Server {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Plain HTTP.
    pub(crate) fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::with(handler, None)
    }

    /// TLS for these names, with the certificate that clients have to believe.
    pub(crate) fn start_tls(
        names: &[&str],
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> (Self, String) {
        use rustls::pki_types::PrivateKeyDer;
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certified = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let server = Self::with(handler, Some(Arc::new(config)));
        (server, certified.cert.pem())
    }

    fn with(
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (kept, handler): (_, Arc<Handler>) = (Arc::clone(&requests), Arc::new(handler));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (kept, handler, tls) = (Arc::clone(&kept), Arc::clone(&handler), tls.clone());
                // A client that goes away is no trouble of the server's.
                thread::spawn(move || match tls {
                    None => serve(stream, &kept, &*handler),
                    Some(config) => {
                        let session = rustls::ServerConnection::new(config).unwrap();
                        let mut stream = rustls::StreamOwned::new(session, stream);
                        let served = serve(&mut stream, &kept, &*handler);
                        stream.conn.send_close_notify();
                        let _ = stream.flush();
                        served
                    }
                });
            }
        });
        Self { port, requests }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// What it was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: impl Read + Write,
    kept: &Mutex<Vec<Request>>,
    handler: &Handler,
) -> io::Result<()> {
    let request = read(&mut stream)?;
    kept.lock().unwrap().push(request.clone());
    match handler(&request) {
        Reply::Whole(status, headers, body) => {
            let mut head = format!(
                "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n",
                body.len()
            );
            for (name, value) in headers {
                head += &format!("{name}: {value}\r\n");
            }
            stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
        }
        Reply::Raw(write) => write(&mut stream)?,
    }
    stream.flush()
}

fn read(stream: &mut impl Read) -> io::Result<Request> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap().split(' ');
    let mut request = Request {
        method: first.next().unwrap().to_owned(),
        path: first.next().unwrap().to_owned(),
        ..Request::default()
    };
    for line in lines {
        if let Some((name, value)) = line.split_once(':') {
            let name = name.to_ascii_lowercase();
            request.headers.insert(name, value.trim().to_owned());
        }
    }
    let length = request.header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    request.body = String::from_utf8(body).unwrap();
    Ok(request)
}
