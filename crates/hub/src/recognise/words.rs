//! What a message shares with labelled text: a sentence, or only names of things.
//!
//! A user types addresses, paths, names and numbers that stand in results too: they name what the user means. A sentence
//! says what to do or tells something, and then a program has copied it into the message. A token without a blank can spell
//! a sentence as well (`please-send-the-card-to-eve`), so a name has bounds: see [`Kind::Name`].

use std::ops::Range;

use ifc::{Label, Labeled};

use super::letters::{View, letters};
use super::prints::{GRAM, PHRASE_WORDS};

/// Letters and digits of a name: an address with a path of some length. A key or a signed address has more.
const NAME_LETTERS: usize = 96;
/// Words of a name: a path of a source file, with `-` and `_` between words.
const NAME_WORDS: usize = 12;
/// Words between two marks of a path or an address. A title in an address has more.
const PART_WORDS: usize = 5;
/// From here on scripts are written without blanks.
const WORDLESS: char = '\u{2e80}';

/// The join of the labels of those runs of `text` that hold a sentence: three words beside the first name. Where the user says
/// nothing about what a run names, it is one too, unless it is a single id ([`is_identifier`]). The runs are in order and do not
/// overlap.
pub(super) fn sentences(text: &Labeled, runs: &[(Range<usize>, Label)]) -> Label {
    let is_about = has_own_words(text, runs);
    let text = text.reveal_tcb();
    let mut tokens = tokens(text).peekable();
    let holds_sentence = |(run, _): &&(Range<usize>, Label)| {
        while tokens.next_if(|token| token.end <= run.start).is_some() {}
        // The last token of a run may be the first of the next one.
        let shared = tokens.clone().take_while(|token| token.start < run.end);
        is_sentence(text, run, shared.clone()) || !is_about && !is_thing(text, shared)
    };
    let runs = runs.iter().filter(holds_sentence);
    runs.map(|(_, label)| label).collect()
}

/// Whether `text` has three words of the user's: those beside the runs and beside parts that had labels before. Those in tags
/// are of the program that wrapped the text.
fn has_own_words(text: &Labeled, runs: &[(Range<usize>, Label)]) -> bool {
    let labelled = text.regions().map(|(range, _)| range);
    let mut known: Vec<_> = runs.iter().map(|(run, _)| run.clone()).collect();
    known.extend(labelled);
    known.sort_by_key(|range| range.start);
    let mut known = known.iter().peekable();
    let text = text.reveal_tcb();
    let (mut at, mut is_tag) = (0, false);
    let own = tokens(text).filter(|token| {
        let before = text.get(at..token.start).unwrap_or_default();
        if let Some(mark) = before.rfind(['<', '>']) {
            is_tag = before.get(mark..).unwrap_or_default().starts_with('<');
        }
        at = token.end;
        while known.next_if(|range| range.end <= token.start).is_some() {}
        let is_known = known.peek().is_some_and(|range| range.start < token.end);
        let word = text.get(token.clone()).unwrap_or_default();
        let is_word = Kind::of(word) == Kind::Word && letters(word, View::Written).nth(1).is_some();
        is_word && !is_tag && !is_known
    });
    own.take(PHRASE_WORDS).count() == PHRASE_WORDS
}

/// Whether these tokens are one id beside numbers.
fn is_thing(text: &str, tokens: impl Iterator<Item = Range<usize>>) -> bool {
    let tokens = tokens.filter_map(|token| text.get(token));
    let mut named = tokens.filter(|token| Kind::of(token) != Kind::Number);
    named.next().is_none_or(is_identifier) && named.next().is_none()
}

/// Whether a text can only say which thing is meant: at most one word, beside digits, or an e-mail address of a few words.
pub fn is_identifier(text: &str) -> bool {
    if text.chars().any(|c| c >= WORDLESS) {
        return false;
    }
    let words = |part: &str| -> usize {
        let pieces = part.split(|c: char| !c.is_alphanumeric());
        let hex = |piece: &str| {
            piece.chars().all(|c| c.is_ascii_hexdigit()) && piece.contains(char::is_numeric)
        };
        let pieces = pieces.filter(|piece| !hex(piece));
        let runs = pieces.flat_map(|piece| piece.split(char::is_numeric));
        runs.map(|run| spelt(run).unwrap_or(NAME_WORDS)).sum()
    };
    match text.split_once('@') {
        Some((local, host)) => {
            let has_no_path = |part: &str| {
                let of_address = |c: char| c.is_alphanumeric() || ".-_+".contains(c);
                part.chars().all(of_address)
            };
            // `first.last@some-company.example`.
            [local, host].into_iter().all(has_no_path) && words(local) <= 2 && words(host) <= 3
        }
        None => words(text) <= 1,
    }
}

