//! The vocabulary in a GGUF file.
//!
//! Only its normal tokens can come of text. The names of all others are left out of everything
//! that text is compared with.

use std::collections::HashMap;

use super::TokenizerError;
use super::merge::Merges;
use crate::gguf::Gguf;

/// Bytes of one normal token at most. The longest usual ones are runs of spaces, of about a hundred.
const TOKEN_BYTES: usize = 512;

/// The types of tokens.
mod kind {
    pub(super) const NORMAL: i32 = 1;
    pub(super) const CONTROL: i32 = 3;
    pub(super) const USER_DEFINED: i32 = 4;
}

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
        // So every id is below the mark that a merged symbol has.
        if u32::try_from(tokens.len()).is_err() {
            return Err(malformed("it has too many tokens"));
        }
        let mut normal = HashMap::with_capacity(tokens.len());
        for ((id, token), kind) in (0..).zip(tokens).zip(kinds) {
            // Names of control tokens never enter the table, so no merge can lead to one.
            if *kind != kind::NORMAL {
                continue;
            }
            if token.len() > TOKEN_BYTES {
                return Err(malformed("a token is longer than 512 bytes"));
            }
            // Which of two equal tokens a text gets would depend on the order of the file.
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
        u32::try_from(self.tokens.len()).unwrap_or(u32::MAX)
    }

    /// Tokens that stand for no text, by name.
    pub(super) fn control(&self) -> HashMap<String, u32> {
        let all = self.tokens.iter().zip(0..).zip(self.kinds);
        let control = all.filter(|(_, kind)| [kind::CONTROL, kind::USER_DEFINED].contains(kind));
        control.map(|((name, id), _)| (name.clone(), id)).collect()
    }

    /// Merges that are listed, the most important first: two tokens with a space between them.
    pub(super) fn merges(&self, list: &[String]) -> Result<Merges, TokenizerError> {
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
