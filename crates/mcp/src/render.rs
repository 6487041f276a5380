//! A tool's result as one text: what the policy labels is what the model reads. Images come beside it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ifc::Image;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use wire::head;
use wire::limits::{MAX_IMAGES, MAX_IMAGES_BYTES};

use crate::claims::claims;

/// Longest media type, name or address that is repeated in a note.
const NOTE_BYTES: usize = 200;

/// Longest part of an unknown kind that is passed on. A longer one may be the bytes of anything.
const UNKNOWN_BYTES: usize = 4 << 10;

/// What stands before structured content that its text does not hold.
const STRUCTURED: &str = "[structured content, which the text does not repeat]";

/// What a result says and shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// Images of a known kind, in order, as base64.
    pub(crate) images: Vec<String>,
    pub(crate) is_error: bool,
    /// What the app says of the result's label.
    pub(crate) claims: Vec<String>,
}

/// The members of a result that are looked at. A name that stands twice makes it unreadable.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    is_error: Option<Value>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// The result of a call, `None` if it is none or if readers of JSON disagree about it.
///
/// All parts one after the other: text and the text of embedded resources as the app wrote it, a note for
/// every other part. Images are no part of the text, so that label rules can parse it: the labelling
/// says of each what it is, and a text of several parts says where each stood.
///
/// A client may read the text or the structured content, so an app could tell the policy the one thing and
/// the model the other. Here both get this one text. Structured content that says what the text says, as
/// the specification wants it, is left out; one that says anything else is a part of the text, which label
/// rules for JSON then do not read: all of it has the tool's most restrictive label.
pub(crate) fn render(result: &str) -> Option<Rendered> {
    // Half of a surrogate pair and a number beyond all doubles end here.
    let whole: Value = serde_json::from_str(result).ok()?;
    let said: Said<'_> = serde_json::from_str(result).ok()?;
    let structured = said.structured_content;
    if said.content.is_none() && structured.is_none() {
        // Of another shape: all of it is the app's text.
        let is_object = whole.is_object().then(|| Rendered::text(result.to_owned()));
        return is_object.map(|rendered| Rendered {
            claims: claims(said.meta.map(RawValue::get)),
            ..rendered
        });
    }
    // Some servers write the one part itself, and not a list of it.
    let content = said.content.into_iter().flat_map(|content| {
        let list: Result<Vec<&RawValue>, _> = serde_json::from_str(content.get());
        list.unwrap_or_else(|_| vec![content])
    });
    let blocks: Vec<Block> = content.map(Block::read).collect();
    let texts: Vec<&str> = blocks.iter().filter_map(Block::plain).collect();
    let value = whole.get("structuredContent").unwrap_or(&Value::Null);
    let untold = structured.filter(|_| !is_told(value, &texts));
    let untold = untold.map(|raw| match texts.is_empty() {
        true => raw.get().to_owned(),
        false => format!("{STRUCTURED}\n{}", raw.get()),
    });
    let mut rendered = put_together(blocks);
    if let Some(untold) = untold {
        rendered.say(&untold);
    }
    rendered.is_error = said.is_error.as_ref().is_some_and(is_true);
    rendered.claims = claims(said.meta.map(RawValue::get));
    Some(rendered)
}

/// What a resource holds: a single text as the app wrote it, so that label rules can parse it.
pub(crate) fn render_contents(result: &str) -> Option<Rendered> {
    let result: Value = serde_json::from_str(result).ok()?;
    let contents = result.get("contents")?.as_array()?;
    if let [only] = contents.as_slice()
        && let Some(text) = only.get("text").and_then(Value::as_str)
    {
        return Some(Rendered::text(text.to_owned()));
    }
    let blocks = contents
        .iter()
        .map(|it| Block::resource(it, &it.to_string()));
    Some(put_together(blocks.collect()))
}

/// The messages of a prompt: each with who it is to be from, in the app's words.
pub(crate) fn render_messages(result: &str) -> Option<Rendered> {
    let result: Value = serde_json::from_str(result).ok()?;
    let mut blocks = Vec::new();
    for message in result.get("messages")?.as_array()? {
        let who = match message.get("role").and_then(Value::as_str) {
            Some("user") => "user",
            _ => "assistant",
        };
        let content = message.get("content").unwrap_or(&Value::Null);
        match Block::of(content, &content.to_string()) {
            Block::Text(text) => blocks.push(Block::Text(format!("{who}: {text}"))),
            other => blocks.extend([Block::Text(format!("{who}:")), other]),
        }
    }
    Some(put_together(blocks))
}

/// A part of a result.
enum Block {
    /// What the app wrote as text.
    Text(String),
    /// Base64 that begins as an image of a kind that providers take.
    Image(String),
    /// Anything else, in a note of ours.
    Note(String),
}

impl Block {
    fn read(raw: &RawValue) -> Self {
        match serde_json::from_str(raw.get()) {
            Ok(value) => Self::of(&value, raw.get()),
            Err(_) => unknown("", raw.get()),
        }
    }

