//! The largest condition, checked before Cedar's parser reads it. The parser recurses for each bracket and operator, so two
//! hundred brackets would overflow the stack. It compares an unknown word letter by letter with all known words, so one long
//! word would take all memory.

/// Deepest nesting of brackets.
const MAX_DEPTH: usize = 16;

/// Most words, operators and opening brackets of one condition. Text in quotes does not count, so a list of names may be
/// long.
const MAX_STEPS: usize = 256;

/// Longest word, and longest text in quotes, in bytes. Addresses are shorter.
pub(super) const MAX_WORD_BYTES: usize = 512;

/// The place and reason of a text that is too large.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exceeded {
    /// In bytes.
    pub(super) at: usize,
    /// One line.
    pub(super) message: &'static str,
    /// How to correct it.
    pub(super) help: &'static str,
}

const TOO_MUCH: (&str, &str) = (
    "a condition says too much at once",
    "write several conditions, and fewer brackets inside of each other",
);

const TOO_LONG: (&str, &str) = (
    "a condition has a word or a text of more than 512 bytes",
    "write a shorter one",
);

/// The place where a condition becomes too large. Comments, quotes and words end where they end for Cedar's lexer
/// (`grammar.lalrpop` of `cedar-policy-core`), so that each bracket that Cedar sees is counted.
pub(super) fn exceeded(text: &str) -> Option<Exceeded> {
    let exceeded = |at, (message, help)| Some(Exceeded { at, message, help });
    let (mut depth, mut steps) = (0_usize, 0_usize);
    let mut before = Part::Other;
    // Where the last word began.
    let mut began = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let part = match c {
            '"' => {
                while let Some((_, inner)) = chars.next() {
                    match inner {
                        // An escaped quote does not end it.
                        '\\' => drop(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                let end = chars.peek().map_or(text.len(), |(end, _)| *end);
                if end - at > MAX_WORD_BYTES {
                    return exceeded(at, TOO_LONG);
                }
                Part::Other
            }
            '/' if chars.peek().is_some_and(|(_, next)| *next == '/') => {
                while chars
                    .next_if(|(_, next)| !matches!(next, '\n' | '\r'))
                    .is_some()
                {}
                Part::Other
            }
            '(' | '[' | '{' => {
                depth += 1;
                steps += 1;
                Part::Other
            }
            ')' | ']' | '}' => {
                // The parser refuses brackets without a partner.
                depth = depth.saturating_sub(1);
                Part::Other
            }
            // One policy ends here, and the limits are for each.
            ';' if depth == 0 => {
                steps = 0;
                Part::Other
            }
            // The parser does not recurse for separators.
            ',' | ':' | ';' => Part::Other,
            c if c.is_whitespace() => Part::Other,
            c if c.is_alphanumeric() || c == '_' => Part::Word,
            // Each by itself, since `!!!` is three steps.
            _ => {
                steps += 1;
                Part::Other
            }
        };
        if part == Part::Word && before != Part::Word {
            began = at;
            steps += 1;
        }
        before = part;
        if part == Part::Word && at - began >= MAX_WORD_BYTES {
            return exceeded(began, TOO_LONG);
        }
        if depth > MAX_DEPTH || steps > MAX_STEPS {
            return exceeded(at, TOO_MUCH);
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Word,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_has_an_end_and_a_list_of_names_may_be_long() {
        let names = "\"a b\\\"c\", ".repeat(5_000);
        let list =
            format!("forbid (principal, action, resource) when {{ [{names}].contains(1) }};");
        let comment = format!("// {}\r\n", "a && ".repeat(500));
        let several = "permit (principal, action, resource) when { a.b == 1 || c };\n".repeat(64);
        for text in ["", &list, &comment, &several] {
            assert_eq!(exceeded(text), None);
        }
        for text in [
            "(".repeat(17),
            "[".repeat(17),
            "{a:".repeat(17),
            "a && ".repeat(100),
            "!".repeat(300),
            ".a".repeat(200),
            "[\"a\"]".repeat(300),
            "if a then ".repeat(100),
            // Where Cedar's lexer ends a comment.
            format!("//\r{}", "(".repeat(17)),
            format!("// \" \u{85}\u{2028}\r\"\"{}", "(".repeat(17)),
            format!("\"//\"{}", "(".repeat(17)),
            "a".repeat(513),
            format!("\"{}\"", "(".repeat(511)),
        ] {
            assert!(exceeded(&text).is_some(), "{text}");
        }
    }
}
