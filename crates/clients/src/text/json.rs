//! JSON, with or without comments and trailing commas.

use std::ops::Range;

use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use super::span::{Piece, cut, line_end, line_number, line_start, replaced};
use crate::Problem;

pub(super) fn parse(text: &str, strict: bool) -> Result<Value, Problem> {
    Ok(node(text, strict)?.into())
}

/// Takes a member out of an object, with its comma and, if it has lines of its own, with these. Comments before it stay.
pub(super) fn take(
    text: &str,
    strict: bool,
    place: &[String],
    name: &str,
) -> Result<Option<(String, String)>, Problem> {
    let root = node(text, strict)?;
    let Some(object) = object(text, &root, place)? else {
        return Ok(None);
    };
    let Some((at, member)) = member(text, object, name)? else {
        return Ok(None);
    };
    let own = text.get(value_span(member)).unwrap_or_default();
    let (start, mut end) = (member.range.start, member.range.end);
    let mut parts = Vec::new();
    let next = after_trivia(text, end);
    let before = at.checked_sub(1).and_then(|at| object.properties.get(at));
    if text.get(next..).is_some_and(|rest| rest.starts_with(',')) {
        end = next + 1;
    } else if let Some(before) = before {
        // The last member takes the comma before it along.
        let comma = after_trivia(text, before.range.end);
        parts.push(comma..comma + 1);
    }
    let line = line_start(text, start);
    let is_first = text.get(line..start).is_some_and(|it| it.trim().is_empty());
    let rest = same_line(text, end);
    let line_break = ["\r\n", "\n"]
        .into_iter()
        .find(|it| text.get(rest..).is_some_and(|rest| rest.starts_with(it)));
    match line_break {
        Some(line_break) if is_first => parts.push(line..rest + line_break.len()),
        // Blanks around it belong to it.
        _ => {
            let blanks = |from: usize| {
                let rest = text.get(from..).unwrap_or_default();
                from + rest.len() - rest.trim_start_matches([' ', '\t']).len()
            };
            let from = match parts.last() {
                Some(comma) if blanks(comma.end) == start => comma.end,
                _ => start,
            };
            parts.push(
                from..if end > member.range.end {
                    blanks(end)
                } else {
                    end
                },
            );
        }
    }
    Ok(Some((cut(text, &parts), own.to_owned())))
}

/// Writes a member of an object: in the place of the one with this name, or as its last one.
pub(super) fn put(
    text: &str,
    strict: bool,
    place: &[String],
    name: &str,
    piece: Piece<'_>,
) -> Result<String, Problem> {
    let root = node(text, strict)?;
    let Some(object) = object(text, &root, place)? else {
        // The objects that are missing are written with it.
        let Some((key, above)) = place.split_last() else {
            return Err(Problem::unknown_form(place));
        };
        let value = match piece {
            Piece::Value(value) => value.clone(),
            Piece::Text(own) => parse(own, strict)?,
        };
        let outer = Value::Object(Map::from_iter([(name.to_owned(), value)]));
        return put(text, strict, above, key, Piece::Value(&outer));
    };
    let layout = Layout::of(text, &root);
    if let Some((_, member)) = member(text, object, name)? {
        let line = indent(text, member.range.start);
        let before = text.get(value_span(member)).unwrap_or_default();
        let in_lines = before.contains('\n');
        let own = layout.written(piece, in_lines, line);
        return Ok(replaced(text, value_span(member), &own));
    }
    let key = Value::from(name).to_string();
    let entry =
        |in_lines: bool, base: &str| format!("{key}: {}", layout.written(piece, in_lines, base));
    let Some(last) = object.properties.last() else {
        return Ok(into_empty(text, object, &layout, &entry));
    };
    let base = indent(text, last.range.start);
    let has_line = line_start(text, last.range.start) + base.len() == last.range.start;
    let gap = match has_line {
        true => format!("{}{base}", layout.line_end),
        false => " ".to_owned(),
    };
    let comma = after_trivia(text, last.range.end);
    let has_comma = text.get(comma..).is_some_and(|rest| rest.starts_with(','));
    let from = if has_comma { comma + 1 } else { last.range.end };
    // A comment at the end of the line is about the member before it.
    let to = if has_line {
        same_line(text, from)
    } else {
        from
    };
    let between = text.get(from..to).unwrap_or_default();
    let (before, after) = if has_comma { ("", ",") } else { (",", "") };
    let new = format!("{before}{between}{gap}{}{after}", entry(has_line, base));
    Ok(replaced(text, from..to, &new))
}

fn into_empty(
    text: &str,
    object: &Object<'_>,
    layout: &Layout,
    entry: &dyn Fn(bool, &str) -> String,
) -> String {
    let (start, end) = (object.range.start, object.range.end);
    let base = indent(text, start);
    let inner = format!("{base}{}", layout.unit);
    let content = text.get(start + 1..end - 1).unwrap_or_default();
    if !layout.has_lines {
        return replaced(text, end - 1..end - 1, &entry(false, ""));
    }
    let line_end = layout.line_end;
    // Comments in it stay before the member.
    let content = content.trim_end();
    let new = format!(
        "{content}{line_end}{inner}{}{line_end}{base}",
        entry(true, &inner)
    );
    replaced(text, start + 1..end - 1, &new)
}

