//! One direction of a connection: through a buffer, and through a pipe of the kernel once it is a large transfer.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::count::{Count, End};
use super::reach::Lease;

/// Bytes that are moved at a time.
pub(super) const PIECE: usize = 128 * 1024;
/// Bytes after which a transfer is a large one, which no more goes through our memory.
const LARGE: u64 = 1 << 20;
/// Bytes that a pipe holds, of the megabyte that an ordinary user may ask for.
const PIPE: usize = 512 * 1024;

/// From one end of a connection to the other.
pub(super) struct Carry<'a> {
    pub(super) from: &'a TcpStream,
    pub(super) to: &'a TcpStream,
    /// What went through in this direction, and in both.
    pub(super) bytes: &'a AtomicU64,
    pub(super) count: &'a Count,
    /// Where the app sends: whether it may still.
    pub(super) lease: Option<&'a Lease>,
    /// Each costs the hub two descriptors, so there are few.
    pub(super) pipes: &'a Semaphore,
}

impl Carry<'_> {
    /// Carries everything until its end, and says so to the other side.
    pub(super) async fn all(&self) -> Result<(), End> {
        let mut buffer = vec![0; PIECE];
        // Most connections end in here, and need none of the few pipes.
        while self.bytes.load(Ordering::Relaxed) < LARGE {
            let bytes = self.read(&mut buffer).await?;
            if bytes.is_empty() {
                return self.end();
            }
            self.pass(bytes).await?;
        }
        // Without a pipe it goes on as before.
        let place = self.pipes.try_acquire();
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        match place.is_ok().then(|| pipe_with(flags)) {
            Some(Ok((reader, writer))) => {
                // A large transfer lasts for long, and has no use for it any more.
                drop(buffer);
                // The size is a wish: a smaller one only takes longer.
                let _ = fcntl_setpipe_size(&writer, PIPE);
                self.through(&reader, &writer).await
            }
            _ => loop {
                let bytes = self.read(&mut buffer).await?;
                if bytes.is_empty() {
                    return self.end();
                }
                self.pass(bytes).await?;
            },
        }
    }

    /// The next bytes; none at the end.
    pub(super) async fn read<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], End> {
        let read = loop {
            self.from.readable().await?;
            match self.from.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read?,
            }
        };
        self.may_go_on()?;
        Ok(buffer.get(..read).unwrap_or_default())
    }

    /// Passes bytes on.
    pub(super) async fn pass(&self, mut bytes: &[u8]) -> Result<(), End> {
        // First counted, so that nothing beyond the limit is passed on.
        self.count.add(self.bytes, bytes.len())?;
        while !bytes.is_empty() {
            self.to.writable().await?;
            match self.to.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => bytes = bytes.get(written?..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    async fn through(&self, reader: &OwnedFd, writer: &OwnedFd) -> Result<(), End> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        loop {
            self.from.readable().await?;
            let taken = self.from.try_io(Interest::READABLE, || {
                // The pipe is empty here, so it is the socket that would block.
                Ok(splice(self.from, None, writer, None, PIPE, flags)?)
            });
            let mut left = match taken {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                taken => taken?,
            };
            self.may_go_on()?;
            if left == 0 {
                return self.end();
            }
            self.count.add(self.bytes, left)?;
            while left > 0 {
                self.to.writable().await?;
                let given = self.to.try_io(Interest::WRITABLE, || {
                    Ok(splice(reader, None, self.to, None, left, flags)?)
                });
                match given {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                    given => left = left.saturating_sub(given?),
                }
            }
        }
    }

    /// Between what an app reads and what it sends then lies this look.
    fn may_go_on(&self) -> Result<(), End> {
        match self.lease.is_some_and(Lease::is_cut) {
            true => Err(End::Cut),
            false => Ok(()),
        }
    }

    fn end(&self) -> Result<(), End> {
        // This half alone: what is under way in the other direction still arrives.
        rustix::net::shutdown(self.to, Shutdown::Write).map_err(io::Error::from)?;
        Ok(())
    }
}
