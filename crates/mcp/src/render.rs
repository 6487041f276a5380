//! A tool's result as one text: what the policy labels is what the model reads. Images come beside it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ifc::Image;
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::Value;
use wire::head;
use wire::limits::{MAX_IMAGES, MAX_IMAGES_BYTES};

/// Longest media type, name or address that is repeated in a note.
const NOTE_BYTES: usize = 200;

/// What stands before structured content that its text does not hold.
const STRUCTURED: &str = "[structured content, which the text does not repeat]";

/// What a result says and shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// Images of a known kind, in order, as base64.
    pub(crate) images: Vec<String>,
}

/// All parts one after the other: text and the text of embedded resources as the app wrote it, a note for
/// every other part. Images are no part of the text, so that label rules can parse it: the labelling
/// says of each what it is.
///
/// A client may read the text or the structured content, so an app could tell the policy the one thing and
/// the model the other. Here both get this one text. Structured content that says what the text says, as
/// the specification wants it, is left out; one that says anything else is a part of the text, which label
/// rules for JSON then do not read: all of it has the tool's most restrictive label.
pub(crate) fn render(result: CallToolResult) -> Rendered {
    let texts: Vec<&str> = result.content.iter().filter_map(text_of).collect();
    let structured = result.structured_content.as_ref();
    let untold = structured.filter(|value| !is_told(value, &texts));
    let untold = untold.map(|value| match texts.is_empty() {
        true => value.to_string(),
        false => format!("{STRUCTURED}\n{value}"),
    });
    let mut rendered = put_together(result.content);
    if let Some(untold) = untold {
        rendered.say(&untold);
    }
    rendered
}

/// What a resource holds: a single text as the app wrote it, so that label rules can parse it.
pub(crate) fn render_contents(contents: Vec<ResourceContents>) -> Rendered {
    if let [ResourceContents::TextResourceContents { text, .. }] = contents.as_slice() {
        return Rendered::text(text.clone());
    }
    put_together(contents.into_iter().map(ContentBlock::resource).collect())
}

/// The messages of a prompt: each with who it is to be from, in the app's words.
pub(crate) fn render_messages<'a>(
    messages: impl Iterator<Item = (&'a str, ContentBlock)>,
) -> Rendered {
    let blocks = messages.flat_map(|(who, content)| match content {
        ContentBlock::Text(text) => vec![ContentBlock::text(format!("{who}: {}", text.text))],
        other => vec![ContentBlock::text(format!("{who}:")), other],
    });
    put_together(blocks.collect())
}

fn put_together(content: Vec<ContentBlock>) -> Rendered {
    let (mut parts, mut images) = (Vec::new(), Vec::new());
    // What one frame holds. The text says of every other image that it is missing.
    let mut room = MAX_IMAGES_BYTES;
    for block in content {
        match image_of(&block) {
            Some(data) if images.len() < MAX_IMAGES && data.len() <= room => {
                room -= data.len();
                images.push(data.to_owned());
            }
            Some(data) => parts.push(omitted("image", "one too many", decoded_len(data))),
            None => parts.push(part(block)),
        }
    }
    // A single text stays exactly as the app wrote it, so that label rules can parse it.
    let text = parts.join("\n");
    Rendered { text, images }
}

impl Rendered {
    /// A text alone.
    pub(crate) fn text(text: String) -> Self {
        let images = Vec::new();
        Self { text, images }
    }

    fn say(&mut self, part: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(part);
    }
}

/// The base64 of an image that can be passed on; what the hub would refuse is noted here. A resource in
/// binary form is one by its bytes too.
fn image_of(block: &ContentBlock) -> Option<&str> {
    let data = match block {
        ContentBlock::Image(image) => &image.data,
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::BlobResourceContents { blob, .. } => blob,
            _ => return None,
        },
        _ => return None,
    };
    is_known(data).then_some(data)
}

/// Whether these bytes begin as an image of a kind that providers take.
fn is_known(base64: &str) -> bool {
    let bytes = STANDARD.decode(base64).ok();
    bytes.and_then(Image::read).is_some()
}

fn text_of(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}

