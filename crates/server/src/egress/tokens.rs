//! Where the program that speaks to a remote server is told which token to send.
//!
//! A listener inside the spoke's own network, like a relay's, but it leads to the hub itself: only this spoke can ask
//! there. A question is a line with the token that the server has not taken, empty for none; the answer is a line, `+` and a
//! token or `-` and why there is none. What a token is renewed with stays in the hub.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::accepting::accept;

/// Longest question: a token that carries claims has a few thousand bytes.
const MAX_QUESTION: u64 = 20 << 10;
/// How long a question may take to come. It is sent at once.
const QUESTION: Duration = Duration::from_secs(5);

/// The tokens for one server, from a login of the user's.
#[async_trait]
pub trait Tokens: Send + Sync {
    /// The token to send: another one than `refused`, if there is one that the server has not taken. It takes as long as an
    /// authorization server is waited for, and no longer.
    ///
    /// # Errors
    /// Why there is none, in one line for the user.
    async fn token(&self, refused: Option<&str>) -> Result<String, String>;
}

/// Where a spoke asks for tokens, and who has them.
#[derive(Clone)]
pub struct TokenPort {
    /// The port on the spoke's own 127.0.0.1.
    pub port: u16,
    /// Who has them.
    pub tokens: Arc<dyn Tokens>,
}

/// Answers questions until it is dropped, one after the other: there is one program in a spoke that asks.
pub(super) async fn answer(listener: TcpListener, tokens: Arc<dyn Tokens>) {
    loop {
        let inside = accept(&listener).await;
        // Who breaks off has no answer, and may ask again.
        drop(one(inside, &*tokens).await);
    }
}

async fn one(inside: TcpStream, tokens: &dyn Tokens) -> std::io::Result<()> {
    let mut inside = BufReader::new(inside);
    let mut question = String::new();
    let mut bounded = (&mut inside).take(MAX_QUESTION);
    timeout(QUESTION, bounded.read_line(&mut question)).await??;
    // Cut by the limit or by the asker. Half of a token is not the one that the server has refused.
    let Some(refused) = question.strip_suffix('\n') else {
        return Ok(());
    };
    let refused = Some(refused).filter(|refused| !refused.is_empty());
    let answer = match tokens.token(refused).await {
        Ok(token) => format!("+{token}"),
        // A line break within the reason would end the answer, and the rest would be taken for another one.
        Err(why) => format!("-{}", why.replace('\n', " ")),
    };
    timeout(QUESTION, inside.write_all(format!("{answer}\n").as_bytes())).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    #[async_trait]
    impl Tokens for One {
        async fn token(&self, refused: Option<&str>) -> Result<String, String> {
            match refused {
                None => Ok("first".to_owned()),
                Some("first") => Ok("second".to_owned()),
                Some(_) => Err("no\nmore".to_owned()),
            }
        }
    }

    #[tokio::test]
    async fn a_question_is_a_line_and_so_is_the_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let serving = tokio::spawn(answer(listener, Arc::new(One)));
        let long = "x".repeat(MAX_QUESTION as usize + 1);
        for (question, expected) in [
            ("\n", "+first\n"),
            ("first\n", "+second\n"),
            ("second\n", "-no more\n"),
            // What is no question has no answer, and does not hold up the next one.
            ("", ""),
            ("firs", ""),
            (&long, ""),
            ("\n", "+first\n"),
        ] {
            let mut asking = TcpStream::connect(at).await.unwrap();
            // It may be cut off while it writes.
            let _ = asking.write_all(question.as_bytes()).await;
            let _ = asking.shutdown().await;
            let mut heard = String::new();
            let _ = asking.read_to_string(&mut heard).await;
            assert_eq!(heard, expected, "{}", question.len());
        }
        serving.abort();
    }
}
