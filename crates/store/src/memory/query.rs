//! Words of texts and of queries.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;

/// Longest query in bytes: some paragraphs, as a model may ask.
pub const MAX_QUERY_BYTES: usize = 4096;

/// Different words of one query. Each costs a pass over the entries that have it.
pub const MAX_QUERY_WORDS: usize = 64;

/// Bytes of a word that count. Longer ones (keys, links, encoded data) are found by their beginning.
const MAX_WORD_BYTES: usize = 64;

/// What is searched for: a set of words. Any text is a query, and none has operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    words: BTreeSet<String>,
}

/// A text that is too long to be a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Too many bytes.
    #[error("a query of {0} bytes is longer than {MAX_QUERY_BYTES}; shorten it")]
    TooLong(usize),
    /// Too many different words.
    #[error("a query of {0} different words has more than {MAX_QUERY_WORDS}; shorten it")]
    TooManyWords(usize),
}

impl Query {
    /// The words of a text.
    ///
    /// # Errors
    /// It is too long.
    pub fn new(text: &str) -> Result<Self, QueryError> {
        if text.len() > MAX_QUERY_BYTES {
            return Err(QueryError::TooLong(text.len()));
        }
        let mut found = BTreeSet::new();
        each_word(text, |word| {
            found.insert(word.to_owned());
        });
        match found.len() {
            count if count > MAX_QUERY_WORDS => Err(QueryError::TooManyWords(count)),
            _ => Ok(Self { words: found }),
        }
    }

    /// The first words of a text of any length, as many as a query may have.
    pub fn beginning(text: &str) -> Self {
        let text = text.get(..text.floor_char_boundary(MAX_QUERY_BYTES));
        let mut words = BTreeSet::new();
        each_word(text.unwrap_or_default(), |word| {
            if words.len() < MAX_QUERY_WORDS {
                words.insert(word.to_owned());
            }
        });
        Self { words }
    }

    /// Its words as they are compared: folded, sorted, each once.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }
}

/// Calls `found` for every word of a text: lowercase, without accents, in compatible forms (NFKD).
///
/// Words are those of Unicode (UAX 29), parted further at whatever is no letter or digit, so that
/// "karin@example.com" is found by "example". Ideographs are words of their own.
pub(super) fn each_word(text: &str, mut found: impl FnMut(&str)) {
    let folded: String = text
        .nfkd()
        .flat_map(char::to_lowercase)
        .filter(|c| !is_combining_mark(*c))
        .collect();
    // Folded first and cut into words afterwards: a query is cut alike, however its letters were written.
    let words = folded.unicode_words();
    for word in words.flat_map(|word| word.split(|c: char| !c.is_alphanumeric())) {
        if !word.is_empty() {
            let end = word.floor_char_boundary(MAX_WORD_BYTES);
            found(word.get(..end).unwrap_or(word));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        Query::new(text)
            .unwrap()
            .words()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn words_are_folded_and_parted() {
        for (text, expected) in [
            (
                "Karin's delivery, on 3.12.",
                &["12", "3", "delivery", "karin", "on", "s"][..],
            ),
            ("MÜLLER müller Muller", &["muller"]),
            ("ﬁle ｗｉｄｅ", &["file", "wide"]),
            ("karin@example.com", &["com", "example", "karin"]),
            ("東京", &["京", "東"]),
            ("İstanbul", &["istanbul"]),
            ("… — 🙂", &[]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn syntax_of_search_engines_is_text() {
        let hostile = r#"text:"a* OR" NEAR(b, 2) NOT c) '; DROP TABLE memory; -- ^d {e f} : -"#;
        let expected = [
            "2", "a", "b", "c", "d", "drop", "e", "f", "memory", "near", "not", "or", "table",
            "text",
        ];
        assert_eq!(words(hostile), expected);
    }

    #[test]
    fn too_much_is_refused() {
        let long = "a".repeat(MAX_QUERY_BYTES + 1);
        assert_eq!(Query::new(&long), Err(QueryError::TooLong(long.len())));
        let many: Vec<String> = (0..=MAX_QUERY_WORDS).map(|n| n.to_string()).collect();
        let refused = Err(QueryError::TooManyWords(many.len()));
        assert_eq!(Query::new(&many.join(" ")), refused);
        let first = Query::beginning(&many.join(" "));
        assert_eq!(
            first,
            Query::new(&many[..MAX_QUERY_WORDS].join(" ")).unwrap()
        );
        let first = Query::beginning(&format!("ä{}", "ä ".repeat(MAX_QUERY_BYTES)));
        assert_eq!(first, Query::new("ää ä").unwrap());
        let long_word = words(&"ä".repeat(MAX_WORD_BYTES));
        assert_eq!(long_word, ["a".repeat(MAX_WORD_BYTES)]);
    }

    proptest! {
        /// A word is found by itself, also one that was cut.
        #[test]
        fn words_of_words_are_themselves(text in "\\PC{0,40}") {
            for word in words(&text) {
                prop_assert_eq!(words(&word), [word]);
            }
        }
    }
}
