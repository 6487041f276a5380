//! A word as renderers read it.

/// A character of a word as a renderer or a browser would take it, and its place in the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    /// The character, full-width forms folded.
    pub(super) c: char,
    /// The byte at which it begins.
    pub(super) at: usize,
}

/// The characters of a word without the invisible ones, without the backslashes that Markdown takes
/// away, and with the full-width forms that host names may be written in.
pub(super) fn skeleton(word: &str) -> Vec<Read> {
    let mut out = Vec::with_capacity(word.len());
    let mut chars = word.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            // It escapes the next character that is seen, a backslash too.
            let mut ahead = chars.clone();
            let next = ahead.find(|(_, next)| !is_ignored(*next));
            if let Some((at, c)) = next.filter(|(_, next)| next.is_ascii_punctuation()) {
                out.push(Read { c, at });
                chars = ahead;
                continue;
            }
        }
        if !is_ignored(c) {
            out.push(Read { c: folded(c), at });
        }
    }
    out
}

/// Whether browsers leave the character out of a host name, or it is invisible.
pub(super) fn is_ignored(c: char) -> bool {
    matches!(
        u32::from(c),
        0x00..=0x1f | 0x7f..=0x9f | 0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5
            | 0x180b..=0x180f | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164
            | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0xe0000..=0xe0fff
    )
}

/// The ASCII character that a browser reads in its place.
pub(super) fn folded(c: char) -> char {
    match c {
        // The full stops of IDNA.
        '。' | '．' | '｡' | '․' => '.',
        '／' | '⁄' | '∕' => '/',
        '：' | '﹕' | '∶' => ':',
        '！'..='～' => {
            let ascii = u32::from(c) - 0xff01 + 0x21;
            char::from_u32(ascii).unwrap_or(c)
        }
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(word: &str) -> String {
        skeleton(word).iter().map(|read| read.c).collect()
    }

    #[test]
    fn a_word_is_read_as_a_browser_reads_it() {
        assert_eq!(
            read("ht\u{200b}tps\\:\u{202e}//ｅｖｉｌ。com"),
            "https://evil.com"
        );
        assert_eq!(read("a\\b\\\\c"), "a\\b\\c");
        assert_eq!(read("a\\\u{200b}.b\\\u{200b}c"), "a.b\\c");
        assert_eq!(read("東京\\"), "東京\\");
    }

    #[test]
    fn places_are_those_of_the_word() {
        let word = "\u{200b}é\\.x";
        let places: Vec<(char, usize)> = skeleton(word).iter().map(|r| (r.c, r.at)).collect();
        assert_eq!(places, [('é', 3), ('.', 6), ('x', 7)]);
    }
}