/// How a file is laid out.
struct Layout {
    has_lines: bool,
    unit: String,
    line_end: &'static str,
}

impl Layout {
    fn of(text: &str, root: &Node<'_>) -> Self {
        let first = root.as_object().and_then(|root| root.properties.first());
        let unit = first.map_or("", |first| indent(text, first.range.start));
        // An empty object is not laid out in any way.
        let has_lines = first.is_none() || text.trim().contains('\n');
        Self {
            has_lines,
            unit: if unit.is_empty() { "  " } else { unit }.to_owned(),
            line_end: line_end(text),
        }
    }

    /// A value, in one line or in lines that begin with `base`.
    fn written(&self, piece: Piece<'_>, in_lines: bool, base: &str) -> String {
        let value = match piece {
            Piece::Text(own) => return own.to_owned(),
            Piece::Value(value) => value,
        };
        let mut lines = Vec::new();
        let formatter = PrettyFormatter::with_indent(self.unit.as_bytes());
        let pretty = value.serialize(&mut Serializer::with_formatter(&mut lines, formatter));
        match (in_lines, pretty, String::from_utf8(lines)) {
            (true, Ok(()), Ok(lines)) => lines.replace('\n', &format!("{}{base}", self.line_end)),
            _ => value.to_string(),
        }
    }
}

fn node(text: &str, strict: bool) -> Result<Node<'_>, Problem> {
    let options = ParseOptions {
        allow_comments: !strict,
        allow_trailing_commas: !strict,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options);
    // The kind of an error never quotes the text, which may be a secret.
    let parsed =
        parsed.map_err(|error| Problem::at(error.line_display(), error.kind().to_string()))?;
    parsed
        .value
        .ok_or_else(|| Problem::at(1, "the file is empty"))
}

/// The object at this place; `None` if it is not there.
fn object<'a, 't>(
    text: &str,
    root: &'a Node<'t>,
    place: &[String],
) -> Result<Option<&'a Object<'t>>, Problem> {
    let mut value = root;
    for key in place {
        let Some(object) = value.as_object() else {
            return Err(Problem::unknown_form(place));
        };
        match member(text, object, key)? {
            Some((_, member)) => value = &member.value,
            None => return Ok(None),
        }
    }
    let object = value.as_object();
    object.map(Some).ok_or_else(|| Problem::unknown_form(place))
}

/// The member of this name, and which one it is.
fn member<'a, 't>(
    text: &str,
    object: &'a Object<'t>,
    name: &str,
) -> Result<Option<(usize, &'a ObjectProp<'t>)>, Problem> {
    let members = object.properties.iter().enumerate();
    let mut found = members.filter(|(_, member)| member.name.as_str() == name);
    let first = found.next();
    match found.next() {
        // Clients differ in which of them counts.
        Some((_, second)) => Err(Problem::at(
            line_number(text, second.range.start),
            format!("the key {name:?} occurs twice"),
        )),
        None => Ok(first),
    }
}

fn value_span(member: &ObjectProp<'_>) -> Range<usize> {
    let range = member.value.range();
    range.start..range.end
}

/// The blanks with which the line of a place begins.
fn indent(text: &str, at: usize) -> &str {
    let line = text.get(line_start(text, at)..at).unwrap_or_default();
    let end = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..end).unwrap_or_default()
}

/// The next place that is neither blank nor in a comment.
fn after_trivia(text: &str, from: usize) -> usize {
    let mut at = from;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let start = rest.trim_start();
        at += rest.len() - start.len();
        match comment(start) {
            0 => return at,
            length => at += length,
        }
    }
}

/// The end of the line, if only blanks and comments follow there; else the place itself.
fn same_line(text: &str, from: usize) -> usize {
    let mut at = from;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let start = rest.trim_start_matches([' ', '\t']);
        let next = at + rest.len() - start.len();
        let is_end = start.is_empty() || start.starts_with("\r\n") || start.starts_with('\n');
        match comment(start) {
            _ if is_end => return next,
            length if length > 0 && !start.get(..length).unwrap_or_default().contains('\n') => {
                at = next + length;
            }
            _ => return from,
        }
    }
}

/// The length of the comment at the beginning of a text; 0 if there is none.
fn comment(text: &str) -> usize {
    let length = |rest: &str, end: &str| rest.find(end).map_or(rest.len(), |at| at);
    match (text.strip_prefix("//"), text.strip_prefix("/*")) {
        (Some(rest), _) => {
            let line = length(rest, "\n");
            2 + rest
                .get(..line)
                .unwrap_or_default()
                .trim_end_matches('\r')
                .len()
        }
        (_, Some(rest)) => (2 + length(rest, "*/") + 2).min(text.len()),
        _ => 0,
    }
}
