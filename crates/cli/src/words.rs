//! Words that a person types as an answer; numbers, labels, places and times as text.

use policy::Place;
use store::Time;

/// How many lines are read for one question. A mistyped word gets two more tries;
/// a key that is stuck, or a program at the other end, ends the question.
pub(crate) const ATTEMPTS: usize = 3;

/// Whether a line is this word, in capitals or not; `false` for `no` and an empty line, `None` for any other line. Half a
/// word is typed by accident.
pub(crate) fn read(line: &str, word: &str) -> Option<bool> {
    match line.trim().to_lowercase().as_str() {
        "" | "no" => Some(false),
        typed => (typed == word).then_some(true),
    }
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
    fn only_the_whole_word_is_a_yes() {
        for line in ["trust\n", " Trust \r", "TRUST"] {
            assert_eq!(read(line, "trust"), Some(true), "{line:?}");
        }
        for line in ["", "\n", "  ", "no", "No\n"] {
            assert_eq!(read(line, "trust"), Some(false), "{line:?}");
        }
        for line in ["t", "y", "yes", "trust me", "trus", "\u{1b}[A", "tru5t"] {
            assert_eq!(read(line, "trust"), None, "{line:?}");
        }
    }
}
