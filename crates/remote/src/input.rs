//! The client's lines.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, stdin};
use tokio::sync::mpsc;

use crate::http::MAX_MESSAGE;

/// Lines of the client that wait.
const QUEUE: usize = 4;

/// The client's lines. The client is the spoke, whose lines are bounded; a longer one ends them.
pub(crate) fn lines() -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let mut input = BufReader::new(stdin());
        loop {
            let mut line = Vec::new();
            let mut bounded = (&mut input).take(2 * MAX_MESSAGE as u64);
            match bounded.read_until(b'\n', &mut line).await {
                Ok(1..) if line.ends_with(b"\n") => {}
                _ => return,
            }
            if sender.send(line).await.is_err() {
                return;
            }
        }
    });
    lines
}
