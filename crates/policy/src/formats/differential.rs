//! What we take as YAML, another reader takes as the same: saphyr, which follows YAML 1.2. (PyYAML,
//! which follows 1.1, is compared with in `samples`.)

use std::ops::Range;

use proptest::prelude::*;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Value};

use super::yaml::resolve;
use super::{Document, Format, Kind};

/// The value that saphyr reads, and the places of its leaves in order.
struct Other<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    leaves: Vec<Range<usize>>,
    /// The byte of each character, and of the end.
    offsets: Vec<usize>,
}

impl<'t> Other<'t> {
    fn read(text: &'t str) -> Result<(Value, Vec<Range<usize>>), String> {
        let offsets = text.char_indices().map(|(at, _)| at);
        let mut other = Other {
            parser: Parser::new_from_str(text),
            leaves: Vec::new(),
            offsets: offsets.chain([text.len()]).collect(),
        };
        assert!(matches!(other.next()?.0, Event::StreamStart));
        assert!(matches!(other.next()?.0, Event::DocumentStart(false)));
        let first = other.next()?;
        let value = other.value(first)?;
        assert!(matches!(other.next()?.0, Event::DocumentEnd));
        match other.next()?.0 {
            Event::StreamEnd => Ok((value, other.leaves)),
            event => Err(format!("after the document: {event:?}")),
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), String> {
        let event = self.parser.next_event().ok_or("no more events")?;
        event.map_err(|error| error.to_string())
    }

    fn value(&mut self, (event, span): (Event<'t>, Span)) -> Result<Value, String> {
        match event {
            Event::Scalar(text, style, 0, None) => {
                let (start, end) = (span.start.index(), span.end.index());
                self.leaves.push(self.offsets[start]..self.offsets[end]);
                let one_line = span.start.line() == span.end.line();
                Ok(match (style, one_line) {
                    (ScalarStyle::Plain, _) if text.is_empty() => Value::Null,
                    (ScalarStyle::Plain, true) => resolve(&text).1,
                    _ => Value::String(text.into_owned()),
                })
            }
            Event::SequenceStart(0, None) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => return Ok(Value::Array(items)),
                        item => items.push(self.value(item)?),
                    }
                }
            }
            Event::MappingStart(0, None) => {
                let mut map = Map::new();
                loop {
                    let name = match self.next()?.0 {
                        Event::MappingEnd => return Ok(Value::Object(map)),
                        Event::Scalar(name, _, 0, None) => name.into_owned(),
                        event => return Err(format!("as a key: {event:?}")),
                    };
                    let value = self.next()?;
                    let value = self.value(value)?;
                    if map.insert(name, value).is_some() {
                        return Err("a key twice".to_owned());
                    }
                }
            }
            event => Err(format!("something that we never read: {event:?}")),
        }
    }
}

/// Whether we take the text; if so, saphyr reads the same value from the same bytes.
fn agree(text: &str) -> bool {
    let Ok(document) = Document::parse(text, Format::Yaml) else {
        return false;
    };
    document.values().unwrap();
    let (value, leaves) = Other::read(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(document.value(), &value, "{text:?}");
    let ours = document.nodes().iter();
    let ours = ours.filter(|node| !matches!(node.kind, Kind::Array | Kind::Object));
    let ours: Vec<_> = ours.collect();
    assert_eq!(ours.len(), leaves.len(), "{text:?}");
    for (ours, theirs) in ours.iter().zip(leaves) {
        // An empty value is nowhere in particular, and saphyr leaves out the sign of a block scalar.
        if document.slice(&ours.span).starts_with(['|', '>']) {
            assert!(
                ours.span.contains(&theirs.start) || theirs.is_empty(),
                "{text:?}"
            );
        } else if !ours.span.is_empty() {
            assert_eq!(ours.span, theirs, "{text:?}");
        }
    }
    true
}

/// Everything that means something in YAML, and a little that does not.
const TOKENS: &[&str] = &[
    "a", "b", "c d", "\u{e9}", "\n", "\n  ", "\n    ", "\n\n", " ", "  ", "- ", "-", ": ", ":",
    "? ", "a: ", "b: ", "\n- ", "\na: ", "\n  b: ", "'", "\"", "''", "\\", "\\n", "\\\n", "\\x41",
    "|\n", "|-\n", ">\n", "|+\n", "|2\n", "[", "]", "{", "}", ", ", ",", "#", " #", "&a ", "*a",
    "!t ", "---", "...", "%", "@", "`", "\t", "<<: ", "null", "1", "~", "\u{85}", "\u{2028}",
    "\u{feff}", "\r", "=",
];

fn samples() -> Vec<String> {
    let samples = include_str!("../../tests/samples/samples.jsonl").lines();
    let samples = samples.map(|line| serde_json::from_str::<Value>(line).unwrap());
    samples
        .filter(|sample| sample["format"] == "yaml")
        .map(|sample| sample["text"].as_str().unwrap().to_owned())
        .filter(|text| text.len() < 1000)
        .collect()
}

#[test]
fn samples_are_read_alike() {
    let taken = samples().iter().filter(|text| agree(text)).count();
    assert!(taken > 500, "{taken}");
}

/// Found by the test below: PyYAML reads them, saphyr does not.
#[test]
fn a_dash_before_the_end_of_a_flow_value_is_not_read() {
    for text in ["[a -, b]", "[a -]", "{a: b -}", "{a -: b}"] {
        assert!(!agree(text), "{text}");
    }
    assert!(agree("[a - b, c-]"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn what_we_take_is_read_alike(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..16)) {
        agree(&tokens.concat());
    }

    /// A text of a serializer with tokens put in, or bytes taken out.
    #[test]
    fn changed_samples_are_read_alike(
        text in prop::sample::select(samples()),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(TOKENS), 0..4_usize),
            1..4,
        ),
    ) {
        let mut text = text;
        for (at, token, out) in changes {
            let boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let start = *at.get(&boundaries);
            let end = boundaries.iter().copied().find(|end| *end >= start + out);
            text.replace_range(start..end.unwrap_or(text.len()), token);
        }
        agree(&text);
    }
}

/// More by hand: `PROPTEST_CASES=1000000`.
fn cases() -> u32 {
    let given = std::env::var("PROPTEST_CASES").ok();
    given.and_then(|cases| cases.parse().ok()).unwrap_or(4000)
}
