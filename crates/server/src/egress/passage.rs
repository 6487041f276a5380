//! The bytes of one connection, both ways, within limits.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use names::DomainName;
use names::first_bytes::{MOST, Verdict, look};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::reach::Lease;
use crate::locks::lock;

const PIECE: usize = 64 << 10;

pub(super) struct Passage<'a> {
    /// Bytes of both directions together.
    pub(super) most: u64,
    pub(super) silence: Duration,
    pub(super) lifetime: Duration,
    pub(super) first: Vec<u8>,
    /// Where what the app sends is still to be looked at: the name and port that it must be for.
    pub(super) look_at: Option<(&'a DomainName, u16)>,
    /// Whether the app may still send. `None` for a relay, whose destination may have everything.
    pub(super) lease: Option<&'a Lease>,
}

impl Passage<'_> {
    /// Copies both ways until both ends have closed or a limit is reached; what became of it.
    pub(super) async fn run(mut self, inside: TcpStream, mut outside: TcpStream) -> String {
        // Small pieces are not held back: there are two connections in a row.
        let _ = (inside.set_nodelay(true), outside.set_nodelay(true));
        let (silence, lifetime) = (self.silence, self.lifetime);
        let lease = self.lease;
        let count = Count::new();
        let copied = async {
            let first = std::mem::take(&mut self.first);
            count.add(&count.sent, first.len());
            outside.write_all(&first).await?;
            drop(first);
            let mut inside = Tap {
                stream: inside,
                count: &count,
                passage: self,
                admitted: Vec::new(),
                passed: 0,
            };
            copy_bidirectional_with_sizes(&mut inside, &mut outside, PIECE, PIECE).await
        };
        let cut = async {
            match lease {
                Some(lease) => lease.cut().await,
                None => std::future::pending().await,
            }
        };
        let end = tokio::select! {
            biased;
            () = cut => Some(CUT.to_owned()),
            copied = copied => copied.err().map(|error| match error.downcast::<Stop>() {
                Ok(Stop(why)) => why,
                Err(error) => format!("broken: {error}"),
            }),
            () = count.silent_for(silence) => {
                Some(format!("cut off after {} s of silence", silence.as_secs()))
            }
            () = sleep(lifetime) => Some(format!("cut off after {} s", lifetime.as_secs())),
        };
        let sent = count.sent.load(Ordering::Relaxed);
        let received = count.received.load(Ordering::Relaxed);
        let bytes = format!("{sent} bytes sent, {received} received");
        match end {
            Some(end) => format!("{end}; {bytes}"),
            None => bytes,
        }
    }
}

const CUT: &str = "cut, since the app was given more than may flow there";

#[derive(Debug)]
struct Stop(String);

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Stop {}

fn stop(why: impl Into<String>) -> io::Error {
    io::Error::other(Stop(why.into()))
}

/// The app's end. What is read from it goes to the host, and what is written to it comes from there.
struct Tap<'a> {
    stream: TcpStream,
    count: &'a Count,
    passage: Passage<'a>,
    /// First bytes that were held back until they fitted, and go on now.
    admitted: Vec<u8>,
    /// How many of the first bytes went on already.
    passed: usize,
}

impl Tap<'_> {
    /// Whether these bytes of the app go on as they are. Otherwise they are held back, or are in `admitted`.
    fn admit(&mut self, bytes: &[u8]) -> io::Result<bool> {
        // Between what an app is given and what it then sends lies this check: its label is raised before it is given more.
        if self.passage.lease.is_some_and(Lease::is_cut) {
            return Err(stop(CUT));
        }
        let Some((name, port)) = self.passage.look_at else {
            self.count(&self.count.sent, bytes.len())?;
            return Ok(true);
        };
        // Nothing goes on before there is a verdict. What the host says meanwhile comes through: it was asked nothing, and
        // in some protocols it speaks first.
        let first = &mut self.passage.first;
        first.extend(bytes);
        let verdict = look(name, port, first.get(..MOST).unwrap_or(first));
        match verdict {
            Verdict::More => {}
            Verdict::Refused(misfit) => return Err(stop(format!("refused: {misfit}"))),
            Verdict::Fits | Verdict::FitsYet => {
                self.admitted.extend(first.iter().skip(self.passed));
                self.passed = first.len();
                if verdict == Verdict::Fits {
                    self.passage.look_at = None;
                    *first = Vec::new();
                }
            }
        }
        Ok(false)
    }

    /// Whether first bytes are held back.
    fn is_holding(&self) -> bool {
        self.passage.look_at.is_some() && self.passed < self.passage.first.len()
    }

    fn count(&self, to: &AtomicU64, bytes: usize) -> io::Result<()> {
        let most = self.passage.most;
        match self.count.add(to, bytes) > most {
            true => Err(stop(format!("cut off after {most} bytes"))),
            false => Ok(()),
        }
    }
}

impl AsyncRead for Tap<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if !this.admitted.is_empty() {
                let fits = this.admitted.len().min(buffer.remaining());
                this.count(&this.count.sent, fits)?;
                buffer.put_slice(this.admitted.get(..fits).unwrap_or_default());
                this.admitted.drain(..fits);
                return Poll::Ready(Ok(()));
            }
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
            let bytes = buffer.filled().get(before..).unwrap_or_default();
            if bytes.is_empty() && this.is_holding() {
                return Poll::Ready(Err(stop("refused: it ended before it said what it wants")));
            }
            if bytes.is_empty() || this.admit(bytes)? {
                return Poll::Ready(Ok(()));
            }
            buffer.set_filled(before);
        }
    }
}

