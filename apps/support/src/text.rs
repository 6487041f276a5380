//! Text that others wrote, made safe to show: bounded, without control and invisible characters.

/// One line: runs of white space become one space, hidden characters go, and what is over `max` characters is cut.
pub fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    for (count, character) in text
        .split_whitespace()
        // A space before every word but the first, which `skip` drops.
        .flat_map(|word| [" ", word])
        .flat_map(str::chars)
        .skip(1)
        .filter(|&c| !is_hidden(c))
        .enumerate()
    {
        if count == max {
            line.push('…');
            break;
        }
        line.push(character);
    }
    line
}

/// Several lines: line ends become `\n`, hidden characters go, and what is over `max` characters is cut.
/// The flag says whether something was cut.
pub fn lines(text: &str, max: usize) -> (String, bool) {
    let text = text.replace("\r\n", "\n");
    let mut kept = String::new();
    let mut characters = text
        .trim_end()
        .chars()
        .filter(|&c| c == '\n' || c == '\t' || !is_hidden(c));
    kept.extend(characters.by_ref().take(max));
    (kept, characters.next().is_some())
}

/// Control characters, and the characters that print as nothing or turn text around: a text could hide
/// instructions in them from the user and not from the model. The joiners of emoji and scripts (200C, 200D) stay.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{00AD}' | '\u{061C}' | '\u{180E}' | '\u{200B}' | '\u{200E}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_one_line_and_bounded() {
        for (input, want) in [
            ("  a \r\n b\tc ", "a b c"),
            ("a\u{0}b\u{1b}[31m", "ab[31m"),
            ("pay\u{202e}pal\u{200b}\u{e0041}", "paypal"),
            ("12345678901", "1234567890…"),
            ("", ""),
        ] {
            assert_eq!(one_line(input, 10), want);
        }
    }

    #[test]
    fn lines_are_cut_at_a_character() {
        assert_eq!(lines("äöü\r\nx\n\n", 3), ("äöü".to_owned(), true));
        assert_eq!(lines("äöü\r\nx\n\n", 5), ("äöü\nx".to_owned(), false));
    }

    proptest! {
        #[test]
        fn nothing_hidden_comes_through(text in any::<String>(), max in 0_usize..50) {
            let line = one_line(&text, max);
            prop_assert!(line.chars().count() <= max + 1);
            prop_assert!(!line.contains('\n') && !line.chars().any(is_hidden));
            let (body, cut) = lines(&text, max);
            prop_assert!(body.chars().count() <= max);
            prop_assert!(!body.chars().any(|c| is_hidden(c) && c != '\n' && c != '\t'));
            if cut { prop_assert_eq!(body.chars().count(), max); }
        }
    }
}
