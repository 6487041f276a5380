//! Rewriting an answer so that only admitted addresses are active.

use std::ops::Range;

use super::fence::Fences;
use super::known::candidates;
use super::scan::{Hosts, address, begin_of_host, could_hold};
use super::skeleton::{Read, folded, is_ignored, skeleton};

/// White space that ends a word.
const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];
/// Tags that can carry no address and begin no block of HTML, in which Markdown would not be read.
const TAGS: &[&str] = &[
    "b", "br", "code", "del", "em", "i", "ins", "kbd", "mark", "s", "small", "strong", "sub",
    "sup", "u",
];
/// The longest of them with its brackets and slash, and the longest name of an entity.
const LOOK_AHEAD: usize = 40;
/// The longest mail address that there is.
const LONGEST_MAIL: usize = 320;
/// Entities that stand for nothing of which an address is made.
const ENTITIES: &[&str] = &[
    "amp", "apos", "gt", "hellip", "lt", "mdash", "nbsp", "ndash", "quot",
];

/// Rewrites an answer piece by piece. What it returns depends on the text alone, not on how it was cut.
///
/// `admits` says of an address whether it may be active; its second argument is whether the address would
/// be fetched as soon as the answer is shown.
pub struct Inert<F> {
    /// `None` where every address may be active: the text is read only for the fences of the texts after it.
    admits: Option<F>,
    /// The word under way: nothing of it is decided before it ends.
    word: String,
    fences: Fences,
    /// Whether an image began since the last empty line, so that any destination may be its.
    image: bool,
    changed: usize,
    /// Whether anything of the message has been given to a reader.
    begun: bool,
}

/// A message that consists of several texts, such as those of the completions of one turn.
///
/// A client renders it as one: a fence that one text opens is open in the next. So each text is rewritten
/// from where the one before it has ended. Between two texts that say anything a reader gets [`BREAK`].
#[derive(Debug, Default)]
pub struct Message {
    fences: Fences,
    begun: bool,
}

/// The break between two texts of a message.
pub const BREAK: &str = "\n\n";

impl Message {
    /// Whether a reader has got anything of it, so that [`BREAK`] comes before the next text.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// The next text of the message begins. Without `admits` it stays as it is.
    ///
    /// Until [`Message::end`] gets the text back, it is not known how much of it was shown, and nothing that
    /// follows counts as code.
    pub fn begin<F>(&mut self, admits: Option<F>) -> Inert<F> {
        let mut fences = std::mem::replace(&mut self.fences, Fences::unclear());
        let begun = std::mem::replace(&mut self.begun, true);
        if begun {
            BREAK.chars().for_each(|c| _ = fences.space(c));
        }
        Inert {
            admits,
            word: String::new(),
            fences,
            // No image goes on behind the empty line between two texts.
            image: false,
            changed: 0,
            begun,
        }
    }

    /// The text is over, and all that [`Inert`] gave of it was shown.
    pub fn end<F>(&mut self, text: Inert<F>) {
        self.fences = text.fences;
        self.begun = text.begun;
    }
}

/// The whole of `text`, and how many words of it were changed.
pub fn inert(text: &str, admits: impl FnMut(&str, bool) -> bool) -> (String, usize) {
    Inert::new(admits).whole(text)
}

impl<F: FnMut(&str, bool) -> bool> Inert<F> {
    /// At the beginning of an answer.
    pub fn new(admits: F) -> Self {
        Message::default().begin(Some(admits))
    }

    /// A text that is there as a whole, and how many of its words were changed.
    #[must_use]
    pub fn whole(mut self, text: &str) -> (String, usize) {
        let mut out = self.push(text);
        out.push_str(&self.finish());
        (out, self.changed)
    }

    /// In the middle of words that are not known here, in which nothing is taken for code.
    pub fn quoted(admits: F) -> Self {
        Self {
            fences: Fences::unclear(),
            ..Self::new(admits)
        }
    }

