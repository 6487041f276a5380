//! Which lines are code to every renderer.

/// Languages that a fence may name. Anything else could be drawn: a diagram has links, a formula images.
const LANGUAGES: &str = "asm bash c cpp cs csharp css csv dart diff dockerfile elixir go golang haskell ini java \
    javascript js json julia kotlin log lua makefile nix objc ocaml perl php powershell ps1 py \
    python r rb rs ruby rust scala sh shell sql swift text toml ts txt typescript yaml yml zig \
    zsh";

/// Beginnings of lines from which some renderer reads on in another way.
const OTHERS: &[&str] = &["$$", ":::", "\\[", "\\begin", "%%", "{%", "{{", "<%"];

fn is_code(language: &str) -> bool {
    language.is_empty() || LANGUAGES.split(' ').any(|known| known == language)
}

/// Follows the fenced code blocks of an answer, line by line.
///
/// Code is what all renderers agree on: three backquotes at the beginning of a line, with a word of [`LANGUAGES`] or
/// none, up to three backquotes alone on a line. After anything else that looks like a fence, nothing is code.
#[derive(Debug, Default)]
pub(super) struct Fences {
    state: State,
    /// Something was unclear: nothing is code from there on.
    unclear: bool,
    lines: usize,
    /// Whether this line has a word, where lines end with a line feed.
    written: bool,
    /// Whether a word has come since the last end of a line, of whichever kind.
    within: bool,
    indented: bool,
    /// Whether a carriage return came last. With a line feed behind it, it is a part of the line's end.
    returned: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Prose,
    /// The line that opens a fence, if nothing follows on it.
    Opening,
    Code,
    /// The line that closes it, if nothing follows on it.
    Closing,
}

impl Fences {
    /// Where the text before is not known: nothing that follows is code.
    pub(super) fn unclear() -> Self {
        Self {
            unclear: true,
            ..Self::default()
        }
    }

    /// Takes the next word; whether it is code.
    pub(super) fn word(&mut self, word: &str) -> bool {
        self.settle_return();
        let first = !self.within;
        self.within = true;
        self.written = true;
        let alone = first && !self.indented;
        // At the very beginning of a line, and unindented: in lists and quotations renderers differ.
        let fence = word.strip_prefix("```").filter(|_| alone);
        let others = || OTHERS.iter().any(|other| word.starts_with(other));
        let front_matter = self.lines == 0 && matches!(word.get(..3), Some("---" | "+++" | ";;;"));
        // Looked for one by one first: most words have neither.
        let odd = word.contains(['`', '~']) && (word.contains("```") || word.contains("~~~"));
        match (self.state, fence) {
            (State::Prose, Some(language)) if is_code(language) => {
                self.state = State::Opening;
            }
            (State::Code, Some("")) => self.state = State::Closing,
            // Something else on the line of a fence: to some renderers the fence then has attributes, to others it
            // opens or closes nothing.
            (State::Opening | State::Closing, _) => self.doubt(),
            (State::Prose, _) if odd || (first && (front_matter || others())) => self.doubt(),
            (State::Code, _) if odd => self.doubt(),
            _ => {}
        }
        self.state == State::Code && !self.unclear
    }

    /// Takes white space; at the end of a line, whether the line was empty.
    pub(super) fn space(&mut self, c: char) -> bool {
        match c {
            '\n' => self.returned = false,
            '\r' => {
                self.settle_return();
                self.returned = true;
                return false;
            }
            _ => {
                self.settle_return();
                self.indented |= !self.within;
                return false;
            }
        }
        self.state = match self.state {
            State::Opening => State::Code,
            State::Closing => State::Prose,
            other => other,
        };
        self.lines += 1;
        self.indented = false;
        self.within = false;
        !std::mem::take(&mut self.written)
    }

    /// A carriage return by itself ends a line in CommonMark, and not for every renderer: lines, and with them
    /// fences, are counted in more ways than one from here on.
    fn settle_return(&mut self) {
        if std::mem::take(&mut self.returned) {
            self.within = false;
            self.doubt();
        }
    }

    /// Whether the next word is the first of its line.
    pub(super) fn at_line_start(&self) -> bool {
        !self.within || self.returned
    }

    fn doubt(&mut self) {
        self.unclear = true;
        self.state = State::Prose;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that are code.
    fn code(text: &str) -> Vec<&str> {
        let mut fences = Fences::default();
        let mut found = Vec::new();
        for part in text.split_inclusive([' ', '\r', '\n']) {
            let word = part.trim_end_matches([' ', '\r', '\n']);
            if !word.is_empty() && fences.word(word) {
                found.push(word);
            }
            let blank = part.get(word.len()..).unwrap_or_default();
            blank.chars().for_each(|c| _ = fences.space(c));
        }
        found
    }

    #[test]
    fn a_plain_fence_is_code() {
        assert_eq!(
            code("a\n```rust\nb c\n  d\n```\ne\n```\nf\n```\n"),
            ["b", "c", "d", "f"]
        );
    }

    #[test]
    fn a_line_may_end_in_two_characters() {
        assert_eq!(code("a\r\n```\r\nb\r\n\r\n```\r\nc\r\n"), ["b"]);
    }

    #[test]
    fn an_ambiguous_fence_is_no_code() {
        for text in [
            "````rust\n```\n````\nx\n",
            "  ```rust\nx\n```\n",
            "> ```\nx\n",
            "- ```\nx\n",
            "```rust title\nx\n```\n",
            "```mermaid\nx\n```\n",
            "~~~\nx\n~~~\n",
            "---\n```\n---\nx\n",
            "$$\n```\n$$\nx\n",
            "```a```\n```\nx\n```\n",
            // A carriage return by itself ends a line for some.
            "a\r$$\n```\n$$\nx\n```\n",
            "a\rb\n```\nx\n```\n",
            "\r\r\n```\nx\n```\n",
            "\r \n```\nx\n```\n",
            "```\r\r\nx\n```\n",
        ] {
            assert_eq!(code(text), Vec::<&str>::new(), "{text}");
        }
        // Where a fence in a fence is met, code has ended.
        assert_eq!(code("```\na\n  ```\nb\n```\nc\n"), ["a"]);
        assert_eq!(code("```\na\n``` x\nb\n```\nc\n"), ["a"]);
        assert_eq!(code("```\na\r\nb\rc\n```\nd\n"), ["a", "b"]);
    }
}
