//! Cutting text into words, in the ways that models were trained with.
//!
//! The published patterns end in `\s+(?!\S)|\s+`: a run of white space leaves its last character
//! to the word after it. An engine with look-ahead can be made to take quadratic time by some
//! patterns; ours has none and is linear, so the last character is given back afterwards.

use std::ops::Range;

use regex::Regex;

use super::TokenizerError;

/// Llama 3.
pub(super) const LLAMA_BPE: &str = "llama-bpe";

/// GPT-2's words, without the look-ahead.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";
/// Llama 3's words: digits by three, line ends with the punctuation before them.
const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";
/// Qwen 2's: the same with single digits.
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";

/// Steps, each of which cuts the pieces of the one before it.
#[derive(Debug)]
pub(super) struct Splitter(Vec<Step>);

/// Every match is a piece, and so is what lies between two.
#[derive(Debug)]
struct Step {
    pattern: Regex,
    spaces: Spaces,
}

/// What becomes of the last character of a run of white space before something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spaces {
    /// It stays.
    Keep,
    /// It is given back.
    GiveBack,
    /// It is given back unless it is a line end, for which the pattern has a branch of its own.
    GiveBackUnlessLineEnd,
}

impl Splitter {
    /// The way of that name (`tokenizer.ggml.pre`).
    pub(super) fn of(pre: &str) -> Result<Self, TokenizerError> {
        let steps: &[(&str, Spaces)] = match pre {
            "gpt-2" => &[(GPT_2, Spaces::GiveBack)],
            "smollm" => &[(r"\p{N}", Spaces::Keep), (GPT_2, Spaces::GiveBack)],
            // What llama.cpp does for models that do not say.
            "default" => &[
                (r"[\p{P}\$\+<=>\^~\|]+", Spaces::Keep),
                (GPT_2, Spaces::GiveBack),
                (r"\p{N}+", Spaces::Keep),
                (r"[0-9][0-9][0-9]", Spaces::Keep),
            ],
            LLAMA_BPE => &[(LLAMA_3, Spaces::GiveBackUnlessLineEnd)],
            "qwen2" => &[(QWEN_2, Spaces::GiveBackUnlessLineEnd)],
            other => return Err(TokenizerError::Split(other.to_owned())),
        };
        let steps = steps.iter().map(|&(pattern, spaces)| {
            Ok(Step {
                pattern: Regex::new(pattern)?,
                spaces,
            })
        });
        Ok(Self(steps.collect::<Result<_, TokenizerError>>()?))
    }

    /// The words of a text, in order and without gaps.
    pub(super) fn words(&self, text: &str) -> Vec<Range<usize>> {
        let mut pieces = vec![];
        if !text.is_empty() {
            pieces.push(0..text.len());
        }
        for step in &self.0 {
            let mut finer = Vec::with_capacity(pieces.len() + text.len() / 4);
            for piece in pieces {
                step.cut(text, piece, &mut finer);
            }
            pieces = finer;
        }
        pieces
    }
}

impl Step {
    fn cut(&self, text: &str, piece: Range<usize>, pieces: &mut Vec<Range<usize>>) {
        let part = text.get(piece.clone()).unwrap_or_default();
        let mut done = 0;
        while let Some(found) = self.pattern.find_at(part, done) {
            let end = self.end(part, found.start(), found.end());
            if found.start() > done {
                pieces.push(piece.start + done..piece.start + found.start());
            }
            pieces.push(piece.start + found.start()..piece.start + end);
            done = end;
        }
        if done < part.len() {
            pieces.push(piece.start + done..piece.end);
        }
    }

    /// Where a match ends, after a character was given back.
    fn end(&self, part: &str, start: usize, end: usize) -> usize {
        if self.spaces == Spaces::Keep || end == part.len() {
            return end;
        }
        let run = part.get(start..end).unwrap_or_default();
        let mut characters = run.chars();
        let Some(last) = characters.next_back().filter(|c| c.is_whitespace()) else {
            return end;
        };
        let line_end = matches!(last, '\r' | '\n');
        let stays = line_end && self.spaces == Spaces::GiveBackUnlessLineEnd;
        // Punctuation with line ends after it is no run of white space, and one alone stays.
        let first = characters.next();
        if stays || !first.is_some_and(char::is_whitespace) {
            return end;
        }
        end - last.len_utf8()
    }
}

/// How SentencePiece writes a space.
pub(super) const SPACE: char = '\u{2581}';

/// A character as the vocabulary writes it.
pub(super) fn written(character: char) -> char {
    if character == ' ' { SPACE } else { character }
}

/// Cuts before each space that does not follow another, or not at all.
pub(super) fn at_spaces(text: &str, cut: bool) -> impl Iterator<Item = Range<usize>> {
    let mut begin = 0;
    let mut after_space = true;
    let mut characters = text.char_indices();
    std::iter::from_fn(move || {
        if cut {
            for (at, character) in characters.by_ref() {
                let space = written(character) == SPACE;
                let begins = space && !after_space;
                after_space = space;
                if begins {
                    return Some(std::mem::replace(&mut begin, at)..at);
                }
            }
        }
        let rest = std::mem::replace(&mut begin, text.len())..text.len();
        (!rest.is_empty()).then_some(rest)
    })
}
