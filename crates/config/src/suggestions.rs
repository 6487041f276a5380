//! Suggestions of names in the help of errors. Names may be a stranger's, so their number and length are limited.

use std::borrow::Cow;
use std::cell::Cell;

/// Longest name that is compared with others, or shown in a list, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Most comparisons for one configuration. One of two longest names takes tens of microseconds, all of them about a second.
const MAX_COMPARED: usize = 1 << 15;

/// Most names of one list.
const MAX_LISTED: usize = 64;

/// Suggests names within a limited amount of work.
#[derive(Debug)]
pub(crate) struct Suggestions {
    /// How many names may still be compared.
    left: Cell<usize>,
}

impl Default for Suggestions {
    fn default() -> Self {
        Self {
            left: Cell::new(MAX_COMPARED),
        }
    }
}

impl Suggestions {
    /// `did you mean 'KNOWN'? ` with the nearest of `known`, or nothing if none is near.
    pub(crate) fn did_you_mean<'k>(
        &self,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> String {
        if is_long(name) {
            return String::new();
        }
        // Two edits in a short word, a third of the characters in a long one.
        let near = name.chars().count().div_ceil(3).max(2);
        let left = self.left.get();
        let mut looked_at = 0;
        let nearest = known
            .into_iter()
            .take(left)
            // Before the filter: skipping a long name is work too.
            .inspect(|_| looked_at += 1)
            .filter(|candidate| !is_long(candidate))
            .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
            .min();
        self.left.set(left.saturating_sub(looked_at));
        match nearest {
            Some((distance, candidate)) if distance <= near => {
                format!("did you mean '{candidate}'? ")
            }
            _ => String::new(),
        }
    }
}

/// `did you mean 'KNOWN'? ` with the nearest of `known`, or nothing if none is near.
pub fn did_you_mean<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    Suggestions::default().did_you_mean(name, known)
}

/// `a, b, c`, shortened to the first names of many.
pub(crate) fn listed<'k>(known: impl IntoIterator<Item = &'k str>) -> String {
    let mut known = known.into_iter();
    let mut names: Vec<Cow<'_, str>> = known.by_ref().take(MAX_LISTED).map(shortened).collect();
    if known.next().is_some() {
        names.push("…".into());
    }
    names.join(", ")
}

/// A name for messages that repeat it.
pub(crate) fn shortened(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(MAX_NAME_CHARS) {
        None => name.into(),
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()).into(),
    }
}

fn is_long(name: &str) -> bool {
    name.chars().nth(MAX_NAME_CHARS).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_meant_if_one_is_near() {
        let meant =
            |name, known: &[&str]| Suggestions::default().did_you_mean(name, known.iter().copied());
        assert_eq!(meant("stpes", &["hops", "steps"]), "did you mean 'steps'? ");
        assert_eq!(meant("stpes", &["timeout"]), "");
        assert_eq!(meant("stpes", &[]), "");
    }

    #[test]
    fn many_or_long_names_are_little_work() {
        let suggestions = Suggestions::default();
        let long = "a".repeat(1 << 20);
        assert_eq!(suggestions.did_you_mean(&long, ["a", &long]), "");
        assert_eq!(suggestions.left.get(), MAX_COMPARED);
        let near = suggestions.did_you_mean("aaa", [&*long, "aab"]);
        assert_eq!(near, "did you mean 'aab'? ");
        // However many there are, and however often somebody asks.
        let endless = || std::iter::repeat("aaaa");
        for _ in 0..100_000 {
            suggestions.did_you_mean("aaa", endless());
        }
        assert_eq!(suggestions.did_you_mean("aaa", ["aab"]), "");
    }

    #[test]
    fn a_list_ends_after_what_somebody_reads() {
        assert_eq!(listed(["a", "b"]), "a, b");
        assert_eq!(listed([]), "");
        let long = "é".repeat(1_000);
        let endless = listed(std::iter::repeat(&*long));
        assert!(endless.ends_with("…, …") && endless.chars().count() < 5_000);
    }
}
