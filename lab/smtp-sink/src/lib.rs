//! A small SMTP server for loopback that keeps every message it accepts.
//!
//! Tests and the demo send real mail through it and then look at what arrived. It speaks the minimum of RFC 5321
//! (EHLO, HELO, MAIL, RCPT, DATA, RSET, NOOP, VRFY, QUIT), delivers nothing anywhere, and listens on loopback only.
//! It is written here because the embeddable servers on the registry cannot be stopped and read lines without a
//! limit. It has no dependencies.

mod session;

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub use session::Received;
use session::{MAX_LINE_BYTES, Output, Session};

/// Conversations at the same time; each costs a thread.
const MAX_CONNECTIONS: usize = 16;
/// Messages that are kept; with the limit on one message this bounds the memory.
const MAX_MESSAGES: usize = 1000;
/// A client that says nothing for so long is gone.
const IDLE: Duration = Duration::from_secs(60);
/// How long the wake-up call to our own listener may take when the server stops.
const WAKE: Duration = Duration::from_secs(1);
/// How long to wait after a connection that could not be accepted.
const RETRY: Duration = Duration::from_millis(50);

/// A running server. It stops, and closes all connections, when dropped.
#[derive(Debug)]
pub struct SmtpSink {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    messages: Mutex<Vec<Received>>,
    /// Open connections, so that stopping can close them.
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl SmtpSink {
    /// Listens on `addr` (port 0: any free port) and serves on background threads.
    ///
    /// # Errors
    /// `InvalidInput` when `addr` is not a loopback address; else what binding the socket reports.
    pub fn start(addr: SocketAddr) -> io::Result<SmtpSink> {
        if !addr.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{addr} is not a loopback address: use 127.0.0.1 or [::1]"),
            ));
        }
        let listener = TcpListener::bind(addr)?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let acceptor = std::thread::Builder::new()
            .name("smtp-sink".to_owned())
            .spawn(move || accept(&listener, &for_thread))?;
        Ok(SmtpSink {
            addr,
            shared,
            acceptor: Some(acceptor),
        })
    }

    /// The address that the server listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// A copy of the messages so far, oldest first. A message is here before its client gets the confirmation.
    pub fn messages(&self) -> Vec<Received> {
        lock(&self.shared.messages).clone()
    }
}

impl Drop for SmtpSink {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // The acceptor blocks in `accept`; a connection wakes it. Where even that fails, do not wait for it.
        let woken = TcpStream::connect_timeout(&self.addr, WAKE).is_ok();
        for stream in lock(&self.shared.open).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(acceptor) = self.acceptor.take()
            && woken
        {
            let _ = acceptor.join();
        }
    }
}

/// A thread that panicked holding the lock leaves the list as valid as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut sessions: Vec<JoinHandle<()>> = Vec::new();
    for (id, stream) in (0_u64..).zip(listener.incoming()) {
        if shared.stop.load(Ordering::SeqCst) {
            break;
        }
        sessions.retain(|session| !session.is_finished());
        let Ok(mut stream) = stream else {
            // Without descriptors left (EMFILE) the connection stays where it is, and each try fails at once.
            std::thread::sleep(RETRY);
            continue;
        };
        if sessions.len() >= MAX_CONNECTIONS {
            let _ = stream.write_all(b"421 4.3.2 too many connections\r\n");
            continue;
        }
        // By this copy the server can close the connection while its thread waits for a line.
        let Ok(copy) = stream.try_clone() else {
            continue;
        };
        lock(&shared.open).insert(id, copy);
        let for_thread = Arc::clone(shared);
        let spawned = std::thread::Builder::new()
            .name("smtp-session".to_owned())
            .spawn(move || {
                // An error here is a client that went away; there is nobody left to tell.
                let _ = converse(&stream, &for_thread);
                lock(&for_thread.open).remove(&id);
            });
        match spawned {
            Ok(session) => sessions.push(session),
            Err(_) => drop(lock(&shared.open).remove(&id)),
        }
    }
    for stream in lock(&shared.open).values() {
        let _ = stream.shutdown(Shutdown::Both);
    }
    for session in sessions {
        let _ = session.join();
    }
}

fn converse(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    stream.set_nodelay(true)?;
    let mut writer = stream;
    let mut reader = BufReader::new(stream);
    let mut session = Session::default();
    let mut line = Vec::new();
    say(&mut writer, "220 smtp-sink ESMTP")?;
    loop {
        line.clear();
        (&mut reader)
            .take(MAX_LINE_BYTES as u64)
            .read_until(b'\n', &mut line)?;
        // Only CRLF ends a line: a server that also takes a bare LF lets a client smuggle a second message.
        let Some(content) = line.strip_suffix(b"\r\n") else {
            if line.is_empty() {
                return Ok(());
            }
            return say(&mut writer, "500 5.5.2 line too long or without CRLF");
        };
        match session.line(content) {
            Output::Silent => {}
            Output::Reply(reply) => say(&mut writer, &reply)?,
            Output::Close(reply) => return say(&mut writer, &reply),
            Output::Message(message) => {
                let reply = store(shared, message);
                say(&mut writer, reply)?;
            }
        }
    }
}

fn store(shared: &Shared, message: Received) -> &'static str {
    let mut messages = lock(&shared.messages);
    if messages.len() >= MAX_MESSAGES {
        return "452 4.3.1 the sink is full";
    }
    messages.push(message);
    "250 2.0.0 kept"
}

fn say(writer: &mut impl Write, reply: &str) -> io::Result<()> {
    writer.write_all(format!("{reply}\r\n").as_bytes())
}