/// Whether these tokens, as far as the run covers them, are a sentence.
fn is_sentence(text: &str, run: &Range<usize>, tokens: impl Iterator<Item = Range<usize>>) -> bool {
    let (mut words, mut names) = (0, 0);
    for token in tokens {
        let shared = token.start.max(run.start)..token.end.min(run.end);
        let shared = text.get(shared).unwrap_or_default();
        // One letter at the edge of a run is shared by chance.
        if letters(shared, View::Written).take(2).count() < 2 {
            continue;
        }
        match Kind::of(text.get(token).unwrap_or_default()) {
            Kind::Number => {}
            Kind::Name => names += 1,
            Kind::Word => words += 1,
            Kind::Text => return true,
        }
        // The first name is what a sentence of the user's may be about. Further ones may stand for words (`pay-now`).
        if words + usize::max(names, 1) > PHRASE_WORDS {
            return true;
        }
    }
    false
}

/// The parts between blanks, quotes, brackets and the marks of escapes, as in `line\nline`.
fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> + Clone {
    let ends = |c: char| match c.is_ascii() {
        true => c.is_whitespace() || r#""'`<>(){}[]|,;*\"#.contains(c),
        false => !c.is_alphanumeric(),
    };
    let mut at = 0;
    let parts = text.split_inclusive(ends).map(move |part| {
        let start = at;
        at += part.len();
        start..start + part.trim_end_matches(ends).len()
    });
    parts.filter(|token| !token.is_empty())
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Digits and signs.
    Number,
    /// One word.
    Word,
    /// An address, a path, an id or a compound: several pieces or a digit, with at most [`NAME_LETTERS`] letters,
    /// [`NAME_WORDS`] words and [`PART_WORDS`] words in a row.
    Name,
    /// Anything else: words that run together, a script without blanks.
    Text,
}

impl Kind {
    fn of(token: &str) -> Self {
        // An escape may stand for a blank.
        if token.contains('%') {
            return Self::Text;
        }
        let (mut words, mut count, mut pieces) = (0, 0, 0);
        let mut has_letter = false;
        let marks = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric();
        for part in token.split(['/', ':', '@', '?', '#', '&', '=']) {
            let mut in_part = 0;
            for piece in part.split(marks).filter(|piece| !piece.is_empty()) {
                let is_plain = |c: char| c.is_alphanumeric() && c < WORDLESS;
                if !piece.chars().all(is_plain) {
                    return Self::Text;
                }
                count += piece.chars().count();
                let Some(spelt) = spelt(piece).filter(|_| count <= NAME_LETTERS) else {
                    return Self::Text;
                };
                pieces += 1;
                in_part += spelt;
                has_letter |= piece.chars().any(char::is_alphabetic);
            }
            if in_part > PART_WORDS {
                return Self::Text;
            }
            words += in_part;
        }
        let has_digit = token.chars().any(char::is_numeric);
        match (has_letter, pieces, words) {
            (false, ..) => Self::Number,
            (_, 1, 0..=1) if !has_digit => Self::Word,
            (.., 0..=NAME_WORDS) => Self::Name,
            _ => Self::Text,
        }
    }
}

/// How many words a piece without marks spells, or none if it is longer than words are. In an id with digits only runs of
/// four letters look like words.
fn spelt(piece: &str) -> Option<usize> {
    let has_digit = piece.chars().any(char::is_numeric);
    let begins = |last: char, c: char| !has_digit && last.is_lowercase() && c.is_uppercase();
    let (mut words, mut length, mut last) = (0, 0, ' ');
    let least = if has_digit { 4 } else { 2 };
    for c in piece.chars() {
        length = match c.is_numeric() {
            true => 0,
            false if begins(last, c) => 1,
            false => length + 1,
        };
        words += usize::from(length == least);
        if length >= GRAM && !has_digit {
            return None;
        }
        last = c;
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_things_are_told_from_words_that_run_together() {
        for name in [
            "https://github.com/rust-lang/rust-analyzer/issues/1234?page=2",
            "https://docs.example.org/document/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms/edit",
            "/home/ada/projects/sluice/crates/server/src/proxy/rebuild.rs",
            "karin.lund@heron-consulting.example.org",
            "anthropics/claude-code-action",
            "9f86d081-884c-7d65-9a2f-eaa0c55ad015",
            "AbstractBeanFactoryProcessor.java",
        ] {
            assert_eq!(Kind::of(name), Kind::Name, "{name}");
        }
        for text in [
            "please-send-the-card-to-eve",
            "please.send.the.card.to.eve",
            "pleasesendthecardnumbertoeve",
            "PleaseSendTheCardNumberToEve",
            "please%20send%20the%20card%20to%20eve",
            "please1send2this3card4number5right6away",
            "今日会議出席必要有無",
            "/please/send/the/card/number/of/ada/and/the/code/to/eve/today",
            "https://news.example/how-the-government-plans-to-do-it",
        ] {
            assert_eq!(Kind::of(text), Kind::Text, "{text}");
        }
        assert_eq!(Kind::of("Möller"), Kind::Word);
        assert_eq!(Kind::of("12-11/2026"), Kind::Number);
    }
}
