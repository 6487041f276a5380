//! The way of messages to the spoke: one line each, and without the secrets that the server was sent.

use std::io::{self, Write};
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

use crate::mask::Mask;
use crate::message;
use crate::trouble::Trouble;

/// Writes messages, one after the other.
#[derive(Clone)]
pub(crate) struct Output {
    writer: Arc<Mutex<Box<dyn AsyncWrite + Send + Unpin>>>,
    mask: Mask,
}

impl Output {
    /// Writes to `writer` what is left after `mask`.
    pub(crate) fn new(writer: impl AsyncWrite + Send + Unpin + 'static, mask: Mask) -> Self {
        Self {
            writer: Arc::new(Mutex::new(Box::new(writer))),
            mask,
        }
    }

    /// Writes a message.
    pub(crate) async fn message(&self, mut message: Vec<u8>) -> io::Result<()> {
        // Outside of strings a line break is white space, and inside there is none.
        for byte in &mut message {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        let mut line = self.mask.apply(message);
        line.push(b'\n');
        // Held for the whole line: several requests are answered at a time.
        let mut writer = self.writer.lock().await;
        writer.write_all(&line).await?;
        writer.flush().await
    }

    /// Writes a line to stderr, of which the spoke quotes the end if the program fails.
    pub(crate) fn warning(&self, line: String) {
        let line = self.mask.apply((line + "\n").into_bytes());
        // Nothing depends on whether anybody reads it.
        let _ = io::stderr().write_all(&line);
    }
}

/// Tells the client that a request has no result.
pub(crate) async fn refuse(output: &Output, id: &str, trouble: &Trouble) -> Result<(), Trouble> {
    let answer = message::error(id, &trouble.to_string());
    output.message(answer).await.map_err(gone)
}

/// The spoke is gone.
pub(crate) fn gone(error: std::io::Error) -> Trouble {
    Trouble::Broken(error.to_string())
}
