//! What no server may send back to be read.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

/// Shorter ones are words that may stand anywhere, as `Bearer`.
const MIN_SECRET: usize = 8;
/// So many are known at a time. Of tokens that are renewed again and again, the oldest are of no use to anybody.
const MOST: usize = 64;
/// What stands in the place of a secret that a server sends back.
const MASK: &[u8] = b"[secret]";

/// The secrets that a server was sent. Copies share them.
///
/// Whatever of them comes back is masked: a server that quotes a token in an error would put it into the trace. One that
/// means to tell it finds another way, to somebody who may see its results.
#[derive(Clone, Default)]
pub(crate) struct Mask(Arc<RwLock<VecDeque<Vec<u8>>>>);

impl Mask {
    /// Knows the secret in a header's value from now on: `Bearer TOKEN` is one by its second word.
    pub(crate) fn add(&self, value: &str) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for word in value.split(' ').filter(|word| word.len() >= MIN_SECRET) {
            if known.len() >= MOST {
                known.pop_front();
            }
            known.push_back(word.as_bytes().to_vec());
        }
    }

    /// The text without secrets.
    pub(crate) fn apply(&self, mut text: Vec<u8>) -> Vec<u8> {
        for secret in &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            text = replaced(text, secret);
        }
        text
    }
}

fn replaced(text: Vec<u8>, secret: &[u8]) -> Vec<u8> {
    let mut rest = text.as_slice();
    let mut masked = Vec::new();
    while let Some(at) = rest
        .windows(secret.len())
        .position(|window| window == secret)
    {
        masked.extend_from_slice(rest.get(..at).unwrap_or_default());
        masked.extend_from_slice(MASK);
        rest = rest.get(at + secret.len()..).unwrap_or_default();
    }
    if masked.is_empty() {
        return text;
    }
    masked.extend_from_slice(rest);
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_sends_back_of_a_secret_is_masked() {
        let mask = Mask::default();
        mask.add("Bearer token-of-mine");
        let check = |text: &str, expected: &str| {
            let masked = mask.apply(text.as_bytes().to_vec());
            assert_eq!(String::from_utf8(masked).unwrap(), expected);
        };
        check("the bearer of nothing", "the bearer of nothing");
        check("token-of-mine, token-of-mine!", "[secret], [secret]!");
        check("token-of", "token-of");
        mask.clone().add("another-one");
        check("token-of-mine another-one", "[secret] [secret]");
    }
}
