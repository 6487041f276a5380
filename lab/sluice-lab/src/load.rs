//! A load generator and an upstream for it, both as thin as they can be: plain threads and sockets.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::quantile::at;

/// Bytes of a message that we read: more than any of the bench.
const BUFFER: usize = 1 << 20;

/// What a load came to. Latencies are sorted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    latencies: Vec<Duration>,
    pub(crate) errors: usize,
}

impl Measured {
    /// The latency below which this part of all requests stayed, in hundredths.
    pub(crate) fn quantile(&self, percent: usize) -> Duration {
        at(&self.latencies, percent)
    }

    pub(crate) fn count(&self) -> usize {
        self.latencies.len()
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.latencies.sort_unstable();
        self.errors += other.errors;
    }
}

/// Who is asked, and what.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) request: Arc<Vec<u8>>,
}

/// An HTTP request for a chat completion, with these headers besides the usual ones.
pub(crate) fn request(address: SocketAddr, headers: &[String], body: &str) -> Target {
    let headers: String = headers
        .iter()
        .map(|header| format!("{header}\r\n"))
        .collect();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Authorization: Bearer bench\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Target {
        address,
        request: Arc::new(request.into_bytes()),
    }
}

/// A constant rate, whatever the answers do: request `i` is due at `i / rate`, and its latency is
/// counted from then. A connection that is late sends its next request late, and that shows.
pub(crate) fn constant(
    target: &Target,
    rate: u32,
    connections: u32,
    duration: Duration,
) -> io::Result<Measured> {
    let every = Duration::from_secs(1) / rate.max(1);
    // Time for all connections to be open.
    let start = Instant::now() + Duration::from_millis(200);
    measure(target, connections, move |number, send| {
        let mut latencies = Vec::new();
        let mut errors = 0;
        let mut turn = number;
        while every * turn < duration {
            // From the due time and not from the sending: a stall counts for every request that it
            // holds up (no coordinated omission).
            let due = start + every * turn;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            match send() {
                Ok(()) => latencies.push(due.elapsed()),
                Err(_) => errors += 1,
            }
            turn += connections;
        }
        (latencies, errors)
    })
}

type Send<'a> = &'a mut dyn FnMut() -> io::Result<()>;

fn measure<F>(target: &Target, connections: u32, run: F) -> io::Result<Measured>
where
    F: Fn(u32, Send<'_>) -> (Vec<Duration>, usize) + std::marker::Send + Sync + Clone + 'static,
{
    let mut threads = Vec::new();
    for number in 0..connections {
        let stream = connect(target.address)?;
        let (target, run) = (target.clone(), run.clone());
        threads.push(thread::spawn(move || {
            let mut connection = Connection::new(stream);
            let mut send = || match connection.exchange(&target.request) {
                Ok(()) => Ok(()),
                // A connection is used no more after an error, since half an answer may still be on
                // its way.
                Err(error) => {
                    connection = Connection::new(connect(target.address)?);
                    Err(error)
                }
            };
            run(number, &mut send)
        }));
    }
    let mut all = Measured::default();
    for thread in threads {
        let (latencies, errors) = thread
            .join()
            .map_err(|_| io::Error::other("a thread of the load generator failed"))?;
        all.latencies.extend(latencies);
        all.errors += errors;
    }
    all.latencies.sort_unstable();
    Ok(all)
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(stream)
}

/// One connection, and what has been read of its next message.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: vec![0; BUFFER],
            filled: 0,
        }
    }

    /// Sends a request and reads its answer, which must be a success.
    fn exchange(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request)?;
        let success = self.message()?.starts_with(b"HTTP/1.1 200");
        self.filled = 0;
        match success {
            true => Ok(()),
            false => Err(io::Error::other("not a success")),
        }
    }

    /// Reads one whole message with a `Content-Length`.
    fn message(&mut self) -> io::Result<&[u8]> {
        loop {
            let read = self.buffer.get(..self.filled).unwrap_or_default();
            if let Some(length) = whole(read)
                && self.filled >= length
            {
                return Ok(self.buffer.get(..length).unwrap_or_default());
            }
            let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
            match self.stream.read(room)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.filled += count,
            }
        }
    }
}

/// The length of the message that begins here, once its head is there.
fn whole(read: &[u8]) -> Option<usize> {
    let head = read.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(read.get(..head)?).ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let length = name.eq_ignore_ascii_case("content-length");
        value.trim().parse::<usize>().ok().filter(|_| length)
    });
    // Without a length the message has no body, as RFC 9112 says of requests; the bench's servers
    // always say one.
    Some(head + length.unwrap_or(0))
}

/// A server of one thread for each connection, until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Server {
    /// An upstream that answers everything with this body, on this port of loopback.
    pub(crate) fn mock(body: &str, port: u16) -> io::Result<Self> {
        let answer = Arc::new(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        Self::start(port, move |mut client| {
            while client.message().is_ok() {
                client.filled = 0;
                client.stream.write_all(answer.as_bytes())?;
            }
            Ok(())
        })
    }

    /// A proxy that only copies, so that it costs what a second hop does.
    pub(crate) fn hop(upstream: SocketAddr) -> io::Result<Self> {
        Self::start(0, move |mut client| {
            let mut upstream = Connection::new(connect(upstream)?);
            loop {
                upstream.stream.write_all(client.message()?)?;
                client.filled = 0;
                client.stream.write_all(upstream.message()?)?;
                upstream.filled = 0;
            }
        })
    }

    fn start<F>(port: u16, serve: F) -> io::Result<Self>
    where
        F: Fn(Connection) -> io::Result<()> + std::marker::Send + Sync + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, serve) = (stop.clone(), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let serve = serve.clone();
                thread::spawn(move || {
                    let _ = stream.set_nodelay(true);
                    // The client counts what failed.
                    let _ = serve(Connection::new(stream));
                });
            }
        });
        Ok(Self { address, stop })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the listener.
        drop(TcpStream::connect(self.address));
    }
}
