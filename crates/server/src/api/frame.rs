//! Events of streams.

use axum::response::sse::Event;
use serde_json::Value;

/// One event of a stream, as the client gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The kind of the event, where an API names it.
    event: Option<&'static str>,
    /// Without it, the event is a comment.
    data: Option<String>,
}

impl Frame {
    pub(crate) const COMMENT: Self = Self {
        event: None,
        data: None,
    };

    pub(crate) fn data(value: &Value) -> Self {
        Self::of_text(value.to_string())
    }

    pub(crate) fn of_text(data: impl Into<String>) -> Self {
        Self {
            event: None,
            data: Some(data.into()),
        }
    }

    /// An event whose kind stands in front of it and in it.
    pub(crate) fn named(event: &'static str, mut value: Value) -> Self {
        if let Some(members) = value.as_object_mut() {
            members.insert("type".to_owned(), event.into());
        }
        Self {
            event: Some(event),
            data: Some(value.to_string()),
        }
    }

    /// As it is sent, for one that is added to a stream. JSON in one line has no line breaks.
    pub(crate) fn text(self) -> String {
        let kind = self
            .event
            .map_or_else(String::new, |kind| format!("event: {kind}\n"));
        format!("{kind}data: {}\n\n", self.data.unwrap_or_default())
    }

    /// As it is sent.
    pub(super) fn event(self) -> Event {
        let event = match self.event {
            Some(kind) => Event::default().event(kind),
            None => Event::default(),
        };
        match self.data {
            Some(data) => event.data(data),
            None => event.comment(""),
        }
    }
}
