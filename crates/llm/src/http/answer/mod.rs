//! The answer of a server: bytes in, pieces of text and a completion out. No I/O and no clock here.

pub(crate) mod assembly;
mod chat;
mod messages;
mod raw;
pub(crate) mod refused;
mod responses;
mod sse;

use std::time::Duration;

use hub::Completion;

use self::assembly::Assembly;
use self::refused::Refused;
use self::sse::{Event, SseParser, TooLarge};
use super::Dialect;

/// What an answer may have at most, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// A streamed answer, all that keeps its connection alive included.
    pub(crate) stream: usize,
    /// An event of it.
    pub(crate) event: usize,
}

/// Reads one answer: a stream of events, or JSON. Which one it is follows from its first byte, since servers send both under
/// any content type. After an error it must not be used again, but for the pieces that came before it.
///
/// Times are those since the request.
#[derive(Debug)]
pub(crate) struct Reader {
    dialect: Dialect,
    bounds: Bounds,
    received: usize,
    parser: SseParser,
    /// Whether it is JSON; `None` before its first byte.
    is_json: Option<bool>,
    /// Such an answer so far, or what came before it was known to be none.
    json: Vec<u8>,
    assembly: Assembly,
    /// The server has said that nothing follows.
    is_finished: bool,
    /// Nothing follows.
    is_over: bool,
}

impl Reader {
    /// At the beginning of an answer.
    pub(crate) fn new(dialect: Dialect, bounds: Bounds) -> Self {
        Self {
            dialect,
            bounds,
            received: 0,
            parser: SseParser::new(bounds.event),
            is_json: None,
            json: Vec::new(),
            assembly: Assembly::new(dialect),
            is_finished: false,
            is_over: false,
        }
    }

    /// Takes the next bytes. What follows the end is passed over, whether it is an event, an error or no
    /// event at all: a later piece is not read, so the rest of this one must not count either.
    pub(crate) fn push(&mut self, bytes: &[u8], at: Duration) -> Result<(), Refused> {
        // All bytes count, comments and empty events too: they keep a connection alive, and say nothing.
        let room = self.bounds.stream.saturating_sub(self.received);
        let within = bytes.get(..room).unwrap_or(bytes);
        self.received = self.received.saturating_add(within.len());
        if self.is_json.is_none() {
            let first = within.iter().find(|byte| byte.is_ascii_graphic());
            self.is_json = first.map(|byte| matches!(byte, b'{' | b'['));
        }
        let mut pushed = Ok(());
        // Blanks before the first byte belong to whichever form it begins.
        self.json.extend_from_slice(within);
        if self.is_json == Some(false) {
            pushed = self.parser.push(&std::mem::take(&mut self.json));
            while !self.is_finished
                && let Some(event) = self.parser.next_event()
            {
                self.event(&event, at)?;
            }
        }
        // Errors of the parser are behind the events that were ready.
        match pushed {
            _ if self.is_finished => Ok(()),
            Err(TooLarge) => Err(Refused::TooLarge {
                what: "an event of the answer",
                limit: self.bounds.event,
            }),
            // A cut answer could still parse, as one that lacks its end.
            Ok(()) if within.len() < bytes.len() => Err(Refused::TooLarge {
                what: "the answer",
                limit: self.bounds.stream,
            }),
            Ok(()) => Ok(()),
        }
    }

    fn event(&mut self, event: &Event, at: Duration) -> Result<(), Refused> {
        let data = event.data.trim();
        let rest = data.strip_suffix("[DONE]");
        self.is_finished = rest.is_some();
        let taken = self.assembly.take(rest.unwrap_or(data), event.is_error, at);
        self.is_finished |= self.assembly.is_finished;
        taken
    }

    /// The body has ended.
    pub(crate) fn end(&mut self, at: Duration) -> Result<(), Refused> {
        self.is_over = true;
        if self.is_json == Some(true) {
            let text = String::from_utf8_lossy(&self.json);
            let text = text.trim().trim_start_matches('\u{feff}').trim_start();
            let rest = text.strip_suffix("[DONE]");
            self.assembly.take(rest.unwrap_or(text), false, at)?;
            // The end of the body is the end of a whole message. Pieces could have been cut off between two of them.
            let is_whole = !self.assembly.has_pieces || self.assembly.is_finished;
            self.is_finished = rest.is_some() || is_whole;
            return Ok(());
        }
        // Some servers leave out the empty line after the last event. Of a stream that was cut it is no event.
        match self.parser.finish().map(|event| self.event(&event, at)) {
            Some(Err(refused @ Refused::Reported(_))) => Err(refused),
            _ => Ok(()),
        }
    }

    /// What is to be passed on next: a piece of the text; never empty.
    pub(crate) fn poll(&mut self) -> Option<String> {
        self.assembly.poll()
    }

    /// Whether nothing follows.
    pub(crate) fn is_over(&self) -> bool {
        self.is_finished || self.is_over
    }

    /// Whether anything of an answer has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.assembly.has_begun()
    }

    /// The answer of this provider. One whose server has neither said why nor that it ended is cut off, and must not pass
    /// for a whole one.
    pub(crate) fn complete(self, provider: &str, at: Duration) -> Result<Completion, Refused> {
        let stray = self.parser.stray().to_owned();
        let completion = self.assembly.complete(provider, self.is_finished, at);
        completion.ok_or_else(|| match self.is_finished {
            true => Refused::Malformed("there is no message in it".to_owned()),
            false if !stray.is_empty() => {
                Refused::Malformed(format!("not {}: {stray}", self.dialect.answer()))
            }
            false => Refused::Cut,
        })
    }
}
