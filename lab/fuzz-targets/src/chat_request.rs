//! What the guard proxy reads of its client. It is refused with a reason, or within the limits.

#[path = "../../../crates/server/src/openai_api/request.rs"]
mod request;

/// The target.
pub(crate) fn chat_request(bytes: &[u8]) -> bool {
    let mut body = match request::parse(bytes) {
        Ok(body) => body,
        Err(why) => {
            assert!(!why.is_empty());
            return false;
        }
    };
    assert!(!body.messages.is_empty() && body.messages.len() <= 10_000);
    // Calls find their tool by its name, so two of one name would be judged by the rules of one of
    // them.
    let mut names = std::collections::HashSet::new();
    for tool in body.tools() {
        assert!(names.insert(&tool.function.name), "two tools have one name");
        let read = serde_json::from_str::<serde_json::Value>(&tool.function.parameters());
        assert!(read.is_ok());
    }
    if let Ok(request::Choice::Tool(name)) = body.choice() {
        assert!(names.contains(&name));
    }
    for message in &body.messages {
        match message.text_and_images() {
            Ok((_, images)) => assert!(images.len() <= 64),
            Err(why) => assert!(!why.is_empty()),
        }
    }
    if let Err(why) = body.refuse_foreign_parts() {
        assert!(!why.is_empty());
    }
    // `sampling` takes what it returns, so that it is sent on once.
    if let Ok(sampling) = body.sampling() {
        assert!(sampling.values().all(|value| !value.is_null()));
        assert!(body.sampling().is_ok_and(|left| left.is_empty()));
    }
    true
}
