//! Text from mails, made safe to show: bounded, without control and invisible characters, HTML turned into text.

use std::borrow::Cow;

use mail_parser::decoders::html::html_to_text;

/// Elements whose content is not shown by a mail reader.
const INVISIBLE_ELEMENTS: [&str; 3] = ["script", "style", "title"];

/// One line: runs of white space become one space, hidden characters go, and what is over `max` characters is cut.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    for (count, character) in text
        .split_whitespace()
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
pub(crate) fn lines(text: &str, max: usize) -> (String, bool) {
    let text = text.replace("\r\n", "\n");
    let mut kept = String::new();
    let mut characters = text
        .trim_end()
        .chars()
        .filter(|&c| c == '\n' || c == '\t' || !is_hidden(c));
    kept.extend(characters.by_ref().take(max));
    (kept, characters.next().is_some())
}

/// The text of an HTML body. Simple on purpose: tags go, entities are decoded, breaks and paragraphs end lines.
pub(crate) fn from_html(html: &str) -> String {
    let mut html = Cow::Borrowed(html);
    for element in INVISIBLE_ELEMENTS {
        html = Cow::Owned(without_element(&html, element));
    }
    html_to_text(&html)
}

/// Control characters, and the characters that print as nothing or turn text around: a mail could hide
/// instructions in them from the user and not from the model. The joiners of emoji and scripts (200C, 200D) stay.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{00AD}' | '\u{061C}' | '\u{180E}' | '\u{200B}' | '\u{200E}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Removes `<name …>…</name>`; an element that is never closed reaches to the end.
fn without_element(html: &str, name: &str) -> String {
    // Only ASCII changes its case here, so positions in both strings are the same.
    let lower = html.to_ascii_lowercase();
    let (open, close) = (format!("<{name}"), format!("</{name}"));
    let mut kept = String::with_capacity(html.len());
    let mut at = 0;
    while let Some(begin) = lower
        .get(at..)
        .and_then(|rest| rest.find(&open))
        .map(|found| at + found)
    {
        kept.push_str(html.get(at..begin).unwrap_or_default());
        let after_name = lower.as_bytes().get(begin + open.len());
        if after_name.is_some_and(u8::is_ascii_alphanumeric) {
            // Another element with a longer name, such as <styled>.
            kept.push_str(html.get(begin..begin + open.len()).unwrap_or_default());
            at = begin + open.len();
            continue;
        }
        let end = lower
            .get(begin..)
            .and_then(|rest| rest.find(&close))
            .map(|found| begin + found);
        at = end
            .and_then(|end| lower.get(end..)?.find('>').map(|found| end + found + 1))
            .unwrap_or(html.len());
    }
    kept.push_str(html.get(at..).unwrap_or_default());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn html_becomes_text() {
        for (input, want) in [
            (
                "<p>Dear Anna,</p><p>5 &lt; 6 &amp; 7<br>Bye</p>",
                "Dear Anna,\n5 < 6 & 7\nBye",
            ),
            (
                "<html><head><title>T</title></head><body><STYLE type=x>p{}</STYLE>a<script>b</script>c</body>",
                "ac",
            ),
            ("x<style>never closed", "x"),
            ("<titles>kept</titles>", "kept"),
        ] {
            assert_eq!(from_html(input).trim(), want, "{input}");
        }
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

        #[test]
        fn any_html_is_read(text in "(<|>|/|!|-|&|;|#|p|br|style|script|head|ä| |\n){0,60}") {
            from_html(&text);
        }
    }
}
