//! Records that are written as lines, for readers and not for programs: `Key: value`, `- key: value`, headings.
//!
//! A text is an array of records, and a record an object of texts. A record begins after an empty line, a rule (`---`) or a
//! heading, at a mark (`- `, `1. `) behind a field without one, and where a key stands for a second time. A heading is the
//! field `#`, or `##`, of its record. Text that is no field belongs to the field before it, else it is the field `''`.
//!
//! No writer of such a text escapes a colon, so fields can be told apart only if no value has a line break: see
//! `Format::Lines`.

use std::collections::BTreeSet;
use std::ops::Range;

use ifc::json::{Key, Kind, Node, Tree};
use serde_json::{Map, Value};

use super::error::ParseError;

/// Longest key, in characters. A longer text before a colon is a sentence.
const MAX_KEY: usize = 40;

/// Most digits of the number before a record.
const MAX_DIGITS: usize = 4;

/// The bytes of a key and of its value, which may be empty.
type Field = (Range<usize>, Range<usize>);

/// The nodes and the value of a text. With `continues`, text after an empty line belongs to the field before it.
pub(super) fn read(text: &str, continues: bool) -> Result<(Vec<Node>, Value), ParseError> {
    // Some of these are line breaks to some readers.
    let is_odd = |(at, c): &(usize, char)| match c {
        '\n' | '\t' => false,
        '\r' => !text
            .get(at + 1..)
            .is_some_and(|rest| rest.starts_with('\n')),
        c => c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}'),
    };
    if let Some((offset, _)) = text.char_indices().find(is_odd) {
        let message = "a character that not all readers take as text";
        return Err(ParseError { offset, message });
    }
    let mut reader = Reader {
        text,
        ..Reader::default()
    };
    let mut at = 0;
    for line in text.split('\n') {
        reader.line(trimmed(text, at..at + line.len()), continues);
        at += line.len() + 1;
    }
    reader.finish()
}

#[derive(Default)]
struct Reader<'t> {
    text: &'t str,
    records: Vec<Vec<Field>>,
    /// The keys of the newest record; none if the next field begins another one.
    keys: BTreeSet<&'t str>,
    /// Whether the newest field has a mark before it.
    is_marked: bool,
    /// Whether text may continue the newest field.
    is_open: bool,
}

impl<'t> Reader<'t> {
    fn line(&mut self, line: Range<usize>, continues: bool) {
        let words = self.slice(&line);
        let is_rule = |sign: char| words.len() > 2 && words.chars().all(|c| c == sign);
        let signs = words.len() - words.trim_start_matches('#').len();
        if words.is_empty() || ['-', '=', '*', '_'].into_iter().any(is_rule) {
            self.keys.clear();
            self.is_open &= words.is_empty() && continues;
        } else if (1..=6).contains(&signs) && words.as_bytes().get(signs) == Some(&b' ') {
            let key = line.start..line.start + signs;
            self.keys.clear();
            self.field(key.clone(), trimmed(self.text, key.end..line.end), true);
        } else if let Some((is_marked, (key, value))) = field(self.text, &line) {
            if is_marked && !self.is_marked || self.keys.contains(self.slice(&key)) {
                self.keys.clear();
            }
            self.field(key, value, is_marked);
        } else {
            self.words(line);
        }
    }

    fn field(&mut self, key: Range<usize>, value: Range<usize>, is_marked: bool) {
        if self.keys.is_empty() {
            self.records.push(Vec::new());
        }
        self.keys.insert(self.slice(&key));
        (self.is_marked, self.is_open) = (is_marked, true);
        if let Some(record) = self.records.last_mut() {
            record.push((key, value));
        }
    }

    /// Text that is no field.
    fn words(&mut self, line: Range<usize>) {
        let newest = self.records.last_mut().and_then(|record| record.last_mut());
        match newest.filter(|_| self.is_open) {
            Some((_, value)) if value.start == value.end => *value = line,
            Some((_, value)) => value.end = line.end,
            None => {
                self.keys.clear();
                self.field(line.start..line.start, line, false);
            }
        }
    }

    fn finish(self) -> Result<(Vec<Node>, Value), ParseError> {
        let (mut tree, mut all) = (Tree::default(), Vec::new());
        tree.open(Kind::Array, 0)?;
        for record in &self.records {
            let mut members = Map::new();
            tree.open(Kind::Object, record.first().map_or(0, |(key, _)| key.start))?;
            for (key, value) in record {
                tree.key(Key {
                    span: key.clone(),
                    inner: key.clone(),
                    name: None,
                });
                let (kind, text) = match self.slice(value) {
                    "" => (Kind::Null, Value::Null),
                    text => (Kind::String, Value::from(text)),
                };
                tree.leaf(kind, value.clone(), value.clone(), true)?;
                members.insert(self.slice(key).to_owned(), text);
            }
            tree.close(record.last().map_or(0, |(_, value)| value.end));
            all.push(Value::Object(members));
        }
        tree.close(self.text.len());
        Ok((tree.into_nodes(), Value::Array(all)))
    }

    fn slice(&self, span: &Range<usize>) -> &'t str {
        self.text.get(span.clone()).unwrap_or_default()
    }
}

/// The part of a span without blanks around it.
fn trimmed(text: &str, span: Range<usize>) -> Range<usize> {
    let words = text.get(span.clone()).unwrap_or_default();
    let start = span.start + (words.len() - words.trim_start().len());
    start..start + words.trim().len()
}

/// Whether a line has a mark, and its field, if it is one.
fn field(text: &str, line: &Range<usize>) -> Option<(bool, Field)> {
    let words = text.get(line.clone())?;
    let number = words.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = (1..=MAX_DIGITS).contains(&(words.len() - number.len()));
    let unmarked = match is_numbered && number.starts_with(['.', ')']) {
        true => number.get(1..)?.strip_prefix(' '),
        false => ["- ", "* ", "• "]
            .iter()
            .find_map(|mark| words.strip_prefix(mark)),
    };
    let body = unmarked.unwrap_or(words).trim_start();
    let bold = body.strip_prefix("**");
    let (key, value) = bold.unwrap_or(body).split_once(':')?;
    let (key, value) = match (bold, key.strip_suffix("**")) {
        (None, _) => (key, value),
        (_, Some(key)) => (key, value),
        (_, None) => (key, value.strip_prefix("**")?),
    };
    let is_key = key.starts_with(char::is_alphabetic)
        && !key.ends_with(' ')
        && key.chars().count() <= MAX_KEY
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || " _-./()".contains(c));
    // `https://` and `10:30` are no keys, and `Found 3:` introduces what follows.
    let is_value = match value {
        "" => !key.contains(|c: char| c.is_ascii_digit()),
        value => value.starts_with([' ', '\t']),
    };
    let at = |part: &str| part.as_ptr().addr() - words.as_ptr().addr() + line.start;
    let field = (
        at(key)..at(key) + key.len(),
        trimmed(text, at(value)..line.end),
    );
    (is_key && is_value).then_some((unmarked.is_some(), field))
}
