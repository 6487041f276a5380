//! YAML in block form, by lines. Flow collections, anchors and tags on the way to an entry are not changed.

use std::ops::Range;

use serde_json::Value;

use super::span::{Piece, line_end, replaced};
use crate::Problem;

pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    serde_saphyr::from_str(text).map_err(|error| {
        // The words of the error may quote the text, which may be a secret.
        let line = error.location().map_or(1, |location| location.line());
        Problem::at(
            usize::try_from(line).unwrap_or(1),
            "a key or a value is wrong here",
        )
    })
}

/// A line of the file.
struct Line<'t> {
    bytes: Range<usize>,
    text: &'t str,
    indent: usize,
    /// Whether it has neither a key nor a value.
    is_empty: bool,
}

/// The lines of a mapping.
struct Block {
    lines: Range<usize>,
    indent: usize,
}

/// Takes the lines of an entry out.
pub(super) fn take(
    text: &str,
    place: &[String],
    name: &str,
) -> Result<Option<(String, String)>, Problem> {
    let lines = lines(text);
    let Some(block) = block(&lines, place)? else {
        return Ok(None);
    };
    let Some(own) = entry(&lines, &block, name) else {
        return Ok(None);
    };
    let bytes = bytes(&lines, &own);
    let taken = text.get(bytes.clone()).unwrap_or_default().to_owned();
    let mut rest = replaced(text, bytes, "");
    let is_last = lines.get(block.lines.clone()).is_some_and(|all| {
        let others = all.iter().enumerate();
        let mut others = others.filter(|(at, _)| !own.contains(&(at + block.lines.start)));
        others.all(|(_, line)| line.is_empty)
    });
    // Without entries the key would have no value.
    if let (true, Some(key)) = (
        is_last,
        block
            .lines
            .start
            .checked_sub(1)
            .and_then(|at| lines.get(at)),
    ) {
        let end = key.bytes.start + key.text.trim_end().len();
        rest = replaced(&rest, end..end, " {}");
    }
    Ok(Some((rest, taken)))
}

/// Writes an entry in the place of the one with this name, as the last one of its mapping.
pub(super) fn put(
    text: &str,
    place: &[String],
    name: &str,
    piece: Piece<'_>,
) -> Result<String, Problem> {
    let rest = take(text, place, name)?;
    let mut text = rest.map_or_else(|| text.to_owned(), |(rest, _)| rest);
    let end = line_end(&text);
    if !text.is_empty() && !text.ends_with('\n') {
        text += end;
    }
    let lines = lines(&text);
    let at = |at: usize| lines.get(at).map_or(text.len(), |line| line.bytes.start);
    let (at, indent) = match block(&lines, place)? {
        Some(block) => (at(block.lines.end), block.indent),
        None => {
            let [key] = place else {
                return Err(Problem::unknown_form(place));
            };
            let key = scalar(&Value::from(key.as_str()));
            let is_it = |line: &&Line<'_>| is_key(line, 0, key_name(&key));
            if let Some(line) = lines.iter().find(is_it) {
                // Only an empty mapping is left.
                let own = format!("{key}:{end}{}", layout(name, piece, 2, end));
                return Ok(replaced(&text, line.bytes.clone(), &own));
            }
            text += &format!("{key}:{end}");
            (text.len(), 2)
        }
    };
    Ok(replaced(&text, at..at, &layout(name, piece, indent, end)))
}

fn layout(name: &str, piece: Piece<'_>, indent: usize, end: &str) -> String {
    match piece {
        Piece::Text(own) if own.ends_with('\n') => own.to_owned(),
        Piece::Text(own) => format!("{own}{end}"),
        Piece::Value(value) => written(name, value, indent, end),
    }
}

fn written(name: &str, value: &Value, indent: usize, end: &str) -> String {
    let (name, blanks) = (scalar(&Value::from(name)), " ".repeat(indent));
    match value {
        Value::Object(table) if !table.is_empty() => {
            let mut all = format!("{blanks}{name}:{end}");
            for (name, value) in table {
                // JSON in one line is YAML too.
                let name = scalar(&Value::from(name.as_str()));
                all += &format!("{blanks}  {name}: {}{end}", scalar(value));
            }
            all
        }
        value => format!("{blanks}{name}: {}{end}", scalar(value)),
    }
}

