//! Requests of each API, read into a [`Conversation`](crate::conversation::Conversation), and what they have in common:
//! limits, members, images, tools.

pub(crate) mod chat;
pub(crate) mod messages;
pub(crate) mod responses;

use std::collections::{BTreeSet, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ifc::Image;
use llm::Dialect;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use wire::json::JsonScan;

use crate::conversation::{ClientTool, Message};

/// Messages of a request: more than fit into any context.
const MAX_MESSAGES: usize = 10_000;
/// Tools of a request. OpenAI takes 128.
const MAX_TOOLS: usize = 1024;
/// Longest tool name of chat completions.
const NAME_LIMIT: usize = 64;
/// Values of a request, counted by its brackets and commas. A value takes far more memory than its text: an object in
/// `logit_bias` has seven bytes and becomes most of a kilobyte. A message with a call has about ten values, a tool with its
/// schema seldom more than a hundred.
const MAX_VALUES: usize = 200_000;
/// Levels of a request; the parser takes no more.
const MAX_DEPTH: usize = 128;
const MAX_IMAGES: usize = 64;

/// Parts of the names of members, without underscores, by which a model would see text that is in no message, fetch some,
/// act, or have the conversation kept or sent elsewhere: it would pass the guard by.
const PAST_THE_GUARD: &str = "agent api assistant attach audio background brows cached chathistory chatid connector \
container context conversation custom datasource deferred document execut fallback features fetch file function input \
instructions interpreter knowledge kvtransfer mcp memory messages modalities model path plugin prediction preset previous \
prompt provider retriev search session skill store system template thread tool url vector web";
/// Names that have such a part and another meaning.
const HARMLESS: &str =
    "cache_prompt chat_template_kwargs prompt_cache_key prompt_cache_retention tool_stream";
/// Levels of lists and objects in a member that the API does not have. Gemini's settings of thoughts take all of them.
const UNKNOWN_DEPTH: usize = 3;

/// How agents begin what they put into the user's messages themselves: Claude Code its reminders and `CLAUDE.md`, Codex
/// `AGENTS.md`, its environment and what its sub-agents say. A user who begins so is trusted less, and nobody more.
const INSERTED: [&str; 5] = [
    "<system-reminder>",
    "# AGENTS.md instructions for ",
    "<environment_context>",
    "<user_instructions>",
    "<subagent_notification>",
];

/// How opencode announces what a user attaches, and how many parts behind it are its text: the one of a file, and all of a
/// resource, since the user's own part is before it.
const ANNOUNCED: [(&str, usize); 2] = [
    ("Called the Read tool with the following input:", 1),
    ("Reading MCP resource:", usize::MAX),
];

/// What may be in a request.
#[derive(Clone, Copy)]
pub(crate) struct Takes {
    pub(crate) images: bool,
    /// Members that the API does not have.
    pub(crate) unknown_members: bool,
    /// Tools that are no functions of the client's are left out. Otherwise a request with one is refused.
    pub(crate) omits_tools: bool,
    /// The API of the upstream.
    pub(crate) upstream: Dialect,
}

/// The API's own form of a body, within the limits.
fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    // Before the parser, which would have built everything by the time that the lists in it are counted.
    let mut scan = JsonScan::new(MAX_DEPTH, MAX_VALUES);
    let unread =
        |error: &dyn std::fmt::Display| format!("the body is no request of this API: {error}");
    scan.feed(body).map_err(|error| unread(&error))?;
    serde_json::from_slice(body).map_err(|error| unread(&error))
}

fn check_count(list: &str, count: usize) -> Result<(), String> {
    match (1..=MAX_MESSAGES).contains(&count) {
        true => Ok(()),
        false => Err(format!("`{list}` must have 1 to {MAX_MESSAGES} items")),
    }
}

/// Whether the agent's program has put this into the user's words.
fn is_inserted(text: &str) -> bool {
    let text = text.trim_start();
    INSERTED.iter().any(|start| text.starts_with(start))
}

/// Tells the parts of a user's message that are attached from the user's own.
#[derive(Default)]
struct Attached {
    /// Parts that come and are attached.
    left: usize,
}

impl Attached {
    /// Whether the next part, a text or nothing for an image, is attached.
    fn has(&mut self, text: &str) -> bool {
        let announced = ANNOUNCED.iter().find(|(start, _)| text.starts_with(start));
        let is_attached = self.left > 0 || announced.is_some();
        let more = announced.map_or(0, |(_, count)| *count);
        self.left = self.left.saturating_sub(1).max(more);
        is_attached
    }
}

