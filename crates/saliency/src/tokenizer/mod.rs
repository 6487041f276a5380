//! Text to tokens, with the vocabulary of the feature model's GGUF file: byte-level BPE, split as SmolLM2 was trained.
//!
//! All text is foreign text here: no text becomes a control token. A caller that builds a prompt inserts the control tokens ([`Tokenizer::control`]) between pieces of encoded text.
//!
//! Nothing is remembered from one text to the next. Time grows as n log n at worst. A word of more
//! than 4 KiB is encoded in pieces, so that memory does not grow with it: the tokens where two pieces meet may be
//! others than the reference's.
//!
//! Own code, because the well-kept crate for this (`tokenizers`) has some 25 dependencies of its
//! own, reads another file format, and is made to find the names of control tokens in text.

mod merge;
mod split;
mod vocabulary;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use crate::gguf::{Gguf, GgufError};
use merge::{Merges, Scratch};
use split::Splitter;
use vocabulary::Vocabulary;

/// Why a vocabulary cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file lacks something.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// `tokenizer.ggml.model` is another one.
    #[error("the model's tokenizer {0:?} is not supported: use a model with \"gpt2\"")]
    Kind(String),
    /// `tokenizer.ggml.pre` is another one.
    #[error(
        "the model splits its text by {0:?}, which is not supported: use a model with \"smollm\""
    )]
    Split(String),
    /// The vocabulary breaks a rule.
    #[error("the model's vocabulary is malformed: {0}")]
    Vocabulary(&'static str),
    /// Our own pattern, which a test compiles.
    #[error("a pattern cannot be compiled: {0}")]
    Pattern(#[from] regex::Error),
}

/// One token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its number in the vocabulary.
    pub id: u32,
    /// Which bytes of the text it stands for; never empty. A token may be a part of a character.
    pub bytes: Range<usize>,
}

/// The vocabulary of a model, and how it cuts text.
#[derive(Debug)]
pub struct Tokenizer {
    splitter: Splitter,
    merges: Merges,
    /// The token of a single byte, or what stands for a byte that the vocabulary lacks.
    of_byte: [u32; 256],
    control: HashMap<String, u32>,
    size: u32,
}

impl Tokenizer {
    /// Reads the vocabulary of a model.
    ///
    /// # Errors
    /// It is of a kind that is not supported, or breaks a rule.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, TokenizerError> {
        let vocabulary = Vocabulary::read(gguf)?;
        // Refused by name: another scheme or split would give other tokens without an error, and with them other
        // saliency than the classifier was trained with.
        let kind = gguf.str("tokenizer.ggml.model")?;
        if kind != "gpt2" {
            return Err(TokenizerError::Kind(kind.to_owned()));
        }
        let pre = gguf.str("tokenizer.ggml.pre")?;
        if pre != "smollm" {
            return Err(TokenizerError::Split(pre.to_owned()));
        }
        Ok(Self {
            splitter: Splitter::new()?,
            merges: vocabulary.merges(gguf.strings("tokenizer.ggml.merges")?)?,
            of_byte: vocabulary.alphabet()?,
            control: vocabulary.control(),
            size: vocabulary.size(),
        })
    }

    /// The number of tokens; every id is below it.
    pub fn vocabulary_size(&self) -> u32 {
        self.size
    }

    /// The control token of that exact name, such as `<|im_start|>`.
    pub fn control(&self, name: &str) -> Option<u32> {
        self.control.get(name).copied()
    }

    /// The tokens of a text. Their bytes are the whole text, in order and without gaps. Bytes that
    /// a byte-level vocabulary lacks (rare control characters) stand as question marks.
    pub fn encode(&self, text: &str) -> Vec<Token> {
        let mut encoder = Encoder::new(self, text);
        for word in self.splitter.words(text) {
            encoder.pieces(word);
        }
        encoder.tokens
    }
}

/// Longer words are cut into pieces: merging takes some sixty times the room of its word. No word of a language is
/// as long.
const MOST_WORD_BYTES: usize = 4 << 10;

/// One text on its way to tokens.
struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    text: &'a str,
    tokens: Vec<Token>,
    scratch: Scratch,
}

impl<'a> Encoder<'a> {
    fn new(tokenizer: &'a Tokenizer, text: &'a str) -> Self {
        Self {
            tokenizer,
            text,
            tokens: Vec::with_capacity(text.len() / 3 + 1),
            scratch: Scratch::default(),
        }
    }

    /// Encodes a word, a long one piece by piece.
    fn pieces(&mut self, mut word: Range<usize>) {
        while word.len() > MOST_WORD_BYTES {
            // At a character, so that no piece ends in the middle of one.
            let end = self.text.floor_char_boundary(word.start + MOST_WORD_BYTES);
            self.merge(word.start..end);
            word.start = end;
        }
        self.merge(word);
    }

    fn merge(&mut self, word: Range<usize>) {
        let bytes = self.text.as_bytes().get(word.clone()).unwrap_or_default();
        self.scratch.clear();
        for (at, byte) in word.zip(bytes) {
            // The table has an entry for every byte.
            let id = self.tokenizer.of_byte.get(usize::from(*byte));
            self.scratch
                .push(id.copied().unwrap_or_default(), at..at + 1);
        }
        self.tokenizer.merges.apply(&mut self.scratch);
        let merged = self.scratch.merged();
        self.tokens
            .extend(merged.map(|(id, bytes)| Token { id, bytes }));
    }
}
