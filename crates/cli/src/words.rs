//! Words that a person types as an answer, and numbers in words that a person reads.

/// How often a word that was not offered is asked about again. Whoever mistypes gets two more tries;
/// a key that is stuck, or a program at the other end, ends the question.
pub(crate) const ATTEMPTS: usize = 3;

/// What a line means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The word at this place among those offered.
    Chosen(usize),
    /// A no: the word, or an empty line.
    No,
    /// None of the words, so nobody knows what was meant. Never a yes.
    Unclear,
}

/// Reads a line. Only a whole word counts, in capitals or not: half a word is typed by accident.
pub(crate) fn read(line: &str, words: &[&str]) -> Reading {
    let typed = line.trim().to_lowercase();
    if typed.is_empty() || typed == "no" {
        return Reading::No;
    }
    match words.iter().position(|word| *word == typed) {
        Some(at) => Reading::Chosen(at),
        None => Reading::Unclear,
    }
}

/// What is said after an unclear line.
pub(crate) fn again(words: &[&str]) -> String {
    format!("Only a whole word counts: {} or no.\n", words.join(", "))
}

/// A number, with the words for one and those for several.
pub(crate) fn counted(count: usize, one: &str, several: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {several}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_word_that_is_offered_is_a_yes() {
        let check = |line: &str, expected| {
            assert_eq!(read(line, &["once", "session"]), expected, "{line:?}");
        };
        for (line, at) in [("once\n", 0), (" Once \r", 0), ("SESSION", 1)] {
            check(line, Reading::Chosen(at));
        }
        for line in ["", "\n", "  ", "no", "No\n"] {
            check(line, Reading::No);
        }
        for line in [
            "o",
            "y",
            "yes",
            "once more",
            "onc",
            "always",
            "\u{1b}[A",
            "0nce",
        ] {
            check(line, Reading::Unclear);
        }
    }
}
