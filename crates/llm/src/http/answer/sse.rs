//! Server-sent events: bytes in, the `data` of whole events out. Sans-IO.

use std::collections::VecDeque;

/// Characters of a line that is no field: enough for a message.
const STRAY: usize = 300;

/// An event is longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// An event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its `data`; bytes that are no UTF-8 are replaced.
    pub(super) data: String,
    /// Whether the server calls it an error, by its name or by its field (`error:`).
    pub(super) is_error: bool,
}

/// Splits a byte stream into events, regardless of how the network cut it.
///
/// Holds at most one unfinished event of `limit` bytes beside the events that one `push` finished.
/// A line that is a JSON object counts as `data`: some servers leave the field's name out.
#[derive(Debug)]
pub(super) struct SseParser {
    limit: usize,
    /// The unfinished line.
    line: Vec<u8>,
    /// The `data` lines of the unfinished event, each ended by `\n`.
    data: Vec<u8>,
    is_error: bool,
    /// The beginning of the first line that is no field.
    stray: String,
    /// The last byte was `\r`, so a `\n` that follows belongs to it.
    after_cr: bool,
    /// No line has ended yet, so a byte-order mark may lead this one.
    first_line: bool,
    ready: VecDeque<Event>,
}

impl SseParser {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            is_error: false,
            stray: String::new(),
            after_cr: false,
            first_line: true,
            ready: VecDeque::new(),
        }
    }

    /// Takes the next bytes. After an error the parser must not be used again.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                // The second half of a CRLF, which may come with the next bytes of the network.
                b'\n' if after_cr => {}
                b'\n' | b'\r' => self.end_line(),
                // Both count: an event can also grow by many short lines.
                _ if self.line.len() + self.data.len() >= self.limit => {
                    return Err(TooLarge);
                }
                _ => self.line.push(byte),
            }
        }
        Ok(())
    }

    /// The next whole event.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    /// The event that the end of the stream leaves without its empty line.
    pub(super) fn finish(&mut self) -> Option<Event> {
        self.end_line();
        self.end_event();
        self.ready.pop_front()
    }

    /// The beginning of the first line that is no field; empty if there is none.
    pub(super) fn stray(&self) -> &str {
        &self.stray
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event();
        }
        // The HTML standard, "Interpreting an event stream": one space after the colon is dropped,
        // and a line without a colon is a field with an empty value. Comments begin with a colon.
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.get(1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let value = match field.to_ascii_lowercase().as_slice() {
            b"data" => value,
            b"error" => {
                self.is_error = true;
                value
            }
            b"event" => {
                self.is_error |= value.eq_ignore_ascii_case(b"error");
                return;
            }
            b"" | b"id" | b"retry" => return,
            _ if line.starts_with(b"{") => line,
            _ => {
                if self.stray.is_empty() {
                    let text = String::from_utf8_lossy(line);
                    self.stray = text.chars().take(STRAY).collect();
                }
                return;
            }
        };
        self.data.extend_from_slice(value);
        self.data.push(b'\n');
    }

    fn end_event(&mut self) {
        let mut data = std::mem::take(&mut self.data);
        let is_error = std::mem::take(&mut self.is_error);
        // Without the last line's own `\n`. An event without `data` lines, such as a comment that
        // keeps the connection alive, is none.
        if data.pop().is_some() {
            let data = String::from_utf8_lossy(&data).into_owned();
            self.ready.push_back(Event { data, is_error });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(chunks: &[&[u8]]) -> Result<Vec<String>, TooLarge> {
        let mut parser = SseParser::new(1000);
        let mut events = Vec::new();
        for chunk in chunks {
            parser.push(chunk)?;
            events.extend(std::iter::from_fn(|| parser.next_event().map(|it| it.data)));
        }
        Ok(events)
    }

    fn check(input: &str, expected: &[&str]) {
        assert_eq!(parse(&[input.as_bytes()]).unwrap(), expected, "{input:?}");
    }

    #[test]
    fn events_are_split_as_the_standard_says() {
        check("data: a\n\n", &["a"]);
        check("data:a\r\n\r\ndata: b\r\rdata:  c\n\n", &["a", "b", " c"]);
        check("data: a\ndata: b\ndata\n\n", &["a\nb\n"]);
        check(": comment\nevent: x\nid: 1\ndata: a\n\n\n\n", &["a"]);
        check("\u{feff}data: a\n\n", &["a"]);
        check("database: no\n\ndata: unfinished\n", &[]);
        check("data:\n\n", &[""]);
    }

    #[test]
    fn limits_are_enforced_and_wrong_bytes_cost_themselves() {
        let long = vec![b'x'; 1001];
        assert_eq!(parse(&[&long]), Err(TooLarge));
        let many = "data: x\n".repeat(1000);
        assert_eq!(parse(&[many.as_bytes()]), Err(TooLarge));
        assert_eq!(parse(&[b"data: a\xffb\n\n"]).unwrap(), ["a\u{fffd}b"]);
        // The limit is per event, not per stream.
        let stream = "data: x\n\n".repeat(1000);
        assert_eq!(parse(&[stream.as_bytes()]).unwrap().len(), 1000);
    }

    #[test]
    fn errors_and_lines_without_a_field_are_found() {
        let mut parser = SseParser::new(1000);
        let lines = "event: error\ndata: a\n\nERROR: b\n\nData: c\n\n{\"d\":1}\n\nwell\n\ndata: e";
        parser.push(lines.as_bytes()).unwrap();
        let ready = std::iter::from_fn(|| parser.next_event()).map(|it| (it.data, it.is_error));
        let ready: Vec<_> = ready.collect();
        let expected = [("a", true), ("b", true), ("c", false), ("{\"d\":1}", false)];
        assert_eq!(
            ready,
            expected.map(|(data, is_error)| (data.to_owned(), is_error))
        );
        assert_eq!(parser.finish().unwrap().data, "e");
        assert_eq!((parser.finish(), parser.stray()), (None, "well"));
    }

    proptest! {
        #[test]
        fn the_cuts_of_the_network_do_not_matter(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), proptest::sample::select(&b"data: \r\n"[..])], 0..400),
            cut in 0usize..400, step in 1usize..7,
        ) {
            let at_once = parse(&[&bytes]);
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(&parse(&[head, tail]), &at_once);
            let pieces: Vec<&[u8]> = bytes.chunks(step).collect();
            prop_assert_eq!(&parse(&pieces), &at_once);
        }

        #[test]
        fn what_is_written_is_read(events in proptest::collection::vec("[^\r]{0,40}", 0..9)) {
            let text: String = events
                .iter()
                .map(|e| e.split('\n').map(|l| format!("data: {l}\n")).collect::<String>() + "\n")
                .collect();
            prop_assert_eq!(parse(&[text.as_bytes()]).unwrap(), events);
        }
    }
}