/// A value in one line. A plain word needs no quotes, unless YAML has another meaning for it.
fn scalar(value: &Value) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match value {
        Value::String(word)
            if word.starts_with(|c: char| c.is_ascii_alphabetic())
                && word.chars().all(is_plain)
                && parse(word).is_ok_and(|it| it.is_string()) =>
        {
            word.clone()
        }
        value => value.to_string(),
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let mut start = 0;
    let line = |line| {
        let bytes = start..start + str::len(line);
        start = bytes.end;
        let words = line.trim_start_matches(' ');
        let trimmed = words.trim();
        Line {
            bytes,
            text: line,
            indent: line.len() - words.len(),
            is_empty: trimmed.is_empty() || trimmed.starts_with('#'),
        }
    };
    text.split_inclusive('\n').map(line).collect()
}

/// The mapping at this place; `None` if it is not there, or is an empty one.
fn block(lines: &[Line<'_>], place: &[String]) -> Result<Option<Block>, Problem> {
    let mut block = Block {
        lines: 0..lines.len(),
        indent: 0,
    };
    for key in place {
        let Some(own) = entry(lines, &block, key) else {
            return Ok(None);
        };
        let value = lines.get(own.start).map_or("", |line| after_key(line.text));
        if value == "{}" {
            return Ok(None);
        }
        let body = own.start + 1..own.end;
        let mut children = lines.get(body.clone()).unwrap_or_default().iter();
        let first = children.find(|line| !line.is_empty);
        let first = first
            .filter(|line| line.indent > block.indent && !line.text.trim_start().starts_with("- "));
        match first {
            Some(first) if value.is_empty() || value.starts_with('#') => {
                block = Block {
                    indent: first.indent,
                    lines: body,
                };
            }
            _ => return Err(Problem::unknown_form(place)),
        }
    }
    Ok(Some(block))
}

/// The lines of an entry of a mapping: its key and what is further in. Empty lines and comments after it are not its own.
fn entry(lines: &[Line<'_>], block: &Block, name: &str) -> Option<Range<usize>> {
    let own = block.lines.clone();
    let start = own.clone().find(|at| {
        lines
            .get(*at)
            .is_some_and(|line| is_key(line, block.indent, name))
    })?;
    let is_inside = |line: &Line<'_>| {
        line.is_empty
            || line.indent > block.indent
            // A list may begin below its key.
            || line.indent == block.indent && line.text.trim_start().starts_with("- ")
    };
    let rest = start + 1..own.end;
    let mut after = rest
        .clone()
        .filter(|at| lines.get(*at).is_some_and(|line| !is_inside(line)));
    let mut end = after.next().unwrap_or(rest.end);
    while end > start + 1 && lines.get(end - 1).is_some_and(|line| line.is_empty) {
        end -= 1;
    }
    Some(start..end)
}

fn bytes(lines: &[Line<'_>], own: &Range<usize>) -> Range<usize> {
    let line = |at: usize| {
        lines
            .get(at)
            .map(|line| line.bytes.clone())
            .unwrap_or_default()
    };
    line(own.start).start..line(own.end.saturating_sub(1)).end
}

fn is_key(line: &Line<'_>, indent: usize, name: &str) -> bool {
    !line.is_empty && line.indent == indent && key_name(line.text) == name
}

/// The key of a line, without its quotes.
fn key_name(line: &str) -> &str {
    let line = line.trim();
    let quoted = |quote: char| line.strip_prefix(quote)?.split_once(quote);
    match quoted('"').or_else(|| quoted('\'')) {
        Some((name, _)) => name,
        None => line
            .split_once(':')
            .map_or(line, |(name, _)| name.trim_end()),
    }
}

/// What follows the key in its line.
fn after_key(line: &str) -> &str {
    let name = key_name(line);
    let rest = line.split_once(name).map_or("", |(_, rest)| rest);
    rest.trim_start_matches(['"', '\'', ' '])
        .trim_start_matches(':')
        .trim()
}
