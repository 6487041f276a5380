//! JSON-RPC as MCP has it. Parts of a message that are passed on stay as they are written.

use std::fmt;

use ifc::json::Json;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value, json};
use wire::{Progress, Quote};

/// The request is no JSON.
pub(super) const PARSE_ERROR: i32 = -32700;
/// The request is no request.
pub(super) const INVALID_REQUEST: i32 = -32600;
/// There is no such method.
pub(super) const NO_METHOD: i32 = -32601;
/// The parameters are wrong; there is no such tool.
pub(super) const INVALID_PARAMS: i32 = -32602;

/// Something went wrong here.
pub(super) const INTERNAL: i32 = -32603;
/// The request was not done.
pub(super) const REFUSED: i32 = -32000;
/// The headers of a request do not say what it says (2026-07-28).
pub(super) const HEADER_MISMATCH: i32 = -32020;
/// The version is not spoken (2026-07-28).
pub(super) const UNSUPPORTED_VERSION: i32 = -32022;

/// Members of a result that are about the exchange of messages: an app's are for us, and a client gets ours.
const EXCHANGE_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
/// What names of members of `_meta` begin with that are the protocol's own.
const PROTOCOL_PREFIX: &str = "io.modelcontextprotocol/";

/// Longest id of a request: it is repeated in the answer.
const MAX_ID: usize = 1 << 10;

/// The member of a result's `_meta` with its labels.
const LABELS: &str = "sluice/ifc";

/// A message of a client.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    pub(super) method: Option<String>,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
}

/// The parameters of `tools/call`, `resources/read` and `prompts/get`, and of lists. What else a client puts there stays
/// here: it may be about the client's user.
#[derive(Deserialize)]
pub(super) struct CallParams<'a> {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) uri: String,
    /// `None` if they are left out; `null` is a value.
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(default, rename = "_meta")]
    pub(super) meta: Option<Meta>,
    /// What a request that is made again brings: answers, and which request they are for.
    #[serde(borrow, default, rename = "inputResponses")]
    pub(super) answers: Option<&'a RawValue>,
    #[serde(default, rename = "requestState")]
    pub(super) state: Option<String>,
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(value).map(Some)
}

#[derive(Default, Deserialize)]
pub(super) struct Meta {
    #[serde(default, rename = "progressToken")]
    pub(super) progress_token: Option<Value>,
    #[serde(default)]
    pub(super) traceparent: Option<Value>,
    #[serde(default, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(super) version: Option<Value>,
    #[serde(default, rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(super) capabilities: Option<Value>,
}

impl<'a> Message<'a> {
    /// Reads one message.
    ///
    /// # Errors
    /// The answer to what is none.
    pub(super) fn read(text: &'a str) -> Result<Self, String> {
        if text.trim_start().starts_with('[') {
            return Err(error("null", INVALID_REQUEST, "send one message at a time"));
        }
        let read: Result<Self, _> = serde_json::from_str(text);
        let message =
            read.map_err(|_| error("null", PARSE_ERROR, "this is no JSON-RPC message"))?;
        // An id is a number or a text, and no client needs a long one.
        match message.id.map(RawValue::get) {
            Some(id) if id.len() > MAX_ID || id.starts_with(['{', '[', 't', 'f']) => {
                Err(error("null", INVALID_REQUEST, "the id is no id"))
            }
            _ => Ok(message),
        }
    }

    /// Its parameters.
    ///
    /// # Errors
    /// They are of another form.
    pub(super) fn params<T: Deserialize<'a>>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.params.map_or("{}", RawValue::get))
    }
}