/// The members of a request that only say how to write the answer.
struct Members<'a> {
    /// The API that they are of.
    own: Dialect,
    /// Those that the API has.
    known: &'a str,
    takes: Takes,
    /// Those for the upstream, in its own API or in chat completions.
    given: Map<String, Value>,
    /// By name, what is left out.
    dropped: BTreeSet<String>,
}

/// A member in chat completions, and whether more of it is left out.
type InChat = (Option<(&'static str, Value)>, bool);

impl<'a> Members<'a> {
    fn new(own: Dialect, known: &'a str, takes: Takes) -> Self {
        Self {
            own,
            known,
            takes,
            given: Map::new(),
            dropped: BTreeSet::new(),
        }
    }

    /// Passes members on: to an upstream of this API as they are, to another one as members of chat completions. What only
    /// tunes the answer and has no such form is left out, and what could carry text past the guard is refused by name.
    fn pass(
        &mut self,
        members: Map<String, Value>,
        translate: impl Fn(&str, &Value) -> Result<InChat, String>,
    ) -> Result<(), String> {
        // An absent member says nothing.
        for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
            if !self.known.split(' ').any(|known| known == name) {
                // One that switches off what is not supported says nothing.
                if value == Value::Bool(false) {
                    continue;
                }
                check_unknown(&name, &value, UNKNOWN_DEPTH)?;
                if !self.takes.unknown_members {
                    return Err(unknown(&name));
                }
            }
            if self.takes.upstream == self.own {
                self.given.insert(name, value);
                continue;
            }
            let (translated, leaves_more) = translate(&name, &value)?;
            if let Some((name, value)) = translated {
                self.given.insert(name.to_owned(), value);
            }
            if leaves_more {
                self.dropped.insert(name);
            }
        }
        Ok(())
    }

    /// Leaves out a tool that is no function which the client executes: it is one of the server's, or its argument has a
    /// grammar.
    fn leave_out(&mut self, kind: &str) -> Result<(), String> {
        let kind = llm::one_line(kind);
        if !self.takes.omits_tools {
            return Err(format!(
                "`tools`: `{kind}` is not supported; only functions of the client are. Switch it off in the agent, or write \
                 other_tools = \"omit\" in [proxy], which leaves it out"
            ));
        }
        self.dropped.insert(format!("tools.{kind}"));
        Ok(())
    }
}

fn unknown(name: &str) -> String {
    let help = "leave it out, or write unknown_members = \"pass\" in [proxy]";
    format!("`{name}` is not known; {help}")
}

/// Checks a member that the API does not have, and those in it. Some servers would take `Messages` for the conversation.
fn check_unknown(name: &str, value: &Value, levels: usize) -> Result<(), String> {
    let squashed = name.replace('_', "");
    let is_past = PAST_THE_GUARD
        .split(' ')
        .any(|part| squashed.contains(part));
    let why = match value {
        _ if !is_lower_case(name) => {
            "a member's name must be 1 to 64 lower-case letters, digits and underscores"
        }
        _ if is_past && !HARMLESS.split(' ').any(|own| own == name) => {
            "the model could see or keep by it what the guard does not"
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => return Ok(()),
        Value::String(word) if is_plain(word) => return Ok(()),
        Value::Array(items) if levels > 0 => {
            let mut items = items.iter();
            return items.try_for_each(|item| check_unknown(name, item, levels - 1));
        }
        Value::Object(members) if levels > 0 => {
            let mut members = members.iter();
            return members.try_for_each(|(name, value)| check_unknown(name, value, levels - 1));
        }
        _ => "a member that the API does not have takes numbers and words of up to 64 characters",
    };
    let name = llm::one_line(name);
    Err(format!(
        "`{name}` is not supported, since {why}; leave it out"
    ))
}

fn is_lower_case(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=NAME_LIMIT).contains(&name.len()) && name.bytes().all(fits)
}

/// Whether a text is one short word and no address. Scripts without spaces could have a sentence of that length.
fn is_plain(word: &str) -> bool {
    let is_short = word.len() <= NAME_LIMIT && word.bytes().all(|byte| byte.is_ascii_graphic());
    is_short && !word.contains("://")
}

/// The image in a `data:` address. Any other is refused: the upstream would fetch it without a decision.
fn image_at(url: Option<&str>) -> Result<Image, String> {
    let data = url.and_then(|url| url.strip_prefix("data:")?.split_once(";base64,"));
    image(data.map(|(_, data)| data))
}

fn image(base64: Option<&str>) -> Result<Image, String> {
    let bytes = base64.and_then(|data| STANDARD.decode(data).ok());
    bytes.and_then(Image::read).ok_or_else(|| {
        "an image must be a PNG, JPEG, GIF or WebP in base64, in a `data:` address or as a `base64` source; nothing is fetched"
            .to_owned()
    })
}

/// Adds an image to a message, if there may be one.
fn attach(message: &mut Message, image: Image, takes: Takes) -> Result<(), String> {
    if !takes.images {
        return Err("images are refused unless `images` in [proxy] labels them".to_owned());
    }
    if message.images.len() == MAX_IMAGES {
        return Err(format!("a message has at most {MAX_IMAGES} images"));
    }
    message.images.push(image);
    Ok(())
}

/// Adds a block of text to a message that may have some already.
fn add_block(message: &mut Message, text: &str) {
    if !message.text.is_empty() && !text.is_empty() {
        message.text.push('\n');
    }
    message.text.push_str(text);
}

/// What stands in the place of a part that is not known.
fn unsupported(kind: Option<&str>) -> String {
    let kind = llm::one_line(kind.unwrap_or("(without a type)"));
    format!("`{kind}` is not supported; what it says cannot be labelled, so send it as text")
}

/// A string, or a list of these parts, or nothing.
fn text_or_list<'a, T: Deserialize<'a>>(
    raw: Option<&'a RawValue>,
    text: impl FnOnce(String) -> T,
) -> Result<Vec<T>, String> {
    let raw = raw.map_or("null", RawValue::get);
    let wrong = |error: serde_json::Error| format!("`content`: {error}");
    match raw.as_bytes() {
        b"null" => Ok(Vec::new()),
        [b'"', ..] => Ok(vec![text(serde_json::from_str(raw).map_err(wrong)?)]),
        [b'[', ..] => serde_json::from_str(raw).map_err(wrong),
        _ => Err("expected a string or a list of parts as `content`".to_owned()),
    }
}

/// A tool under a name that all upstreams take.
fn tool(
    name: String,
    description: Option<String>,
    parameters: Option<Box<RawValue>>,
    limit: usize,
) -> Result<ClientTool, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !((1..=limit).contains(&name.len()) && name.bytes().all(fits)) {
        return Err(format!(
            "`tools`: a name has 1 to {limit} of the characters a-z, A-Z, 0-9, _ and -"
        ));
    }
    Ok(ClientTool {
        name,
        strict: None,
        namespace: None,
        description: description.unwrap_or_default(),
        // As the client has written it.
        parameters: match parameters {
            Some(parameters) => parameters.get().to_owned(),
            None => r#"{"type":"object","properties":{}}"#.to_owned(),
        },
    })
}

