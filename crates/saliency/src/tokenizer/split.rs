//! Cutting text into words as SmolLM2 was trained: digits stand alone, everything else is GPT-2's words.
//!
//! GPT-2's published pattern ends in `\s+(?!\S)|\s+`: a run of white space leaves its last character
//! to the word after it. An engine with look-ahead can be made to take quadratic time by some
//! patterns; ours has none and is linear, so the last character is given back afterwards.

use std::ops::Range;

use regex::Regex;

use super::TokenizerError;

const DIGIT: &str = r"\p{N}";
/// GPT-2's words, without the look-ahead. Every character begins a match, so there is nothing between two.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";

/// Both patterns; every match is a piece.
#[derive(Debug)]
pub(super) struct Splitter {
    digit: Regex,
    word: Regex,
}

impl Splitter {
    pub(super) fn new() -> Result<Self, TokenizerError> {
        Ok(Self {
            digit: Regex::new(DIGIT)?,
            word: Regex::new(GPT_2)?,
        })
    }

    /// The words of a text, in order and without gaps.
    pub(super) fn words(&self, text: &str) -> Vec<Range<usize>> {
        let mut words = Vec::with_capacity(text.len() / 4);
        let mut done = 0;
        for digit in self.digit.find_iter(text) {
            self.cut(text, done..digit.start(), &mut words);
            words.push(digit.range());
            done = digit.end();
        }
        self.cut(text, done..text.len(), &mut words);
        words
    }

    /// GPT-2's words of a part without digits. A run of white space at the part's end stays whole.
    fn cut(&self, text: &str, part: Range<usize>, words: &mut Vec<Range<usize>>) {
        let text = text.get(part.clone()).unwrap_or_default();
        let mut done = 0;
        while let Some(found) = self.word.find_at(text, done) {
            // Never the whole match: a run has at least two characters and gives back one, so each round
            // advances.
            let end = found.end() - given_back(found.as_str(), found.end() == text.len());
            words.push(part.start + done..part.start + end);
            done = end;
        }
    }
}

/// Bytes of the last character of a run of white space that something follows; none of a single character.
fn given_back(run: &str, at_end: bool) -> usize {
    let mut characters = run.chars();
    let last = characters.next_back().filter(|c| c.is_whitespace());
    let is_run = characters.next().is_some_and(char::is_whitespace);
    match last {
        Some(last) if is_run && !at_end => last.len_utf8(),
        _ => 0,
    }
}