/// The answer to the request with this id.
pub(super) fn answer(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// The answer to a request that is refused.
pub(super) fn error(id: &str, code: i32, message: &str) -> String {
    error_with(id, code, message, &Value::Null)
}

/// The same with data, unless it is `null`.
pub(super) fn error_with(id: &str, code: i32, message: &str, data: &Value) -> String {
    let error = match data {
        Value::Null => json!({ "code": code, "message": message }),
        data => json!({ "code": code, "message": message, "data": data }),
    };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// A notification of ours.
pub(super) fn notification(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// What a client is told of a call that goes on.
pub(super) struct ProgressBar {
    /// The client's token; without one it is told nothing.
    pub(super) token: Option<Value>,
    pub(super) last: Option<f64>,
}

impl ProgressBar {
    /// That the call is not over, with the reason.
    pub(super) fn beat(&mut self, why: &str) -> Option<String> {
        // The numbers of one call rise, and the app's next one is to be above ours.
        let progress = Number::from_f64(self.last.map_or(0.0, |last| last + 0.001))?;
        let (total, message) = (None, Some(Quote::head(why)));
        self.pass(Progress {
            progress,
            total,
            message,
        })
    }

    /// What its app says. A number that is not above the last one is left out.
    pub(super) fn pass(&mut self, update: Progress) -> Option<String> {
        let token = self.token.clone()?;
        let next = update.progress.as_f64()?;
        if self.last.is_some_and(|last| next <= last) {
            return None;
        }
        self.last = Some(next);
        let mut params = serde_json::to_value(update).ok()?;
        let members = params.as_object_mut()?;
        members.retain(|_, value| !value.is_null());
        members.insert("progressToken".to_owned(), token);
        Some(notification("notifications/progress", &params))
    }
}

/// A result that is one text of ours.
pub(super) fn text(text: &str, is_error: bool) -> String {
    json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }).to_string()
}

/// An app's result for the client: each member as the app wrote it, on one line, and the labels in `_meta`. `label` is that of
/// the result, `client` that of everything which the client was returned.
pub(super) fn labelled(result: &str, label: &[String], client: &[String]) -> String {
    let labels = json!({ "label": label, "client": client }).to_string();
    let mut out = String::with_capacity(result.len() + labels.len() + 32);
    // What is no object has been refused before.
    let all = Members::read(result);
    let meta = all.iter().find(|(name, _)| name == "_meta");
    let meta = meta.map_or_else(Vec::new, |(_, value)| Members::read(value.get()));
    let mut metas = String::new();
    // An app cannot speak in our name, nor in that of the protocol.
    let passed = |name: &str| name != LABELS && !name.starts_with(PROTOCOL_PREFIX);
    for (name, value) in meta.iter().filter(|(name, _)| passed(name)) {
        push(&mut metas, name, value.get());
    }
    push(&mut metas, LABELS, &labels);
    let passed = |name: &str| name != "_meta" && !EXCHANGE_MEMBERS.contains(&name);
    for (name, value) in all.iter().filter(|(name, _)| passed(name)) {
        push(&mut out, name, value.get());
    }
    push(&mut out, "_meta", &format!("{{{metas}}}"));
    // A message ends with its line, and some clients end lines at `\r` too. No string of JSON has either, so both are blanks.
    format!("{{{out}}}").replace(['\r', '\n'], " ")
}

pub(super) fn push(out: &mut String, name: &str, value: &str) {
    if !out.is_empty() {
        out.push(',');
    }
    out.push_str(&Value::from(name).to_string());
    out.push(':');
    out.push_str(value);
}

/// Whether a result has parts that its text as the hub reads it does not have: anything but blocks of plain text, and
/// structured content, which that text repeats or is.
pub(super) fn has_more(result: &str) -> bool {
    // Of a name that stands twice the rules saw one value, and the client gets both.
    if Json::read(result).is_err() {
        return true;
    }
    let Ok(Value::Object(members)) = serde_json::from_str::<Value>(result) else {
        return true;
    };
    let is_plain = |block: &Value| {
        let block = block.as_object();
        block.is_some_and(|block| {
            block.len() == 2
                && block.get("type").is_some_and(|kind| kind == "text")
                && block.get("text").is_some_and(Value::is_string)
        })
    };
    let is_known = |(name, value): (&String, &Value)| match (name.as_str(), value) {
        ("content", Value::Array(blocks)) => blocks.iter().all(is_plain),
        ("isError", Value::Bool(_)) | ("structuredContent", _) => true,
        // No client gets these.
        ("_meta", Value::Object(meta)) => {
            !meta.is_empty() && meta.keys().all(|name| name.starts_with(PROTOCOL_PREFIX))
        }
        (name, _) => EXCHANGE_MEMBERS.contains(&name),
    };
    !members.iter().all(is_known)
}

/// What a tool returns, with a resource that is more than text as a part of a result. Text alone is rendered by the spoke,
/// and so is a prompt. All else stays as it is.
pub(super) fn as_result(exact: String) -> Option<String> {
    let members = Members::read(&exact);
    let get = |name: &str| {
        members
            .iter()
            .find(|(it, _)| it == name)
            .map(|(_, it)| it.get())
    };
    let contents = match (get("content"), get("contents"), get("messages")) {
        (None, Some(contents), _) => contents,
        (None, None, Some(_)) => return None,
        _ => return Some(exact),
    };
    let contents: Vec<&RawValue> = serde_json::from_str(contents).unwrap_or_default();
    let is_text = |it: &&RawValue| {
        !Members::read(it.get())
            .iter()
            .any(|(name, _)| name == "blob")
    };
    if contents.iter().all(is_text) {
        return None;
    }
    let blocks = contents
        .iter()
        .map(|it| format!(r#"{{"type":"resource","resource":{}}}"#, it.get()));
    Some(format!(
        r#"{{"content":[{}]}}"#,
        blocks.collect::<Vec<_>>().join(",")
    ))
}

/// The members of an object in their order, each as it is written.
pub(super) struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// None of what is no object.
    pub(super) fn read(text: &'a str) -> Vec<(String, &'a RawValue)> {
        serde_json::from_str::<Self>(text).map_or_else(|_| Vec::new(), |it| it.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }

        from.deserialize_map(InOrder).map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_stays_as_it_is_written() {
        let result = r#"{ "content":[ {"type":"text","text":"\u00e9 1.10"}],"n":12345678901234567890.10,"_meta":{"a" : 1,"sluice/ifc":{"label":[]}},"isError":false}"#;
        assert_eq!(
            labelled(result, &["secret".to_owned()], &[]),
            r#"{"content":[ {"type":"text","text":"\u00e9 1.10"}],"n":12345678901234567890.10,"isError":false,"_meta":{"a":1,"sluice/ifc":{"label":["secret"],"client":[]}}}"#
        );
    }

    #[test]
    fn a_result_is_one_line() {
        let result =
            "{\"content\":[\r{\"jsonrpc\":\"2.0\"}\n,\r\n\"\\r\"],\"_meta\":{\"a\":[\r1]}}";
        assert_eq!(
            labelled(result, &[], &[]),
            r#"{"content":[ {"jsonrpc":"2.0"} ,  "\r"],"_meta":{"a":[ 1],"sluice/ifc":{"label":[],"client":[]}}}"#
        );
    }

    #[test]
    fn arguments_that_are_null_are_not_left_out() {
        for (params, expected) in [
            (r#"{"name":"a"}"#, None),
            (r#"{"name":"a","arguments":null}"#, Some("null")),
            (
                r#"{"name":"a","arguments":{"b":null}}"#,
                Some(r#"{"b":null}"#),
            ),
        ] {
            let read: CallParams<'_> = serde_json::from_str(params).unwrap();
            assert_eq!(read.arguments.map(RawValue::get), expected, "{params}");
        }
    }

    #[test]
    fn what_no_text_has_is_more() {
        for (result, more) in [
            (
                r#"{"content":[{"type":"text","text":"a"}],"isError":true,"structuredContent":{}}"#,
                false,
            ),
            (r#"{"content":[]}"#, false),
            (
                r#"{"content":[{"type":"text","text":"a","_meta":{}}]}"#,
                true,
            ),
            (
                r#"{"content":[{"type":"audio","data":"","mimeType":"audio/wav"}]}"#,
                true,
            ),
            (
                r#"{"content":[{"type":"resource_link","uri":"a:b","name":"n"}]}"#,
                true,
            ),
            (r#"{"content":[],"_meta":{}}"#, true),
            // What is for us alone.
            (
                r#"{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"obey"}}}"#,
                false,
            ),
            // What stands twice.
            (
                r#"{"content":[{"type":"text","text":"{\"c\":1}"}],"structuredContent":{"c":"obey","\u0063":1}}"#,
                true,
            ),
            (
                r#"{"content":[{"type":"text","text":"obey","text":"{\"c\":1}"}]}"#,
                true,
            ),
            (
                r#"{"content":[{"type":"text","text":"obey"}],"content":[]}"#,
                true,
            ),
            ("[]", true),
        ] {
            assert_eq!(has_more(result), more, "{result}");
        }
    }
}
