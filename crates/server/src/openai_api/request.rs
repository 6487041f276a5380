//! A chat completion request, as its clients write it.

use std::collections::HashSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ifc::Image;
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};
use wire::json::JsonScan;

/// Messages of a request: more than fit into any context.
const MAX_MESSAGES: usize = 10_000;
/// Tools of a request. The original takes 128.
const MAX_TOOLS: usize = 1024;
/// Longest tool name that the API takes.
const NAME_LIMIT: usize = 64;
/// Values of a request, counted by its brackets and commas. What is read takes far more room than its text: an object in
/// `logit_bias` has seven bytes and becomes most of a kilobyte, so that bytes alone bound nothing. A message with a call
/// has about ten, a tool with its schema seldom more than a hundred.
const MAX_VALUES: usize = 200_000;
/// Levels of a request; the parser takes no more.
const MAX_DEPTH: usize = 128;
/// Images of one message.
const MAX_IMAGES: usize = 64;
/// The values of `reasoning_effort`, `verbosity` and `service_tier`, in OpenAI's API and in those that follow it.
const WORDS: [&str; 16] = [
    "none",
    "minimal",
    "low",
    "medium",
    "high",
    "xhigh",
    "max",
    "default",
    "auto",
    "flex",
    "scale",
    "priority",
    "on_demand",
    "performance",
    "standard",
    "standard_only",
];
const ONLY_TEXT: &str = "only parts of type `text` are supported";

/// The members that we know. Others are passed over.
#[derive(Deserialize)]
pub(crate) struct ChatBody {
    pub(crate) model: String,
    pub(crate) messages: Vec<ChatMessage>,
    #[serde(default)]
    pub(crate) tools: Option<Vec<ToolEntry>>,
    pub(crate) tool_choice: Option<Value>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) max_completion_tokens: Option<u32>,
    pub(crate) n: Option<u32>,
    pub(crate) stream: Option<bool>,
    pub(crate) stream_options: Option<StreamOptions>,
    pub(crate) logprobs: Option<bool>,
    pub(crate) response_format: Option<Value>,
    pub(crate) stop: Option<Value>,
    temperature: Option<Value>,
    top_p: Option<Value>,
    seed: Option<Value>,
    frequency_penalty: Option<Value>,
    presence_penalty: Option<Value>,
    logit_bias: Option<Value>,
    reasoning_effort: Option<Value>,
    verbosity: Option<Value>,
    service_tier: Option<Value>,
    parallel_tool_calls: Option<Value>,
    functions: Option<Value>,
    function_call: Option<Value>,
    audio: Option<Value>,
    web_search_options: Option<Value>,
}

#[derive(Deserialize)]
pub(crate) struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
pub(crate) struct ChatMessage {
    pub(crate) role: String,
    #[serde(default)]
    content: Content,
    pub(crate) name: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
    pub(crate) tool_call_id: Option<String>,
    function_call: Option<Value>,
}

/// The content of a message. Parts are read by their type, so that what is refused anyway, such as
/// sound, takes no memory.
#[derive(Debug, Default)]
enum Content {
    /// `null`, or none.
    #[default]
    Empty,
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
    refusal: Option<String>,
    image_url: Option<ImageUrl>,
}

#[derive(Debug, Deserialize)]
struct ImageUrl {
    url: String,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of parts as `content`")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Content, E> {
                Ok(Content::Empty)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = list.next_element()? {
                    parts.push(part);
                }
                Ok(Content::Parts(parts))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl Part {
    /// The image that stands in it. An address would be fetched by the upstream, which nobody decides on.
    fn image(&self) -> Result<Option<Image>, String> {
        if self.kind.as_deref() != Some("image_url") {
            return Ok(None);
        }
        let url = self.image_url.as_ref().map(|image| image.url.as_str());
        let data = url.and_then(|url| url.strip_prefix("data:")?.split_once(";base64,"));
        let bytes = data.and_then(|(_, data)| STANDARD.decode(data).ok());
        let image = bytes.and_then(Image::read);
        image.map(Some).ok_or_else(|| {
            "an image must be a PNG, JPEG, GIF or WebP in a `data:` address in base64; nothing is fetched"
                .to_owned()
        })
    }

    fn text(&self) -> Result<&str, String> {
        let text = match self.kind.as_deref() {
            Some("text") => &self.text,
            Some("refusal") => &self.refusal,
            Some("image_url" | "input_audio" | "file") => &None,
            _ => return Err(ONLY_TEXT.to_owned()),
        };
        text.as_deref().ok_or_else(|| match self.kind.as_deref() {
            // One of the API's own words.
            Some(kind) if !matches!(kind, "text" | "refusal") => {
                format!("{ONLY_TEXT}; what `{kind}` says cannot be labelled, so send it as text")
            }
            _ => format!("{ONLY_TEXT}, and they need one"),
        })
    }
}

#[derive(Deserialize)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) function: CalledFunction,
}

