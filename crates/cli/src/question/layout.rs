//! Lines that are no wider than the terminal.

use hub::trace::{escape, escape_lines};
use unicode_width::UnicodeWidthChar;

/// What every line of a question begins with.
const PREFIX: &str = "| ";

/// The indent of quoted text: nothing quoted can begin where Sluice's own words begin.
pub(super) const INSET: &str = "  ";

/// The narrowest terminal that is believed; below it, every layout breaks.
const NARROWEST: usize = 24;

/// The widest lines: longer ones are hard to read.
const WIDEST: usize = 100;

/// Columns of a foreign name in one of our sentences.
pub(super) const NAME_COLUMNS: usize = 44;

/// Columns of a foreign word in a message, which may be a path or a list of names.
const WORD_COLUMNS: usize = 240;

/// The size of a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    /// Lines that are seen together.
    pub(crate) rows: usize,
}

impl From<usize> for Size {
    /// So many columns, and as many lines as there are.
    fn from(columns: usize) -> Self {
        let rows = usize::MAX;
        Self { columns, rows }
    }
}

/// Lines of a block, each with [`PREFIX`], none wider than the terminal. A line that the terminal had to
/// break itself would continue without the prefix, and foreign text could begin it.
pub(crate) struct Lines {
    pub(super) width: usize,
    /// Each with its end.
    pub(super) lines: Vec<String>,
    /// Whether something was left out.
    pub(super) is_cut: bool,
}

impl Lines {
    pub(crate) fn new(columns: usize) -> Self {
        Self {
            width: columns.clamp(NARROWEST, WIDEST),
            lines: Vec::new(),
            is_cut: false,
        }
    }

    /// Words of our own. What they quote must be escaped.
    pub(crate) fn own(&mut self, words: &str) {
        for line in wrapped(words, self.width - PREFIX.len()) {
            self.line(&line);
        }
    }

    /// The same in at most so many lines; an ellipsis says that it goes on.
    pub(super) fn clipped(&mut self, words: &str, most: usize) {
        for line in self.first(words, self.width - PREFIX.len(), most) {
            self.line(&line);
        }
    }

    /// Foreign text that is escaped.
    pub(crate) fn quoted(&mut self, text: &str) {
        self.sampled(text, usize::MAX);
    }

    /// The beginning of foreign text that is escaped, in at most so many lines.
    pub(super) fn sampled(&mut self, text: &str, most: usize) {
        let lines = self.first(text, self.room(), most);
        self.put(INSET, &lines);
    }

    /// Foreign text that is escaped, behind a word of ours.
    pub(super) fn led(&mut self, word: &str, text: &str) {
        let lines = self.broken(&format!("{word}{text}"));
        self.put("", &lines);
    }

    /// Escaped text in lines, which [`Lines::put`] takes.
    pub(super) fn broken(&self, text: &str) -> Vec<String> {
        wrapped(text, self.room())
    }

    /// Lines of foreign text, the first one behind this, the others further in.
    pub(super) fn put(&mut self, before: &str, lines: &[String]) {
        for (at, line) in lines.iter().enumerate() {
            match at {
                0 => self.line(&format!("{before}{line}")),
                _ => self.line(&format!("{INSET}{INSET}{line}")),
            }
        }
    }

    /// Columns of foreign text: twice the inset, so that continued lines fit too.
    fn room(&self) -> usize {
        self.width - PREFIX.len() - 2 * INSET.len()
    }

    /// Text in its first lines, each of so many columns.
    fn first(&mut self, text: &str, room: usize, most: usize) -> Vec<String> {
        let mut lines = wrapped(text, room);
        if lines.len() > most {
            self.is_cut = true;
            let more = lines.split_off(most);
            if let (Some(last), Some(next)) = (lines.last_mut(), more.first()) {
                // Both together are wider than the room.
                *last = shortened(&format!("{last}{next}"), room);
            }
        }
        lines
    }

    /// Foreign text in full, in its own lines.
    pub(super) fn paragraphs(&mut self, text: &str) {
        for paragraph in escape_lines(text).replace('\t', "    ").split('\n') {
            self.quoted(paragraph);
        }
    }

    /// Foreign texts in full, each line behind the name of their author.
    pub(crate) fn said_by(&mut self, name: &str, texts: impl IntoIterator<Item: AsRef<str>>) {
        let room = self.width.saturating_sub(PREFIX.len() + columns(name));
        let texts = texts.into_iter().map(|text| escape(text.as_ref()));
        for line in texts.flat_map(|text| wrapped(&text, room.max(1))) {
            self.line(&format!("{name}{line}"));
        }
    }

