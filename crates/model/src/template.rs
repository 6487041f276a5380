//! The model file's chat template, rendered so that content can never become markup.
//!
//! A template mixes its own markup (`<|im_start|>`) with content (mails, tool results). Content
//! that imitates markup must stay text. So the template sees a *placeholder* in place of each
//! string of content, and the result is cut at the placeholders into [`Piece`]s: markup is
//! recognised in [`Piece::Template`] only (see `tokens`).

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::{
    Environment, Error, ErrorKind, State, UndefinedBehavior, Value,
    value::{Enumerator, Object, ObjectRepr},
};
use model_files::protocol::{Message, Tool};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::grammar::{CALL_CLOSE, CALL_OPEN};

/// Around the number of a placeholder: private-use characters, which no template contains.
const OPEN: char = '\u{F5A10}';
const CLOSE: char = '\u{F5A11}';
const NAME: &str = "chat";

/// Before the list of tools, for a model whose template has no place for tools.
const TOOLS_INTRO: &str = "# Tools\n\nYou may call these functions:\n";
const TOOLS_OUTRO: &str = "\n\nTo call one, answer with\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";

/// A part of a rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// From the template itself: may hold special tokens.
    Template(String),
    /// From messages and tools: only text, even where it looks like markup.
    Content(String),
}

impl Piece {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Template(text) | Self::Content(text) => text,
        }
    }
}

pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    table: Table,
    knows_tools: bool,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    pub(crate) fn new(source: &str, bos: &str, eos: &str) -> Result<Self, Error> {
        let table = Table::default();
        let mut environment = Environment::new();
        let syntax = environment
            .syntax()
            .to_builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?;
        environment.set_syntax(syntax);
        // As in the reference implementation: an absent key is false, its text empty.
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        // A prompt is no HTML: escapes would change what the model reads.
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        let strings = table.clone();
        environment.add_filter(
            "tojson",
            move |value: Value, _: minijinja::value::Rest<Value>| to_json(&strings, &value),
        );
        environment.add_function(
            // Templates refuse conversations with it, such as two messages of the user in a row.
            "raise_exception",
            |message: String| -> Result<Value, Error> {
                Err(Error::new(ErrorKind::InvalidOperation, message))
            },
        );
        environment.add_template_owned(NAME, source.to_owned())?;
        Ok(Self {
            environment,
            table,
            knows_tools: source.contains("tools"),
            bos: bos.to_owned(),
            eos: eos.to_owned(),
        })
    }

    /// The prompt up to where the model's answer begins.
    pub(crate) fn render(&self, messages: &[Message], tools: &[Tool]) -> Result<Vec<Piece>, Error> {
        self.table.clear();
        let result = self.render_placeholders(messages, tools);
        let pieces = result.and_then(|text| self.table.cut(&text));
        // Prompts are secrets: keep none longer than needed.
        self.table.clear();
        pieces
    }

    fn render_placeholders(&self, messages: &[Message], tools: &[Tool]) -> Result<String, Error> {
        let tools: Vec<Json> = tools.iter().map(tool_json).collect();
        let mut list: Vec<Value> = Vec::new();
        if self.knows_tools {
            list.extend(messages.iter().map(|message| self.structured(message)));
        } else if tools.is_empty() {
            list.extend(messages.iter().map(|message| self.plain(message)));
        } else {
            // Their list becomes part of the system message, and calls and results become text.
            let (system, rest) = match messages.split_first() {
                Some((Message::System(text), rest)) => (text.as_str(), rest),
                _ => ("", messages),
            };
            let signatures: Vec<String> = tools.iter().map(wide).collect();
            let text = format!(
                "{system}\n\n{TOOLS_INTRO}{}{TOOLS_OUTRO}",
                signatures.join("\n")
            );
            list.push(self.message("system", text.trim_start()));
            list.extend(rest.iter().map(|message| self.plain(message)));
        }
        let tools: Vec<Value> = tools
            .into_iter()
            .map(|json| node(&self.table, json))
            .collect();
        let context = BTreeMap::from([
            ("messages", Value::from(list)),
            ("add_generation_prompt", Value::from(true)),
            ("bos_token", Value::from(self.bos.as_str())),
            ("eos_token", Value::from(self.eos.as_str())),
            ("tools", (!tools.is_empty()).then_some(tools).into()),
        ]);
        self.environment.get_template(NAME)?.render(context)
    }

    fn message(&self, role: &str, content: &str) -> Value {
        dictionary([
            ("role", Value::from(role)),
            ("content", self.table.value(content)),
        ])
    }

    /// For templates with tool calls of their own.
    fn structured(&self, message: &Message) -> Value {
        match message {
            Message::System(text) => self.message("system", text),
            Message::User(text) => self.message("user", text),
            Message::Assistant { text, calls } if calls.is_empty() => {
                self.message("assistant", text)
            }
            Message::Assistant { text, calls } => {
                let calls: Vec<Value> = calls
                    .iter()
                    .map(|call| {
                        let function = dictionary([
                            ("name", self.table.value(&call.tool)),
                            ("arguments", node(&self.table, arguments(&call.arguments))),
                        ]);
                        dictionary([
                            ("id", self.table.value(&call.id)),
                            ("type", Value::from("function")),
                            ("function", function),
                        ])
                    })
                    .collect();
                dictionary([
                    ("role", Value::from("assistant")),
                    ("content", self.table.value(text)),
                    ("tool_calls", Value::from(calls)),
                ])
            }
            Message::Tool {
                call,
                tool,
                content,
            } => dictionary([
                ("role", Value::from("tool")),
                ("tool_call_id", self.table.value(call)),
                ("name", self.table.value(tool)),
                ("content", self.table.value(content)),
            ]),
        }
    }

    /// For templates that know only text.
    fn plain(&self, message: &Message) -> Value {
        match message {
            Message::System(text) => self.message("system", text),
            Message::User(text) => self.message("user", text),
            Message::Assistant { text, calls } => {
                let mut all = text.clone();
                for call in calls {
                    let json =
                        json!({ "name": call.tool, "arguments": arguments(&call.arguments) });
                    if !all.is_empty() {
                        all.push('\n');
                    }
                    all.push_str(&format!("{CALL_OPEN}\n{}\n{CALL_CLOSE}", wide(&json)));
                }
                self.message("assistant", &all)
            }
            Message::Tool { content, .. } => self.message(
                "user",
                &format!("<tool_response>\n{content}\n</tool_response>"),
            ),
        }
    }
}