    /// Takes a piece of the answer, and gives what can be shown of it so far.
    pub fn push(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(self.word.len() + piece.len());
        // No renderer takes a blank into an address, so a word is decided on when it is over.
        for part in piece.split_inclusive(BLANKS) {
            let Some(c) = part.chars().next_back().filter(|c| BLANKS.contains(c)) else {
                self.word.push_str(part);
                break;
            };
            let end = part.strip_suffix(c).unwrap_or(part);
            if self.word.is_empty() {
                self.word(end, &mut out);
            } else {
                self.word.push_str(end);
                self.end_word(&mut out);
            }
            if self.fences.space(c) {
                self.image = false;
            }
            out.push(c);
        }
        if self.admits.is_none() {
            // Not held back until its words are over.
            piece.clone_into(&mut out);
        }
        self.begun |= !out.is_empty();
        out
    }

    /// The rest, at the end of the answer.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        self.end_word(&mut out);
        if self.admits.is_none() {
            out.clear();
        }
        self.begun |= !out.is_empty();
        out
    }

    /// How many words were changed.
    pub fn changed(&self) -> usize {
        self.changed
    }

    /// The word that earlier pieces began is complete.
    fn end_word(&mut self, out: &mut String) {
        let word = std::mem::take(&mut self.word);
        self.word(&word, out);
    }

    fn word(&mut self, word: &str, out: &mut String) {
        if word.is_empty() {
            return;
        }
        let first = self.fences.at_line_start();
        let begin = out.len();
        match self.fences.word(word) {
            // Followed only: `push` gives the piece as it is.
            _ if self.admits.is_none() => return,
            // Most words are, and nothing of them needs to be read as a renderer would.
            _ if is_plain(word) => out.push_str(word),
            true => self.code(word, out),
            false => self.prose(word, first, out),
        }
        self.changed += usize::from(out.get(begin..) != Some(word));
    }

    fn may(&mut self, address: &str, fetched: bool) -> bool {
        let admits = self.admits.as_mut();
        admits.is_some_and(|admits| admits(address, fetched))
    }

    /// In code there are only the addresses that terminals find, and these end at a quotation mark.
    fn code(&mut self, word: &str, out: &mut String) {
        let ends = |c: char| matches!(c, '"' | '\'' | '<' | '>' | '`');
        for piece in word.split_inclusive(ends) {
            let text = piece.strip_suffix(ends).unwrap_or(piece);
            let read = skeleton(text);
            let begin = address(&read, Hosts::Www).and_then(|begin| read.get(begin));
            let Some((before, found)) = begin.and_then(|begin| text.split_at_checked(begin.at))
            else {
                out.push_str(piece);
                continue;
            };
            out.push_str(before);
            match candidates(found).any(|found| self.may(found, false)) {
                true => out.push_str(found),
                false => bracketed(found, out),
            }
            out.push_str(piece.get(text.len()..).unwrap_or_default());
        }
    }

    fn prose(&mut self, word: &str, first: bool, out: &mut String) {
        let begin = out.len();
        self.prose_as(word, first, is_share(word), out);
        // What stood behind a letter may begin a word now, by a blank that breaks something else.
        let shown = out.get(begin..).unwrap_or_default();
        if shown.split(' ').any(is_share) {
            out.truncate(begin);
            self.prose_as(word, first, true, out);
        }
    }

    fn prose_as(&mut self, word: &str, first: bool, share: bool, out: &mut String) {
        let read = skeleton(word);
        let mut pairs = read.windows(2);
        self.image |= pairs.any(|pair| matches!(pair, [a, b] if a.c == '!' && b.c == '['));
        let first_of = |index: Option<usize>| {
            let begin = index.and_then(|index| read.get(index));
            begin.map_or(word.len(), |begin| begin.at)
        };
        let index = address(&read, Hosts::Carrying);
        // A file share is an address as a whole: Windows signs on to it.
        let begin = if share { 0 } else { first_of(index) };
        let found = word.get(begin..).unwrap_or_default();
        // With less and less of the punctuation behind it: how much of that belongs to the address, renderers guess.
        let image = self.image;
        let admitted = candidates(found)
            .filter(|found| !found.is_empty() && !share)
            .find(|found| self.may(found, image));
        let words = Words {
            word,
            read: &read,
            // What follows an admitted address is punctuation.
            begin: if admitted.is_some() {
                word.len()
            } else if share {
                0
            } else {
                first_of(index.map(|index| begin_of_host(&read, index)))
            },
            live: begin..begin + admitted.map_or(0, str::len),
            first,
            share,
        };
        words.write(out);
    }
}

