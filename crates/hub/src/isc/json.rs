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

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Object {
        members: Vec<Member>,
        /// Braces, commas, colons, names and blanks: all that is not a value.
        frame: Vec<Range<usize>>,
    },
    Array {
        items: Vec<Node>,
        /// Brackets, commas and blanks.
        frame: Vec<Range<usize>>,
    },
    /// A string without its escapes.
    Text(String),
    Number {
        /// The nearest double, for limits.
        nearest: f64,
        /// Whether it has no fraction, by its digits: `5.00000000000000001` is none, whose nearest double is 5.
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
            Kind::Object { members, .. } => members.iter().all(|member| member.value.is_fit()),
            Kind::Array { items, .. } => items.iter().all(Self::is_fit),
            _ => true,
        }
    }
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) value: Node,
}

/// The text is not one JSON value that every reader understands alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotJson;

/// Reads a text that is one JSON value.
pub(super) fn read(text: &str) -> Result<Node, NotJson> {
    let json = Json::read_marked(text).map_err(|_| NotJson)?;
    json.nodes()
        .first()
        .map(|root| node(&json, 0, root, 0))
        .ok_or(NotJson)
}

/// A value inside `depth` others.
fn node(json: &Json<'_>, at: usize, node: &json::Node, depth: usize) -> Node {
    let span = node.span.clone();
    let token = json.slice(&span);
    let is_deep =
        || depth > MAX_DEPTH && matches!(node.kind, json::Kind::Object | json::Kind::Array);
    let kind = match node.kind {
        // Unfit and no error: a sender that nests one value too deep must not make the values beside it fail, which may
        // have another label.
        _ if node.fault.is_some() || is_deep() => Kind::Unfit,
        json::Kind::Object => {
            let members = json.children(at).filter_map(|(at, child)| {
                let name = json.name(child.key.as_ref()?).to_owned();
                let value = self::node(json, at, child, depth + 1);
                Some(Member { name, value })
            });
            let mut members: Vec<Member> = members.collect();
            let frame = frame(&span, members.iter().map(|member| &member.value.span));
            // The order in which a sender writes its members says nothing to the receiver.
            members.sort_by(|a, b| a.name.cmp(&b.name));
            Kind::Object { members, frame }
        }
        json::Kind::Array => {
            let items = json
                .children(at)
                .map(|(at, child)| self::node(json, at, child, depth + 1));
            let items: Vec<Node> = items.collect();
            let frame = frame(&span, items.iter().map(|item| &item.span));
            Kind::Array { items, frame }
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
    Node { span, kind }
}

/// What of a container is outside of its values.
fn frame<'a>(
    container: &Range<usize>,
    values: impl Iterator<Item = &'a Range<usize>>,
) -> Vec<Range<usize>> {
    let mut from = container.start;
    let mut frame = Vec::new();
    for value in values {
        frame.push(from..value.start);
        from = value.end;
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