    pub(crate) fn finish(self) -> String {
        self.lines.concat()
    }

    fn line(&mut self, line: &str) {
        self.lines.push(format!("{PREFIX}{line}\n"));
    }
}

/// Text for a terminal of so many columns, which has to break no line of it: continued ones are indented, so that nothing
/// foreign begins where our own words begin. Lines of TOML stay whole, since they are copied: a foreign value in them
/// has one word, which is no sentence wherever a row begins.
pub(crate) fn hanging(text: &str, width: usize) -> String {
    let (text, width) = (text.replace('\t', "    "), width.max(NARROWEST));
    let lines = text.split('\n').map(|line| match columns(line) <= width {
        true => line.to_owned(),
        false if is_copied(line) => line.to_owned(),
        false => inset(&wrapped(line, width - INSET.len()).join("\n")),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether a line is TOML in which each value is one word.
fn is_copied(line: &str) -> bool {
    let table = line.parse::<toml::Table>().ok();
    let values = table.and_then(|it| serde_json::to_string(&it).ok());
    // Between the values are no spaces.
    values.is_some_and(|it| it != "{}" && !it.contains(char::is_whitespace))
}

/// One message, whose further lines are indented.
pub(crate) fn inset(message: &str) -> String {
    message.replace('\n', &format!("\n{INSET}"))
}

/// A foreign word in a sentence of ours: escaped, without padding, and cut.
pub(crate) fn word(text: &str) -> String {
    let text = escape(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    shortened(&words.join(" "), WORD_COLUMNS)
}

/// Columns of a character. Where terminals disagree (East Asian ambiguous width) the larger number.
fn columns_of(c: char) -> usize {
    c.width_cjk().or(c.width()).unwrap_or(0)
}

/// Columns of escaped text, at least as many as a terminal takes.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// The beginning of escaped text, in at most so many columns; an ellipsis says that it goes on.
pub(crate) fn shortened(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), columns_of('…'));
    for c in text.chars() {
        used += columns_of(c);
        if used > room {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// Lines of at most so many columns, broken after a space where one is near and anywhere where none is.
/// Put together they are the text.
pub(super) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for c in text.chars() {
        // A character that is wider than the room gets a line of its own.
        if used + columns_of(c) > room && !line.is_empty() {
            let near = line.rfind(' ').map(|at| at + 1);
            let near =
                near.filter(|at| line.get(*at..).is_some_and(|rest| columns(rest) < room / 3));
            let rest = near.map(|at| line.split_off(at)).unwrap_or_default();
            used = columns(&rest);
            lines.push(std::mem::replace(&mut line, rest));
        }
        line.push(c);
        used += columns_of(c);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_word_has_no_padding_and_an_end() {
        assert_eq!(
            word(&format!("a{}\u{3000}b\nc ", " ".repeat(80))),
            "a b\\nc"
        );
        assert!(columns(&word(&"é".repeat(64 << 10))) <= WORD_COLUMNS);
    }

    #[test]
    fn a_line_to_copy_stays_whole_where_no_value_is_a_sentence() {
        let long = "x".repeat(60);
        for line in [
            format!("source = \"/{long}\""),
            format!("command = [\"npx\", \"{long}\"]"),
        ] {
            assert_eq!(hanging(&line, 40), line);
        }
        for line in [
            format!("source = \"/{long} sluice: done\""),
            format!("\"{long} sluice: done\" = 1"),
            format!("{long} {long}"),
        ] {
            assert_ne!(hanging(&line, 40), line);
        }
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal_and_nothing_is_lost(
            text in "\\PC{0,300}",
            terminal in NARROWEST..120,
        ) {
            let text = escape(&text);
            let room = terminal - 6;
            let lines = wrapped(&text, room);
            prop_assert_eq!(lines.concat(), text.clone());
            prop_assert!(lines.iter().all(|line| columns(line) <= room));
            for (at, row) in hanging(&text, terminal).lines().enumerate() {
                prop_assert!(columns(row) <= terminal, "{}", row);
                prop_assert!(at == 0 || row.starts_with(INSET), "{}", row);
            }
            let mut block = Lines::new(terminal);
            block.own("Our words.");
            block.sampled(&text, 4);
            prop_assert!(block.lines.len() <= 5);
            for line in block.finish().lines() {
                prop_assert!(line.starts_with(PREFIX), "{}", line);
                prop_assert!(columns(line) <= terminal, "{}", line);
            }
        }
    }
}