/// A word of prose, and what was decided about the address in it.
struct Words<'a> {
    word: &'a str,
    read: &'a [Read],
    /// Where an address begins that is to be inert; the end of the word if there is none.
    begin: usize,
    /// The bytes that may be active.
    live: Range<usize>,
    /// Whether it is the first of its line.
    first: bool,
    /// Whether it is a file share, which two backslashes make.
    share: bool,
}

impl Words<'_> {
    fn write(&self, out: &mut String) {
        let mut read = self.read.iter().enumerate().peekable();
        // The last character that a renderer reads.
        let mut last = None;
        for (at, original) in self.word.char_indices() {
            let here = read.next_if(|(_, here)| here.at == at);
            if self.live.contains(&at) {
                out.push(original);
                last = Some(original);
                continue;
            }
            let within = at >= self.begin;
            let Some((index, Read { c, .. })) = here else {
                // A renderer passes over it. In an address it must not.
                if !(within && is_ignored(original)) {
                    self.apart(original, out);
                    out.push(original);
                }
                continue;
            };
            let rest = self.read.get(index + 1..).unwrap_or_default();
            let leads = rest
                .first()
                .is_some_and(|next| self.live.contains(&next.at));
            // A destination of a link, or of a definition.
            if last == Some(']') && (*c == ':' || (*c == '(' && !leads)) {
                out.push(' ');
            }
            last = Some(*c);
            match c {
                '.' | ':' if within => {
                    bracket(*c, out);
                    // What was written ends with a bracket, and a `(` behind it would begin a destination.
                    last = Some(']');
                }
                _ => {
                    self.apart(original, out);
                    out.push(original);
                }
            }
            let breaks = match c {
                // With its dots in brackets, what was a mail address could be a tag.
                '<' if is_mail(rest) => self.begin < self.word.len(),
                '<' => !leads && is_markup(rest) && (self.first || !is_tag(rest)),
                '&' => is_entity(rest),
                _ => false,
            };
            if breaks {
                out.push(' ');
            }
        }
    }

    /// No two backslashes of a file share stay together: of three, the last two would make another.
    fn apart(&self, next: char, out: &mut String) {
        if self.share && next == '\\' && out.ends_with('\\') {
            out.push(' ');
        }
    }
}

/// Whether a word holds no address and nothing of which a renderer makes more than it says, so that it stays as it is
/// in prose and in code: ASCII without a full stop or colon but at its end, and without a sign of markup.
fn is_plain(word: &str) -> bool {
    let is_sign = |byte: u8| matches!(byte, b'\\' | b'<' | b'&' | b'[' | b']');
    let own = word.strip_suffix(['.', ':']).unwrap_or(word);
    word.bytes()
        .all(|byte| byte.is_ascii_graphic() && !is_sign(byte))
        && !could_hold(own)
}

/// Whether what follows a `<` makes it HTML.
fn is_markup(rest: &[Read]) -> bool {
    let next = rest.first().map(|read| read.c);
    next.is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?' | '%'))
}

