//! The build spoke's HTTP proxy, which connects to the hosts of the user's registries and to no others.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest head of a request. A package manager's has a few lines.
const MAX_HEAD: usize = 16 << 10;
/// Connections at a time. Package managers open up to 16.
const CONNECTIONS: usize = 32;
/// How long a host may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(120);
/// How often the end of the build is polled.
const LOOK: Duration = Duration::from_millis(20);
/// Most refused hosts that are remembered.
const MAX_REFUSED: usize = 16;

/// A host and port that may be reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Host {
    /// Its name or address, in lower case.
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl Host {
    /// From `HOST:PORT`; an IPv6 address is in brackets.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, port) = text.rsplit_once(':')?;
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().ok()?;
        let name = name.to_ascii_lowercase();
        (!name.is_empty()).then_some(Self { name, port })
    }

    /// The `Host` header of a request without TLS.
    fn authority(&self) -> String {
        let name = match self.name.contains(':') {
            true => format!("[{}]", self.name),
            false => self.name.clone(),
        };
        match self.port {
            80 => name,
            port => format!("{name}:{port}"),
        }
    }

    pub(crate) fn of_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        // The part before the last `@` is a user and a password.
        let authority = authority.rsplit('@').next()?;
        let port = match scheme {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        let after_address = authority.rsplit(']').next();
        let has_port = after_address.is_some_and(|rest| rest.contains(':'));
        match has_port {
            true => Self::parse(authority),
            false => Self::parse(&format!("{authority}:{port}")),
        }
    }
}

/// State of all connections.
struct Shared {
    hosts: Vec<Host>,
    refused: Mutex<BTreeSet<String>>,
    over: AtomicBool,
    open: AtomicUsize,
}

pub(super) struct Relay {
    shared: Arc<Shared>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Relay {
    pub(super) fn start(listeners: Vec<(u16, OwnedFd)>, hosts: Vec<Host>) -> Result<Self, String> {
        let shared = Arc::new(Shared {
            hosts,
            refused: Mutex::default(),
            over: AtomicBool::new(false),
            open: AtomicUsize::new(0),
        });
        let mut threads = Vec::new();
        for (_, listener) in listeners {
            let listener = TcpListener::from(listener);
            let nonblocking = listener.set_nonblocking(true);
            nonblocking.map_err(|error| error.to_string())?;
            let shared = Arc::clone(&shared);
            threads.push(std::thread::spawn(move || accept(&listener, &shared)));
        }
        Ok(Self { shared, threads })
    }

    /// Ends it, and returns the refused hosts.
    pub(super) fn stop(mut self) -> Vec<String> {
        self.end();
        let refused = self.shared.refused.lock();
        let refused = refused.unwrap_or_else(PoisonError::into_inner);
        refused.iter().cloned().collect()
    }

    fn end(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            // A panic has ended it.
            let _ = thread.join();
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.over.load(Ordering::SeqCst) {
        // Further connections wait in the kernel's queue. To close them could fail the install: not every package manager
        // tries again.
        let has_room = shared.open.load(Ordering::SeqCst) < CONNECTIONS;
        let Some(Ok((client, _))) = has_room.then(|| listener.accept()) else {
            // A blocking accept would not notice the end of the build.
            std::thread::sleep(LOOK);
            continue;
        };
        shared.open.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            // The client repeats a broken connection.
            let _ = serve(client, &shared);
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

fn serve(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    // Systems differ in whether this is inherited from the listener.
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(SILENCE))?;
    client.set_write_timeout(Some(SILENCE))?;
    let (head, body) = head(&mut client)?;
    let Some(request) = request(&head) else {
        return client.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    };
    // Before the name is resolved: a DNS query alone could carry data.
    let (Request::Tunnel(host) | Request::Forward(host, _)) = &request;
    if !shared.hosts.contains(host) {
        let refused = shared.refused.lock();
        let mut refused = refused.unwrap_or_else(PoisonError::into_inner);
        if refused.len() < MAX_REFUSED {
            refused.insert(format!("{}:{}", host.name, host.port));
        }
        drop(refused);
        return client.write_all(b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n");
    }
    let Ok(mut server) = connect(host) else {
        return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n");
    };
    match &request {
        Request::Tunnel(_) => client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?,
        Request::Forward(_, head) => server.write_all(head.as_bytes())?,
    }
    server.write_all(&body)?;
    join(client, server)
}

/// The head of a request, and the bytes after it.
fn head(client: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut portion = [0; 1024];
    while bytes.len() < MAX_HEAD {
        let count = client.read(&mut portion)?;
        if count == 0 {
            break;
        }
        bytes.extend_from_slice(portion.get(..count).unwrap_or_default());
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let body = bytes.split_off(end + 4);
            let head = String::from_utf8(bytes).map_err(io::Error::other)?;
            return Ok((head, body));
        }
    }
    Err(io::Error::other("no head"))
}

#[derive(Debug, PartialEq, Eq)]
enum Request {
    Tunnel(Host),
    /// One request without TLS, with the head for the host.
    Forward(Host, String),
}

fn request(head: &str) -> Option<Request> {
    let (line, fields) = head.split_once("\r\n")?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    if method == "CONNECT" {
        return Some(Request::Tunnel(Host::parse(target)?));
    }
    let host = Host::of_url(target).filter(|_| target.starts_with("http://"))?;
    let rest = target.strip_prefix("http://")?;
    let path = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/");
    let is_plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    if !line.bytes().all(is_plain) {
        return None;
    }
    let mut kept = String::new();
    for field in fields.split("\r\n").filter(|field| !field.is_empty()) {
        let name = name(field)?;
        // A server may serve several hosts by the `Host` field, so it is written below.
        let dropped = ["host", "connection", "proxy-connection", "keep-alive"];
        if !dropped.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            kept.push_str(field);
            kept.push_str("\r\n");
        }
    }
    // The host closes after its answer, so that a second request cannot follow the first.
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\n{kept}Connection: close\r\n\r\n",
        host.authority()
    );
    Some(Request::Forward(host, head))
}

/// The name of a field. `None` if readers may disagree on the name or on the end of the field.
fn name(field: &str) -> Option<&str> {
    let (name, value) = field.split_once(':')?;
    let of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_token = !name.is_empty() && name.bytes().all(of_token);
    let is_plain = !value.contains(['\r', '\n', '\0']);
    (is_token && is_plain).then_some(name)
}

fn connect(host: &Host) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in (host.name.as_str(), host.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(SILENCE))?;
                stream.set_write_timeout(Some(SILENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Copies in both directions until both have ended.
fn join(client: TcpStream, server: TcpStream) -> io::Result<()> {
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    // At the same time: in a TLS handshake either side waits for the other.
    let up = std::thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut from_server, mut to_client) = (server, client);
    let copied = io::copy(&mut from_server, &mut to_client);
    let _ = to_client.shutdown(Shutdown::Both);
    let _ = from_server.shutdown(Shutdown::Both);
    let _ = up.join();
    copied.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        Host {
            name: name.to_owned(),
            port,
        }
    }

    #[test]
    fn it_ends_with_a_build_that_failed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let relay = Relay::start(vec![(1, listener.into())], Vec::new()).unwrap();
        TcpStream::connect(address).unwrap();
        drop(relay);
        TcpStream::connect(address).unwrap_err();
    }

