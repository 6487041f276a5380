//! The tokens of messages, which are read at every step and do not change.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::tokens::{Encode, Token, covering};

/// Tokens that are remembered, of all messages together: 24 MB, beside half a gigabyte of weights.
const MOST_TOKENS: usize = 1 << 20;

/// What a message counts beside its tokens: its digest, twice, and what holds it together.
const OVERHEAD: usize = 8;

/// A message in tokens, of which only the last are kept.
pub(crate) struct Body {
    /// Tokens before those.
    before: usize,
    tokens: Vec<Token>,
}

impl Body {
    fn of(mut tokens: Vec<Token>, most: usize) -> Self {
        let before = tokens.len().saturating_sub(most);
        // What no window can hold need not be kept, only counted.
        tokens.drain(..before);
        tokens.shrink_to_fit();
        Self { before, tokens }
    }

    /// All its tokens.
    pub(crate) fn len(&self) -> usize {
        self.before + self.tokens.len()
    }

    /// The tokens after the first `skipped`, as far as they are kept.
    pub(crate) fn after(&self, skipped: usize) -> impl Iterator<Item = u32> {
        // `skipped` is counted from the message's first token, and those before are not held.
        let skipped = skipped.saturating_sub(self.before);
        self.tokens.iter().skip(skipped).map(|token| token.id)
    }

    /// The tokens of these bytes, counted from the message's beginning. If they begin
    /// before all that is kept, the first that is.
    pub(crate) fn covering(&self, bytes: &Range<usize>) -> Option<Range<usize>> {
        let tokens = covering(&self.tokens, bytes)?;
        Some(self.before + tokens.start..self.before + tokens.end)
    }

    fn weight(&self) -> usize {
        self.tokens.len() + OVERHEAD
    }
}

/// The messages that were read, by their digest. What comes out is the same whatever is remembered.
#[derive(Default)]
pub(crate) struct Bodies(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    bodies: HashMap<Key, Arc<Body>>,
    /// Newest last.
    order: VecDeque<Key>,
    weight: usize,
}

/// The SHA-256 of a message and of how much of it is kept.
type Key = [u8; 32];

impl Bodies {
    /// The last `most` tokens of a message.
    pub(crate) fn read(
        &self,
        tokenizer: &(impl Encode + ?Sized),
        text: &str,
        most: usize,
    ) -> Arc<Body> {
        let mut key = Sha256::new();
        // Another window keeps another end of the same text.
        key.update(most.to_le_bytes());
        key.update(text);
        let key: Key = key.finalize().into();
        if let Some(body) = self.memory().bodies.get(&key) {
            return Arc::clone(body);
        }
        // Without the lock, since this takes the time. Two callers may read the same text at once.
        let body = Arc::new(Body::of(tokenizer.encode(text), most));
        self.memory().insert(key, &body);
        body
    }

    /// A panic while it is held leaves it usable: at worst a message is forgotten early.
    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// Takes in a message and forgets the oldest until all fits.
    fn insert(&mut self, key: Key, body: &Arc<Body>) {
        // Two callers have read the same text at once; it is in `order` and in the weight already.
        if self.bodies.insert(key, Arc::clone(body)).is_some() {
            return;
        }
        self.order.push_back(key);
        self.weight += body.weight();
        while self.weight > MOST_TOKENS {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            let gone = self.bodies.remove(&oldest);
            self.weight -= gone.map_or(0, |body| body.weight());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A token for each byte; counts what it reads.
    #[derive(Default)]
    struct Bytes(AtomicUsize);

    impl Encode for Bytes {
        fn encode(&self, text: &str) -> Vec<Token> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let tokens = text.bytes().zip(0..).map(|(byte, at)| Token {
                id: u32::from(byte),
                bytes: at..at + 1,
            });
            tokens.collect()
        }

        fn control(&self, _: &str) -> Option<u32> {
            None
        }
    }

    #[test]
    fn a_message_is_read_once_and_keeps_its_end() {
        let (bodies, bytes) = (Bodies::default(), Bytes::default());
        for _ in 0..3 {
            let body = bodies.read(&bytes, "abcdef", 4);
            assert_eq!((body.len(), body.tokens.len()), (6, 4));
            let after: Vec<u32> = body.after(3).collect();
            assert_eq!(after, b"def".map(u32::from));
            assert_eq!(body.covering(&(3..5)), Some(3..5));
            // Begins before what is kept.
            assert_eq!(body.covering(&(0..3)).unwrap().start, 2);
            assert_eq!(body.covering(&(0..1)).unwrap().start, 2);
        }
        assert_eq!(bytes.0.load(Ordering::Relaxed), 1);
        // Another end is another reading.
        assert_eq!(bodies.read(&bytes, "abcdef", 2).tokens.len(), 2);
        assert_eq!(bytes.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let (bodies, bytes) = (Bodies::default(), Bytes::default());
        let half = MOST_TOKENS / 2 - OVERHEAD;
        for message in ["a", "b", "c"] {
            bodies.read(&bytes, &message.repeat(half), usize::MAX);
        }
        let memory = bodies.memory();
        assert_eq!((memory.order.len(), memory.weight), (2, MOST_TOKENS));
        assert_eq!(memory.bodies.len(), 2);
        drop(memory);
        // The oldest is gone, the newest is not.
        bodies.read(&bytes, &"c".repeat(half), usize::MAX);
        assert_eq!(bytes.0.load(Ordering::Relaxed), 3);
        bodies.read(&bytes, &"a".repeat(half), usize::MAX);
        assert_eq!(bytes.0.load(Ordering::Relaxed), 4);
    }
}