fn dictionary<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Value::from(BTreeMap::from(entries))
}

/// The shape that chat templates expect of a tool.
fn tool_json(tool: &Tool) -> Json {
    // A schema that redaction has made unparsable still lets the tool be called.
    let parameters =
        serde_json::from_str(&tool.parameters).unwrap_or_else(|_| json!({ "type": "object" }));
    json!({
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": parameters,
        },
    })
}

/// Arguments that redaction has made unparsable are shown as a string.
fn arguments(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned()))
}

/// JSON as Python's `json.dumps` writes it (`{"a": 1, "b": 2}`): what models were trained on.
fn wide(json: &Json) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Wide);
    // Writing a value of JSON into memory does not fail.
    let _ = json.serialize(&mut serializer);
    String::from_utf8(out).unwrap_or_default()
}

struct Wide;

impl serde_json::ser::Formatter for Wide {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { "" } else { ", " }.as_bytes())
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        out.write_all(if first { "" } else { ", " }.as_bytes())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

/// The strings of content of the prompt that is being rendered.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<Vec<String>>>);

/// Without the strings: prompts are secrets.
impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Table")
    }
}

impl Table {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self) {
        self.lock().clear();
    }

    /// A placeholder for the text; the empty text stays empty, for templates that ask.
    fn value(&self, text: &str) -> Value {
        // A placeholder is never empty, and templates test content for emptiness.
        if text.is_empty() {
            return Value::from("");
        }
        let mut strings = self.lock();
        strings.push(text.to_owned());
        Value::from(format!("{OPEN}{}{CLOSE}", strings.len() - 1))
    }

    /// Cuts a rendered text at its placeholders.
    fn cut(&self, text: &str) -> Result<Vec<Piece>, Error> {
        let broken = || {
            Error::new(
                ErrorKind::InvalidOperation,
                "the chat template changes message text; use another model file",
            )
        };
        let strings = self.lock();
        let mut pieces = Vec::new();
        let mut rest = text;
        // Each placeholder must be whole and known. A template that upper-cased, trimmed or cut one is refused, not
        // rendered in part.
        while let Some((before, after)) = rest.split_once(OPEN) {
            let (index, after) = after.split_once(CLOSE).ok_or_else(broken)?;
            let index: usize = index.parse().map_err(|_| broken())?;
            let content = strings.get(index).ok_or_else(broken)?;
            pieces.push(Piece::Template(before.to_owned()));
            pieces.push(Piece::Content(content.clone()));
            rest = after;
        }
        pieces.push(Piece::Template(rest.to_owned()));
        let has_no_marker = |piece: &Piece| match piece {
            Piece::Template(text) => !text.contains([OPEN, CLOSE]),
            Piece::Content(_) => true,
        };
        // A template that took a placeholder apart (`split`, `[:10]`) would have content stand where markup is read.
        if !pieces.iter().all(has_no_marker) {
            return Err(broken());
        }
        pieces.retain(|piece| !matches!(piece, Piece::Template(text) if text.is_empty()));
        Ok(pieces)
    }
}

