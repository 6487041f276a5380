//! Text to tokens, with the vocabulary of a GGUF file.
//!
//! All text is foreign text here: whatever it says, no control token comes of it. Who builds a
//! prompt puts control tokens in by [`Tokenizer::control`], between pieces of encoded text.
//!
//! Nothing is remembered here from one text to the next. Time grows with the length as n log n at worst, whatever the text.
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
use merge::{Merges, Scratch, UNKNOWN};
use split::Splitter;
use vocabulary::Vocabulary;

/// Why a vocabulary cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file lacks something.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// `tokenizer.ggml.model` is another one.
    #[error("the model's tokenizer {0:?} is not supported: use a model with \"gpt2\" or \"llama\"")]
    Kind(String),
    /// `tokenizer.ggml.pre` is another one.
    #[error(
        "the model splits its text by {0:?}, which is not supported: use a model with \"smollm\", \"gpt-2\", \
         \"default\", \"llama-bpe\" or \"qwen2\""
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
    /// Which bytes of the text it stands for. A token may be a part of a character. It is empty
    /// only for a space that the vocabulary puts before every text.
    pub bytes: Range<usize>,
}

/// The vocabulary of a model, and how it cuts text.
#[derive(Debug)]
pub struct Tokenizer {
    kind: Kind,
    merges: Merges,
    /// The token of a single byte, or what stands for a byte that the vocabulary lacks.
    of_byte: [u32; 256],
    control: HashMap<String, u32>,
    size: u32,
    bos: Option<u32>,
    eos: Option<u32>,
    adds_bos: bool,
}

#[derive(Debug)]
enum Kind {
    /// Byte-level BPE: words are merged from bytes.
    Bytes {
        splitter: Splitter,
        /// Words that are tokens whatever the merges say, by their bytes.
        whole: HashMap<Box<[u8]>, u32>,
    },
    /// SentencePiece BPE: text is merged from characters.
    Characters {
        of_character: HashMap<char, u32>,
        /// What is put before every text.
        prefix: Option<u32>,
        /// No token goes on with a space after something else, so that text can be cut there.
        splits: bool,
    },
}

impl Tokenizer {
    /// Reads the vocabulary of a model.
    ///
    /// # Errors
    /// It is of a kind that is not supported, or breaks a rule.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, TokenizerError> {
        let vocabulary = Vocabulary::read(gguf)?;
        let (kind, merges, of_byte, adds_bos) = match gguf.str("tokenizer.ggml.model")? {
            "gpt2" => {
                let pre = gguf.str("tokenizer.ggml.pre")?;
                let splitter = Splitter::of(pre)?;
                let merges = vocabulary.merges_by_rank(gguf.strings("tokenizer.ggml.merges")?)?;
                let of_byte = vocabulary.alphabet()?;
                let whole = if pre == split::LLAMA_BPE {
                    vocabulary.words()
                } else {
                    HashMap::new()
                };
                (Kind::Bytes { splitter, whole }, merges, of_byte, false)
            }
            "llama" => {
                let merges = vocabulary.merges_by_score(gguf.f32s("tokenizer.ggml.scores")?)?;
                let kind = Kind::Characters {
                    of_character: vocabulary.characters(),
                    prefix: match optional(gguf, "tokenizer.ggml.add_space_prefix", Gguf::bool)? {
                        Some(false) => None,
                        Some(true) | None => Some(vocabulary.space()?),
                    },
                    splits: vocabulary.spaces_begin_tokens(),
                };
                (kind, merges, vocabulary.byte_tokens()?, true)
            }
            other => return Err(TokenizerError::Kind(other.to_owned())),
        };
        let size = vocabulary.size();
        let special = |key: &str| match optional(gguf, key, Gguf::u32)? {
            Some(id) if id >= size => Err(TokenizerError::Vocabulary(
                "the number of a special token is too large",
            )),
            id => Ok(id),
        };
        Ok(Self {
            kind,
            merges,
            of_byte,
            control: vocabulary.control(),
            size,
            bos: special("tokenizer.ggml.bos_token_id")?,
            eos: special("tokenizer.ggml.eos_token_id")?,
            adds_bos: optional(gguf, "tokenizer.ggml.add_bos_token", Gguf::bool)?
                .unwrap_or(adds_bos),
        })
    }

    /// The number of tokens; every id is below it.
    pub fn vocabulary_size(&self) -> u32 {
        self.size
    }

    /// The token that begins a text, where the model has one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text, where the model has one.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether the model expects [`Tokenizer::bos`] before every prompt.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// The control token of that exact name, such as `<|im_start|>`.
    pub fn control(&self, name: &str) -> Option<u32> {
        self.control.get(name).copied()
    }

    /// The tokens of a text. Their bytes are the whole text, in order and without gaps. Bytes that
    /// a byte-level vocabulary lacks (rare control characters) stand as question marks.
    pub fn encode(&self, text: &str) -> Vec<Token> {
        let mut encoder = Encoder {
            tokenizer: self,
            text,
            tokens: Vec::with_capacity(text.len() / 3 + 1),
            known: HashMap::new(),
            scratch: Scratch::default(),
        };
        match &self.kind {
            Kind::Bytes { splitter, whole } => {
                for word in splitter.words(text) {
                    encoder.cached(word, |encoder, word| encoder.bytes(word, whole));
                }
            }
            Kind::Characters {
                of_character,
                prefix,
                splits,
            } => {
                let mut prefix = prefix.filter(|_| !text.is_empty());
                for word in split::at_spaces(text, *splits) {
                    match prefix.take() {
                        Some(prefix) => encoder.characters(word, of_character, Some(prefix)),
                        None => encoder.cached(word, |encoder, word| {
                            encoder.characters(word, of_character, None);
                        }),
                    }
                }
            }
        }
        encoder.tokens
    }
}

