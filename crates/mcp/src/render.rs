//! A tool's result as one text.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use wire::head;

/// Longest media type or address that is repeated in a note.
const NOTE_BYTES: usize = 200;

/// Text parts one after the other, a note for every other part. The structured content stands in when
/// there is no text at all, as the specification wants the same data in both.
pub(crate) fn render(result: CallToolResult) -> String {
    let has_text = result
        .content
        .iter()
        .any(|block| matches!(block, ContentBlock::Text(_)));
    let mut parts: Vec<String> = result.content.into_iter().map(part).collect();
    if !has_text {
        parts.extend(result.structured_content.map(|value| value.to_string()));
    }
    // A single text stays exactly as the app wrote it, so that label rules can parse it.
    parts.join("\n")
}

fn part(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => omitted("image", &image.mime_type, decoded_len(&image.data)),
        ContentBlock::Audio(audio) => omitted("audio", &audio.mime_type, decoded_len(&audio.data)),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents {
                mime_type, text, ..
            } => omitted(
                "resource",
                mime_type.as_deref().unwrap_or("text"),
                text.len(),
            ),
            ResourceContents::BlobResourceContents {
                mime_type, blob, ..
            } => omitted(
                "resource",
                mime_type.as_deref().unwrap_or("binary"),
                decoded_len(&blob),
            ),
            _ => "[resource omitted]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => {
            format!("[link omitted: {}]", head(&link.uri, NOTE_BYTES))
        }
        _ => "[unknown content omitted]".to_owned(),
    }
}

fn omitted(kind: &str, mime: &str, bytes: usize) -> String {
    format!(
        "[{kind} omitted: {}, {bytes} bytes]",
        head(mime, NOTE_BYTES)
    )
}

/// Bytes that base64 text stands for.
fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len().saturating_mul(3) / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(result: Value, expected: &str) {
        let result: CallToolResult = serde_json::from_value(result).expect("a result");
        assert_eq!(render(result), expected);
    }

    #[test]
    fn text_is_kept_and_the_rest_is_noted() {
        check(
            json!({"content": [{"type": "text", "text": " {\"a\": 1} "}]}),
            " {\"a\": 1} ",
        );
        check(
            json!({"content": [
                {"type": "text", "text": "a"},
                {"type": "image", "mimeType": "image/png", "data": "QUJDRA=="},
                {"type": "text", "text": "b"},
            ], "structuredContent": {"x": 1}}),
            "a\n[image omitted: image/png, 4 bytes]\nb",
        );
        check(
            json!({"content": [], "structuredContent": {"x": 1}}),
            "{\"x\":1}",
        );
        check(
            json!({"content": [{"type": "resource", "resource": {"uri": "file:///a", "text": "hello"}}]}),
            "[resource omitted: text, 5 bytes]",
        );
        check(
            json!({"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}]}),
            "[link omitted: file:///a]",
        );
    }
}
