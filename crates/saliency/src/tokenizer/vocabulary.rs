//! The vocabulary in a GGUF file.
//!
//! Only its normal tokens can come of text. The names of all others are left out of everything
//! that text is compared with.

use std::collections::HashMap;

use super::TokenizerError;
use super::merge::{IDS, Merges};
use super::split::SPACE;
use crate::gguf::Gguf;

/// Bytes of one normal token at most. The longest usual ones are runs of spaces, of about a
/// hundred; all ways to cut a token in two are tried on loading.
const TOKEN_BYTES: usize = 512;

/// The types of tokens.
mod kind {
    pub(super) const NORMAL: i32 = 1;
    pub(super) const CONTROL: i32 = 3;
    pub(super) const USER_DEFINED: i32 = 4;
    pub(super) const BYTE: i32 = 6;
}

/// The tokens of a file.
pub(super) struct Vocabulary<'a> {
    tokens: &'a [String],
    kinds: &'a [i32],
    /// Ids of the normal tokens by how the file writes them.
    normal: HashMap<&'a str, u32>,
}

fn malformed(what: &'static str) -> TokenizerError {
    TokenizerError::Vocabulary(what)
}

impl<'a> Vocabulary<'a> {
    pub(super) fn read(gguf: &'a Gguf) -> Result<Self, TokenizerError> {
        let tokens = gguf.strings("tokenizer.ggml.tokens")?;
        let kinds = gguf.i32s("tokenizer.ggml.token_type")?;
        if tokens.len() != kinds.len() {
            return Err(malformed("it has not one type per token"));
        }
        if u32::try_from(tokens.len()).map_or(true, |count| count > IDS) {
            return Err(malformed("it has too many tokens"));
        }
        let mut normal = HashMap::with_capacity(tokens.len());
        for ((id, token), kind) in (0..).zip(tokens).zip(kinds) {
            if *kind != kind::NORMAL {
                continue;
            }
            if token.len() > TOKEN_BYTES {
                return Err(malformed("a token is longer than 512 bytes"));
            }
            if normal.insert(&**token, id).is_some() {
                return Err(malformed("a token occurs twice"));
            }
        }
        Ok(Self {
            tokens,
            kinds,
            normal,
        })
    }

    pub(super) fn size(&self) -> u32 {
        u32::try_from(self.tokens.len()).unwrap_or(IDS)
    }

    /// Ids of all tokens of some types, with what the file writes.
    fn of_kinds(&self, kinds: &'static [i32]) -> impl Iterator<Item = (&'a str, u32)> {
        let all = self.tokens.iter().zip(0..).zip(self.kinds);
        all.filter(|(_, kind)| kinds.contains(kind))
            .map(|((token, id), _)| (&**token, id))
    }

    /// Tokens that stand for no text, by name.
    pub(super) fn control(&self) -> HashMap<String, u32> {
        self.of_kinds(&[kind::CONTROL, kind::USER_DEFINED])
            .map(|(name, id)| (name.to_owned(), id))
            .collect()
    }

    /// Merges that are listed, the most important first: two tokens with a space between them.
    pub(super) fn merges_by_rank(&self, list: &[String]) -> Result<Merges, TokenizerError> {
        let mut merges = Merges::with_capacity(list.len());
        let mut both = String::new();
        for (rank, merge) in (0..).zip(list) {
            let Some((left, right)) = merge.split_once(' ') else {
                return Err(malformed("a merge is not two tokens with a space between"));
            };
            both.clear();
            both.push_str(left);
            both.push_str(right);
            let ids = [left, right, &both].map(|token| self.normal.get(token).copied());
            let [Some(left), Some(right), Some(id)] = ids else {
                return Err(malformed("a merge is of, or to, what is no normal token"));
            };
            merges.insert((left, right), rank, id);
        }
        Ok(merges)
    }

