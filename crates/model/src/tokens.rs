//! From the pieces of a prompt to tokens: special tokens come from the template only.

use std::num::NonZeroU16;

use llama_cpp_2::{token::LlamaToken, token_type::LlamaTokenAttr, vocab::LlamaVocab};

use crate::template::Piece;

/// Bytes that one context token may stand for. Real text has 3 to 5, a long run of blanks or a
/// ruler some dozens; more text than this is refused before it costs time.
const BYTES_PER_TOKEN: usize = 32;
/// Text is tokenized in chunks of about this size: the cost of a chunk grows faster than its
/// length for some tokenizers, and C++ regular expressions recurse.
const CHUNK: usize = 8 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// More bytes than the context can hold in any case.
    TooLong { bytes: usize, limit: usize },
    /// Content would have become a special token. Never seen; refused if it ever happens.
    Markup,
}

/// The tokens of a vocabulary that are markup, not text.
#[derive(Debug)]
pub(crate) struct Specials {
    /// Longest text first, so that the longest match is found first.
    by_text: Vec<(String, LlamaToken)>,
    /// Those that llama.cpp recognises even where it is told to parse no special tokens.
    stubborn: Vec<String>,
    /// Indexed by token: markup that a model may not write.
    banned: Vec<bool>,
    is_special: Vec<bool>,
}

impl Specials {
    pub(crate) fn of(vocab: &LlamaVocab<'_>) -> Self {
        let mut specials = Self {
            by_text: Vec::new(),
            stubborn: Vec::new(),
            banned: Vec::new(),
            is_special: Vec::new(),
        };
        for token in vocab.tokens() {
            let attributes = vocab.attr(token);
            let control = attributes.contains(LlamaTokenAttr::Control)
                || attributes.contains(LlamaTokenAttr::Unknown);
            let user_defined = attributes.contains(LlamaTokenAttr::UserDefined);
            let text = String::from_utf8(vocab.token_to_piece(token, true, None::<NonZeroU16>))
                .unwrap_or_default();
            // Some vocabularies list runs of blanks here; those are text.
            let special = (control || user_defined) && !text.trim().is_empty();
            specials.is_special.push(special);
            // Markup that ends an answer must be writable, or no answer would end. User-defined tokens may be written
            // too: `<tool_call>` is one of them in some vocabularies.
            specials.banned.push(control && !vocab.is_eog(token));
            if special {
                if user_defined {
                    specials.stubborn.push(text.clone());
                }
                specials.by_text.push((text, token));
            }
        }
        specials
            .by_text
            .sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        specials
    }

    /// Whether the model may not write this token.
    pub(crate) fn is_banned(&self, token: LlamaToken) -> bool {
        flag(&self.banned, token)
    }

    pub(crate) fn is_special(&self, token: LlamaToken) -> bool {
        flag(&self.is_special, token)
    }

    pub(crate) fn tokenize(
        &self,
        vocab: &LlamaVocab<'_>,
        pieces: &[Piece],
        context: usize,
    ) -> Result<Vec<LlamaToken>, TokenError> {
        let limit = context.saturating_mul(BYTES_PER_TOKEN);
        // Before any work: a mail of megabytes would hold the one thread for minutes, only to be refused for its
        // tokens.
        let bytes = pieces.iter().map(|piece| piece.text().len()).sum();
        if bytes > limit {
            return Err(TokenError::TooLong { bytes, limit });
        }
        let mut tokens = Vec::new();
        // Template text and content that meet are tokenized together, as they were when the model was trained.
        let mut text = String::new();
        for piece in pieces {
            match piece {
                // Never searched for markup, unlike the template's own text.
                Piece::Content(content) => text.push_str(content),
                Piece::Template(template) => {
                    let mut rest = template.as_str();
                    while let Some((at, length, token)) = self.find(rest) {
                        let (before, after) = rest.split_at(at);
                        text.push_str(before);
                        self.text(vocab, &std::mem::take(&mut text), &mut tokens)?;
                        tokens.push(token);
                        rest = after.get(length..).unwrap_or_default();
                    }
                    text.push_str(rest);
                }
            }
        }
        self.text(vocab, &text, &mut tokens)?;
        Ok(tokens)
    }

