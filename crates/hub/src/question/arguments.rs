//! The arguments of a call, as a question shows them.
//!
//! Words that mix scripts are marked: `pаypal.com` with a Cyrillic letter looks like another host.

use ifc::{Label, Labeled};
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
    /// Its place in a question: first names that mix scripts and addresses, then short words, numbers and dates, and long
    /// texts. Shorter ones come first, since a text that names an address is longer than the address of a recipient.
    pub(super) fn rank(&self) -> (u8, usize) {
        let value = self.value.as_str();
        let spaced = value.trim_matches(['"', '[', ']']).contains(' ');
        // A mail address, or a host or path: a dot or slash, and no space within.
        let is_address = value.contains('@') || (value.contains(['.', '/']) && !spaced);
        let is_word = value.starts_with(['"', '[', '{']) && value.contains(char::is_alphabetic);
        let characters = value.chars().count();
        let rank = match () {
            () if !self.mixed().is_empty() => 0,
            () if is_address && characters <= ADDRESS => 0,
            () if characters <= SHORT && is_word => 1,
            () if characters <= SHORT => 2,
            () => 3,
        };
        (rank, characters)
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

/// The arguments in the order of their names, or `None` if the text is not one JSON object that every reader
/// understands alike. Each value is in its canonical form, so that `\u0065` hides nothing and numbers keep their digits.
#[must_use]
pub fn arguments(text: &str) -> Option<Vec<Argument>> {
    let arguments = ifc::Arguments::parse(text, &Label::bottom()).ok()?;
    let argument = |(name, value): (&str, &Labeled)| Argument {
        name: name.to_owned(),
        value: value.reveal_tcb().to_owned(),
    };
    Some(arguments.iter().map(argument).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_one_that_the_tool_gets() {
        for (text, expected) in [
            ("{}", &[][..]),
            (
                r#"{ "z":-0.0, "amount":100000000000000000000.10}"#,
                &[("amount", "100000000000000000000.10"), ("z", "-0.0")],
            ),
            (
                r#"{"to":["a@b.c" , {"x":[1,{"y":null}]}], "b":true}"#,
                &[("b", "true"), ("to", r#"["a@b.c",{"x":[1,{"y":null}]}]"#)],
            ),
            (
                r#"{"\u0074o":"\u0065ve\" , \\","e":""}"#,
                &[("e", r#""""#), ("to", r#""eve\" , \\""#)],
            ),
        ] {
            let found = arguments(text).unwrap();
            let found = found.iter().map(|it| (it.name.as_str(), it.value.as_str()));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{text}");
        }
        for text in [
            "",
            "[1]",
            "\"x\"",
            "{\"a\":",
            "{\"a\":\"\\ud800\"}",
            "{} {}",
            r#"{"to":"eve","to":"ada"}"#,
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
