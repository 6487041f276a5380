//! Frames from and to the hub over a tokio stream.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use wire::{Decoder, HubFrame};

/// Portion in which the channel is read.
const READ_PORTION: usize = 64 << 10;

/// The hub's frames.
pub(crate) struct Inbox {
    stream: OwnedReadHalf,
    decoder: Decoder<HubFrame>,
    portion: Vec<u8>,
    /// What of the portion is not decoded yet.
    rest: std::ops::Range<usize>,
}

/// The hub sent something that is not a frame.
pub(crate) struct BadFrame;

impl Inbox {
    pub(crate) fn new(stream: OwnedReadHalf) -> Self {
        Self {
            stream,
            decoder: Decoder::new(),
            portion: vec![0; READ_PORTION],
            rest: 0..0,
        }
    }

    /// The next frame; `None` when the hub is gone. Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<HubFrame>, BadFrame> {
        loop {
            let mut input = self.portion.get(self.rest.clone()).unwrap_or_default();
            let frame = self.decoder.decode(&mut input).map_err(|_| BadFrame)?;
            // Noted before the next await: the caller may drop this future there, and what was decoded must not
            // be read twice.
            self.rest.start = self.rest.end.saturating_sub(input.len());
            if frame.is_some() {
                return Ok(frame);
            }
            match self.stream.read(&mut self.portion).await {
                Ok(0) => return self.decoder.finish().map(|()| None).map_err(|_| BadFrame),
                Ok(read) => self.rest = 0..read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A reset channel is a hub that is gone.
                Err(_) => return Ok(None),
            }
        }
    }
}

/// Writes encoded frames until there are no more senders or no hub.
pub(crate) async fn write_frames(mut stream: OwnedWriteHalf, mut frames: mpsc::Receiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if stream.write_all(&frame).await.is_err() {
            return;
        }
    }
}
