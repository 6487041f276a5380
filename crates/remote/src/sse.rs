//! Server-sent events, read byte by byte with a limit. No I/O here.

use std::time::Duration;

/// Longest id of an event that is kept; it goes back in a header.
const MAX_ID: usize = 1 << 10;
/// Longest name of an event.
const MAX_NAME: usize = 64;

/// One event.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its kind; empty for a message.
    pub(crate) name: String,
    /// Its lines, joined.
    pub(crate) data: Vec<u8>,
}

/// A stream was longer without an end of its event than is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Cuts a stream into events.
#[derive(Debug)]
pub(crate) struct Parser {
    max: usize,
    line: Vec<u8>,
    /// The last byte was a carriage return, which ends a line alone or with the line feed after it.
    returned: bool,
    event: Event,
    has_data: bool,
    last_id: Option<String>,
    retry: Option<Duration>,
}

impl Parser {
    /// Refuses an event of more than `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            line: Vec::new(),
            returned: false,
            event: Event::default(),
            has_data: false,
            last_id: None,
            retry: None,
        }
    }

    /// The id of the newest event that had one: where a broken stream is to go on.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the server wants to be left alone before a stream is opened again.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes bytes, and gives the events that are complete with them.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.returned, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => events.extend(self.end_of_line()),
                byte => {
                    // Both together: an event may be one long line, or many short ones.
                    if self.line.len() + self.event.data.len() >= self.max {
                        return Err(TooLong);
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(events)
    }

    fn end_of_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            // An event without data is none.
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = match colon {
            Some(at) => (line.get(..at), line.get(at + 1..)),
            None => (Some(line.as_slice()), None),
        };
        let value = value.unwrap_or_default();
        // One blank behind the colon is of the form, any further one of the text.
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || std::str::from_utf8(value).ok();
        match field {
            Some(b"data") => {
                if self.has_data {
                    self.event.data.push(b'\n');
                }
                self.has_data = true;
                self.event.data.extend_from_slice(value);
            }
            Some(b"event") if value.len() <= MAX_NAME => {
                self.event.name = text().unwrap_or_default().to_owned();
            }
            // The standard passes over an id with a NUL.
            Some(b"id") if value.len() <= MAX_ID && !value.contains(&0) => {
                self.last_id = text().filter(|id| !id.is_empty()).map(str::to_owned);
            }
            Some(b"retry") => {
                let ms = text().and_then(|text| text.parse().ok());
                self.retry = ms.map(Duration::from_millis).or(self.retry);
            }
            // Comments, and what nobody knows.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str, portion: usize) -> Vec<(String, String)> {
        let mut parser = Parser::new(1000);
        let portions = text.as_bytes().chunks(portion);
        let events = portions.flat_map(|bytes| parser.feed(bytes).unwrap());
        let events = events.map(|event| (event.name, String::from_utf8(event.data).unwrap()));
        events.collect()
    }

    #[test]
    fn events_come_whole_in_any_portions() {
        let text = ": hello\r\ndata: one\r\n\r\nevent: endpoint\ndata:/x\n\ndata: a\rdata: b\r\rid: 7\n\nevent: x\n\ndata: cut";
        let own = |name: &str, data: &str| (name.to_owned(), data.to_owned());
        let expected = [own("", "one"), own("endpoint", "/x"), own("", "a\nb")];
        for portion in 1..text.len() {
            assert_eq!(events(text, portion), expected, "{portion}");
        }
    }

    #[test]
    fn a_stream_says_where_it_goes_on_and_when() {
        let mut parser = Parser::new(100);
        parser
            .feed(b"id: 7\nretry: 250\n\nid: 8\0\n\nretry: soon\n\n")
            .unwrap();
        assert_eq!(parser.last_id(), Some("7"));
        assert_eq!(parser.retry(), Some(Duration::from_millis(250)));
    }

    #[test]
    fn an_event_without_end_is_refused_at_its_limit() {
        let mut parser = Parser::new(100);
        for _ in 0..7 {
            assert_eq!(parser.feed(b"data: 1234567890\n"), Ok(Vec::new()));
        }
        assert_eq!(
            parser.feed(b"data: 1234567890\ndata: 1234567890\n"),
            Err(TooLong)
        );
        assert_eq!(Parser::new(10).feed(&[b'x'; 11]), Err(TooLong));
        // What nobody keeps costs nothing.
        let mut parser = Parser::new(100);
        for _ in 0..1000 {
            assert_eq!(parser.feed(b": still there\n\n"), Ok(Vec::new()));
        }
    }
}