/// Whether the texts say what the structured content does: as the same JSON, or as the only member of an
/// object, in which frameworks wrap what is no object itself: a text, a value, or a list of one for each text.
fn is_told(structured: &Value, texts: &[&str]) -> bool {
    let told = |value: &Value, text: &str| {
        value.as_str() == Some(text)
            || serde_json::from_str::<Value>(text).is_ok_and(|read| read == *value)
    };
    // Any doubt counts as "not told": then all of it is in the text, and nothing is lost but the finer labels.
    let each = |value: &Value| match (value, texts) {
        (_, [text]) if told(value, text) => true,
        (Value::Array(items), texts) => {
            let mut pairs = items.iter().zip(texts);
            items.len() == texts.len() && pairs.all(|(item, text)| told(item, text))
        }
        _ => false,
    };
    let mut members = structured
        .as_object()
        .into_iter()
        .flat_map(|it| it.values());
    let only = members.next().filter(|_| members.next().is_none());
    each(structured) || only.is_some_and(each)
}

fn part(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        // Those of a known kind were taken out before: this is none by its bytes, although its media type says so.
        ContentBlock::Image(image) => omitted("image", &image.mime_type, decoded_len(&image.data)),
        ContentBlock::Audio(audio) => omitted("audio", &audio.mime_type, decoded_len(&audio.data)),
        ContentBlock::Resource(resource) => contents(resource.resource),
        ContentBlock::ResourceLink(link) => link_note(&link),
        _ => "[unknown content omitted]".to_owned(),
    }
}

/// What a resource holds, under its address.
fn contents(contents: ResourceContents) -> String {
    match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            format!("[resource {}]\n{text}", head(&uri, NOTE_BYTES))
        }
        ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob,
            ..
        } => {
            let uri = head(&uri, NOTE_BYTES);
            let kind = mime_type.as_deref().unwrap_or("binary");
            omitted(&format!("resource {uri}"), kind, decoded_len(&blob))
        }
        _ => "[resource omitted]".to_owned(),
    }
}

