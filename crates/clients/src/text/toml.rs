//! TOML, statement by statement: a header or a key with its value, with the lines that it takes.

use std::ops::Range;

use serde_json::Value;

use super::span::{Piece, at, cut, line_end, line_number, replaced};
use crate::Problem;

pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Problem::at(line_number(text, at), error.message())
    })
}

/// A header, or a key with its value.
struct Statement {
    /// Its keys, from the root of the file.
    path: Vec<String>,
    /// Its lines.
    lines: Range<usize>,
    is_header: bool,
}

/// Takes the statements of an entry out, with the comments between them.
pub(super) fn take(
    text: &str,
    place: &[String],
    name: &str,
) -> Result<Option<(String, String)>, Problem> {
    let statements = statements(text);
    let is_own = |it: &Statement| {
        it.path
            .strip_prefix(place)
            .is_some_and(|it| it.first().is_some_and(|it| it == name))
    };
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut was_own = false;
    for statement in &statements {
        match parts.last_mut() {
            Some(last) if is_own(statement) && was_own => last.end = statement.lines.end,
            _ if is_own(statement) => parts.push(statement.lines.clone()),
            _ => {}
        }
        was_own = is_own(statement);
    }
    let Some(first) = statements.iter().find(|it| is_own(it)) else {
        return match at(&parse(text)?, place, name) {
            // It is written within a line of the table above it.
            Some(_) => Err(Problem::unknown_form(place)),
            None => Ok(None),
        };
    };
    let own = match first.is_header {
        true => parts
            .iter()
            .filter_map(|part| text.get(part.clone()))
            .collect(),
        // Keys below another header mean nothing in another place.
        false => {
            let value = parse(text)?;
            literal(at(&value, place, name).unwrap_or(&Value::Null))?
        }
    };
    // One blank line goes with a table.
    for part in parts.iter_mut().filter(|_| first.is_header) {
        let rest = text.get(part.end..).unwrap_or_default();
        let blank = ["\r\n", "\n"].into_iter().find(|it| rest.starts_with(it));
        part.end += blank.map_or(0, str::len);
    }
    Ok(Some((cut(text, &parts), own)))
}

/// Writes an entry in the place of the one with this name. A table is written at the end of the file, a value below the
/// header of its table.
pub(super) fn put(
    text: &str,
    place: &[String],
    name: &str,
    piece: Piece<'_>,
) -> Result<String, Problem> {
    let rest = take(text, place, name)?;
    let mut text = rest.map_or_else(|| text.to_owned(), |(rest, _)| rest);
    let end = line_end(&text);
    let own = match piece {
        Piece::Value(Value::Object(table)) => {
            let path = place.iter().map(String::as_str).chain([name]);
            let mut lines = format!("[{}]{end}", path.map(key).collect::<Vec<_>>().join("."));
            for (name, value) in table {
                lines += &format!("{} = {}{end}", key(name), literal(value)?);
            }
            lines
        }
        Piece::Text(own) if is_table(own, place, name) => own.to_owned(),
        Piece::Text(own) => return into_table(&text, place, &format!("{} = {own}", key(name))),
        Piece::Value(value) => {
            let line = format!("{} = {}", key(name), literal(value)?);
            return into_table(&text, place, &line);
        }
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text += end;
    }
    if !text.trim().is_empty() && !text.ends_with(&format!("{end}{end}")) {
        text += end;
    }
    Ok(text + &own)
}

/// Whether a text is one of tables with this path, and not a value.
fn is_table(own: &str, place: &[String], name: &str) -> bool {
    parse(own).is_ok_and(|value| at(&value, place, name).is_some())
}

fn into_table(text: &str, place: &[String], line: &str) -> Result<String, Problem> {
    let all = statements(text);
    let header = all.iter().find(|it| it.path == place && it.is_header);
    let header = header.ok_or_else(|| Problem::unknown_form(place))?;
    let (at, end) = (header.lines.end, line_end(text));
    let gap = match text.get(..at).is_some_and(|before| before.ends_with('\n')) {
        true => "",
        false => end,
    };
    Ok(replaced(text, at..at, &format!("{gap}{line}{end}")))
}

fn key(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !name.is_empty() && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => toml::Value::from(name).to_string(),
    }
}

/// A value in one line.
fn literal(value: &Value) -> Result<String, Problem> {
    let value = toml::Value::try_from(value);
    Ok(value
        .map_err(|error| Problem::at(1, error.to_string()))?
        .to_string())
}

fn statements(text: &str) -> Vec<Statement> {
    let (mut all, mut table) = (Vec::new(), Vec::new());
    let (mut start, mut end) = (0, 0);
    for line in text.split_inclusive('\n') {
        let is_first = start == end;
        end += line.len();
        let words = line.trim();
        if is_first && (words.is_empty() || words.starts_with('#')) {
            start = end;
            continue;
        }
        // A value can take several lines, and is TOML only with all of them.
        let own = text.get(start..end).unwrap_or_default();
        let Ok(parsed) = parse(own) else {
            continue;
        };
        let is_header = own.trim_start().starts_with('[');
        if is_header {
            table = keys(&parsed);
        }
        // Without the value, which may be an inline table.
        let key = |(at, _): (usize, &str)| parse(&format!("{} = 0", own.get(..at)?)).ok();
        let path = match own.match_indices('=').find_map(key) {
            Some(key) if !is_header => [table.clone(), keys(&key)].concat(),
            _ => table.clone(),
        };
        all.push(Statement {
            path,
            lines: start..end,
            is_header,
        });
        start = end;
    }
    all
}

/// The keys of a header, or of a key.
fn keys(statement: &Value) -> Vec<String> {
    let mut keys = Vec::new();
    let mut value = statement;
    while let Some((key, below)) = value.as_object().and_then(|table| table.iter().next()) {
        keys.push(key.clone());
        // An array of tables has one in its header.
        value = below.get(0).unwrap_or(below);
    }
    keys
}
