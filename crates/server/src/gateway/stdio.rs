//! A client at the other end of two pipes: one message a line.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Client, rpc};

/// Longest message. The arguments of a call have a megabyte at most.
const MAX_LINE: usize = 8 << 20;
/// Messages that wait for the client to read.
const OUTGOING: usize = 64;

impl Client {
    /// Serves until the client closes its pipe or `ended` resolves. Nothing of it runs afterwards.
    ///
    /// # Errors
    /// A pipe broke.
    pub async fn serve(
        self: Arc<Self>,
        input: impl AsyncRead + Unpin,
        mut output: impl AsyncWrite + Unpin + Send + 'static,
        ended: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (out, mut outgoing) = mpsc::channel::<String>(OUTGOING);
        let writer = tokio::spawn(async move {
            while let Some(mut message) = outgoing.recv().await {
                message.push('\n');
                output.write_all(message.as_bytes()).await?;
                output.flush().await?;
            }
            io::Result::Ok(())
        });
        let mut lines = Lines {
            input: BufReader::new(input),
            line: Vec::new(),
        };
        let mut tasks = JoinSet::new();
        let mut ended = std::pin::pin!(ended);
        let read = loop {
            let line = tokio::select! {
                line = lines.next() => line,
                () = &mut ended => break Ok(()),
            };
            // A `JoinSet` keeps finished tasks until they are taken out.
            while tasks.try_join_next().is_some() {}
            match line {
                Ok(Some(Ok(line))) if line.trim().is_empty() => {}
                Ok(Some(Ok(line))) => _ = tasks.spawn(Arc::clone(&self).handle(line, out.clone())),
                Ok(Some(Err(why))) => _ = out.send(rpc::error("null", rpc::PARSE_ERROR, why)).await,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.end().await;
        tasks.shutdown().await;
        drop(out);
        // A client that is gone reads no more.
        let _ = tokio::time::timeout(super::GOODBYE, writer).await;
        read
    }
}

struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// The next line; `None` at the end. A line that is too long or no text is skipped, with the reason. May be dropped at
    /// any time: what was read of a line is kept.
    async fn next(&mut self) -> io::Result<Option<Result<String, &'static str>>> {
        loop {
            let part = self.input.fill_buf().await?;
            if part.is_empty() {
                return Ok(None);
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(part.len(), |at| at + 1);
            // One byte more is kept, which says that the line is too long.
            let room = (MAX_LINE + 1).saturating_sub(self.line.len());
            self.line
                .extend_from_slice(part.get(..taken.min(room)).unwrap_or_default());
            self.input.consume(taken);
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                return Ok(Some(match line.len() > MAX_LINE {
                    true => Err("the message is too long"),
                    false => String::from_utf8(line).map_err(|_| "the message is no UTF-8"),
                }));
            }
        }
    }
}