    /// Merges of any two tokens that are a third together, by the third one's score.
    pub(super) fn merges_by_score(&self, scores: &[f32]) -> Result<Merges, TokenizerError> {
        if scores.len() != self.tokens.len() || scores.iter().any(|score| score.is_nan()) {
            return Err(malformed("it has not one score per token"));
        }
        let scored = self.normal.iter().filter_map(|(token, id)| {
            let score = scores.get(usize::try_from(*id).ok()?)?;
            Some((*score, *token, *id))
        });
        let mut scored: Vec<_> = scored.collect();
        scored.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        let mut merges = Merges::with_capacity(2 * scored.len());
        let (mut rank, mut last) = (0, f32::INFINITY);
        for (score, token, id) in scored {
            // Equal scores must be one rank: the left one of these is merged first.
            if score < last {
                rank += 1;
                last = score;
            }
            for (at, _) in token.char_indices().skip(1) {
                let (left, right) = token.split_at(at);
                if let (Some(left), Some(right)) = (self.normal.get(left), self.normal.get(right)) {
                    merges.insert((*left, *right), rank, id);
                }
            }
        }
        Ok(merges)
    }

    /// The tokens of single bytes in a byte-level vocabulary.
    pub(super) fn alphabet(&self) -> Result<[u32; 256], TokenizerError> {
        let of = |byte: u8| self.normal.get(&*letter(byte).to_string()).copied();
        let question = of(b'?').ok_or(malformed("it has no question mark"))?;
        let mut alphabet = [question; 256];
        for (byte, id) in (0..=u8::MAX).zip(&mut alphabet) {
            // Some lack bytes that are seldom or never a part of text. llama.cpp drops these; here
            // every byte is a part of some token, so that it can be said what depends on it.
            *id = of(byte).unwrap_or(question);
        }
        Ok(alphabet)
    }

    /// The normal tokens of a byte-level vocabulary by their bytes.
    pub(super) fn words(&self) -> HashMap<Box<[u8]>, u32> {
        let bytes: HashMap<char, u8> = (0..=u8::MAX).map(|byte| (letter(byte), byte)).collect();
        let words = self.normal.iter().filter_map(|(token, id)| {
            let word: Option<Box<[u8]>> = token.chars().map(|c| bytes.get(&c).copied()).collect();
            Some((word?, *id))
        });
        words.collect()
    }

    /// The tokens `<0x00>` to `<0xFF>`.
    pub(super) fn byte_tokens(&self) -> Result<[u32; 256], TokenizerError> {
        let names: HashMap<&str, u32> = self.of_kinds(&[kind::BYTE]).collect();
        let mut tokens = [0; 256];
        for (byte, token) in tokens.iter_mut().enumerate() {
            let id = names.get(&*format!("<0x{byte:02X}>"));
            *token = *id.ok_or(malformed("it has not a token for every byte"))?;
        }
        Ok(tokens)
    }

    /// The normal tokens of one character.
    pub(super) fn characters(&self) -> HashMap<char, u32> {
        let characters = self.normal.iter().filter_map(|(token, id)| {
            let mut characters = token.chars();
            let character = characters.next()?;
            characters.next().is_none().then_some((character, *id))
        });
        characters.collect()
    }

    /// The token of a space.
    pub(super) fn space(&self) -> Result<u32, TokenizerError> {
        let found = self.normal.get(&*SPACE.to_string()).copied();
        found.ok_or(malformed("it has no token for a space"))
    }

    /// Whether no token has a space after something else.
    pub(super) fn spaces_begin_tokens(&self) -> bool {
        let begins = |token: &&str| !token.trim_start_matches(SPACE).contains(SPACE);
        self.normal.keys().all(begins)
    }
}

/// How byte-level vocabularies write a byte: itself where it is a visible character of Latin-1,
/// and else the next free character from U+0100 on.
fn letter(byte: u8) -> char {
    let hidden_before = match byte {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => return char::from(byte),
        0x00..=0x20 => 0,
        0x7f..=0xa0 => 0x7f - 0x21,
        0xad => 0xad - 0x43,
    };
    char::from_u32(0x100 + u32::from(byte - hidden_before)).unwrap_or(char::REPLACEMENT_CHARACTER)
}