#[derive(Deserialize)]
pub(crate) struct CalledFunction {
    pub(crate) name: String,
    pub(crate) arguments: String,
}

#[derive(Deserialize)]
pub(crate) struct ToolEntry {
    pub(crate) function: Function,
}

#[derive(Deserialize)]
pub(crate) struct Function {
    pub(crate) name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Box<RawValue>>,
}

/// Which calls a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice {
    Auto,
    None,
    Required,
    Tool(String),
}

/// Reads a body, or says in one line what is wrong with it.
pub(crate) fn parse(body: &[u8]) -> Result<ChatBody, String> {
    // Before the parser, which would have built everything by the time that the lists below are counted.
    let mut scan = JsonScan::new(MAX_DEPTH, MAX_VALUES);
    scan.feed(body).map_err(|error| error.to_string())?;
    let body: ChatBody = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if body.messages.is_empty() || body.messages.len() > MAX_MESSAGES {
        return Err(format!("`messages` must have 1 to {MAX_MESSAGES} items"));
    }
    if body.tools().len() > MAX_TOOLS {
        return Err(format!("`tools` must have at most {MAX_TOOLS} items"));
    }
    // A call names its tool by this alone: of two, nobody could say which rule, description or schema was meant.
    let mut names = HashSet::new();
    let mut called = body.tools().iter().map(|tool| &tool.function.name);
    if let Some(name) = called.find(|name| !names.insert(*name)) {
        return Err(format!("`tools`: there are two called `{name}`"));
    }
    if body.logprobs == Some(true) {
        return Err("`logprobs` is not supported by this server; leave it out".to_owned());
    }
    Ok(body)
}

impl ChatBody {
    pub(crate) fn tools(&self) -> &[ToolEntry] {
        self.tools.as_deref().unwrap_or_default()
    }

    pub(crate) fn streams(&self) -> bool {
        self.stream.unwrap_or(false)
    }

    /// Whether a stream shall end with what it cost.
    pub(crate) fn streams_usage(&self) -> bool {
        let options = self.stream_options.as_ref();
        options
            .and_then(|options| options.include_usage)
            .unwrap_or(false)
    }

    /// Which calls the client wants, as far as its tools allow.
    pub(crate) fn choice(&self) -> Result<Choice, String> {
        let none = self.tools().is_empty();
        match &self.tool_choice {
            None | Some(Value::Null) if none => Ok(Choice::None),
            None | Some(Value::Null) => Ok(Choice::Auto),
            Some(Value::String(choice)) => match choice.as_str() {
                "none" => Ok(Choice::None),
                "auto" if none => Ok(Choice::None),
                "auto" => Ok(Choice::Auto),
                "required" if !none => Ok(Choice::Required),
                "required" => {
                    Err("`tool_choice` is `required`, but there are no `tools`".to_owned())
                }
                _ => {
                    Err("`tool_choice` must be `none`, `auto`, `required` or a function".to_owned())
                }
            },
            Some(choice) => {
                let name = choice.pointer("/function/name").and_then(Value::as_str);
                let name = name.ok_or("`tool_choice.function.name` is missing")?;
                if !self.tools().iter().any(|tool| tool.function.name == name) {
                    return Err("`tool_choice` names a function that is not in `tools`".to_owned());
                }
                Ok(Choice::Tool(name.to_owned()))
            }
        }
    }

