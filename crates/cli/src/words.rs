//! Words that a person types as an answer; numbers, labels, places and times as text.

use policy::Place;
use store::Time;

/// How many lines are read for one question. A mistyped word gets two more tries;
/// a key that is stuck, or a program at the other end, ends the question.
pub(crate) const ATTEMPTS: usize = 3;

/// The meaning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The word at this place among those offered.
    Chosen(usize),
    /// A no: the word, or an empty line.
    No,
    /// None of the words. Never a yes.
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

/// The message after an unclear line.
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

/// A label as a set of taints.
pub(crate) fn set(names: &[String]) -> String {
    match names {
        [] => "{trusted, public}".to_owned(),
        [any] if any == "any" => "anything".to_owned(),
        names => format!("{{{}}}", names.join(", ")),
    }
}

/// A place by the name of its file alone.
pub(crate) fn short(place: &Place) -> String {
    let name = place.file.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}:{}", place.line)
}

/// A time on the user's clock, to the minute.
pub(crate) fn minute(time: Time) -> String {
    let time = jiff::Timestamp::from_millisecond(time.millis());
    let local = time.map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    local.map_or_else(
        |_| "an unknown time".to_owned(),
        |local| local.strftime("%Y-%m-%d %H:%M").to_string(),
    )
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
