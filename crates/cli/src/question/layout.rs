//! Lines that are no wider than the terminal.

use unicode_width::UnicodeWidthChar;

/// What every line of a question begins with.
const PREFIX: &str = "| ";

/// What quoted text is set in by: nothing quoted can begin where Sluice's own words begin.
const INSET: &str = "  ";

/// The narrowest terminal that is believed; below it, every layout breaks.
const NARROWEST: usize = 24;

/// The widest lines: longer ones are hard to read.
const WIDEST: usize = 100;

/// Columns of an argument that is repeated on the last line, and of a name in a sentence.
pub(super) const KEY_COLUMNS: usize = 44;

/// Lines of a block, each with [`PREFIX`], none wider than the terminal. A line that the terminal had to
/// break itself would continue without the prefix, and foreign text could begin it.
pub(crate) struct Lines {
    width: usize,
    /// Whether nothing is left out.
    whole: bool,
    text: String,
    /// Characters that were left out.
    pub(crate) left_out: usize,
}

impl Lines {
    pub(crate) fn new(columns: usize, whole: bool) -> Self {
        Self {
            width: columns.clamp(NARROWEST, WIDEST),
            whole,
            text: String::new(),
            left_out: 0,
        }
    }

    /// Words of our own. What they quote must be escaped.
    pub(crate) fn own(&mut self, words: &str) {
        for line in wrapped(words, self.width - PREFIX.len()) {
            self.line(&line);
        }
    }

    /// Foreign text that is escaped, in at most so many lines: the first ones and the last one. How many
    /// lines it took.
    pub(crate) fn quoted(&mut self, text: &str, most: usize) -> usize {
        // Twice the inset, so that continued lines fit too.
        let room = self.width - PREFIX.len() - 2 * INSET.len();
        let lines = wrapped(text, room);
        let count = lines.len();
        let hidden = match self.whole || count <= most {
            true => 0..0,
            // The last line is shown too: what matters may stand at the end of a long value.
            false => most.saturating_sub(1)..count - 1,
        };
        let left_out: usize = lines
            .get(hidden.clone())
            .unwrap_or_default()
            .iter()
            .map(|line| line.chars().count())
            .sum();
        for (at, line) in lines.iter().enumerate() {
            if at == hidden.start && !hidden.is_empty() {
                self.own(&format!("[{left_out} characters are not shown here]"));
            }
            if !hidden.contains(&at) {
                // What goes on in the next line is set in further than what begins.
                let further = if at == 0 { "" } else { INSET };
                self.line(&format!("{INSET}{further}{line}"));
            }
        }
        self.left_out += left_out;
        count - hidden.len()
    }

    /// Foreign text that is escaped, whole, each of its lines behind the name of whoever wrote it.
    pub(crate) fn said_by(&mut self, name: &str, text: &str) {
        let room = self.width.saturating_sub(PREFIX.len() + columns(name));
        for line in wrapped(text, room.max(1)) {
            self.line(&format!("{name}{line}"));
        }
    }

    /// Foreign text that is escaped, as much of it as fits on one line.
    pub(crate) fn sampled(&mut self, text: &str) {
        let room = self.width - PREFIX.len() - INSET.len();
        if self.whole || columns(text) <= room {
            self.quoted(text, usize::MAX);
            return;
        }
        let sample = shortened(text, room);
        // Without the ellipsis.
        self.left_out += text.chars().count() - (sample.chars().count() - 1);
        self.line(&format!("{INSET}{sample}"));
    }

    /// As many pieces as fit on one line, separated by two spaces; how many did not fit.
    pub(crate) fn one_line<'a>(&self, pieces: impl Iterator<Item = &'a str>) -> (String, usize) {
        // Room for the count of those that are missing.
        let room = self.width - PREFIX.len() - "  (+99 more)".len();
        let (mut line, mut missing) = (String::new(), 0);
        for piece in pieces {
            let needed = columns(&line) + 2 + columns(piece);
            if line.is_empty() {
                line = shortened(piece, room);
            } else if missing == 0 && needed <= room {
                line = format!("{line}  {piece}");
            } else {
                missing += 1;
            }
        }
        (line, missing)
    }

    /// Whether something may be left out.
    pub(crate) fn is_short(&self) -> bool {
        !self.whole
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(PREFIX);
        self.text.push_str(line);
        self.text.push('\n');
    }
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
fn wrapped(text: &str, room: usize) -> Vec<String> {
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

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal_and_nothing_is_lost(
            text in "\\PC{0,300}",
            terminal in NARROWEST..120,
        ) {
            let text = hub::trace::escape(&text);
            let room = terminal - 6;
            let lines = wrapped(&text, room);
            prop_assert_eq!(lines.concat(), text.clone());
            prop_assert!(lines.iter().all(|line| columns(line) <= room));
            let mut block = Lines::new(terminal, false);
            block.own("Our words.");
            block.quoted(&text, 4);
            for line in block.finish().lines() {
                prop_assert!(line.starts_with(PREFIX), "{}", line);
                prop_assert!(columns(line) <= terminal, "{}", line);
            }
        }
    }
}