/// Whether what follows a `<` is one of [`TAGS`], closing or not, without attributes.
fn is_tag(rest: &[Read]) -> bool {
    let head = rest.iter().take(LOOK_AHEAD).map(|read| read.c);
    let tag: String = head
        .take_while(|c| c.is_ascii_alphabetic() || *c == '/')
        .collect();
    let ends = rest.get(tag.len()).is_some_and(|read| read.c == '>');
    let name = tag.strip_prefix('/').unwrap_or(&tag);
    let name = name.strip_suffix('/').unwrap_or(name);
    ends && TAGS.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether what follows a `<` is a mail address and nothing else.
fn is_mail(rest: &[Read]) -> bool {
    let head = rest.iter().take(LONGEST_MAIL).map(|read| read.c);
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '@');
    let mail: String = head.take_while(plain).collect();
    let ends = rest.get(mail.len()).is_some_and(|read| read.c == '>');
    let is_host = |host: &str| {
        let is_label =
            |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
        host.split('.').all(is_label) && !host.contains('@')
    };
    let parts = mail.split_once('@');
    ends && parts.is_some_and(|(who, host)| !who.is_empty() && is_host(host))
}

/// Whether what follows an `&` is an entity of which an address could be made.
fn is_entity(rest: &[Read]) -> bool {
    // By its number, any character can be written.
    if rest.first().is_some_and(|read| read.c == '#') {
        return true;
    }
    let head = rest.iter().take(LOOK_AHEAD).map(|read| read.c);
    let name: String = head.take_while(char::is_ascii_alphanumeric).collect();
    let ends = rest.get(name.len()).is_some_and(|read| read.c == ';');
    ends && !name.is_empty() && !ENTITIES.contains(&name.as_str())
}

/// `\\HOST\…`, after no letter.
fn is_share(word: &str) -> bool {
    let seen: String = word.chars().filter(|c| !is_ignored(*c)).collect();
    let rest = seen.trim_start_matches(|c: char| c.is_ascii_punctuation() && c != '\\');
    let Some(host) = rest.strip_prefix("\\\\") else {
        return false;
    };
    let host = host.trim_start_matches('\\');
    let after = host
        .trim_start_matches(|c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@'));
    after.len() < host.len() && after.starts_with(['\\', '/'])
}

/// An address that no renderer or terminal takes for one.
fn bracketed(address: &str, out: &mut String) {
    for c in address.chars().filter(|c| !is_ignored(*c)) {
        match folded(c) {
            sign @ ('.' | ':') => bracket(sign, out),
            _ => out.push(c),
        }
    }
}

/// A character in brackets. Behind a backslash the first of them would begin a formula.
fn bracket(c: char, out: &mut String) {
    if out.ends_with('\\') {
        out.push(' ');
    }
    out.extend(['[', c, ']']);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What is not read as a renderer would is what reading it would leave as it is.
        #[test]
        fn a_plain_word_stays_as_it_is(word in "[-!\"#$%'()*+,/;=?@^_`{|}~.:wx1\\\\<&\\[\\]é]{1,7}", first: bool) {
            prop_assume!(is_plain(&word));
            let mut inert = Inert::new(|_: &str, _| false);
            let (mut prose, mut code) = (String::new(), String::new());
            inert.prose(&word, first, &mut prose);
            inert.code(&word, &mut code);
            prop_assert_eq!((&prose, &code, inert.image), (&word, &word, false));
        }
    }

    #[test]
    fn most_words_are_plain_and_signs_make_none() {
        for word in [
            "It",
            "moves,",
            "(to",
            "\"Thursday\"!",
            "ten.",
            "note:",
            "it's",
            "3/4",
            "ada@home",
        ] {
            assert!(is_plain(word), "{word}");
        }
        for word in [
            "a.b", "a:b", "..", "a.)", "\\a", "<b", "&x", "[a", "a]", "é", "\u{7f}",
        ] {
            assert!(!is_plain(word), "{word}");
        }
    }
}