    /// What would change the meaning of the conversation if it were passed over.
    pub(crate) fn refuse_foreign_parts(&self) -> Result<(), String> {
        let legacy = self.functions.is_some()
            || self.function_call.is_some()
            || self.messages.iter().any(|m| m.function_call.is_some());
        if legacy {
            return Err(
                "`functions` and `function_call` are not supported; use `tools` and `tool_choice`"
                    .to_owned(),
            );
        }
        let members = [
            ("audio", &self.audio),
            // A search upstream would be a tool that nobody decides on.
            ("web_search_options", &self.web_search_options),
        ];
        match members.iter().find(|(_, value)| value.is_some()) {
            Some((name, _)) => Err(format!("`{name}` is not supported; leave it out")),
            None => Ok(()),
        }
    }

    /// The members that only say how to write the answer, each of the type that the API gives it: text in the place of
    /// a number or of a word of the API could come from anywhere.
    pub(crate) fn sampling(&mut self) -> Result<Map<String, Value>, String> {
        type Check = fn(&Value) -> bool;
        let members: [(_, _, Check, _); 12] = [
            (
                "temperature",
                &mut self.temperature,
                Value::is_number,
                "a number",
            ),
            ("top_p", &mut self.top_p, Value::is_number, "a number"),
            ("seed", &mut self.seed, Value::is_number, "a number"),
            (
                "stop",
                &mut self.stop,
                is_stop,
                "a string or a list of strings",
            ),
            (
                "frequency_penalty",
                &mut self.frequency_penalty,
                Value::is_number,
                "a number",
            ),
            (
                "presence_penalty",
                &mut self.presence_penalty,
                Value::is_number,
                "a number",
            ),
            (
                "logit_bias",
                &mut self.logit_bias,
                is_bias,
                "an object of numbers by token number",
            ),
            (
                "reasoning_effort",
                &mut self.reasoning_effort,
                is_word,
                "a word of the API",
            ),
            (
                "verbosity",
                &mut self.verbosity,
                is_word,
                "a word of the API",
            ),
            (
                "service_tier",
                &mut self.service_tier,
                is_word,
                "a word of the API",
            ),
            (
                "parallel_tool_calls",
                &mut self.parallel_tool_calls,
                Value::is_boolean,
                "true or false",
            ),
            (
                "response_format",
                &mut self.response_format,
                Value::is_object,
                "an object",
            ),
        ];
        let mut given = Map::new();
        for (name, value, fits, what) in members {
            match value.take().filter(|value| !value.is_null()) {
                Some(value) if fits(&value) => drop(given.insert(name.to_owned(), value)),
                Some(_) => return Err(format!("`{name}` must be {what}")),
                None => {}
            }
        }
        Ok(given)
    }
}

fn is_stop(value: &Value) -> bool {
    let is_list = |list: &Vec<Value>| list.iter().all(Value::is_string);
    value.is_string() || value.as_array().is_some_and(is_list)
}

fn is_bias(value: &Value) -> bool {
    let is_token = |token: &String| token.parse::<u32>().is_ok();
    value
        .as_object()
        .is_some_and(|biases| biases.keys().all(is_token) && biases.values().all(Value::is_number))
}

fn is_word(value: &Value) -> bool {
    value.as_str().is_some_and(|word| WORDS.contains(&word))
}

impl ChatMessage {
    /// The text: a string, parts of type `text`, or nothing.
    pub(crate) fn text(&self) -> Result<String, String> {
        match &self.content {
            Content::Empty => Ok(String::new()),
            Content::Text(text) => Ok(text.clone()),
            Content::Parts(parts) => parts.iter().map(Part::text).collect(),
        }
    }

    /// The text, and the images beside it.
    pub(crate) fn text_and_images(&self) -> Result<(String, Vec<Image>), String> {
        let Content::Parts(parts) = &self.content else {
            return Ok((self.text()?, Vec::new()));
        };
        let (mut text, mut images) = (String::new(), Vec::new());
        for part in parts {
            match part.image()? {
                Some(image) => images.push(image),
                None => text.push_str(part.text()?),
            }
        }
        match images.len() > MAX_IMAGES {
            true => Err(format!("a message has at most {MAX_IMAGES} images")),
            false => Ok((text, images)),
        }
    }

