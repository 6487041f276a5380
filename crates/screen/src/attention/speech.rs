//! Tool calls in natural language (RTBAS §3.3), with every byte traced to the JSON that it came from.

use std::ops::Range;

use serde::de::IgnoredAny;

/// The most values of a call that are recorded. Text with more of them has more tokens than a model reads.
const MOST_VALUES: usize = 1 << 16;

/// The word for a value without text (`""`, `null`, `[]`, `{}`), so that it has a token.
const NOTHING: &str = "nothing";

/// A value among a call's arguments, in the text of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// Which argument it belongs to, counted over all calls of the text: the values of a list or
    /// an object share one.
    pub argument: usize,
    /// Its bytes in the text.
    pub span: Range<usize>,
}

/// Where pieces of a rendered text came from, in ascending order on both sides.
#[derive(Debug, Default)]
pub(crate) struct Origins(Vec<Piece>);

#[derive(Debug)]
struct Piece {
    source: Range<usize>,
    rendered: Range<usize>,
    /// Copied byte by byte, so that a part of the one is the same part of the other.
    copied: bool,
}

impl Origins {
    /// The bytes of the rendered text that come from these bytes of the source. An empty range gives
    /// an empty one, unless the whole source is empty: it then gives all of the rendering.
    pub(crate) fn rendered(&self, source: Range<usize>) -> Range<usize> {
        if let [only] = self.0.as_slice()
            && only.source.is_empty()
        {
            return only.rendered.clone();
        }
        // A piece that ends where the source begins does not belong to it; hence `<=` here and `<` at the
        // other end.
        let first = self
            .0
            .partition_point(|piece| piece.source.end <= source.start);
        let start = self.0.get(first).map(|piece| {
            let within = source.start.saturating_sub(piece.source.start);
            // A piece that was not copied, such as an escape, cannot be divided: a region that touches it
            // has all of it.
            piece.rendered.start + if piece.copied { within } else { 0 }
        });
        let after = self
            .0
            .partition_point(|piece| piece.source.start < source.end);
        let last = after.checked_sub(1).and_then(|last| self.0.get(last));
        let end = last.map(|piece| {
            let within = source.end.saturating_sub(piece.source.start);
            match piece.copied {
                true => piece.rendered.end.min(piece.rendered.start + within),
                false => piece.rendered.end,
            }
        });
        match (start, end) {
            // White space between two pieces has no text: the range is then empty, where the two meet.
            (Some(start), Some(end)) if !source.is_empty() => start.min(end)..end,
            (Some(start), _) => start..start,
            (None, Some(end)) => end..end,
            (None, None) => 0..0,
        }
    }

    fn push(&mut self, source: Range<usize>, rendered: Range<usize>, copied: bool) {
        self.0.push(Piece {
            source,
            rendered,
            copied,
        });
    }
}

/// Appends "I call the tool T with a X, b Y and c Z." Values stand there as plain text, in order;
/// objects within are put in parentheses, lists are enumerated. Arguments that are not a JSON
/// object stand there as they are.
pub(crate) fn past_call(text: &mut String, tool: &str, arguments: &str) -> Origins {
    say_call(text, tool, arguments, &mut 0, None)
}

/// The same, and the values. `next` is the number of the next argument.
pub(crate) fn drafted_call(
    text: &mut String,
    tool: &str,
    arguments: &str,
    next: &mut usize,
) -> Vec<Value> {
    let mut values = Vec::new();
    say_call(text, tool, arguments, next, Some(&mut values));
    values
}

fn say_call(
    text: &mut String,
    tool: &str,
    arguments: &str,
    next: &mut usize,
    values: Option<&mut Vec<Value>>,
) -> Origins {
    text.push_str("I call the tool ");
    text.push_str(tool);
    let mut speaker = Speaker {
        source: arguments,
        text,
        origins: Origins::default(),
        values,
        frames: Vec::new(),
        next,
    };
    // The lexer below relies on this. Both take any depth: neither calls itself.
    let is_json = serde_json::from_str::<IgnoredAny>(arguments).is_ok();
    if is_json && arguments.trim_ascii_start().starts_with('{') {
        speaker.object();
    } else {
        speaker.verbatim();
    }
    let origins = speaker.origins;
    text.push('.');
    origins
}

