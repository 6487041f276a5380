//! Why a server's answer is refused.

use serde_json::Value;

/// Why an answer is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Breaks the protocol.
    Malformed(String),
    /// Ended before its end.
    Cut,
    /// More than so many bytes.
    TooLarge {
        /// What: all of it, or an event of its stream.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The server reports an error in the middle of its answer.
    Reported(ApiError),
}

/// An error as a server reports it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) message: String,
    pub(crate) r#type: Option<String>,
    /// A string on the original, a number on some others.
    pub(crate) code: Option<Value>,
}

/// Where servers write what went wrong.
const MESSAGES: [&str; 3] = ["message", "detail", "msg"];

impl ApiError {
    /// One that has nothing but words.
    pub(crate) fn words(message: &str) -> Self {
        Self {
            message: message.to_owned(),
            ..Self::default()
        }
    }

    /// The error that a JSON value is or has; in a list, the first one. `None` if it is none, unless it `must` be one.
    pub(crate) fn of(value: &Value, must: bool) -> Option<Self> {
        let says = |value: &&Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::Object(map) => !map.is_empty(),
            _ => true,
        };
        fn first(value: &Value) -> &Value {
            value
                .as_array()
                .map_or(value, |list| list.first().unwrap_or(&Value::Null))
        }
        let outer = first(value);
        let inner = ["error", "errors"].iter().filter_map(|it| outer.get(*it));
        let inner = inner.map(first).find(says);
        let objects = [inner, Some(outer)];
        let member = |names: &[&str]| {
            let mut members = objects.iter().flatten().flat_map(|object| {
                let members = names.iter().filter_map(|name| object.get(*name));
                members.filter(says)
            });
            members.next()
        };
        let own = inner.filter(|inner| inner.is_string());
        let message = own.or_else(|| member(&MESSAGES)).or(inner);
        let message = message.or(must.then_some(outer))?;
        Some(Self {
            message: match message {
                Value::String(words) => words.clone(),
                other if says(&other) => other.to_string(),
                _ => String::new(),
            },
            r#type: member(&["type", "status"]).and_then(|kind| Some(kind.as_str()?.to_owned())),
            code: member(&["code", "status_code"]).cloned(),
        })
    }
}
