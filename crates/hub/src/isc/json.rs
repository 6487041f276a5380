//! One JSON text as a tree of spans, so that every value can be cut out with its labels.
//!
//! A value that readers disagree about is *unfit*: it is of no form, and its end is known, so that the values beside it can
//! be told from it.

use std::ops::Range;

use ifc::json::{self, Json};

/// Deepest nesting of a message; a schema that goes deeper is refused.
pub(super) const MAX_DEPTH: usize = 8;

/// Longest number, in bytes: every double has a shorter form.
pub(super) const MAX_NUMBER: usize = 32;

#[derive(Debug)]
pub(super) struct Node {
    /// Of a member of an object.
    pub(super) name: String,
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// The members by their names, and all that is not a value: braces, commas, colons, names and blanks.
    Object(Vec<Node>, Vec<Range<usize>>),
    /// The same of an array.
    Array(Vec<Node>, Vec<Range<usize>>),
    /// A string without its escapes.
    Text(String),
    Number {
        /// The nearest double, for limits.
        nearest: f64,
        /// Whether it has no fraction, by its digits: `5.00000000000000001` has one, though its nearest double is 5.
        is_whole: bool,
    },
    Boolean,
    Null,
    /// Readers disagree about it, or it is too deep or too long.
    Unfit,
}

impl Node {
    /// Whether nothing in it is unfit.
    pub(super) fn is_fit(&self) -> bool {
        match &self.kind {
            Kind::Unfit => false,
            Kind::Object(values, _) | Kind::Array(values, _) => values.iter().all(Self::is_fit),
            _ => true,
        }
    }
}

/// Reads a text that is one JSON value; `None` if it is not.
pub(super) fn read(text: &str) -> Option<Node> {
    let json = Json::read_marked(text).ok()?;
    let root = json.nodes().first()?;
    Some(node(&json, 0, root, 0))
}

/// A value inside `depth` others.
fn node(json: &Json<'_>, at: usize, node: &json::Node, depth: usize) -> Node {
    let span = node.span.clone();
    let token = json.slice(&span);
    let is_deep =
        || depth > MAX_DEPTH && matches!(node.kind, json::Kind::Object | json::Kind::Array);
    let values = || {
        let children = json.children(at);
        let values: Vec<Node> = children
            .map(|(at, child)| self::node(json, at, child, depth + 1))
            .collect();
        let frame = frame(&span, &values);
        (values, frame)
    };
    let kind = match node.kind {
        // Unfit and no error: a sender that nests one value too deep must not make the values beside it fail, which may
        // have another label.
        _ if node.fault.is_some() || is_deep() => Kind::Unfit,
        json::Kind::Object => {
            let (mut members, frame) = values();
            // The order in which a sender writes its members says nothing to the receiver.
            members.sort_by(|a, b| a.name.cmp(&b.name));
            Kind::Object(members, frame)
        }
        json::Kind::Array => {
            let (items, frame) = values();
            Kind::Array(items, frame)
        }
        json::Kind::String | json::Kind::Date => json.string(node).map_or(Kind::Unfit, Kind::Text),
        // Digits are text: a number of any length would have room for a message.
        json::Kind::Number if token.len() > MAX_NUMBER => Kind::Unfit,
        json::Kind::Number => Kind::Number {
            nearest: token.parse().unwrap_or(f64::NAN),
            is_whole: is_whole(token),
        },
        json::Kind::Boolean => Kind::Boolean,
        json::Kind::Null => Kind::Null,
    };
    let name = node.key.as_ref().map(|key| json.name(key).to_owned());
    Node {
        name: name.unwrap_or_default(),
        span,
        kind,
    }
}

/// What of a container is outside of its values.
fn frame(container: &Range<usize>, values: &[Node]) -> Vec<Range<usize>> {
    let mut from = container.start;
    let mut frame = Vec::new();
    for Node { span, .. } in values {
        frame.push(from..span.start);
        from = span.end;
    }
    frame.push(from..container.end);
    frame
}

/// Whether a number of JSON is written without a fraction: `2`, `2.0` and `2e3` are; `2.5e1`, which is 25, is not.
fn is_whole(token: &str) -> bool {
    let (mantissa, exponent) = token.split_once(['e', 'E']).unwrap_or((token, "0"));
    let fraction = mantissa
        .split_once('.')
        .map_or("", |(_, fraction)| fraction);
    fraction.bytes().all(|digit| digit == b'0') && !exponent.starts_with('-')
}