struct Speaker<'a> {
    source: &'a str,
    text: &'a mut String,
    origins: Origins,
    /// Where values are recorded, if they are wanted.
    values: Option<&'a mut Vec<Value>>,
    frames: Vec<Frame>,
    next: &'a mut usize,
}

struct Frame {
    is_object: bool,
    /// Whether the next string is a key.
    key_is_next: bool,
    parenthesis: bool,
    empty: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Open,
    Close,
    Comma,
    Colon,
    String,
    Scalar,
}

impl Speaker<'_> {
    fn verbatim(&mut self) {
        if self.source.is_empty() {
            self.say(" without arguments", 0..0);
            return;
        }
        self.text.push_str(" with ");
        let start = self.text.len();
        self.copy(0..self.source.len());
        self.value(start);
    }

    fn object(&mut self) {
        let lexemes = lexemes(self.source);
        let mut left = top_level_commas(&lexemes);
        // Only the two braces.
        let empty = lexemes.len() == 2;
        for (index, (kind, span)) in lexemes.into_iter().enumerate() {
            match kind {
                Kind::Open if index == 0 && empty => self.say(" without arguments", span),
                Kind::Open => self.open(span),
                Kind::Close => self.close(span),
                Kind::Comma => {
                    // The last comma of the call itself becomes "and"; those of inner lists and objects
                    // stay commas.
                    let top = self.frames.len() == 1;
                    left = left.saturating_sub(usize::from(top));
                    let word = if top && left == 0 { " and " } else { ", " };
                    self.comma(word, span);
                }
                Kind::Colon => self.say(" ", span),
                Kind::String => self.string(span),
                Kind::Scalar => self.scalar(span),
            }
        }
    }

    fn open(&mut self, span: Range<usize>) {
        let is_object = self.source.get(span.clone()) == Some("{");
        // An object needs parentheses to be told from what is around it; a list only inside another list.
        let (depth, in_list) = (
            self.frames.len(),
            self.frames.last().is_some_and(|frame| !frame.is_object),
        );
        let parenthesis = depth > 0 && (is_object || in_list);
        self.begin_item();
        let word = match (depth, parenthesis) {
            (0, _) => " with ",
            (_, true) => "(",
            (_, false) => "",
        };
        self.say(word, span);
        self.frames.push(Frame {
            is_object,
            key_is_next: is_object,
            parenthesis,
            empty: true,
        });
    }

    fn close(&mut self, span: Range<usize>) {
        let Some(frame) = self.frames.pop() else {
            return self.say("", span);
        };
        let start = self.text.len();
        if frame.empty && !self.frames.is_empty() {
            self.say(NOTHING, span.clone());
            self.value(start);
        }
        self.say(if frame.parenthesis { ")" } else { "" }, span);
    }

    fn comma(&mut self, word: &str, span: Range<usize>) {
        self.say(word, span);
        if let Some(frame) = self.frames.last_mut() {
            frame.key_is_next = frame.is_object;
        }
    }

    /// A key, or a value, starts in the innermost object or list.
    fn begin_item(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.empty = false;
        }
    }

    fn string(&mut self, span: Range<usize>) {
        let is_key = self.frames.last().is_some_and(|frame| frame.key_is_next);
        self.begin_item();
        let start = self.text.len();
        self.unescape(span.clone());
        if is_key {
            if let Some(frame) = self.frames.last_mut() {
                frame.key_is_next = false;
            }
            // A key of the call's own object begins an argument; keys inside a value belong to the
            // argument that it is of.
            if self.frames.len() == 1 {
                *self.next += 1;
            }
            return;
        }
        if self.text.len() == start {
            self.say(NOTHING, span);
        }
        self.value(start);
    }

    fn scalar(&mut self, span: Range<usize>) {
        self.begin_item();
        let start = self.text.len();
        match self.source.get(span.clone()) {
            Some("null") => self.say(NOTHING, span),
            _ => self.copy(span),
        }
        self.value(start);
    }

    /// Records the text since `start` as a value.
    fn value(&mut self, start: usize) {
        // A text that is no object has one argument without a name.
        let argument = match self.frames.is_empty() {
            true => {
                *self.next += 1;
                *self.next - 1
            }
            false => self.next.saturating_sub(1),
        };
        if let Some(values) = &mut self.values
            && values.len() < MOST_VALUES
        {
            values.push(Value {
                argument,
                span: start..self.text.len(),
            });
        }
    }

    fn say(&mut self, words: &str, source: Range<usize>) {
        let start = self.text.len();
        self.text.push_str(words);
        self.origins.push(source, start..self.text.len(), false);
    }

    fn copy(&mut self, source: Range<usize>) {
        let start = self.text.len();
        self.text
            .push_str(self.source.get(source.clone()).unwrap_or_default());
        self.origins.push(source, start..self.text.len(), true);
    }

    /// The text of the JSON string at `span`, quotes included.
    fn unescape(&mut self, span: Range<usize>) {
        // The quotes have no rendering, but a place: a region that covers one alone is mapped to an empty
        // range there.
        self.say("", span.start..span.start + 1);
        let inner = span.start + 1..span.end.saturating_sub(1);
        let mut at = inner.start;
        while at < inner.end {
            let rest = self.source.get(at..inner.end).unwrap_or_default();
            let plain = rest.find('\\').unwrap_or(rest.len());
            if plain > 0 {
                self.copy(at..at + plain);
                at += plain;
                continue;
            }
            let length = match escape(rest) {
                Some((length, decoded)) => {
                    self.say(decoded.encode_utf8(&mut [0; 4]), at..at + length);
                    length
                }
                // A lone surrogate is no character, and stays as it is written.
                None => {
                    self.copy(at..at + 1);
                    1
                }
            };
            at += length;
        }
        self.say("", inner.end..span.end);
    }
}

