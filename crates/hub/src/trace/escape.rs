//! Foreign text for a terminal: a character that could move the cursor, reorder text or be invisible is shown as an
//! escape (`\n`, `\u{202e}`).

use icu_properties::props::{
    BidiControl, DefaultIgnorableCodePoint, GeneralCategory, VariationSelector,
};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Marks that may sit on one character. Vietnamese and Hebrew need two; a hundred would paint over
/// the lines above and below.
const MARKS: usize = 3;

/// A braille pattern without dots: a letter by its category, and nothing to see.
const BLANK_BRAILLE: char = '\u{2800}';

/// One line of foreign text: every character that steers a terminal, reorders text or cannot be seen is
/// written as an escape, line breaks and tabs included.
///
/// These are, by Unicode class: controls (C0 and C1), format characters (bidirectional controls and tags
/// among them), private use, unassigned, line and paragraph separators, variation selectors, characters
/// that are ignorable by default, and marks that have no character to sit on or are more than three.
pub fn escape(text: &str) -> String {
    escaped(text, |_| false)
}

/// As [`escape()`], for text of several lines: line breaks and tabs stay. A carriage return before a
/// line break is left out.
pub fn escape_lines(text: &str) -> String {
    escaped(&text.replace("\r\n", "\n"), |c| matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    // At the beginning there is nothing that a mark could sit on.
    let mut marks = MARKS;
    for c in text.chars() {
        if keep(c) {
            out.push(c);
            marks = MARKS;
            continue;
        }
        let mark = is_mark(c);
        if is_unseen(c) || (mark && marks >= MARKS) {
            out.extend(c.escape_default());
            marks = MARKS;
        } else {
            out.push(c);
            marks = if mark { marks + 1 } else { 0 };
        }
    }
    out
}

/// Whether a character must not reach a terminal as it is.
fn is_unseen(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    let by_category = matches!(
        category(c),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::PrivateUse
            | GeneralCategory::Surrogate
            | GeneralCategory::Unassigned
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    );
    by_category
        || CodePointSetData::new::<BidiControl>().contains(c)
        || CodePointSetData::new::<VariationSelector>().contains(c)
        // Fillers, joiners and the like, which have other categories.
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
        || c == BLANK_BRAILLE
}

fn is_mark(c: char) -> bool {
    !c.is_ascii()
        && matches!(
            category(c),
            GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark
        )
}

fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Characters of every class that must be escaped, from the ranges of the Unicode standard and not
    /// from the tables that the code asks.
    fn is_dangerous(c: char) -> bool {
        matches!(
            u32::from(c),
            0x00..=0x1f | 0x7f..=0x9f                           // C0, DEL, C1
                | 0xad | 0x61c | 0x200b..=0x200f                // soft hyphen, bidi marks, zero width
                | 0x2028 | 0x2029                               // line and paragraph separators
                | 0x202a..=0x202e | 0x2060..=0x206f             // embeddings, isolates, invisible operators
                | 0x34f | 0x115f | 0x1160 | 0x17b4 | 0x17b5     // joiner, fillers, inherent vowels
                | 0x180b..=0x180f | 0x3164 | 0xffa0 | 0x2800    // selectors, fillers, blank
                | 0xfe00..=0xfe0f | 0xe0100..=0xe01ef           // variation selectors
                | 0xfeff | 0xfff9..=0xfffb                      // byte order mark, annotations
                | 0xe0000..=0xe007f                             // tags
                | 0xe000..=0xf8ff | 0xf0000..=0x10ffff          // private use
                | 0xfdd0..=0xfdef | 0xfffe | 0xffff             // noncharacters
        )
    }

    #[test]
    fn no_dangerous_character_is_left() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let line = escape(&format!("a{c}b"));
            let lines = escape_lines(&format!("a{c}b"));
            if is_dangerous(c) {
                assert!(!line.contains(c), "{c:?} in {line}");
                assert_eq!(line, format!("a{}b", c.escape_default()));
                assert_eq!(
                    lines.contains(c),
                    matches!(c, '\n' | '\t'),
                    "{c:?} in {lines}"
                );
            }
        }
    }

    #[test]
    fn ordinary_text_of_all_scripts_stays_as_it_is() {
        for text in [
            "Grüße, 14,2 Mio. € – “quoted” \\n {}",
            "东京の天気は晴れ",
            "Привет, мир",
            "مرحبا بالعالم",
            "שָׁלוֹם",
            "Tiếng Việt, e\u{302}\u{301}",
            "नमस्ते",
            "🚀 👍🏽",
        ] {
            assert_eq!(escape(text), text);
            assert_eq!(escape(&escape(text)), text);
        }
    }

    #[test]
    fn lines_stay_lines_and_nothing_else_moves_the_cursor() {
        assert_eq!(
            escape_lines("a\r\n\tb\rc\u{1b}[2J\u{85}d"),
            "a\n\tb\\rc\\u{1b}[2J\\u{85}d"
        );
        assert_eq!(escape("a\n\tb"), "a\\n\\tb");
    }

    #[test]
    fn marks_do_not_paint_over_other_lines() {
        let heap = escape(&format!("a{}", "\u{489}".repeat(50)));
        assert_eq!(heap.matches('\u{489}').count(), MARKS);
        // Nor do they sit on the text before.
        assert_eq!(escape("\u{338}a"), "\\u{338}a");
        assert_eq!(escape_lines("a\n\u{338}b"), "a\n\\u{338}b");
    }
}
