//! Words that mix scripts: `pаypal.com` with a Cyrillic letter looks like another host.

use unicode_security::MixedScript;

/// Longest word that is judged as a whole although nothing in it says that it is an address: names of
/// users, channels and files are short.
const NAME: usize = 64;

/// Most words that one argument is marked for.
const MOST: usize = 3;

/// The words of a text that look like an address, a host or a name and hold letters of several scripts
/// (UTS 39, section 5.1; Japanese, Korean and Chinese writing counts as one script each), with every
/// character outside ASCII written as its number.
pub(super) fn mixed(text: &str) -> Vec<String> {
    let separates = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '\'' | ',' | ';' | '<' | '>' | '(' | ')' | '[' | ']'
            )
    };
    let words: Vec<&str> = text
        .split(separates)
        .filter(|word| !word.is_empty())
        .collect();
    // A sentence may mix languages; a name may not.
    let alone = words.len() == 1;
    let suspicious = words.into_iter().filter(|word| {
        let address = word.contains(['@', '.', '/', ':']);
        (address || (alone && word.chars().count() <= NAME)) && !word.is_single_script()
    });
    suspicious.take(MOST).map(spelled).collect()
}

fn spelled(word: &str) -> String {
    let mut out = String::new();
    for c in word.chars() {
        match c.is_ascii() {
            true => out.push(c),
            false => out.extend(c.escape_unicode()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_names_of_several_scripts_are_marked() {
        for (text, expected) in [
            (r#""p\u0430ypal.com""#, &[][..]),
            ("\"p\u{430}ypal.com\"", &["p\\u{430}ypal.com"]),
            (
                "[\"ada@ex\u{430}mple.org\", \"eve@x.y\"]",
                &["ada@ex\\u{430}mple.org"],
            ),
            ("\"\u{430}dmin\"", &["\\u{430}dmin"]),
            ("\"\u{438}\u{432}\u{430}\u{43d}\u{43e}\u{432}\"", &[]),
            // A sentence in which two languages meet is no address.
            ("\"siehe \u{43c}ama und papa\"", &[]),
            (
                "\"東京タワー.jp\"",
                &["\\u{6771}\\u{4eac}\\u{30bf}\\u{30ef}\\u{30fc}.jp"],
            ),
            ("\"grüße@müller.de\"", &[]),
            ("14.2", &[]),
        ] {
            assert_eq!(mixed(text), expected, "{text}");
        }
    }
}