/// The escape that `text` begins with: its bytes and its character.
fn escape(text: &str) -> Option<(usize, char)> {
    // `\n`, a code unit, and two code units that are surrogates of each other.
    [2, 6, 12].into_iter().find_map(|length| {
        // Decoded by the JSON parser itself, so that both agree on what an escape means.
        let quoted = format!("\"{}\"", text.get(..length)?);
        let decoded: char = serde_json::from_str(&quoted).ok()?;
        Some((length, decoded))
    })
}

/// The lexemes of a valid JSON text.
fn lexemes(text: &str) -> Vec<(Kind, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let (kind, end) = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'{' | b'[' => (Kind::Open, at + 1),
            b'}' | b']' => (Kind::Close, at + 1),
            b',' => (Kind::Comma, at + 1),
            b':' => (Kind::Colon, at + 1),
            b'"' => (Kind::String, end_of_string(bytes, at)),
            _ => {
                let rest = bytes.get(at..).unwrap_or_default();
                let is_end = |byte: &u8| b",:]}[{\" \t\n\r".contains(byte);
                let length = rest.iter().position(is_end).unwrap_or(rest.len());
                (Kind::Scalar, at + length.max(1))
            }
        };
        found.push((kind, at..end));
        at = end;
    }
    found
}

/// The end of the string that starts with the quote at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            // What an escape hides cannot end the string. The text was parsed before, so two bytes are
            // there, and a longer escape goes on with plain characters.
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn top_level_commas(lexemes: &[(Kind, Range<usize>)]) -> usize {
    let mut depth = 0usize;
    let mut commas = 0;
    for (kind, _) in lexemes {
        match kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Comma if depth == 1 => commas += 1,
            _ => {}
        }
    }
    commas
}
