//! A query. Reading it must not panic, its words are few, short and folded, and each is found by itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use store::{MAX_QUERY_BYTES, MAX_QUERY_WORDS, Query, QueryError};

/// Bytes of a word that count, as the crate documents it.
const MAX_WORD_BYTES: usize = 64;

fuzz_target!(|text: &str| match Query::new(text) {
    Ok(query) => {
        assert!(text.len() <= MAX_QUERY_BYTES && query.words().count() <= MAX_QUERY_WORDS);
        for word in query.words() {
            assert!((1..=MAX_WORD_BYTES).contains(&word.len()));
            let own = Query::new(word).expect("a word is short");
            assert!(own.words().eq([word]), "{word:?}");
        }
    }
    Err(QueryError::TooLong(bytes)) => assert!(bytes > MAX_QUERY_BYTES && bytes == text.len()),
    Err(QueryError::TooManyWords(words)) => assert!(words > MAX_QUERY_WORDS),
});