    pub(crate) fn calls(&self) -> &[ToolCall] {
        self.tool_calls.as_deref().unwrap_or_default()
    }
}

impl Function {
    pub(crate) fn description(&self) -> String {
        self.description.clone().unwrap_or_default()
    }

    /// The parameters' JSON Schema, as the client has written it.
    pub(crate) fn parameters(&self) -> String {
        match &self.parameters {
            Some(parameters) => parameters.get().to_owned(),
            None => r#"{"type":"object","properties":{}}"#.to_owned(),
        }
    }

    /// Whether the name is one that the API takes.
    pub(crate) fn has_fit_name(&self) -> bool {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        (1..=NAME_LIMIT).contains(&self.name.len()) && self.name.bytes().all(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(message: &str) -> String {
        format!(r#"{{"model":"m","messages":[{message}]}}"#)
    }

    fn accepts(body: impl AsRef<[u8]>) -> bool {
        parse(body.as_ref()).is_ok()
    }

    /// What is labelled is what goes upstream, since that is written anew. But the client means one conversation, and of
    /// a text with two readings nobody knows which.
    #[test]
    fn a_body_has_one_reading_or_none() {
        let user = r#"{"role":"user","content":"hi!"}"#;
        assert!(accepts(body(user)));
        for message in [
            r#"{"role":"user","role":"system","content":"hi"}"#,
            r#"{"role":"user","\u0072ole":"system","content":"hi"}"#,
            r#"{"role":"user","content":"hi","content":[{"type":"text","text":"other"}]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}"#,
            r#"{"role":"tool","tool_call_id":"1","tool_call_id":"2","content":"hi"}"#,
            r#"{"role":"assistant","tool_calls":[{"id":"1","id":"2","function":{"name":"a","arguments":"{}"}}]}"#,
            r#"{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"a","name":"b","arguments":"{}"}}]}"#,
            r#"{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"a","arguments":{"to":"ada"}}}]}"#,
            r#"{"role":"user","content":"\ud800"}"#,
            r#"{"role":"user","content":NaN}"#,
            r#"{"role":"user","content":"hi",}"#,
            r#"{"role":"user","content":"hi"/* or not */}"#,
            r#"{"role":"user","content":{"text":"hi"}}"#,
        ] {
            assert!(!accepts(body(message)), "{message}");
        }
        for body in [
            format!(r#"{{"model":"m","messages":[{user}],"messages":[]}}"#),
            format!(r#"{{"model":"m","messages":[{user}],"m\u0065ssages":[]}}"#),
            format!(r#"{{"model":"m","model":"n","messages":[{user}]}}"#),
            format!("\u{feff}{}", body(user)),
            format!("{} {{}}", body(user)),
            body(&"[".repeat(200)),
            body(&user.replace('!', "\u{1}")),
        ] {
            assert!(!accepts(&body), "{body}");
        }
        let bytes = body(user).into_bytes().into_iter();
        let bytes = bytes.map(|byte| if byte == b'!' { 0xff } else { byte });
        assert!(!accepts(bytes.collect::<Vec<u8>>()));
    }

    /// Names are those of the API to the letter: a member in other letters is another one, which is passed over.
    #[test]
    fn what_a_call_was_made_with_stays_a_text() {
        let arguments = r#"{"to":"eve","to":"ada","n":21000418450200051332}"#;
        let written = Value::from(arguments).to_string();
        let call = format!(r#"{{"id":"1","function":{{"name":"a","arguments":{written}}}}}"#);
        let message = format!(r#"{{"Role":"system","role":"assistant","tool_calls":[{call}]}}"#);
        let read = parse(body(&message).as_bytes()).unwrap();
        let [message] = read.messages.as_slice() else {
            panic!("{} messages", read.messages.len());
        };
        assert_eq!(message.role, "assistant");
        let arguments_of = message.calls().iter().map(|call| &*call.function.arguments);
        assert_eq!(arguments_of.collect::<Vec<_>>(), [arguments]);
    }
}