/// A call names its tool by its name alone: of two, it would be unclear which rule, description or schema was meant.
fn check_tools<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Result<(), String> {
    if names.len() > MAX_TOOLS {
        return Err(format!("`tools` must have at most {MAX_TOOLS} items"));
    }
    let mut known = HashSet::new();
    for name in names {
        if !known.insert(name) {
            return Err(format!("`tools`: there are two called `{name}`"));
        }
    }
    Ok(())
}

/// A form of answers, as chat completions have it.
fn json_schema(name: &str, schema: &Value, strict: Option<bool>) -> Value {
    let mut form = json!({"name": name, "schema": schema});
    if let (Some(form), Some(strict)) = (form.as_object_mut(), strict) {
        form.insert("strict".to_owned(), strict.into());
    }
    json!({"type": "json_schema", "json_schema": form})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_attached_is_told_from_the_users_words() {
        let file = "Called the Read tool with the following input: {}";
        let resource = "Reading MCP resource: list";
        for (parts, expected) in [
            ([file, "1: text", "go", ""], [true, true, false, false]),
            // An image of a file is no text, and counts.
            ([file, "", "go", file], [true, true, false, true]),
            (["go", resource, "one", "two"], [false, true, true, true]),
        ] {
            let mut attached = Attached::default();
            assert_eq!(parts.map(|part| attached.has(part)), expected);
        }
    }
}