impl AsyncWrite for Tap<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, bytes))?;
        Poll::Ready(this.count(&this.count.received, written).map(|()| written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

struct Count {
    sent: AtomicU64,
    received: AtomicU64,
    last: Mutex<Instant>,
}

impl Count {
    fn new() -> Self {
        Self {
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            last: Mutex::new(Instant::now()),
        }
    }

    /// Counts bytes of one direction; the sum of both.
    fn add(&self, to: &AtomicU64, bytes: usize) -> u64 {
        // One task does all of this, so the weakest order will do.
        to.fetch_add(bytes as u64, Ordering::Relaxed);
        *lock(&self.last) = Instant::now();
        self.sent.load(Ordering::Relaxed) + self.received.load(Ordering::Relaxed)
    }

    /// Resolves when nothing has gone through for so long.
    async fn silent_for(&self, silence: Duration) {
        loop {
            let last = *lock(&self.last);
            let left = silence.saturating_sub(last.elapsed());
            if left.is_zero() {
                return;
            }
            // Something may go through meanwhile, so the time is looked at again afterwards.
            sleep(left).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    /// The two ends of a connection.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (connected, accepted) = tokio::join!(TcpStream::connect(at), listener.accept());
        (connected.unwrap(), accepted.unwrap().0)
    }

    /// Sends these pieces to a port of any protocol, each after a pause, while the host greets; what the host hears, and
    /// what became of the connection.
    async fn pieces(pieces: &[&str]) -> (String, String) {
        let ((mut app, inside), (outside, mut host)) = (pair().await, pair().await);
        let name = DomainName::new("api.example.org").unwrap();
        let passage = Passage {
            most: 1 << 20,
            silence: Duration::from_secs(60),
            lifetime: Duration::from_secs(60),
            first: Vec::new(),
            look_at: Some((&name, 8443)),
            lease: None,
        };
        let says = async {
            host.write_all(b"hi\n").await.unwrap();
            for piece in pieces {
                // It may have been refused by then.
                let _ = app.write_all(piece.as_bytes()).await;
                sleep(Duration::from_millis(30)).await;
            }
            // The greeting comes through, whatever is held back.
            let mut greeting = [0; 3];
            app.read_exact(&mut greeting).await.unwrap();
            let _ = app.shutdown().await;
            let mut heard = String::new();
            let _ = host.read_to_string(&mut heard).await;
            let _ = host.shutdown().await;
            heard
        };
        let (outcome, heard) = tokio::join!(passage.run(inside, outside), says);
        (heard, outcome)
    }

    #[tokio::test]
    async fn nothing_is_passed_on_before_the_verdict() {
        for (said, expected, outcome) in [
            (
                &["EHL", "O me\r\n", "QUIT\r\n"][..],
                "EHLO me\r\nQUIT\r\n",
                "15 bytes sent",
            ),
            (&["{\"a\":", "1}"], "{\"a\":1}", "7 bytes sent"),
            (&["EHLO"], "", "refused: it ended"),
            (
                &["GET / HTTP/1.1\r\n", "Host: evil.example\r\n", "\r\n"],
                "",
                "refused: its first",
            ),
            (
                &["GET / HTTP/1.1\n", "Host: api.example.org:8443\n\n"],
                "",
                "refused: it speaks HTTP",
            ),
            (
                &["{ / HT", "TP/1.1\r\nHost: evil.example\r\n\r\n"],
                "{ / HT",
                "refused: it speaks HTTP",
            ),
            (&["\u{16}\u{3}\u{1}", "\0"], "", "refused: it ended"),
        ] {
            let (heard, became) = pieces(said).await;
            assert_eq!(heard, expected, "{became}");
            assert!(became.starts_with(outcome), "{said:?}: {became}");
        }
    }

    #[tokio::test]
    async fn a_connection_ends_by_its_bytes_and_its_silence() {
        for (most, silence, expected) in [
            (1 << 20, 3600, "3 bytes sent, 0 received"),
            (2, 3600, "cut off after 2 bytes; 3 bytes sent, 0 received"),
            (
                1 << 20,
                0,
                "cut off after 0 s of silence; 0 bytes sent, 0 received",
            ),
        ] {
            let ((mut app, inside), (outside, mut host)) = (pair().await, pair().await);
            let passage = Passage {
                most,
                silence: Duration::from_secs(silence),
                lifetime: Duration::from_secs(3600),
                first: Vec::new(),
                look_at: None,
                lease: None,
            };
            let both = async {
                if silence > 0 {
                    app.write_all(b"abc").await.unwrap();
                    app.shutdown().await.unwrap();
                    host.shutdown().await.unwrap();
                }
                let mut heard = Vec::new();
                // A connection that is cut off may end with an error.
                let _ = host.read_to_end(&mut heard).await;
                heard
            };
            let (outcome, heard) = tokio::join!(passage.run(inside, outside), both);
            assert_eq!(outcome, expected);
            let arrives = expected.starts_with('3');
            assert_eq!(heard.as_slice(), if arrives { &b"abc"[..] } else { b"" });
        }
    }
}
