//! Texts in tokens, each made once: the same results are in thousands of histories.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use agentdojo::value_match::{contains, is_trivial, tokens, without_year};

/// So many tokens in the same order are a quotation.
const PASSAGE: usize = 8;

/// A text in tokens, in the one spelling of [`agentdojo::value_match`].
#[derive(Debug, Default)]
pub(super) struct Text {
    tokens: Vec<String>,
    set: HashSet<String>,
}

impl Text {
    pub(super) fn new(text: &str) -> Self {
        let tokens = tokens(text);
        let set = tokens.iter().cloned().collect();
        Self { tokens, set }
    }

    /// Whether these tokens occur here in a row.
    pub(super) fn holds(&self, piece: &[String]) -> bool {
        // Most texts do not hold most words: a set lookup rules these out.
        let other_year =
            |token: &str| without_year(token).is_some_and(|day| self.set.contains(day));
        let absent = |token: &String| !self.set.contains(token) && !other_year(token);
        !piece.iter().any(absent) && contains(&self.tokens, piece)
    }

    /// Whether a passage of `other` occurs here.
    pub(super) fn cites(&self, other: &Text) -> bool {
        // A text shorter than a passage counts as a whole. At least 1, since windows of 0 panic; an
        // empty text has none of 1.
        let length = PASSAGE.min(other.tokens.len()).max(1);
        let mut passages = other.tokens.windows(length);
        passages.any(|passage| self.holds(passage))
    }

    /// Its different tokens that say something.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        let words = self.set.iter().map(String::as_str);
        words.filter(|word| !is_trivial(word))
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.set.contains(word)
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }
}

/// Every text that has been asked for.
#[derive(Debug, Default)]
pub(super) struct Memo(HashMap<String, Rc<Text>>);

impl Memo {
    pub(super) fn text(&mut self, text: &str) -> Rc<Text> {
        if let Some(known) = self.0.get(text) {
            return Rc::clone(known);
        }
        let new = Rc::new(Text::new(text));
        self.0.insert(text.to_owned(), Rc::clone(&new));
        new
    }
}
