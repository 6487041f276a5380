//! How large one condition may be, checked before Cedar's parser sees it: the parser recurses for each bracket and each
//! operator, so two hundred brackets in a stranger's configuration would overflow the stack and end the program.

/// Most brackets inside of each other.
const MAX_DEPTH: usize = 16;

/// Most words, operators and opening brackets of one condition. What stands in quotes does not count, so that a list of
/// names may be long.
const MAX_STEPS: usize = 256;

/// Where a condition becomes larger than one may be, in bytes.
pub(super) fn exceeded(text: &str) -> Option<usize> {
    let (mut depth, mut steps) = (0_usize, 0_usize);
    let mut before = Part::Other;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let part = match c {
            '"' => {
                while let Some((_, inner)) = chars.next() {
                    match inner {
                        // Whatever is escaped does not end it.
                        '\\' => drop(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                Part::Other
            }
            '/' if chars.peek().is_some_and(|(_, next)| *next == '/') => {
                while chars.next_if(|(_, next)| *next != '\n').is_some() {}
                Part::Other
            }
            '(' | '[' | '{' => {
                depth += 1;
                steps += 1;
                Part::Other
            }
            ')' | ']' | '}' => {
                // Brackets without a partner are the parser's to refuse.
                depth = depth.saturating_sub(1);
                Part::Other
            }
            // One policy ends here, and the limits are for each.
            ';' if depth == 0 => {
                steps = 0;
                Part::Other
            }
            // What separates elements does not make the parser recurse: a list may be long.
            ',' | ':' | ';' => Part::Other,
            c if c.is_whitespace() => Part::Other,
            c if c.is_alphanumeric() || c == '_' => Part::Word,
            // Each by itself, since a row of them (`!!!`) is as many steps.
            _ => {
                steps += 1;
                Part::Other
            }
        };
        if part == Part::Word && before != Part::Word {
            steps += 1;
        }
        before = part;
        if depth > MAX_DEPTH || steps > MAX_STEPS {
            return Some(at);
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
        let comment = format!("// {}\n", "a && ".repeat(500));
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
        ] {
            assert!(exceeded(&text).is_some(), "{text}");
        }
    }
}