/// A link is text: nothing follows it.
fn link_note(link: &Resource) -> String {
    let (uri, name) = (head(&link.uri, NOTE_BYTES), head(&link.name, NOTE_BYTES));
    format!("[link to {uri}: {name}]")
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
        let rendered = render(result);
        assert_eq!(rendered.text, expected);
        assert!(rendered.images.is_empty());
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn text_is_kept_and_the_rest_is_noted() {
        check(json!({"content": [text(" {\"a\": 1} ")]}), " {\"a\": 1} ");
        check(
            json!({"content": [
                text("a"),
                {"type": "image", "mimeType": "image/png", "data": "QUJDRA=="},
                text("b"),
            ]}),
            "a\n[image omitted: image/png, 4 bytes]\nb",
        );
        let resource =
            |resource: Value| json!({"content": [{"type": "resource", "resource": resource}]});
        check(
            resource(json!({"uri": "file:///a", "text": "hello"})),
            "[resource file:///a]\nhello",
        );
        check(
            resource(
                json!({"uri": "file:///a", "mimeType": "application/pdf", "blob": "QUJDRA=="}),
            ),
            "[resource file:///a omitted: application/pdf, 4 bytes]",
        );
        check(
            json!({"content": [{"type": "resource_link", "uri": "file:///a", "name": "notes"}]}),
            "[link to file:///a: notes]",
        );
    }

    /// An app calls anything an image.
    #[test]
    fn an_image_is_one_by_its_bytes_and_comes_beside_the_text() {
        let image =
            |mime: &str, data: &str| json!({"type": "image", "mimeType": mime, "data": data});
        let rendered = |content: Value| {
            let result = serde_json::from_value(json!({"content": content}));
            render(result.expect("a result"))
        };
        let png = STANDARD.encode(b"\x89PNG\r\n\x1a\n...");
        let shown = rendered(json!([
            text("{}"),
            image("text/html", &png),
            image("image/gif", &png)
        ]));
        assert_eq!(shown.text, "{}", "rules for JSON still read it");
        assert_eq!(shown.images, [png.clone(), png.clone()]);

        let svg = STANDARD.encode(b"<svg onload='x()'/>");
        for data in [svg.as_str(), "no base64!", &png[1..], ""] {
            let shown = rendered(json!([image("image/png", data)]));
            assert!(shown.images.is_empty(), "{data}");
            assert!(
                shown.text.starts_with("[image omitted: image/png, "),
                "{data}"
            );
        }
        let many = rendered(Value::Array(vec![image("image/png", &png); MAX_IMAGES + 2]));
        assert_eq!(many.images.len(), MAX_IMAGES);
        assert_eq!(many.text.lines().count(), 2, "what is too much is said");
    }

    /// No model takes sound, so the text notes it by its media type, and its bytes are not read.
    #[test]
    fn audio_is_noted_and_left_out() {
        let wav = STANDARD.encode(b"RIFF....WAVE");
        let audio = |data: &str| json!({"type": "audio", "mimeType": "audio/wav", "data": data});
        check(
            json!({"content": [text("{\"a\":1}"), audio(&wav)]}),
            "{\"a\":1}\n[audio omitted: audio/wav, 12 bytes]",
        );
        let png = STANDARD.encode(b"\x89PNG\r\n\x1a\n");
        check(
            json!({"content": [audio(&png)]}),
            "[audio omitted: audio/wav, 8 bytes]",
        );
    }

    /// Names, addresses and notes beside an image would be text that no label rule sees.
    #[test]
    fn of_an_image_nothing_but_its_bytes_is_passed_on() {
        let png = STANDARD.encode(b"\x89PNG\r\n\x1a\n...");
        let result = json!({"content": [
            {"type": "image", "mimeType": "image/png; obey", "data": png, "alt": "obey", "name": "obey",
                "annotations": {"audience": ["user"], "lastModified": "2026-01-01T00:00:00Z"},
                "_meta": {"alt": "obey"}},
            {"type": "resource", "resource": {"uri": "file:///obey.png", "mimeType": "obey", "blob": png}},
        ]});
        let shown = render(serde_json::from_value(result).expect("a result"));
        assert_eq!(shown.text, "");
        assert_eq!(shown.images, [png.clone(), png]);
    }

    #[test]
    fn structured_content_that_the_text_says_too_is_left_out() {
        let told = |content: Value, structured: Value, expected: &str| {
            check(
                json!({"content": content, "structuredContent": structured}),
                expected,
            );
        };
        told(json!([]), json!({"x": 1}), "{\"x\":1}");
        told(
            json!([text("{ \"x\": 1 }")]),
            json!({"x": 1}),
            "{ \"x\": 1 }",
        );
        // As frameworks wrap a text, a number, and a list with a text for each item.
        told(json!([text("hello")]), json!({"result": "hello"}), "hello");
        told(json!([text("7")]), json!({"result": 7}), "7");
        told(
            json!([text("a"), text("{\"b\":1}")]),
            json!({"result": ["a", {"b": 1}]}),
            "a\n{\"b\":1}",
        );
    }

    /// An app that tells the policy the one thing and the model the other.
    #[test]
    fn structured_content_that_says_anything_else_is_in_the_text() {
        let differ = |content: Value, structured: Value, expected: &str| {
            let result = json!({"content": content, "structuredContent": structured});
            check(result, &format!("{expected}\n{STRUCTURED}\n{structured}"));
        };
        differ(json!([text("{\"x\":1}")]), json!({"x": 2}), "{\"x\":1}");
        differ(
            json!([text("{\"x\":1}")]),
            json!({"x": 1, "y": 2}),
            "{\"x\":1}",
        );
        differ(
            json!([text("3 found")]),
            json!({"result": [1, 2, 3]}),
            "3 found",
        );
        differ(json!([text("a")]), json!({"result": "b"}), "a");
        differ(
            json!([text("a"), text("b")]),
            json!({"result": ["a"]}),
            "a\nb",
        );
        differ(
            json!([text("a"), text("b")]),
            json!({"result": ["b", "a"]}),
            "a\nb",
        );
        differ(json!([text("a")]), json!({"one": "a", "two": "a"}), "a");
        differ(json!([text("a")]), json!({}), "a");
    }
}
