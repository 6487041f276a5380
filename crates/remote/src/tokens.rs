//! The token that each request carries, as the hub says it.
//!
//! The hub listens on a port of the spoke's own network, which no other process can reach. A question is a line with the token that the
//! server has not taken, empty for none; the answer is a line, `+` and a token or `-` and why there is none. What a token is
//! renewed with never comes here.

use std::net::Ipv4Addr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::mask::Mask;
use crate::trouble::Trouble;

/// Longest answer: a token that carries claims has a few thousand bytes.
const MAX_ANSWER: u64 = 20 << 10;

/// Asks the hub for tokens, and remembers the one that is in use.
pub(crate) struct Tokens {
    port: u16,
    mask: Mask,
    current: Mutex<Option<String>>,
}

impl Tokens {
    /// Tokens from the hub at this port. None of them may be shown.
    pub(crate) fn new(port: u16, mask: Mask) -> Self {
        Self {
            port,
            mask,
            current: Mutex::default(),
        }
    }

    pub(crate) async fn current(&self) -> Result<String, Trouble> {
        self.other_than("").await
    }

    /// A token other than this one, which the server has not taken.
    pub(crate) async fn other_than(&self, refused: &str) -> Result<String, Trouble> {
        // Of several requests that fail with one token, the first asks for another and the others get that.
        let mut current = self.current.lock().await;
        if let Some(token) = current.as_ref().filter(|token| *token != refused) {
            return Ok(token.clone());
        }
        let answer = self.ask(refused).await;
        let answer = answer.map_err(|error| Trouble::NoToken(error.to_string()))?;
        match answer.split_at_checked(1) {
            // Known to the mask before it is used, so that no answer can quote it.
            // The refused token again is no other one: it would only be refused once more.
            Some(("+", token)) if token != refused => {
                self.mask.add_token(token);
                Ok(current.insert(token.to_owned()).clone())
            }
            Some(("-", why)) => Err(Trouble::NoToken(why.to_owned())),
            _ => Err(Trouble::NoToken("the hub has none".to_owned())),
        }
    }

    async fn ask(&self, refused: &str) -> std::io::Result<String> {
        let mut hub = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
        hub.write_all(format!("{refused}\n").as_bytes()).await?;
        let mut answer = String::new();
        let mut bounded = BufReader::new(hub.take(MAX_ANSWER));
        bounded.read_line(&mut answer).await?;
        Ok(answer.trim_end_matches('\n').to_owned())
    }
}
