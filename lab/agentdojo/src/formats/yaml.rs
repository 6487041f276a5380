//! YAML: where each value and key stands in the original text. saphyr reads it; plain scalars get a type only where YAML 1.1,
//! which PyYAML follows, and 1.2 agree on it.

use std::ops::Range;

use policy::Notation;
use policy::formats::{Key, Kind, Node, ParseError, Tree};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Number, Value};

use super::{insert, refuse};

/// One YAML document without anchors, aliases and tags.
#[derive(Debug)]
pub struct Yaml;

impl Notation for Yaml {
    fn name(&self) -> &'static str {
        "yaml"
    }

    fn parse(&self, text: &str) -> Result<(Vec<Node>, Value), ParseError> {
        // PyYAML takes some of these for line breaks.
        let is_odd = |c: char| {
            (c.is_control() && c != '\n' && c != '\t')
                || matches!(
                    c,
                    '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
                )
        };
        if let Some(at) = text.find(is_odd) {
            return Err(refuse(at, "a character that not all readers take as text"));
        }
        let offsets = text.char_indices().map(|(at, _)| at);
        let mut reader = Reader {
            text,
            parser: Parser::new_from_str(text),
            offsets: offsets.chain([text.len()]).collect(),
            tree: Tree::default(),
        };
        // The beginnings of the stream and of the document.
        reader.next()?;
        if !matches!(reader.next()?.0, Event::DocumentStart(false)) {
            return Err(refuse(0, "a document is missing here"));
        }
        let first = reader.next()?;
        let value = reader.value(first, 0)?;
        reader.next()?;
        match reader.next()? {
            (Event::StreamEnd, _) => Ok((reader.tree.into_nodes(), value)),
            (_, span) => Err(refuse(reader.span(&span).start, "a second document")),
        }
    }

    fn line_break(&self) -> Option<&'static str> {
        // It depends on the style of the scalar.
        None
    }
}

struct Reader<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    /// The byte of each character, and of the end.
    offsets: Vec<usize>,
    tree: Tree,
}

