//! Messages of prompts as text. They have no `Debug`, which would write them into logs.

use ifc::{PromptCall, PromptMessage};

pub(crate) fn message(message: &PromptMessage) -> String {
    let call = |call: &PromptCall| format!("{} {:?} {:?}", call.id, call.tool, call.arguments);
    match message {
        PromptMessage::System(text) => format!("System({text:?})"),
        PromptMessage::User(text) => format!("User({text:?})"),
        PromptMessage::Assistant { text, calls } => {
            let calls: Vec<String> = calls.iter().map(call).collect();
            format!("Assistant({text:?}, [{}])", calls.join(", "))
        }
        PromptMessage::Tool {
            call,
            tool,
            content,
        } => format!("Tool({call}, {tool:?}, {content:?})"),
    }
}
