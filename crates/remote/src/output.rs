//! The way of messages to the spoke: one line each, and without the secrets that the server was sent.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

/// Shorter ones are words that may stand anywhere, as `Bearer`.
const MIN_SECRET: usize = 8;
/// What stands in the place of a secret that a server sends back.
const MASK: &[u8] = b"[secret]";

/// Writes messages, one after the other.
#[derive(Clone)]
pub(crate) struct Output {
    writer: Arc<Mutex<Box<dyn AsyncWrite + Send + Unpin>>>,
    secrets: Arc<[Vec<u8>]>,
}

impl Output {
    /// Whatever of these headers' values comes back is masked: a server that quotes a token in an error would put it into the
    /// trace. One that means to tell it finds another way, to somebody who may see its results.
    pub(crate) fn new(
        writer: impl AsyncWrite + Send + Unpin + 'static,
        headers: &BTreeMap<String, String>,
    ) -> Self {
        // `Bearer TOKEN` is a secret by its second word.
        let words = headers.values().flat_map(|value| value.split(' '));
        let secrets = words.filter(|word| word.len() >= MIN_SECRET);
        let secrets = secrets.map(|word| word.as_bytes().to_vec());
        Self {
            writer: Arc::new(Mutex::new(Box::new(writer))),
            secrets: secrets.collect(),
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
        let mut line = self.mask(message);
        line.push(b'\n');
        let mut writer = self.writer.lock().await;
        writer.write_all(&line).await?;
        writer.flush().await
    }

    /// The text without secrets.
    pub(crate) fn mask(&self, mut text: Vec<u8>) -> Vec<u8> {
        for secret in &*self.secrets {
            text = replaced(text, secret);
        }
        text
    }
}

fn replaced(text: Vec<u8>, secret: &[u8]) -> Vec<u8> {
    let mut rest = text.as_slice();
    let mut masked = Vec::new();
    while let Some(at) = rest
        .windows(secret.len())
        .position(|window| window == secret)
    {
        masked.extend_from_slice(rest.get(..at).unwrap_or_default());
        masked.extend_from_slice(MASK);
        rest = rest.get(at + secret.len()..).unwrap_or_default();
    }
    if masked.is_empty() {
        return text;
    }
    masked.extend_from_slice(rest);
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_sends_back_of_a_secret_is_masked() {
        let headers = BTreeMap::from([(
            "Authorization".to_owned(),
            "Bearer token-of-mine".to_owned(),
        )]);
        let output = Output::new(tokio::io::sink(), &headers);
        let check = |text: &str, expected: &str| {
            let masked = output.mask(text.as_bytes().to_vec());
            assert_eq!(String::from_utf8(masked).unwrap(), expected);
        };
        check("the bearer of nothing", "the bearer of nothing");
        check("token-of-mine, token-of-mine!", "[secret], [secret]!");
        check("token-of", "token-of");
    }
}
