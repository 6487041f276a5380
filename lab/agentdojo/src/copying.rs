//! An attention screener for tests: its model attends to the codes that it repeats.

use std::sync::Arc;

use screen::attention::AttentionScreener;
use screen::attention::testing::{Copying, Words, by_sum};

/// Codes (letters and digits, such as an account): any other word may be anybody's.
fn is_code(word: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

/// A region that has a twentieth of all attention is relevant.
pub(crate) fn copying() -> Arc<AttentionScreener> {
    let words = Arc::new(Words(is_code));
    Arc::new(AttentionScreener::new(Arc::new(Copying), words, Arc::new(by_sum())).unwrap())
}
