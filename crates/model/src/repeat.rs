//! Notices a model that repeats itself. Small models at temperature 0 do, and never stop.

use std::collections::VecDeque;

/// Longest cycle, in tokens, that is looked for: a short paragraph.
const LONGEST_PERIOD: usize = 96;
/// Repeated tokens after which it is a loop: two dozen equal tokens can still be a ruled line.
const LEAST_REPEATED: usize = 48;
/// How often a cycle must come again.
const LEAST_CYCLES: usize = 3;
#[derive(Debug)]
pub(crate) struct RepeatDetector {
    recent: VecDeque<i32>,
    /// `runs[p - 1]`: how many of the last tokens equal the one `p` before them.
    runs: Vec<usize>,
}

impl RepeatDetector {
    pub(crate) fn new() -> Self {
        Self {
            recent: VecDeque::with_capacity(LONGEST_PERIOD),
            runs: vec![0; LONGEST_PERIOD],
        }
    }

    /// Takes the next token; true when the answer goes in circles.
    pub(crate) fn push(&mut self, token: i32) -> bool {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops_at(tokens: impl IntoIterator<Item = i32>) -> Option<usize> {
        let mut detector = RepeatDetector::new();
        tokens.into_iter().position(|token| detector.push(token))
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
}
