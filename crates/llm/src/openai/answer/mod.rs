//! The answer of a server: bytes in, pieces of text and a completion out. No I/O and no clock here.

mod assembly;
pub(crate) mod refused;
mod sse;

use std::time::Duration;

use hub::Completion;

use self::assembly::Assembly;
pub(crate) use self::assembly::Piece;
use self::refused::Refused;
use self::sse::{SseError, SseParser};

/// What an answer may have at most, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// A streamed answer, all that keeps its connection alive included.
    pub(crate) stream: usize,
    /// An event of it.
    pub(crate) event: usize,
}

/// Reads one answer. After an error it must not be used again, but for the pieces that came before it.
///
/// Times are those since the request.
#[derive(Debug)]
pub(crate) struct Reader {
    bounds: Bounds,
    received: usize,
    parser: SseParser,
    assembly: Assembly,
    /// The server has said that nothing follows.
    is_finished: bool,
}

impl Reader {
    /// At the beginning of an answer.
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            received: 0,
            parser: SseParser::new(bounds.event),
            assembly: Assembly::default(),
            is_finished: false,
        }
    }

    /// Takes the next bytes of a stream. What follows `[DONE]` is passed over, whether it is an event, an error or no
    /// event at all: a later piece is not read, so the rest of this one must not count either.
    pub(crate) fn stream(&mut self, bytes: &[u8], at: Duration) -> Result<(), Refused> {
        // All bytes count, comments and empty events too: they keep a connection alive, and say nothing.
        let room = self.bounds.stream.saturating_sub(self.received);
        let within = bytes.get(..room).unwrap_or(bytes);
        self.received = self.received.saturating_add(within.len());
        let pushed = self.parser.push(within);
        while !self.is_finished
            && let Some(event) = self.parser.next_event()
        {
            match event.trim() {
                "[DONE]" => self.is_finished = true,
                _ => self.assembly.chunk(event.as_bytes(), at)?,
            }
        }
        // Errors of the parser are behind the events that were ready.
        match pushed {
            _ if self.is_finished => Ok(()),
            Err(SseError::TooLarge) => Err(Refused::TooLarge {
                what: "an event of the answer",
                limit: self.bounds.event,
            }),
            Err(SseError::NotUtf8) => {
                Err(Refused::Malformed("an event is not valid UTF-8".to_owned()))
            }
            Ok(()) if within.len() < bytes.len() => Err(Refused::TooLarge {
                what: "the answer",
                limit: self.bounds.stream,
            }),
            Ok(()) => Ok(()),
        }
    }

    /// Takes the body of an answer that is no stream.
    pub(crate) fn whole(&mut self, body: &[u8], at: Duration) -> Result<(), Refused> {
        self.is_finished = true;
        self.assembly.chunk(body, at)
    }

    /// What is to be passed on next.
    pub(crate) fn poll(&mut self) -> Option<Piece> {
        self.assembly.poll()
    }

    /// Whether the server has said that nothing follows.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Whether anything of an answer has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.assembly.has_begun()
    }

    /// The answer, or `None` when the server has not said why it stopped: a cut-off answer must not pass for a whole one.
    pub(crate) fn complete(self, at: Duration) -> Option<Completion> {
        self.assembly.complete(self.is_finished, at)
    }
}
