//! Values that can be compared with others.

use serde_json::Value;

/// A value that can be searched for, since it has one spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Single<'v> {
    Text(&'v str),
    Whole(i64),
}

impl<'v> Single<'v> {
    /// `None` for other values, and for an empty text.
    pub(crate) fn of(value: &'v Value) -> Option<Self> {
        match value {
            Value::String(text) if !text.is_empty() => Some(Self::Text(text)),
            Value::Number(number) => number.as_i64().map(Self::Whole),
            _ => None,
        }
    }
}
