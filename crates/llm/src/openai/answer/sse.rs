//! Server-sent events: bytes in, the `data` of whole events out. Sans-IO.

use std::collections::VecDeque;

/// Why a stream of events is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SseError {
    /// An event is longer than the limit.
    TooLarge,
    /// An event is not UTF-8.
    NotUtf8,
}

/// Splits a byte stream into events, regardless of how the network cut it.
///
/// Holds at most one unfinished event of `limit` bytes beside the events that one `push` finished.
/// Fields other than `data` are ignored: chat completions do not use them.
#[derive(Debug)]
pub(super) struct SseParser {
    limit: usize,
    /// The unfinished line.
    line: Vec<u8>,
    /// The `data` lines of the unfinished event, each ended by `\n`.
    data: Vec<u8>,
    /// The last byte was `\r`, so a `\n` that follows belongs to it.
    after_cr: bool,
    /// No line has ended yet, so a byte-order mark may lead this one.
    first_line: bool,
    ready: VecDeque<String>,
}

impl SseParser {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            after_cr: false,
            first_line: true,
            ready: VecDeque::new(),
        }
    }

    /// Takes the next bytes. After an error the parser must not be used again.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                // The second half of a CRLF, which may come with the next bytes of the network.
                b'\n' if after_cr => {}
                b'\n' | b'\r' => self.end_line()?,
                // Both count: an event can also grow by many short lines.
                _ if self.line.len() + self.data.len() >= self.limit => {
                    return Err(SseError::TooLarge);
                }
                _ => self.line.push(byte),
            }
        }
        Ok(())
    }

    /// The data of the next whole event.
    pub(super) fn next_event(&mut self) -> Option<String> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event();
        }
        // The HTML standard, "Interpreting an event stream": one space after the colon is dropped,
        // and a line without a colon is a field with an empty value. Comments begin with a colon,
        // so they are no `data`.
        let value = match line.strip_prefix(b"data") {
            Some([]) => &[],
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            _ => return Ok(()),
        };
        self.data.extend_from_slice(value);
        self.data.push(b'\n');
        Ok(())
    }

    fn end_event(&mut self) -> Result<(), SseError> {
        let mut data = std::mem::take(&mut self.data);
        // Without the last line's own `\n`. An event without `data` lines, such as a comment that
        // keeps the connection alive, is none.
        if data.pop().is_some() {
            let data = String::from_utf8(data).map_err(|_| SseError::NotUtf8)?;
            self.ready.push_back(data);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(chunks: &[&[u8]]) -> Result<Vec<String>, SseError> {
        let mut parser = SseParser::new(1000);
        let mut events = Vec::new();
        for chunk in chunks {
            parser.push(chunk)?;
            events.extend(std::iter::from_fn(|| parser.next_event()));
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
    fn limits_and_encoding_are_enforced() {
        let long = vec![b'x'; 1001];
        assert_eq!(parse(&[&long]), Err(SseError::TooLarge));
        let many = "data: x\n".repeat(1000);
        assert_eq!(parse(&[many.as_bytes()]), Err(SseError::TooLarge));
        assert_eq!(parse(&[b"data: \xff\n\n"]), Err(SseError::NotUtf8));
        // The limit is per event, not per stream.
        let stream = "data: x\n\n".repeat(1000);
        assert_eq!(parse(&[stream.as_bytes()]).unwrap().len(), 1000);
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
