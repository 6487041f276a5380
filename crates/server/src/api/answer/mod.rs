//! What a server answers, before an API gives it its form.

pub(crate) mod chat;
pub(crate) mod messages;
pub(crate) mod responses;

use std::time::{SystemTime, UNIX_EPOCH};

use hub::StopReason;
use serde_json::{Value, json};

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Choice {
    pub(crate) text: String,
    pub(crate) calls: Vec<CallOut>,
    pub(crate) stop: StopReason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallOut {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON text.
    pub(crate) arguments: String,
}

/// Seconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// A list of models by their names, in OpenAI's form.
pub(crate) fn model_list<'a>(names: impl Iterator<Item = &'a str>) -> Value {
    let models = names.map(|name| json!({"id": name, "object": "model", "owned_by": "sluice"}));
    json!({"object": "list", "data": models.collect::<Vec<_>>()})
}
