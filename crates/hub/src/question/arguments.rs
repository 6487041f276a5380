//! The arguments of a call, as a question shows them.
//!
//! Words that mix scripts are marked: `pаypal.com` with a Cyrillic letter looks like another host.

use serde::de::IgnoredAny;
use unicode_security::MixedScript;

/// Longest word that is looked at as a name although nothing in it says that it is an address: names of users, channels
/// and files are short.
const NAME: usize = 64;

/// Longest value that is short: it fits on a line with its name.
const SHORT: usize = 44;

/// Longest address, or list of some.
const ADDRESS: usize = 4 * SHORT;

/// Words of one argument that are marked.
const MARKED: usize = 3;

/// One argument. Neither text is escaped for a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its value as JSON text on one line.
    pub value: String,
}

impl Argument {
    /// Its place among the others. What a person must see first has the lowest rank: what may be something else than it
    /// looks like and where something goes, then what is short.
    pub(super) fn rank(&self) -> u8 {
        let value = self.value.as_str();
        let spaced = value.trim_matches(['"', '[', ']']).contains(' ');
        // A mail address, or a host or path: a dot or slash, and no space within.
        let is_address = value.contains('@') || (value.contains(['.', '/']) && !spaced);
        let characters = value.chars().count();
        match () {
            () if !self.mixed().is_empty() => 0,
            () if is_address && characters <= ADDRESS => 0,
            () if characters <= SHORT => 1,
            () => 2,
        }
    }

    /// The words that look like an address, a host or a name and have letters of several scripts (UTS 39, section 5.1;
    /// Japanese, Korean and Chinese writing counts as one script each), with every character outside ASCII written as
    /// its number.
    #[must_use]
    pub fn mixed(&self) -> Vec<String> {
        let separates = |c: char| c.is_whitespace() || "\"',;<>()[]".contains(c);
        let words: Vec<&str> = self
            .value
            .split(separates)
            .filter(|word| !word.is_empty())
            .collect();
        // A sentence may mix languages; a name may not.
        let is_alone = words.len() == 1;
        let suspicious = words.into_iter().filter(|word| {
            let is_address = word.contains(['@', '.', '/', ':']);
            let is_name = is_alone && word.chars().count() <= NAME;
            (is_address || is_name) && !word.is_single_script()
        });
        suspicious.take(MARKED).map(spelled).collect()
    }
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

/// The arguments in the order in which they stand, or `None` if the text is no JSON object.
///
/// Strings are decoded and written anew, so that `\u0065` hides nothing. Every other token stays as it
/// is: a number that goes through a float may not be the number that the tool gets.
#[must_use]
pub fn arguments(text: &str) -> Option<Vec<Argument>> {
    // The tokenizer below relies on valid JSON.
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let tokens = tokens(text)?;
    let mut tokens = tokens.iter();
    if tokens.next()? != "{" {
        return None;
    }
    let mut found: Vec<Argument> = Vec::new();
    let (mut name, mut value, mut depth) = (None, String::new(), 1);
    for token in tokens {
        match (token.as_str(), depth) {
            // At depth 1: a colon, the end of an argument, its name. All else belongs to its value.
            (":", 1) if value.is_empty() => {}
            ("," | "}", 1) => {
                if let Some(name) = name.take() {
                    let value = std::mem::take(&mut value);
                    found.push(Argument { name, value });
                }
                continue;
            }
            (key, 1) if name.is_none() => name = Some(serde_json::from_str(key).ok()?),
            (token, _) => {
                value.push_str(token);
                if matches!(token, "," | ":") {
                    value.push(' ');
                }
            }
        }
        match token.as_str() {
            "{" | "[" => depth += 1,
            "}" | "]" => depth -= 1,
            _ => {}
        }
    }
    Some(found)
}

/// The tokens of JSON text that is known to be valid.
fn tokens(text: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string(rest)?,
            '{' | '}' | '[' | ']' | ',' | ':' => 1,
            _ => rest
                .find([',', '}', ']', ' ', '\t', '\r', '\n'])
                .unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at_checked(length)?;
        found.push(match first {
            '"' => {
                let decoded: String = serde_json::from_str(token).ok()?;
                serde_json::to_string(&decoded).ok()?
            }
            _ => token.to_owned(),
        });
        rest = after.trim_start();
    }
    Some(found)
}

/// The length of the string that the text begins with, both quotes included.
fn string(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let found = arguments(text).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|found| (found.name.as_str(), found.value.as_str()))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn every_token_is_the_one_that_the_tool_gets() {
        check("{}", &[]);
        check(
            r#"{ "amount":100000000000000000000.10, "n": 1e400 ,"z":-0.0}"#,
            &[
                ("amount", "100000000000000000000.10"),
                ("n", "1e400"),
                ("z", "-0.0"),
            ],
        );
        check(
            r#"{"to":["a@b.c" , {"x":[1,{"y":null}]}], "b":true}"#,
            &[
                ("to", r#"["a@b.c", {"x": [1, {"y": null}]}]"#),
                ("b", "true"),
            ],
        );
    }

    #[test]
    fn escapes_hide_nothing_in_strings_and_names() {
        check(
            r#"{"\u0074o":"\u0065ve\" , \\","e":""}"#,
            &[("to", r#""eve\" , \\""#), ("e", r#""""#)],
        );
    }

    #[test]
    fn an_argument_that_stands_twice_is_shown_twice() {
        check(
            r#"{"to":"eve","to":"ada"}"#,
            &[("to", r#""eve""#), ("to", r#""ada""#)],
        );
    }

    #[test]
    fn what_is_no_object_has_no_arguments() {
        for text in [
            "",
            "[1]",
            "\"x\"",
            "{\"a\":",
            "{\"a\":\"\\ud800\"}",
            "{} {}",
        ] {
            assert_eq!(arguments(text), None, "{text}");
        }
    }

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
            let argument = Argument {
                name: String::new(),
                value: text.to_owned(),
            };
            assert_eq!(argument.mixed(), expected, "{text}");
        }
    }
}
