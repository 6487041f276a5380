//! What the guard proxy reads of its client. It is refused with a reason, or within the limits.

use std::collections::HashSet;

use llm::{Dialect, ToolChoice};

#[path = "../../../crates/server/src/api/request/mod.rs"]
mod request;

use crate::conversation::Conversation;

const fn before(upstream: Dialect) -> request::Takes {
    request::Takes {
        images: true,
        unknown_members: true,
        omits_tools: true,
        upstream,
    }
}

pub(crate) fn chat_request(bytes: &[u8]) -> bool {
    is_sound(request::chat::read(bytes, before(Dialect::Chat)))
}

pub(crate) fn messages_request(bytes: &[u8]) -> bool {
    let own = is_sound(request::messages::read(bytes, before(Dialect::Messages)));
    own | is_sound(request::messages::read(bytes, before(Dialect::Chat)))
}

pub(crate) fn responses_request(bytes: &[u8]) -> bool {
    let own = is_sound(request::responses::read(bytes, before(Dialect::Responses)));
    own | is_sound(request::responses::read(bytes, before(Dialect::Chat)))
}

fn is_sound(read: Result<Conversation, String>) -> bool {
    let body = match read {
        Ok(body) => body,
        Err(why) => {
            assert!(!why.is_empty());
            return false;
        }
    };
    // A result is a message of its own, and one entry can have many.
    assert!(body.messages.len() <= 200_000);
    // Calls find their tool by its name, so two of one name would be judged by the rules of one of them.
    let mut names = HashSet::new();
    for tool in &body.tools {
        assert!(names.insert(&tool.name), "two tools have one name");
        let read = serde_json::from_str::<serde_json::Value>(&tool.parameters);
        assert!(read.is_ok());
    }
    if let Some(ToolChoice::Tool(name)) = &body.tool_choice {
        assert!(names.contains(name));
    }
    for message in &body.messages {
        assert!(message.images.len() <= 64);
    }
    assert!(body.members.values().all(|value| !value.is_null()));
    true
}