    #[test]
    fn who_comes_when_all_places_are_taken_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _relay = Relay::start(vec![(1, listener.into())], Vec::new()).unwrap();
        let connect = || TcpStream::connect(address).unwrap();
        let silent: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect()).collect();
        let mut late: Vec<TcpStream> = (0..8).map(|_| connect()).collect();
        for stream in &mut late {
            let request = b"GET http://a.test/ HTTP/1.1\r\n\r\n";
            stream.write_all(request).unwrap();
        }
        // Longer than it takes to accept all that have a place.
        std::thread::sleep(LOOK * 10);
        drop(silent);
        for stream in &mut late {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        }
    }

    #[test]
    fn hosts_of_addresses() {
        assert_eq!(
            Host::of_url("https://Registry.test/a/b"),
            Some(host("registry.test", 443))
        );
        assert_eq!(
            Host::of_url("http://user:word@127.0.0.1:4873/"),
            Some(host("127.0.0.1", 4873))
        );
        assert_eq!(Host::of_url("https://[::1]/x"), Some(host("::1", 443)));
        assert_eq!(
            Host::of_url("https://good.test@evil.test/"),
            Some(host("evil.test", 443))
        );
        for wrong in ["ftp://a/", "a.test", "https:///x", "https://a:b/"] {
            assert_eq!(Host::of_url(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_request_leads_to_the_host_of_its_target_whatever_its_fields_say() {
        let tunnel = request("CONNECT A.test:443 HTTP/1.1\r\nHost: b.test\r\n\r\n");
        assert_eq!(tunnel, Some(Request::Tunnel(host("a.test", 443))));
        for field in ["", "Host: a.test\r\n", "Host: b.test\r\nhOST:c.test\r\n"] {
            let asked = format!(
                "GET http://a.test:81/x?y HTTP/1.1\r\nA: b\r\n{field}Connection: keep-alive\r\n\r\n"
            );
            let head = "GET /x?y HTTP/1.1\r\nHost: a.test:81\r\nA: b\r\nConnection: close\r\n\r\n";
            let forward = Request::Forward(host("a.test", 81), head.to_owned());
            assert_eq!(request(&asked), Some(forward), "{field}");
        }
        let head = |target: &str| match request(&format!("GET {target} HTTP/1.1\r\n\r\n")) {
            Some(Request::Forward(_, head)) => head,
            other => panic!("{other:?}"),
        };
        assert!(head("http://u:p@A.test/").contains("\r\nHost: a.test\r\n"));
        assert!(head("http://[::1]:8080/").contains("\r\nHost: [::1]:8080\r\n"));
        // What one reader takes for a part of a value, another takes for a field.
        for hidden in [
            "Host : b.test",
            " Host: b.test",
            "A: b\nHost: b.test",
            "A: b\rHost: b.test",
            "A: b\r\n\tc",
            "\nHost: b.test",
            "no field",
            ": b",
        ] {
            let asked = format!("GET http://a.test/ HTTP/1.1\r\n{hidden}\r\n\r\n");
            assert_eq!(request(&asked), None, "{hidden:?}");
        }
        let line = "GET http://a.test/\nHost:b.test HTTP/1.1\r\n\r\n";
        assert_eq!(request(line), None);
        for wrong in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://a/ HTTP/1.1\r\n\r\n",
            "CONNECT a HTTP/1.1\r\n\r\n",
            "x",
        ] {
            assert_eq!(request(wrong), None, "{wrong}");
        }
    }
}
