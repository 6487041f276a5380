//! Headers that repeat what stands in a message, by which MCP 2026-07-28 lets others route a request: the name of what
//! it is about, and the arguments of a call that the server's schema of the tool marks with `x-mcp-header`.
//!
//! A schema is a stranger's. All that it chooses is what follows `mcp-param-` in the name of a header, and what is sent
//! there stands in the body for the same server too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// What marks an argument in a schema.
const MARK: &str = "x-mcp-header";
/// What the names of these headers begin with. No header of a configuration does so.
const PREFIX: &str = "mcp-param-";
/// Around a value in base64.
const ENCODED: (&str, &str) = ("=?base64?", "?=");
/// Longest rest of a name. A header is called like an argument.
const MAX_NAME: usize = 64;
/// Most headers of one tool. A request is routed by one or two.
const MAX_HEADERS: usize = 32;
/// Bytes of the values of one request together. Servers take 8 to 16 KiB for all headers.
const MAX_VALUES: usize = 16 << 10;
/// Most tools that are remembered: as many as the spoke takes of one app.
const MAX_TOOLS: usize = 256;
/// Letters of a tool's name that are shown.
const MAX_SHOWN: usize = 64;
/// The largest whole number that every reader of JSON has exactly, 2^53 - 1.
const MAX_INTEGER: i64 = (1 << 53) - 1;

/// The arguments that a server wants to have as headers, by tool.
#[derive(Debug, Default)]
pub(crate) struct Mirrored(Mutex<BTreeMap<String, Vec<Marked>>>);

/// An argument that is marked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Marked {
    header: HeaderName,
    /// The members that lead to it.
    path: Vec<String>,
}

/// What is looked at of a call.
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    params: Params<'a>,
}

/// Values as they are written: as one of `serde_json` a number is rounded, and the body is not.
#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Mirrored {
    /// Takes an answer to `tools/list`, and gives it without the tools whose marks break a rule: the protocol has a
    /// client leave them out, so that the others can be used. Says of each why.
    pub(crate) fn listed(&self, answer: Vec<u8>) -> (Vec<u8>, Vec<String>) {
        let Ok(mut read) = serde_json::from_slice::<Value>(&answer) else {
            return (answer, Vec::new());
        };
        let tools = read.pointer_mut("/result/tools");
        let Some(tools) = tools.and_then(Value::as_array_mut) else {
            return (answer, Vec::new());
        };
        let mut left_out = Vec::new();
        tools.retain(|tool| {
            let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
            let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
            let kept = marked(schema).and_then(|marked| self.keep(name, marked));
            if let Err(why) = kept {
                let name: String = name.chars().take(MAX_SHOWN).collect();
                left_out.push(format!("the tool {name:?} is left out: {why}"));
            }
            kept.is_ok()
        });
        match left_out.is_empty() {
            // Byte for byte as it came.
            true => (answer, left_out),
            false => (read.to_string().into_bytes(), left_out),
        }
    }

    fn keep(&self, tool: &str, marked: Vec<Marked>) -> Result<(), &'static str> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What was listed before may have changed.
        known.remove(tool);
        if marked.is_empty() {
            return Ok(());
        }
        if known.len() >= MAX_TOOLS {
            return Err("too many tools want arguments as headers");
        }
        known.insert(tool.to_owned(), marked);
        Ok(())
    }

    /// The headers of a call: the arguments that are there and marked.
    ///
    /// # Errors
    /// Why one cannot be a header. The call must not be made then: a server may refuse or misroute it.
    pub(crate) fn headers(&self, tool: &str, call: &[u8]) -> Result<HeaderMap, &'static str> {
        let marked = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(tool).cloned().unwrap_or_default()
        };
        let mut headers = HeaderMap::new();
        // Before the call is parsed: nearly all tools have no marks.
        if marked.is_empty() {
            return Ok(headers);
        }
        let call: Call<'_> =
            serde_json::from_slice(call).map_err(|_| "the call is not understood")?;
        let mut room = MAX_VALUES;
        for Marked { header, path } in marked {
            let mut steps = path.iter();
            let found = call
                .params
                .arguments
                .and_then(|all| steps.try_fold(all, member));
            let Some(found) = found.filter(|found| found.get() != "null") else {
                continue;
            };
            let value = text(found.get()).and_then(|text| value(&text));
            let value =
                value.ok_or("an argument that its server wants as a header cannot be one")?;
            room = (room.checked_sub(value.len()))
                .ok_or("the arguments that its server wants as headers are too long for that")?;
            headers.insert(header, value);
        }
        Ok(headers)
    }
}

