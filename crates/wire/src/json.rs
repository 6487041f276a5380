//! A bound on JSON before anything parses it.

use memchr::memchr2;

use crate::limits::{MAX_JSON_DEPTH, MAX_JSON_NODES};

/// Counts nesting and values of JSON text byte by byte, without recursion and without keeping the
/// text, so that a hostile document is refused at the byte that goes too far.
///
/// It does not check that the text is JSON: the parser that follows does. On text that is not JSON
/// the counts are those of its brackets, commas and quotes.
#[derive(Debug, Clone)]
pub struct JsonScan {
    max_depth: usize,
    max_nodes: usize,
    depth: usize,
    nodes: usize,
    state: ScanState,
}

/// JSON text goes past a limit, or is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Arrays and objects are nested deeper than the limit.
    #[error("JSON is nested deeper than {0} levels")]
    TooDeep(usize),
    /// The text holds more values than the limit.
    #[error("JSON holds more than {0} values")]
    TooManyNodes(usize),
    /// The text is not one JSON value.
    #[error("not valid JSON")]
    Invalid,
    /// The text is JSON but not an object, where an object is needed.
    #[error("a JSON object is needed")]
    NotAnObject,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanState {
    Plain,
    InString,
    Escaped,
}

impl Default for JsonScan {
    /// The limits for text that an app or a model writes.
    fn default() -> Self {
        Self::new(MAX_JSON_DEPTH, MAX_JSON_NODES)
    }
}

impl JsonScan {
    /// A scan with limits of its own.
    pub const fn new(max_depth: usize, max_nodes: usize) -> Self {
        Self {
            max_depth,
            max_nodes,
            depth: 0,
            nodes: 1,
            state: ScanState::Plain,
        }
    }

    /// Looks at the next bytes of the text.
    ///
    /// # Errors
    /// [`JsonError::TooDeep`] or [`JsonError::TooManyNodes`] at the byte that passes the limit.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), JsonError> {
        loop {
            if self.state == ScanState::InString {
                // Most of a document is text, of which only its end and escapes count.
                let skipped = memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
                bytes = bytes.get(skipped..).unwrap_or_default();
            }
            let Some((byte, rest)) = bytes.split_first() else {
                return Ok(());
            };
            self.step(*byte)?;
            bytes = rest;
        }
    }

    fn step(&mut self, byte: u8) -> Result<(), JsonError> {
        match (self.state, byte) {
            (ScanState::InString, b'\\') => self.state = ScanState::Escaped,
            (ScanState::InString, b'"') => self.state = ScanState::Plain,
            // One byte is enough: in JSON what follows the `u` of an escape is neither a quote nor a backslash.
            (ScanState::Escaped, _) => self.state = ScanState::InString,
            (ScanState::InString, _) => {}
            (ScanState::Plain, b'"') => self.state = ScanState::InString,
            (ScanState::Plain, b'[' | b'{') => {
                self.depth = self.depth.saturating_add(1);
                if self.depth > self.max_depth {
                    return Err(JsonError::TooDeep(self.max_depth));
                }
                self.count_node()?;
            }
            // A bracket too many is not JSON, which the parser reports. Here the count must not wrap around.
            (ScanState::Plain, b']' | b'}') => self.depth = self.depth.saturating_sub(1),
            // The value behind it; the first one of an array or an object was counted with the bracket.
            (ScanState::Plain, b',') => self.count_node()?,
            (ScanState::Plain, _) => {}
        }
        Ok(())
    }

    fn count_node(&mut self) -> Result<(), JsonError> {
        self.nodes = self.nodes.saturating_add(1);
        if self.nodes > self.max_nodes {
            return Err(JsonError::TooManyNodes(self.max_nodes));
        }
        Ok(())
    }
}

/// Checks that `text` is one JSON object within the limits for untrusted JSON.
pub fn check_object(text: &str) -> Result<(), JsonError> {
    JsonScan::default().feed(text.as_bytes())?;
    // The white space of JSON alone; `trim` knows more, which no JSON begins with.
    let text = text.trim_start_matches([' ', '\t', '\n', '\r']);
    if !text.starts_with('{') {
        return Err(JsonError::NotAnObject);
    }
    // The syntax alone is checked: `IgnoredAny` allocates nothing for the values.
    serde_json::from_str::<serde::de::IgnoredAny>(text)
        .map(|_| ())
        .map_err(|_| JsonError::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str, depth: usize, nodes: usize) -> Result<(), JsonError> {
        JsonScan::new(depth, nodes).feed(text.as_bytes())
    }

    #[test]
    fn nesting_is_counted_outside_strings_only() {
        assert_eq!(scan("[[[]]]", 3, 100), Ok(()));
        assert_eq!(scan("[[[]]]", 2, 100), Err(JsonError::TooDeep(2)));
        assert_eq!(scan(r#"["[[[[\"[[[[\\"]"#, 1, 100), Ok(()));
        assert_eq!(scan(r#"["\\",[[1]]]"#, 2, 100), Err(JsonError::TooDeep(2)));
    }

    #[test]
    fn siblings_do_not_add_depth() {
        assert_eq!(scan("[[],[],[],[]]", 2, 100), Ok(()));
    }

    #[test]
    fn values_are_counted() {
        assert_eq!(scan("[1,2,3]", 4, 4), Ok(()));
        assert_eq!(scan("[1,2,3,4]", 4, 4), Err(JsonError::TooManyNodes(4)));
    }

    #[test]
    fn a_split_escape_is_seen() {
        let mut scan = JsonScan::new(1, 100);
        scan.feed(br#"["\"#).unwrap();
        assert_eq!(scan.feed(br#""[[["]"#), Ok(()));
    }

    proptest::proptest! {
        /// What is skipped within strings counts for nothing, however the text is cut into pieces.
        #[test]
        fn pieces_are_read_as_single_bytes(
            pieces in proptest::collection::vec("[\\[\\]{},\"\\\\a ]{0,12}", 0..8),
            depth in 0_usize..6,
            nodes in 1_usize..16,
        ) {
            let mut whole = JsonScan::new(depth, nodes);
            let mut single = whole.clone();
            let read = pieces.iter().try_for_each(|piece| whole.feed(piece.as_bytes()));
            let text = pieces.concat();
            let expected = text.bytes().try_for_each(|byte| single.step(byte));
            proptest::prop_assert_eq!(read, expected);
            proptest::prop_assert_eq!(whole.state, single.state);
        }
    }

    #[test]
    fn only_objects_pass_as_objects() {
        assert_eq!(check_object(" {\"a\": 1}"), Ok(()));
        assert_eq!(check_object("[1]"), Err(JsonError::NotAnObject));
        assert_eq!(check_object("{\"a\": }"), Err(JsonError::Invalid));
        assert_eq!(check_object("{} {}"), Err(JsonError::Invalid));
        assert_eq!(check_object(""), Err(JsonError::NotAnObject));
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(64), "]".repeat(64));
        assert_eq!(check_object(&deep), Err(JsonError::TooDeep(64)));
    }
}