/// `tojson` as chat templates mean it: Python's `json.dumps`, no HTML escapes. Its result is
/// content.
fn to_json(table: &Table, value: &Value) -> Result<Value, Error> {
    if let Some(node) = value.downcast_object_ref::<JsonNode>() {
        return Ok(table.value(&wide(&node.json)));
    }
    // Anything else the template has put together itself, with placeholders for strings of content in it; they are
    // resolved before the JSON is written, so that escapes come out right.
    let json = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    Ok(table.value(&wide(&resolve(table, json)?)))
}

/// Puts the content back into a value that the template has put together.
fn resolve(table: &Table, json: Json) -> Result<Json, Error> {
    let text = |text: String| -> Result<String, Error> {
        Ok(table.cut(&text)?.iter().map(Piece::text).collect())
    };
    Ok(match json {
        Json::String(string) => Json::String(text(string)?),
        Json::Array(items) => Json::Array(
            items
                .into_iter()
                .map(|item| resolve(table, item))
                .collect::<Result<_, _>>()?,
        ),
        Json::Object(entries) => Json::Object(
            entries
                .into_iter()
                .map(|(key, value)| Ok((text(key)?, resolve(table, value)?)))
                .collect::<Result<_, Error>>()?,
        ),
        other => other,
    })
}

/// An array or object of a tool or of arguments, for templates that look inside.
#[derive(Debug)]
struct JsonNode {
    json: Json,
    table: Table,
}

fn node(table: &Table, json: Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => Value::from(value),
            (None, Some(value)) => Value::from(value),
            (None, None) => Value::from(()),
        },
        Json::String(text) => table.value(&text),
        json @ (Json::Array(_) | Json::Object(_)) => Value::from_object(JsonNode {
            json,
            table: table.clone(),
        }),
    }
}

/// A key that a template may see as it is: nothing of which markup could be made.
fn is_plain(key: &str) -> bool {
    key.bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

impl Object for JsonNode {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match self.json {
            Json::Array(_) => ObjectRepr::Seq,
            _ => ObjectRepr::Map,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let found = match &self.json {
            Json::Array(items) => items.get(key.as_usize()?)?,
            json => json.get(key.as_str()?)?,
        };
        Some(node(&self.table, found.clone()))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match &self.json {
            Json::Array(items) => Enumerator::Seq(items.len()),
            // Other keys are left out here: as a key, a placeholder would find nothing.
            Json::Object(entries) => Enumerator::Values(
                entries
                    .iter()
                    // A key is content that an app wrote. As a loop variable a template would print it outside any
                    // placeholder, where markup is recognised.
                    .filter(|(key, _)| is_plain(key))
                    .map(|(key, _)| Value::from(key.as_str()))
                    .collect(),
            ),
            _ => Enumerator::Empty,
        }
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        let value = Value::from_dyn_object(Arc::clone(self));
        minijinja_contrib::pycompat::unknown_method_callback(state, &value, method, args)
    }
}