/// The member of this name; `None` if there is none, or the value is no object.
fn member<'a>(value: &'a RawValue, name: &String) -> Option<&'a RawValue> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
    members.get(name).copied()
}

/// A value, given as JSON, as a header has it. `None` for what no mark is for.
fn text(value: &str) -> Option<String> {
    match value.as_bytes().first()? {
        b'"' => serde_json::from_str(value).ok(),
        b't' | b'f' => Some(value.to_owned()),
        b'-' | b'0'..=b'9' => {
            // `5.0` is 5 by JSON Schema. By its digits: a double would make 5 of 5.00000000000000001 too.
            let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
            let is_whole = fraction.bytes().all(|digit| digit == b'0');
            let whole: i64 = whole.parse().ok().filter(|_| is_whole)?;
            (-MAX_INTEGER..=MAX_INTEGER)
                .contains(&whole)
                .then(|| whole.to_string())
        }
        _ => None,
    }
}

/// A text as the value of a header: in base64 where it is not one as it is, or would be read as base64.
pub(crate) fn value(text: &str) -> Option<HeaderValue> {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_trimmed = !text.starts_with(' ') && !text.ends_with(' ');
    let is_encoded = text.starts_with(ENCODED.0) && text.ends_with(ENCODED.1);
    let value = match is_plain && is_trimmed && !is_encoded {
        true => HeaderValue::from_str(text),
        false => HeaderValue::try_from([ENCODED.0, &STANDARD.encode(text), ENCODED.1].concat()),
    };
    value.ok()
}

/// The marked arguments of a schema.
///
/// # Errors
/// Which rule a mark breaks.
fn marked(schema: &Value) -> Result<Vec<Marked>, &'static str> {
    let mut found = Vec::new();
    look(schema, Some(&mut Vec::new()), &mut found)?;
    let names: BTreeSet<&str> = found.iter().map(|it| it.header.as_str()).collect();
    match () {
        () if names.len() < found.len() => Err("two arguments want the same header"),
        () if found.len() > MAX_HEADERS => Err("too many arguments want to be headers"),
        () => Ok(found),
    }
}

/// Looks for marks in a schema. `path` leads to it by `properties` alone; without one it is reached in another way, and
/// has no argument of its own.
///
/// It goes as deep as what is read as JSON, which is bounded.
fn look(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<Marked>,
) -> Result<(), &'static str> {
    let Some(schema) = schema.as_object() else {
        return match schema.as_array() {
            Some(all) => all.iter().try_for_each(|one| look(one, None, found)),
            None => Ok(()),
        };
    };
    for (keyword, value) in schema {
        match (keyword.as_str(), value.as_object()) {
            (MARK, _) => match &path {
                Some(path) if !path.is_empty() => found.push(Marked {
                    header: header(schema, value)?,
                    path: path.to_vec(),
                }),
                _ => return Err("it wants what is no argument as a header"),
            },
            ("properties", Some(members)) => match &mut path {
                Some(path) => {
                    for (name, member) in members {
                        path.push(name.clone());
                        look(member, Some(path), found)?;
                        path.pop();
                    }
                }
                None => each(members, found)?,
            },
            // Their keys are names, and no keywords.
            ("$defs" | "definitions" | "dependentSchemas" | "patternProperties", Some(members)) => {
                each(members, found)?;
            }
            // Values, not schemas.
            ("const" | "default" | "enum" | "example" | "examples", _) => {}
            _ => look(value, None, found)?,
        }
    }
    Ok(())
}