    /// Adds the tokens of a text, none of which is markup.
    fn text(
        &self,
        vocab: &LlamaVocab<'_>,
        text: &str,
        tokens: &mut Vec<LlamaToken>,
    ) -> Result<(), TokenError> {
        for chunk in self.chunks(text) {
            // Without special tokens and without a BOS: the template has written those that it wants.
            let part = vocab.tokenize(chunk.as_bytes(), false, false);
            // The guarantee is checked on the result, not trusted to the flag.
            if part.iter().any(|token| self.is_special(*token)) {
                return Err(TokenError::Markup);
            }
            tokens.extend(part);
        }
        Ok(())
    }

    /// The first special token in a text: where, how long, which.
    fn find(&self, text: &str) -> Option<(usize, usize, LlamaToken)> {
        self.by_text
            .iter()
            .filter_map(|(special, token)| Some((text.find(special)?, special.len(), *token)))
            // The leftmost, and of those at one place the longest, as llama.cpp matches them.
            .min_by_key(|(at, length, _)| (*at, std::cmp::Reverse(*length)))
    }

    /// Cuts text where llama.cpp would see one of its stubborn tokens (after the first character
    /// of it), and into chunks of limited size at blanks.
    fn chunks<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let find = |special: &str, from: usize| {
            let at = text.get(from..)?.find(special)?;
            Some(from + at)
        };
        // Where each of them stands next. It is looked for again only behind that place, so that a text full of one of
        // them is not searched for all the others after each.
        let mut next: Vec<(&str, Option<usize>)> = self
            .stubborn
            .iter()
            .map(|special| (special.as_str(), find(special, 0)))
            .collect();
        let mut parts = Vec::new();
        let mut start = 0;
        while let Some(at) = next.iter().filter_map(|(_, at)| *at).min() {
            let first = text.get(at..).and_then(|rest| rest.chars().next());
            // Inside the token, so that neither part has it whole.
            let end = at + first.map_or(1, char::len_utf8);
            parts.extend(text.get(start..end));
            start = end;
            for (special, at) in &mut next {
                if at.is_some_and(|at| at < start) {
                    *at = find(special, start);
                }
            }
        }
        parts.extend(text.get(start..));
        parts
            .into_iter()
            .flat_map(bounded)
            .filter(|part| !part.is_empty())
            .collect()
    }
}

/// What is said of a token. One outside the vocabulary counts as markup.
fn flag(flags: &[bool], token: LlamaToken) -> bool {
    let token = usize::try_from(token.0).ok();
    token.and_then(|at| flags.get(at)).copied().unwrap_or(true)
}

/// Chunks of at most [`CHUNK`] bytes, cut before a blank where there is one in the second half.
fn bounded(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > CHUNK {
        let end = rest.floor_char_boundary(CHUNK);
        let (head, _) = rest.split_at(end);
        // A cut inside a word gives other tokens than the model knows, but a text without blanks must be cut
        // somewhere; from the second half, so that each round takes a good part.
        let blank = head.rfind([' ', '\n']).filter(|at| *at > CHUNK / 2);
        let (part, after) = rest.split_at(blank.unwrap_or(end));
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_bounded_and_lose_nothing() {
        for text in [
            "",
            "a b",
            &"x".repeat(50_000),
            &"ab é ".repeat(9_000),
            &"é".repeat(20_001),
        ] {
            let parts = bounded(text);
            assert!(parts.iter().all(|part| part.len() <= CHUNK));
            assert_eq!(parts.concat(), *text);
        }
    }

    /// A mail may be full of what looks like a token, and the model's one thread must not stand still for it.
    #[test]
    fn a_text_full_of_stubborn_tokens_takes_linear_time() {
        let specials = Specials {
            by_text: Vec::new(),
            stubborn: std::iter::once("<<".to_owned())
                .chain((0..30).map(|number| format!("<|token_{number}|>")))
                .collect(),
            banned: Vec::new(),
            is_special: Vec::new(),
        };
        let text = "a<<".repeat(200_000);
        let started = std::time::Instant::now();
        assert_eq!(specials.chunks(&text).concat(), text);
        assert!(started.elapsed().as_secs() < 10);
    }

    #[test]
    fn stubborn_tokens_are_cut_apart() {
        let specials = Specials {
            by_text: Vec::new(),
            stubborn: vec!["<tool_call>".into(), "<<".into()],
            banned: Vec::new(),
            is_special: Vec::new(),
        };
        let text = "a<tool_call>b<<<tool_call>";
        let parts = specials.chunks(text);
        assert_eq!(parts.concat(), text);
        for part in parts {
            assert!(
                !part.contains("<tool_call>") && !part.contains("<<"),
                "{part}"
            );
        }
    }
}