/// An entry that may be missing.
fn optional<T>(
    gguf: &Gguf,
    key: &str,
    read: impl Fn(&Gguf, &str) -> Result<T, GgufError>,
) -> Result<Option<T>, GgufError> {
    gguf.value(key).map(|_| read(gguf, key)).transpose()
}

/// Longer words are not looked up again: they seldom recur, and their hash costs as much as they
/// do.
const CACHED_WORD_BYTES: usize = 64;

/// One text on its way to tokens.
struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    text: &'a str,
    tokens: Vec<Token>,
    /// Words seen before, and which tokens came of them.
    known: HashMap<&'a str, Range<usize>>,
    scratch: Scratch,
}

impl Encoder<'_> {
    /// Encodes a word, or repeats what came of it before.
    fn cached(&mut self, word: Range<usize>, encode: impl FnOnce(&mut Self, Range<usize>)) {
        let text = self.text.get(word.clone()).unwrap_or_default();
        if text.len() > CACHED_WORD_BYTES {
            return encode(self, word);
        }
        if let Some(range) = self.known.get(text) {
            let mut start = word.start;
            for at in range.clone() {
                let Some(token) = self.tokens.get(at) else {
                    continue;
                };
                let (id, end) = (token.id, start + token.bytes.len());
                let bytes = start..end;
                self.tokens.push(Token { id, bytes });
                start = end;
            }
            return;
        }
        let from = self.tokens.len();
        encode(self, word);
        self.known.insert(text, from..self.tokens.len());
    }

    /// Merges a word from its bytes.
    fn bytes(&mut self, word: Range<usize>, whole: &HashMap<Box<[u8]>, u32>) {
        let bytes = self.text.as_bytes().get(word.clone()).unwrap_or_default();
        if let Some(id) = whole.get(bytes) {
            return self.tokens.push(Token {
                id: *id,
                bytes: word,
            });
        }
        self.scratch.clear();
        for (at, byte) in word.zip(bytes) {
            let id = self.tokenizer.of_byte.get(usize::from(*byte));
            let id = id.copied().unwrap_or(UNKNOWN);
            self.scratch.push(id, at..at + 1);
        }
        self.merge();
    }

    /// Merges a piece of text from its characters, a space before it.
    fn characters(
        &mut self,
        word: Range<usize>,
        of_character: &HashMap<char, u32>,
        prefix: Option<u32>,
    ) {
        self.scratch.clear();
        if let Some(prefix) = prefix {
            self.scratch.push(prefix, word.start..word.start);
        }
        let text = self.text.get(word.clone()).unwrap_or_default();
        for (at, character) in text.char_indices() {
            let id = of_character.get(&split::written(character));
            let start = word.start + at;
            let bytes = start..start + character.len_utf8();
            self.scratch.push(id.copied().unwrap_or(UNKNOWN), bytes);
        }
        self.merge();
    }

    fn merge(&mut self) {
        self.tokenizer.merges.apply(&mut self.scratch);
        for (id, bytes) in self.scratch.merged() {
            if id != UNKNOWN {
                self.tokens.push(Token { id, bytes });
                continue;
            }
            // A character that the vocabulary lacks: its bytes.
            let found = self.text.as_bytes().get(bytes.clone()).unwrap_or_default();
            for (at, byte) in bytes.zip(found) {
                let id = self.tokenizer.of_byte.get(usize::from(*byte)).copied();
                let (id, bytes) = (id.unwrap_or(0), at..at + 1);
                self.tokens.push(Token { id, bytes });
            }
        }
    }
}