/// Looks at schemas that are reached by another way than `properties`.
fn each(members: &Map<String, Value>, found: &mut Vec<Marked>) -> Result<(), &'static str> {
    (members.values()).try_for_each(|member| look(member, None, found))
}

/// The header that a mark names.
fn header(schema: &Map<String, Value>, mark: &Value) -> Result<HeaderName, &'static str> {
    if !is_primitive(schema.get("type")) {
        return Err("it wants an argument as a header that is neither text, integer nor boolean");
    }
    let name = mark.as_str().unwrap_or_default();
    let is_name = (1..=MAX_NAME).contains(&name.len());
    let header = is_name.then(|| HeaderName::from_bytes(format!("{PREFIX}{name}").as_bytes()));
    match header {
        Some(Ok(header)) => Ok(header),
        _ => Err("it wants a header that no header can be called like"),
    }
}

/// Whether a schema's `type` is one whose values have a header's form, or that or `null`, which is sent as none.
fn is_primitive(kind: Option<&Value>) -> bool {
    let is_one = |kind: &str| ["string", "integer", "boolean"].contains(&kind);
    match kind {
        Some(Value::String(kind)) => is_one(kind),
        Some(Value::Array(kinds)) => {
            let kinds: Option<Vec<&str>> = kinds.iter().map(Value::as_str).collect();
            match kinds.as_deref() {
                Some([one] | [one, "null"] | ["null", one]) => is_one(one),
                _ => false,
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A router that reads the header and a server that reads the body must not see two numbers.
    #[test]
    fn a_header_says_what_the_body_says_or_nothing() {
        let header = |json: &str| text(json);
        for (json, said) in [
            ("5", "5"),
            ("5.0", "5"),
            ("-0", "0"),
            ("-7.000", "-7"),
            ("9007199254740991", "9007199254740991"),
            (r#""\u0061""#, "a"),
            ("true", "true"),
        ] {
            assert_eq!(header(json).as_deref(), Some(said), "{json}");
        }
        for json in [
            "5.00000000000000001",
            "9007199254740990.9",
            "9007199254740992",
            "9007199254740993",
            "21000418450200051332",
            "1e300",
            "1e400",
            "0.5",
            "null",
            "{}",
            "[1]",
            r#""\ud800""#,
        ] {
            assert_eq!(header(json), None, "{json}");
        }
    }

    #[test]
    fn an_argument_is_found_by_the_meaning_of_its_name() {
        let schema = serde_json::json!({"result": {"tools": [{"name": "t", "inputSchema": {"properties": {
            "a": {"properties": {"b": {"type": "string", "x-mcp-header": "B"}}},
        }}}]}});
        let mirrored = Mirrored::default();
        assert!(
            mirrored
                .listed(schema.to_string().into_bytes())
                .1
                .is_empty()
        );
        for (call, said) in [
            (r#"{"params":{"arguments":{"a":{"b":"x"}}}}"#, Some("x")),
            (
                r#"{"params":{"arguments":{"\u0061":{"\u0062":"x"}}}}"#,
                Some("x"),
            ),
            (r#"{"params":{"arguments":{"a":{"b":null}}}}"#, None),
            (r#"{"params":{"arguments":{"a":["b"]}}}"#, None),
            (r#"{"params":{"arguments":null}}"#, None),
            (r#"{"params":{}}"#, None),
        ] {
            let headers = mirrored.headers("t", call.as_bytes()).unwrap();
            let found = headers.get("mcp-param-b").map(|it| it.to_str().unwrap());
            assert_eq!(found, said, "{call}");
        }
    }
}
