//! A query. Reading it must not panic, its words are few, short and folded, and each is found by itself.

use store::{MAX_QUERY_BYTES, MAX_QUERY_WORDS, Query, QueryError};

/// Bytes of a word that count, as the crate documents it.
const MAX_WORD_BYTES: usize = 64;

/// The target.
pub(crate) fn store_query(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    match Query::new(text) {
        Ok(query) => {
            assert!(text.len() <= MAX_QUERY_BYTES && query.words().count() <= MAX_QUERY_WORDS);
            for word in query.words() {
                assert!((1..=MAX_WORD_BYTES).contains(&word.len()));
                // Folding is done once: a word that is folded again is the same.
                let own = Query::new(word).expect("a word is short");
                assert!(own.words().eq([word]), "{word:?}");
            }
            true
        }
        Err(QueryError::TooLong(bytes)) => {
            assert!(bytes > MAX_QUERY_BYTES && bytes == text.len());
            false
        }
        Err(QueryError::TooManyWords(words)) => {
            assert!(words > MAX_QUERY_WORDS);
            false
        }
    }
}
