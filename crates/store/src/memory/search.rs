//! Full-text search over the entries that one reader sees.
//!
//! FTS5's `bm25()` counts every row of its table: one index of all entries would reveal how often a word occurs in entries
//! that the reader may not read. So a [`View`] holds exactly the entries of one namespace that flow to one label.

use std::collections::{BTreeSet, HashMap};

use ifc::Label;
use rusqlite::{Connection, params};

use super::Content;

/// Bytes of a query that count: some paragraphs.
const MAX_QUERY_BYTES: usize = 4096;

/// Different words of a query that count. Each costs a pass over the entries that have it.
const MAX_QUERY_WORDS: usize = 64;

/// The words to search for. Any text is a query, and none has operators.
///
/// Of a long text the first 64 different words of the first 4096 bytes count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    words: BTreeSet<String>,
}

impl Query {
    /// The words of a text.
    pub fn new(text: &str) -> Self {
        let end = text.floor_char_boundary(MAX_QUERY_BYTES);
        let text = spaced(text.get(..end).unwrap_or_default());
        let mut words = BTreeSet::new();
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            if !word.is_empty() && words.len() < MAX_QUERY_WORDS {
                words.insert(word.to_lowercase());
            }
        }
        Self { words }
    }

    /// Its words: lowercase, sorted, each once.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }

    /// The query in the syntax of FTS5: each word in quotes, and any of them will do.
    fn expression(&self) -> String {
        let quoted = self.words().map(|word| format!("\"{word}\""));
        quoted.collect::<Vec<_>>().join(" OR ")
    }
}

/// A text with spaces around ideographs and kana, which the tokenizer would read as one long word.
fn spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' => {
                spaced.extend([' ', c, ' ']);
            }
            _ => spaced.push(c),
        }
    }
    spaced
}

/// The index of one namespace for one reader, in a database in memory.
pub(super) struct View {
    /// The number of the namespace in the file.
    pub(super) namespace: i64,
    pub(super) at: Label,
    /// The namespace's count of removals when the index was begun. Another count invalidates it.
    pub(super) forgotten: i64,
    /// The sequence number of the last entry that was considered.
    pub(super) last: i64,
    index: Connection,
    /// The facts about one attribute of one entity that no later fact replaces.
    facts: HashMap<[String; 2], Vec<(i64, Label)>>,
}

impl View {
    pub(super) fn new(namespace: i64, at: &Label, forgotten: i64) -> rusqlite::Result<Self> {
        let index = Connection::open_in_memory()?;
        // Without `content` the texts are not stored a second time.
        index.execute_batch(
            "CREATE VIRTUAL TABLE entry USING fts5(
               words, content = '', contentless_delete = 1,
               tokenize = 'unicode61 remove_diacritics 2'
             )",
        )?;
        Ok(Self {
            namespace,
            at: at.clone(),
            forgotten,
            last: 0,
            index,
            facts: HashMap::new(),
        })
    }

    /// Begins to add entries, in one transaction: each commit writes a segment of the index.
    pub(super) fn begin(&self) -> rusqlite::Result<()> {
        self.index.execute_batch("BEGIN")
    }

    /// Ends what [`View::begin`] began.
    pub(super) fn commit(&self) -> rusqlite::Result<()> {
        self.index.execute_batch("COMMIT")
    }

    pub(super) fn add(
        &mut self,
        sequence: i64,
        label: &Label,
        content: &Content,
    ) -> rusqlite::Result<()> {
        let words = match content {
            Content::Interaction { text, .. } | Content::Summary { text } => spaced(text),
            Content::Fact {
                entity,
                attribute,
                value,
            } => {
                self.replace(sequence, label, [entity, attribute])?;
                spaced(&format!("{entity} {attribute} {value}"))
            }
        };
        self.index
            .prepare_cached("INSERT INTO entry (rowid, words) VALUES (?1, ?2)")?
            .execute(params![sequence, words])?;
        Ok(())
    }

    /// A fact replaces earlier ones about the same to whose labels it flows. Others stay, so that untrusted text does not
    /// replace the user's words.
    fn replace(&mut self, fact: i64, label: &Label, names: [&String; 2]) -> rusqlite::Result<()> {
        let key = names.map(|name| name.trim().to_lowercase());
        let known = self.facts.entry(key).or_default();
        let (replaced, mut staying): (Vec<_>, Vec<_>) =
            (known.drain(..)).partition(|(_, earlier)| label.flows_to(earlier));
        for (earlier, _) in replaced {
            self.index
                .prepare_cached("DELETE FROM entry WHERE rowid = ?1")?
                .execute([earlier])?;
        }
        staying.push((fact, label.clone()));
        *known = staying;
        Ok(())
    }

    /// The sequence numbers of the best entries, best first, with their scores.
    pub(super) fn search(&self, query: &Query, most: usize) -> rusqlite::Result<Vec<(i64, f64)>> {
        if query.words.is_empty() {
            return Ok(Vec::new());
        }
        self.index
            .prepare_cached(
                // FTS5's scores are negative, the best lowest.
                "SELECT rowid, -rank FROM entry WHERE entry MATCH ?1
                 ORDER BY rank, rowid DESC LIMIT ?2",
            )?
            .query_map(
                params![query.expression(), i64::try_from(most).unwrap_or(i64::MAX)],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_words_without_operators() {
        for (text, expected) in [
            (
                "Karin's delivery, on 3.12.",
                &["12", "3", "delivery", "karin", "on", "s"][..],
            ),
            ("karin@example.com", &["com", "example", "karin"]),
            ("東京", &["京", "東"]),
            ("… — 🙂", &[]),
            (
                r#"text:"a* OR" NEAR(b, 2) NOT c) '; DROP TABLE memory; -- ^d {e} : -"#,
                &[
                    "2", "a", "b", "c", "d", "drop", "e", "memory", "near", "not", "or", "table",
                    "text",
                ],
            ),
        ] {
            assert!(
                Query::new(text).words().eq(expected.iter().copied()),
                "{text}"
            );
        }
    }

    #[test]
    fn the_beginning_of_a_long_query_counts() {
        let many: Vec<String> = (0..=MAX_QUERY_WORDS).map(|n| n.to_string()).collect();
        let first = Query::new(&many[..MAX_QUERY_WORDS].join(" "));
        assert_eq!(Query::new(&many.join(" ")), first);
        let text = format!("ä{}", "ä ".repeat(MAX_QUERY_BYTES));
        assert_eq!(Query::new(&text), Query::new("ää ä"));
    }
}
