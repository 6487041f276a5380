//! A query. Reading it must not panic, its words are few and lowercase, and each is found by itself.

use store::Query;

/// Different words of a query that count, as the crate documents it.
const MAX_QUERY_WORDS: usize = 64;

pub(crate) fn store_query(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let query = Query::new(text);
    assert!(query.words().count() <= MAX_QUERY_WORDS);
    for word in query.words() {
        assert!(
            word.chars().all(|c| c != '"' && !c.is_whitespace()),
            "{word:?}"
        );
    }
    true
}