/// A scalar that was read.
struct Scalar {
    span: Range<usize>,
    inner: Range<usize>,
    text: String,
    /// Whether `inner` is `text` to the byte.
    verbatim: bool,
    kind: Kind,
    value: Value,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), ParseError> {
        let event = self.parser.next_event();
        let event = event.ok_or(refuse(self.text.len(), "the text ends here"))?;
        event.map_err(|error| refuse(self.offset(error.marker().index()), "not YAML"))
    }

    fn offset(&self, character: usize) -> usize {
        let offset = self.offsets.get(character);
        offset.copied().unwrap_or(self.text.len())
    }

    fn span(&self, span: &Span) -> Range<usize> {
        self.offset(span.start.index())..self.offset(span.end.index())
    }

    /// A value; where it is empty it stands at `empty`.
    fn value(
        &mut self,
        (event, span): (Event<'t>, Span),
        empty: usize,
    ) -> Result<Value, ParseError> {
        let place = self.span(&span);
        match event {
            Event::Scalar(text, style, 0, None) => {
                let scalar = self.scalar(&text, style, place, empty);
                let Scalar { span, inner, .. } = scalar;
                self.tree.leaf(scalar.kind, span, inner, scalar.verbatim)?;
                Ok(scalar.value)
            }
            Event::SequenceStart(0, None) => {
                self.tree.open(Kind::Array, place.start)?;
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, end) => {
                            self.tree.close(self.end(&end));
                            return Ok(Value::Array(items));
                        }
                        (event, span) => {
                            let at = self.span(&span).start;
                            items.push(self.value((event, span), at)?);
                        }
                    }
                }
            }
            Event::MappingStart(0, None) => {
                self.tree.open(Kind::Object, place.start)?;
                let mut map = Map::new();
                loop {
                    let key = match self.next()? {
                        (Event::MappingEnd, end) => {
                            self.tree.close(self.end(&end));
                            return Ok(Value::Object(map));
                        }
                        (Event::Scalar(text, style, 0, None), span) => {
                            let place = self.span(&span);
                            let at = place.start;
                            self.scalar(&text, style, place, at)
                        }
                        (_, span) => {
                            return Err(refuse(self.span(&span).start, "a key of several values"));
                        }
                    };
                    let (start, end) = (key.span.start, key.span.end);
                    self.tree.key(Key {
                        span: key.span,
                        inner: key.inner,
                        name: (!key.verbatim).then(|| key.text.clone().into_boxed_str()),
                    });
                    let value = self.next()?;
                    // Behind the colon.
                    let value = self.value(value, end + 1)?;
                    insert(&mut map, &key.text, value, start)?;
                }
            }
            _ => Err(refuse(place.start, "an anchor, an alias or a tag")),
        }
    }

    fn scalar(&self, text: &str, style: ScalarStyle, place: Range<usize>, empty: usize) -> Scalar {
        let string = || (Kind::String, Value::String(text.to_owned()));
        let (span, inner, (kind, value)) = match style {
            ScalarStyle::Plain if text.is_empty() => {
                (empty..empty, empty..empty, (Kind::Null, Value::Null))
            }
            ScalarStyle::Plain => {
                let is_line = !self.slice(&place).contains('\n');
                let value = if is_line { resolve(text) } else { string() };
                (place.clone(), place, value)
            }
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                let inner = place.start + 1..place.end.saturating_sub(1).max(place.start + 1);
                (place, inner, string())
            }
            ScalarStyle::Literal | ScalarStyle::Folded => {
                // From its sign to the last line break before the next value.
                let before = self.text.get(..place.start).unwrap_or_default();
                let start = before.rfind(['|', '>']).unwrap_or(place.start);
                let all = self.text.get(..place.end).unwrap_or_default();
                let all = all.trim_end_matches(' ');
                let span = start..all.strip_suffix('\n').unwrap_or(all).len();
                (span.clone(), span, string())
            }
        };
        Scalar {
            verbatim: self.slice(&inner) == text,
            text: text.to_owned(),
            span,
            inner,
            kind,
            value,
        }
    }

    /// Where a collection ends: behind its bracket, or behind its last value.
    fn end(&self, end: &Span) -> usize {
        let place = self.span(end);
        match place.is_empty() {
            true => {
                let text = self.text.get(..place.start).unwrap_or_default();
                text.trim_end_matches([' ', '\n']).len()
            }
            false => place.end,
        }
    }

    fn slice(&self, range: &Range<usize>) -> &'t str {
        self.text.get(range.clone()).unwrap_or_default()
    }
}

/// The type of a plain scalar, where YAML 1.1 and 1.2 agree on it; any other is a string: `yes`,
/// `0o14`, `010`, `1:30`, and dates, whose text is what a rule compares.
fn resolve(text: &str) -> (Kind, Value) {
    match text {
        "null" | "Null" | "NULL" | "~" => return (Kind::Null, Value::Null),
        "true" | "True" | "TRUE" => return (Kind::Boolean, Value::Bool(true)),
        "false" | "False" | "FALSE" => return (Kind::Boolean, Value::Bool(false)),
        _ => {}
    }
    match number(text) {
        Some(number) => (Kind::Number, Value::Number(number)),
        None => (Kind::String, Value::String(text.to_owned())),
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits(unsigned) {
        // With a leading zero it is octal for some.
        let whole = unsigned == "0" || !unsigned.starts_with('0');
        let small = text.parse().map(|number: i64| Number::from(number)).ok();
        let large = || text.parse().ok().and_then(Number::from_f64);
        return whole.then(|| small.or_else(large)).flatten();
    }
    let (whole, rest) = unsigned.split_once('.')?;
    let (fraction, exponent) = match rest.split_once(['e', 'E']) {
        None => (rest, None),
        Some((fraction, exponent)) => (fraction, Some(exponent.strip_prefix(['-', '+'])?)),
    };
    let formed = digits(whole) && digits(fraction) && exponent.is_none_or(digits);
    formed
        .then(|| text.parse().ok().and_then(Number::from_f64))
        .flatten()
}
