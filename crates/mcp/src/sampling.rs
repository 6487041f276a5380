//! Sampling and roots. Both are on their way out of the protocol, and apps still use them; what of
//! `rmcp` is marked for it is used here and nowhere else.

#![expect(
    deprecated,
    reason = "apps ask for them as long as the protocol has them"
)]

use rmcp::model::{
    ClientCapabilities, ClientResult, ContextInclusion, CreateMessageRequestParams,
    CreateMessageResult, ListRootsResult, Role, Root, RootsCapabilities, SamplingCapability,
    SamplingMessageContentBlock,
};
use wire::{Ask, Offer, Sampling, SamplingAnswer, SamplingMessage};

/// Says which of both this client has. The list of roots never changes.
pub(crate) fn announce(capabilities: &mut ClientCapabilities, offer: &Offer) {
    capabilities.roots = Some(RootsCapabilities::default());
    if offer.sampling {
        capabilities.sampling = Some(SamplingCapability::default());
    }
}

/// The roots as `file` addresses.
pub(crate) fn roots(paths: &[String]) -> ClientResult {
    let roots = paths.iter().map(|path| Root::new(file_address(path)));
    ClientResult::ListRootsResult(ListRootsResult::new(roots.collect()))
}

/// RFC 8089, with everything escaped that a path of an address cannot have (RFC 3986).
fn file_address(path: &str) -> String {
    let mut address = "file://".to_owned();
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => address.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => address.push(char::from(byte)),
            byte => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

/// Reads a request for a completion: text only, no tools, nothing of other apps. Wishes about the
/// model and the sampling are passed over, as the protocol allows: the user has chosen the model.
///
/// # Errors
/// Why it is refused, for the app.
pub(crate) fn read(params: CreateMessageRequestParams) -> Result<Ask, String> {
    // A model with tools would make calls that nobody decides on.
    if params.tools.is_some() || params.tool_choice.is_some() {
        return Err("this client samples without tools".to_owned());
    }
    // The context would be what was said to this app and to others.
    if !matches!(params.include_context, None | Some(ContextInclusion::None)) {
        return Err("this client includes no context".to_owned());
    }
    let message = |message: rmcp::model::SamplingMessage| {
        let blocks = message.content.into_vec().into_iter();
        let texts = blocks.map(|block| match block {
            SamplingMessageContentBlock::Text(text) => Ok(text.text),
            _ => Err("this client samples text only".to_owned()),
        });
        Ok(SamplingMessage {
            assistant: message.role == Role::Assistant,
            text: texts.collect::<Result<Vec<_>, String>>()?.join("\n"),
        })
    };
    let messages = params.messages.into_iter().map(message);
    let ask = Ask::Model(Sampling {
        system: params.system_prompt.unwrap_or_default(),
        messages: messages.collect::<Result<_, String>>()?,
        max_tokens: params.max_tokens,
    });
    ask.check().map_err(|problem| problem.to_string())?;
    Ok(ask)
}

/// The completion as the app gets it.
pub(crate) fn answer(answer: SamplingAnswer) -> ClientResult {
    let SamplingAnswer {
        text,
        provider,
        cut,
    } = answer;
    let reason = match cut {
        true => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
        false => CreateMessageResult::STOP_REASON_END_TURN,
    };
    let content = SamplingMessageContentBlock::text(text);
    let message = rmcp::model::SamplingMessage::new(Role::Assistant, content);
    let result = CreateMessageResult::new(message, provider).with_stop_reason(reason);
    ClientResult::CreateMessageResult(Box::new(result))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_path_becomes_an_address_that_leads_back_to_it() {
        assert_eq!(file_address("/mail"), "file:///mail");
        assert_eq!(file_address("/a b%/ü?#"), "file:///a%20b%25/%C3%BC%3F%23");
    }

    #[test]
    fn a_completion_is_text_without_tools_and_context() {
        let read_json = |value: Value| {
            let params: CreateMessageRequestParams = serde_json::from_value(value).unwrap();
            read(params)
        };
        let text = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
        let image = json!({"role": "user", "content": {"type": "image", "data": "", "mimeType": "image/png"}});
        let wish = json!({"messages": [text("user", "a"), text("assistant", "b")], "maxTokens": 5, "systemPrompt": "s"});
        let message = |assistant, text: &str| SamplingMessage {
            assistant,
            text: text.to_owned(),
        };
        let expected = Ask::Model(Sampling {
            system: "s".to_owned(),
            messages: vec![message(false, "a"), message(true, "b")],
            max_tokens: 5,
        });
        assert_eq!(read_json(wish), Ok(expected));
        let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
        for wish in [
            json!({"messages": [], "maxTokens": 5}),
            json!({"messages": [text("user", "a")], "maxTokens": 0}),
            json!({"messages": [image], "maxTokens": 5}),
            json!({"messages": [text("user", "a")], "maxTokens": 5, "tools": [tool]}),
            json!({"messages": [text("user", "a")], "maxTokens": 5, "includeContext": "allServers"}),
            json!({"messages": [text("user", &"a".repeat(100_000))], "maxTokens": 5}),
        ] {
            assert!(read_json(wish.clone()).is_err(), "{wish}");
        }
    }
}
