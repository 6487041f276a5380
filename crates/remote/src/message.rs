//! JSON-RPC messages, read as far as HTTP needs to know them. Whether they are right is judged by the spoke.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What is looked at of a message.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "requestId")]
    request_id: Option<&'a RawValue>,
}

/// A message of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// A request, with its id as it is written, and what its headers say.
    Request {
        id: String,
        method: String,
        /// What it is about: a tool, a prompt, a resource.
        name: Option<String>,
    },
    /// A request is given up.
    Cancelled { id: String },
    /// Another notification.
    Notification { method: String },
    /// An answer to a request of the server.
    Answer,
}

impl Message {
    /// Reads a message; `None` if it is none.
    pub(crate) fn read(line: &[u8]) -> Option<Self> {
        let it: Envelope<'_> = serde_json::from_slice(line).ok()?;
        let own = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
        Some(match (it.method, it.id) {
            (None, _) => Self::Answer,
            (Some(method), Some(id)) => {
                let params = it.params;
                // Tools and prompts are asked for by a name, resources by an address.
                let name = params.and_then(|params| own(params.name).or_else(|| own(params.uri)));
                Self::Request {
                    id: id.get().to_owned(),
                    method: method.into_owned(),
                    name,
                }
            }
            (Some(method), None) => {
                let given_up = it.params.and_then(|params| params.request_id);
                match (&*method, given_up) {
                    ("notifications/cancelled", Some(id)) => Self::Cancelled {
                        id: id.get().to_owned(),
                    },
                    _ => Self::Notification {
                        method: method.into_owned(),
                    },
                }
            }
        })
    }
}

/// Whether a message of the server answers the request with this id.
pub(crate) fn answers(line: &[u8], id: &str) -> bool {
    // By the text of the ids, since `7` and `"7"` are two.
    let read = serde_json::from_slice::<Envelope<'_>>(line);
    read.is_ok_and(|it| it.method.is_none() && it.id.is_some_and(|own| own.get() == id))
}

/// An error as the answer to a request.
pub(crate) fn error(id: &str, message: &str) -> Vec<u8> {
    // The code that is left to servers for what the protocol has no word for.
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":{}}}}}"#,
        Value::from(message)
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let request = |id: &str, method: &str, name: Option<&str>| Message::Request {
            id: id.to_owned(),
            method: method.to_owned(),
            name: name.map(str::to_owned),
        };
        for (line, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{"name":"b"}}}"#,
                Some(request("7", "tools/call", Some("a"))),
            ),
            (
                r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#,
                Some(request("\"x\"", "ping", None)),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
                Some(Message::Cancelled { id: "7".to_owned() }),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
                Some(Message::Notification {
                    method: "notifications/initialized".to_owned(),
                }),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
                Some(Message::Answer),
            ),
            ("nothing", None),
        ] {
            assert_eq!(Message::read(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn an_answer_is_for_one_request() {
        assert!(answers(br#"{"id":7,"result":{}}"#, "7"));
        assert!(answers(&error("7", "a \"word\""), "7"));
        for other in [
            r#"{"id":"7","result":{}}"#,
            r#"{"id":7,"method":"ping"}"#,
            "[]",
            "",
        ] {
            assert!(!answers(other.as_bytes(), "7"), "{other}");
        }
    }
}