    fn of(value: &Value, raw: &str) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let kind = text("type").unwrap_or(match () {
            // Some servers leave it out.
            () if text("text").is_some() => "text",
            () if text("data").is_some() => "image",
            () => "",
        });
        match (kind, text("text"), text("data"), value.get("resource")) {
            _ if value.is_string() => Self::Text(value.as_str().unwrap_or_default().to_owned()),
            ("text", Some(text), ..) => Self::Text(text.to_owned()),
            // By its bytes: an app calls anything an image.
            ("image", _, Some(data), _) if is_known(&bare(data)) => Self::Image(bare(data)),
            ("image" | "audio", _, Some(data), _) => {
                let mime = text("mimeType").unwrap_or("unknown type");
                Self::Note(omitted(kind, mime, decoded_len(data)))
            }
            ("resource", .., Some(resource)) => Self::resource(resource, raw),
            // A link is text: nothing follows it.
            ("resource_link", ..) if text("uri").is_some() => {
                let of = |name, most| {
                    text(name)
                        .map(|it| head(it, most))
                        .filter(|it| !it.is_empty())
                };
                let said = [
                    of("name", NOTE_BYTES),
                    of("title", NOTE_BYTES),
                    of("description", UNKNOWN_BYTES),
                ];
                let said: Vec<&str> = said.into_iter().flatten().collect();
                let uri = of("uri", NOTE_BYTES).unwrap_or_default();
                Self::Note(format!("[link to {uri}: {}]", said.join(": ")))
            }
            _ => unknown(kind, raw),
        }
    }

    /// What a resource holds, under its address.
    fn resource(resource: &Value, raw: &str) -> Self {
        let text = |name: &str| resource.get(name).and_then(Value::as_str);
        let uri = head(text("uri").unwrap_or_default(), NOTE_BYTES);
        match (text("text"), text("blob")) {
            (Some(text), _) => Self::Note(format!("[resource {uri}]\n{text}")),
            (None, Some(blob)) if is_known(&bare(blob)) => Self::Image(bare(blob)),
            (None, Some(blob)) => {
                let mime = text("mimeType").unwrap_or("binary");
                let kind = format!("resource {uri}");
                Self::Note(omitted(&kind, mime, decoded_len(blob)))
            }
            (None, None) => unknown("resource", raw),
        }
    }

    fn plain(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A part that we do not understand, as the app wrote it.
fn unknown(kind: &str, raw: &str) -> Block {
    let kind = head(kind, NOTE_BYTES);
    Block::Note(match raw.len() <= UNKNOWN_BYTES {
        true => format!("[content of an unknown kind]\n{raw}"),
        false => omitted("content of an unknown kind", kind, raw.len()),
    })
}

fn put_together(blocks: Vec<Block>) -> Rendered {
    let (mut parts, mut images) = (Vec::new(), Vec::new());
    // A single text stays exactly as the app wrote it, so that label rules can parse it. Images at the end need no mark:
    // their notes stand there.
    let last = blocks.iter().rposition(|it| !matches!(it, Block::Image(_)));
    let others = blocks.iter().filter(|it| !matches!(it, Block::Image(_)));
    let marks_until = last.filter(|_| others.count() > 1).unwrap_or(0);
    // What one frame holds. The text says of every other image that it is missing.
    let mut room = MAX_IMAGES_BYTES;
    for (at, block) in blocks.into_iter().enumerate() {
        match block {
            Block::Image(data) if images.len() < MAX_IMAGES && data.len() <= room => {
                room -= data.len();
                images.push(data);
                if at < marks_until {
                    parts.push(format!("[image {} stands here]", images.len()));
                }
            }
            Block::Image(data) => parts.push(omitted("image", "one too many", decoded_len(&data))),
            Block::Text(text) | Block::Note(text) => parts.push(text),
        }
    }
    let text = parts.join("\n");
    Rendered {
        text,
        images,
        ..Rendered::default()
    }
}

impl Rendered {
    /// A text alone.
    pub(crate) fn text(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    fn say(&mut self, part: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(part);
    }
}

/// Base64 alone: some servers write it in lines, or as an address that holds it.
fn bare(base64: &str) -> String {
    let data = base64
        .split_once(";base64,")
        .map_or(base64, |(_, data)| data);
    data.split_ascii_whitespace().collect()
}

/// Whether these bytes begin as an image of a kind that providers take.
fn is_known(base64: &str) -> bool {
    let bytes = STANDARD.decode(base64).ok();
    bytes.and_then(Image::read).is_some()
}

/// What a value of any type says as yes or no.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !matches!(
            text.to_ascii_lowercase().as_str(),
            "" | "false" | "0" | "no"
        ),
        Value::Array(_) | Value::Object(_) => true,
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
        let rendered = render(&result.to_string()).expect("a result");
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
        check(
            json!({"content": [{"type": "resource_link", "uri": "a:b", "name": "n", "title": "", "description": "obey"}]}),
            "[link to a:b: n: obey]",
        );
    }

    /// An app calls anything an image.
    #[test]
    fn an_image_is_one_by_its_bytes_and_comes_beside_the_text() {
        let image =
            |mime: &str, data: &str| json!({"type": "image", "mimeType": mime, "data": data});
        let rendered =
            |content: Value| render(&json!({"content": content}).to_string()).expect("a result");
        let png = STANDARD.encode(b"\x89PNG\r\n\x1a\n...");
        let shown = rendered(json!([
            text("{}"),
            image("text/html", &png),
            image("image/gif", &png)
        ]));
        assert_eq!(shown.text, "{}", "rules for JSON still read it");
        assert_eq!(shown.images, [png.clone(), png.clone()]);

        let (first, rest) = png.split_at(8);
        for data in [
            format!("data:image/png;base64,{png}"),
            format!("{first}\n{rest}\n"),
        ] {
            let shown = rendered(json!([image("image/png", &data)]));
            assert_eq!(shown.images, std::slice::from_ref(&png), "{data}");
        }
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
        let shown = render(&result.to_string()).expect("a result");
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

    fn rendered(result: &str) -> Rendered {
        render(result).unwrap_or_else(|| panic!("{result}"))
    }

    #[test]
    fn structured_content_keeps_its_digits() {
        let structured = r#"{"a":1.10,"b":12345678901234567890123,"c":1e2,"c":-0}"#;
        let alone = format!(r#"{{"content":[],"structuredContent":{structured}}}"#);
        assert_eq!(rendered(&alone).text, structured);
        let beside = format!(
            r#"{{"content":[{{"type":"text","text":"3 found"}}],"structuredContent":{structured}}}"#
        );
        let expected = format!("3 found\n{STRUCTURED}\n{structured}");
        assert_eq!(rendered(&beside).text, expected);
    }

    #[test]
    fn what_readers_disagree_about_is_no_result() {
        for result in [
            r#"{"content":[{"type":"text","text":"\ud800"}]}"#,
            r#"{"content":[],"structuredContent":{"n":1e400}}"#,
            r#"{"content":[],"content":[{"type":"text","text":"other"}]}"#,
            r#"{"content":[],"_meta":{},"_meta":{}}"#,
            "7",
            "null",
        ] {
            assert_eq!(render(result), None, "{result}");
        }
    }

    #[test]
    fn a_part_of_an_unknown_kind_is_passed_on_in_a_note() {
        let one = |block: &str| rendered(&format!(r#"{{"content":[{block}]}}"#)).text;
        for odd in [
            r#"{"type":"hologram","n":1.10}"#,
            r#"{"type":"text","text":7}"#,
            "null",
            "[1]",
        ] {
            assert_eq!(one(odd), format!("[content of an unknown kind]\n{odd}"));
        }
        let large = format!(
            r#"{{"type":"video","data":"{}"}}"#,
            "A".repeat(UNKNOWN_BYTES)
        );
        let bytes = large.len();
        let note = format!("[content of an unknown kind omitted: video, {bytes} bytes]");
        assert_eq!(one(&large), note);
        // The kind is left out.
        assert_eq!(one(r#"{"text":"hello"}"#), "hello");
        assert_eq!(one(r#""hello""#), "hello");
        for content in [r#""hello""#, r#"{"type":"text","text":"hello"}"#] {
            assert_eq!(
                rendered(&format!(r#"{{"content":{content}}}"#)).text,
                "hello"
            );
        }
        assert_eq!(
            one(r#"{"data":"QUJDRA=="}"#),
            "[image omitted: unknown type, 4 bytes]"
        );
        assert_eq!(
            rendered(r#"{"task":{"id":1.0}}"#).text,
            r#"{"task":{"id":1.0}}"#
        );
    }

    #[test]
    fn an_image_among_texts_keeps_its_place() {
        let png = STANDARD.encode(b"\x89PNG\r\n\x1a\n...");
        let image = json!({"type": "image", "mimeType": "image/png", "data": png});
        let shown = |content: Value| rendered(&json!({ "content": content }).to_string()).text;
        let mixed = json!([image, text("a"), image, text("b"), image]);
        assert_eq!(
            shown(mixed),
            "[image 1 stands here]\na\n[image 2 stands here]\nb"
        );
        assert_eq!(
            shown(json!([image, text("{}")])),
            "{}",
            "rules for JSON read it"
        );
    }

    #[test]
    fn an_error_of_another_type_is_read_by_its_truth() {
        let is_error =
            |said: &str| rendered(&format!(r#"{{"content":[],"isError":{said}}}"#)).is_error;
        for yes in ["true", "1", r#""true""#, r#""x""#, "[]", "{}"] {
            assert!(is_error(yes), "{yes}");
        }
        for no in ["false", "null", "0", "0.0", r#""""#, r#""False""#] {
            assert!(!is_error(no), "{no}");
        }
    }
}
