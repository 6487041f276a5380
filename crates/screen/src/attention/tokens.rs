//! Tokens, and the bytes that they are of.

use std::ops::Range;

pub use saliency::tokenizer::Token;
use saliency::tokenizer::Tokenizer;

/// The tokenizer of the model.
pub trait Encode {
    /// The tokens of a text, in order. Text never becomes a control token.
    fn encode(&self, text: &str) -> Vec<Token>;

    /// The control token of this name.
    fn control(&self, name: &str) -> Option<u32>;
}

impl Encode for Tokenizer {
    fn encode(&self, text: &str) -> Vec<Token> {
        self.encode(text)
    }

    fn control(&self, name: &str) -> Option<u32> {
        self.control(name)
    }
}

/// The tokens that overlap these bytes. A region without text, which is no less sensitive for
/// that, is seen by the token that stands before it, or else after it.
pub(super) fn covering(tokens: &[Token], bytes: &Range<usize>) -> Option<Range<usize>> {
    // Tokens are in order and without gaps, so both ends are found by halving.
    let start = tokens.partition_point(|token| token.bytes.end <= bytes.start);
    let end = tokens.partition_point(|token| token.bytes.start < bytes.end);
    if start < end {
        return Some(start..end);
    }
    // The token that ends where the region is. `None` only beyond the last token or where there is
    // none, and the caller then takes the region for unseen.
    let before = tokens.partition_point(|token| token.bytes.end < bytes.start);
    (before < tokens.len()).then(|| before..before + 1)
}
