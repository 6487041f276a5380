//! The bytes of one connection, both ways, within limits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use names::DomainName;
use names::first_bytes::{MOST, Verdict, look};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::carry::{Carry, PIECE};
use super::count::{Count, End};
use super::reach::Lease;

/// Bytes of one connection, both ways together: a large download, and not a disk.
const MOST_BYTES: u64 = 1 << 30;
/// How long a connection may be silent. Servers close idle connections after one to five minutes.
const IDLE: Duration = Duration::from_secs(300);
/// How long one connection may live.
const LIFETIME: Duration = Duration::from_secs(3600);

/// A connection whose two ends are there.
pub(super) struct Passage<'a> {
    pub(super) name: &'a DomainName,
    pub(super) port: u16,
    /// What the app has sent so far, if it was found to be for this name.
    pub(super) first: Vec<u8>,
    pub(super) looked_at: bool,
    pub(super) lease: &'a Lease,
    /// How many pipes there are for large transfers.
    pub(super) pipes: &'a Semaphore,
}

impl Passage<'_> {
    /// Passes everything on until both ends have closed, or a limit is reached; what became of it.
    pub(super) async fn run(self, inside: &TcpStream, outside: &TcpStream) -> String {
        let count = Count::new(MOST_BYTES, IDLE);
        let lease = self.lease;
        let down = Carry {
            from: outside,
            to: inside,
            bytes: &count.received,
            count: &count,
            // What the host sends takes nothing out of the spoke. A cut ends this direction too, by `lease.cut` below.
            lease: None,
            pipes: self.pipes,
        };
        let both = async { tokio::try_join!(self.up(inside, outside, &count), down.all()) };
        let end = tokio::select! {
            biased;
            () = lease.cut() => Some(Err(End::Cut)),
            done = both => Some(done.map(|_| ())),
            () = count.idle() => None,
            () = sleep(LIFETIME) => None,
        };
        let sent = count.sent.load(Ordering::Relaxed);
        let received = count.received.load(Ordering::Relaxed);
        let bytes = format!("{sent} bytes sent, {received} received");
        match end {
            Some(Ok(())) => bytes,
            Some(Err(End::Cut)) => {
                format!("cut, since the app was given more than may flow there; {bytes}")
            }
            Some(Err(End::Misfit(why))) => format!("refused: {why}; {bytes}"),
            Some(Err(End::TooMuch)) => format!("cut off after {MOST_BYTES} bytes; {bytes}"),
            Some(Err(End::Broken(error))) => format!("broken: {error}; {bytes}"),
            None => format!("cut off after its time; {bytes}"),
        }
    }

    /// From the app to the host: what names another host does not go on.
    async fn up(self, from: &TcpStream, to: &TcpStream, count: &Count) -> Result<(), End> {
        let carry = Carry {
            from,
            to,
            bytes: &count.sent,
            count,
            lease: Some(self.lease),
            pipes: self.pipes,
        };
        let mut seen = self.first;
        let mut looked_at = self.looked_at;
        // The door has read these, and nobody has passed them on.
        if looked_at {
            carry.pass(&seen).await?;
        }
        let mut buffer = vec![0; PIECE];
        while !looked_at {
            let bytes = carry.read(&mut buffer).await?;
            if bytes.is_empty() {
                break;
            }
            // What names no host yet may go on, since nobody acts on half of a request; what names another host is the
            // piece that does not.
            let room = MOST.saturating_sub(seen.len());
            seen.extend(bytes.iter().take(room));
            looked_at = match look(self.name, self.port, &seen) {
                Verdict::Fits => true,
                Verdict::More => false,
                Verdict::Refused(misfit) => return Err(End::Misfit(misfit.to_string())),
            };
            carry.pass(bytes).await?;
        }
        drop((seen, buffer));
        carry.all().await
    }
}
