//! A pattern on the first line, then a text. Reading and matching must not panic, and no match is longer than an identifier.

use policy::Pattern;

/// Longest identifier, as the crate documents it.
const MAX_LENGTH: usize = 64;

pub(crate) fn policy_pattern(bytes: &[u8]) -> bool {
    let Ok(input) = std::str::from_utf8(bytes) else {
        return false;
    };
    let (written, text) = input.split_once('\n').unwrap_or((input, "INV-1234"));
    match written.parse::<Pattern>() {
        Ok(pattern) => {
            let matches = pattern.matches(text);
            assert!(!matches || text.len() <= MAX_LENGTH);
            // What matches is believed to be an identifier: it must not hold a sentence.
            assert!(!matches || !text.contains(char::is_whitespace));
            assert_eq!(pattern.as_str(), written);
            matches
        }
        Err(error) => {
            assert!(error.offset <= written.len() && !error.message.is_empty());
            false
        }
    }
}
