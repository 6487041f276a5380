//! What the guard proxy reads of its client. It is refused with a reason, or within the limits.

use std::collections::HashSet;

use llm::ToolChoice;

#[path = "../../../crates/server/src/openai_api/request.rs"]
mod request;

pub(crate) fn chat_request(bytes: &[u8]) -> bool {
    let takes = request::Takes {
        images: true,
        unknown_members: true,
    };
    let body = match request::read(bytes, takes) {
        Ok(body) => body,
        Err(why) => {
            assert!(!why.is_empty());
            return false;
        }
    };
    assert!(!body.messages.is_empty() && body.messages.len() <= 10_000);
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
