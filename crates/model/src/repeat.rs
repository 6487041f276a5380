//! Notices a model that repeats itself. Small models at temperature 0 do, and never stop.

use std::collections::{HashMap, VecDeque};

/// Longest cycle, in tokens, that is looked for: a short paragraph.
const LONGEST_PERIOD: usize = 96;
/// Repeated tokens after which it is a loop: two dozen equal tokens can still be a ruled line.
const LEAST_REPEATED: usize = 48;
/// How often a cycle must come again.
const LEAST_CYCLES: usize = 3;
/// A line this long (characters) counts as a sentence; shorter ones may rightly recur.
const SENTENCE: usize = 24;
/// How often one sentence may occur in an answer.
const SENTENCE_LIMIT: u32 = 4;

/// Looks at an answer token by token and line by line.
#[derive(Debug)]
pub(crate) struct RepeatDetector {
    recent: VecDeque<i32>,
    /// `runs[p - 1]`: how many of the last tokens equal the one `p` before them.
    runs: Vec<usize>,
    line: String,
    lines: HashMap<String, u32>,
}

impl RepeatDetector {
    pub(crate) fn new() -> Self {
        Self {
            recent: VecDeque::with_capacity(LONGEST_PERIOD),
            runs: vec![0; LONGEST_PERIOD],
            line: String::new(),
            lines: HashMap::new(),
        }
    }

    /// Takes the next token and its text; true when the answer goes in circles.
    pub(crate) fn push(&mut self, token: i32, text: &str) -> bool {
        let cycles = self.push_token(token);
        let lines = text.chars().any(|c| self.push_char(c));
        cycles || lines
    }

    fn push_token(&mut self, token: i32) -> bool {
        let mut looping = false;
        // `recent` holds the newest token first, so it is in step with the periods 1, 2, ….
        for ((period, run), earlier) in (1..).zip(&mut self.runs).zip(&self.recent) {
            // A run of n at period p: the last n tokens repeat those p before them. Each token
            // costs one comparison per period.
            *run = if *earlier == token { *run + 1 } else { 0 };
            looping |= *run >= LEAST_REPEATED.max(LEAST_CYCLES * period);
        }
        self.recent.push_front(token);
        self.recent.truncate(LONGEST_PERIOD);
        looping
    }

    fn push_char(&mut self, c: char) -> bool {
        if c != '\n' {
            self.line.push(c);
            return false;
        }
        let line = std::mem::take(&mut self.line);
        if line.trim().chars().count() < SENTENCE {
            return false;
        }
        let count = self.lines.entry(line.trim().to_owned()).or_insert(0);
        *count += 1;
        *count > SENTENCE_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops_at(tokens: impl IntoIterator<Item = i32>) -> Option<usize> {
        let mut detector = RepeatDetector::new();
        tokens
            .into_iter()
            .position(|token| detector.push(token, ""))
    }

    #[test]
    fn cycles_are_found_soon_and_plain_text_is_not_a_cycle() {
        assert_eq!(stops_at(std::iter::repeat_n(7, 500)), Some(LEAST_REPEATED));
        assert_eq!(
            stops_at((0..1000).map(|i| i % 5)),
            Some(5 + LEAST_REPEATED - 1)
        );
        assert_eq!(
            stops_at((0..1000).map(|i| i % 40)),
            Some(40 + LEAST_CYCLES * 40 - 1)
        );
        assert_eq!(stops_at(0..5000), None);
        // A ruled line of 40 equal tokens between words.
        assert_eq!(
            stops_at((0..1000).map(|i| if i % 50 < 40 { 1 } else { i })),
            None
        );
    }

    #[test]
    fn a_sentence_that_comes_again_and_again_is_found() {
        let mut detector = RepeatDetector::new();
        let mut push = |i: i32, line: &str| detector.push(i, line);
        for i in 0..100 {
            assert!(!push(i, "- ok\n"), "short lines may recur");
        }
        let line = "You should call me back as soon as you can.\n";
        let found: Vec<bool> = (100..105).map(|i| push(i, line)).collect();
        assert_eq!(found, [false, false, false, false, true]);
    }
}
