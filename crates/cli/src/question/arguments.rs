//! The arguments of a call, as a question shows them.

use serde::de::IgnoredAny;

/// One argument.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: String,
    /// Its value as JSON text on one line.
    pub(super) value: String,
}

/// The arguments in the order in which they stand, or `None` if the text is no JSON object.
///
/// Strings are decoded and written anew, so that `\u0065` hides nothing. Every other token stays as it
/// is: a number that goes through a float may not be the number that the tool gets.
pub(super) fn arguments(text: &str) -> Option<Vec<Argument>> {
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
}
