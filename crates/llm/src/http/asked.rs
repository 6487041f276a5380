//! What is asked of a server, as far as it is the same in each dialect.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hub::{AnswerShape, CompletionRequest, Purpose};
use ifc::{Image, Prompt, PromptMessage, Unread};
use serde_json::{Map, Value, json, value::RawValue};

use super::answer::assembly::BEFORE;
use super::config::HttpConfig;
use super::json::{ANSWER_TOOL, ANSWER_TOOL_WORDS, Wanted};
use super::names::ToolNames;
use super::schema;
use crate::{RequestOptions, TokenLimit, ToolChoice};

/// What stands for the result of a call that the prompt does not have: the APIs want one for each call.
pub(super) const NO_RESULT: &str = "(there is no result)";

/// A request in no dialect.
pub(super) struct Asked<'a> {
    pub(super) config: &'a HttpConfig,
    pub(super) names: &'a ToolNames,
    pub(super) prompt: &'a Prompt,
    pub(super) options: &'a RequestOptions,
    pub(super) tools: Vec<Tool<'a>>,
    /// `None` where there are no tools: the APIs refuse a choice then.
    pub(super) choice: Option<Choice<'a>>,
    /// JSON of a schema, if that is asked for.
    pub(super) wanted: Option<Wanted<'a>>,
    /// The request's own limit on generated tokens.
    own_limit: u32,
    /// Whether more requests with the same beginning will follow.
    pub(super) goes_on: bool,
    /// The ids of calls that another server gave, each with one of ours: that server's may hold more than a name.
    ids: BTreeMap<&'a str, String>,
    /// Where the result of each call is.
    results: BTreeMap<&'a str, usize>,
}

/// A tool that the model may call.
pub(super) struct Tool<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) parameters: Box<RawValue>,
    pub(super) strict: Option<bool>,
}

/// Which tools the model may choose, by the name that is sent.
#[derive(Clone, Copy)]
pub(super) enum Choice<'a> {
    None,
    Auto,
    Required,
    Tool(&'a str),
}

impl<'a> Asked<'a> {
    /// Reads a request, or says what in it cannot be sent.
    pub(super) fn new(
        config: &'a HttpConfig,
        names: &'a ToolNames,
        request: &'a CompletionRequest,
        options: &'a RequestOptions,
    ) -> Result<Self, String> {
        let prompt = &request.prompt;
        let wanted = match &request.shape {
            AnswerShape::Json { schema } => Some(Wanted::new(config.json, schema)?),
            _ => None,
        };
        let by_call = wanted.as_ref().filter(|it| it.by_call());
        // Then the answer's tool is the only one: a model that is to answer by a call must not make a real one.
        let tools = match by_call {
            Some(wanted) => vec![answer_tool(wanted)?],
            None => tools(names, prompt, options)?,
        };
        // No server can answer it, so it is refused here, where the reason is known.
        if request.shape == AnswerShape::Calls && tools.is_empty() {
            return Err("a tool call is asked for, but the prompt lists no tools".to_owned());
        }
        // The prompt leaves out tools whose names are above its label: a wish must not name one.
        let is_shown = |wished: &&ToolChoice| match wished {
            ToolChoice::Tool(name) => prompt.tools().iter().any(|tool| tool.name == *name),
            ToolChoice::None | ToolChoice::Required => true,
        };
        let wished = options.tool_choice.as_ref().filter(is_shown);
        let choice = match by_call {
            Some(_) => Some(Choice::Tool(ANSWER_TOOL)),
            None => (!tools.is_empty()).then(|| choice(names, &request.shape, wished)),
        };
        let (ids, results) = calls(config, prompt);
        let own_limit = request.max_tokens;
        Ok(Self {
            config,
            names,
            prompt,
            options,
            tools,
            choice,
            wanted,
            own_limit: (config.completion_tokens).map_or(own_limit, |most| own_limit.min(most)),
            goes_on: request.purpose == Purpose::Step,
            ids,
            results,
        })
    }

    /// The model that answers: the caller's, if each request may bring its own.
    pub(super) fn model(&self) -> &'a str {
        // A wish that is not allowed is passed over, as for the key; the request itself stands.
        let own = self.options.model.as_deref();
        own.filter(|_| self.config.pass_through)
            .unwrap_or(&self.config.model)
    }

    pub(super) fn streams(&self) -> bool {
        self.options.stream.unwrap_or(self.config.stream)
    }

    pub(super) fn temperature(&self) -> Option<f32> {
        let own = self.config.temperature;
        own.filter(|_| !self.options.members.contains_key("temperature"))
    }

    /// The limit on generated tokens, and whether the caller calls it `max_completion_tokens`. `None` is the server's own.
    pub(super) fn limit(&self) -> Option<(u32, bool)> {
        match self.options.token_limit {
            TokenLimit::Server => None,
            TokenLimit::MaxTokens(limit) => Some((limit, false)),
            TokenLimit::MaxCompletionTokens(limit) => Some((limit, true)),
            TokenLimit::Request => Some((self.own_limit, self.config.max_completion_tokens)),
        }
    }

    /// The caller's members of the body without those that the request has in another way: set here, they would get past
    /// the checks, with a duplicate member that servers read differently.
    pub(super) fn more(&self, own: &str) -> BTreeMap<&'a String, &'a Value> {
        let members = self.options.members.iter();
        let is_own = |name: &String| own.split(' ').any(|it| it == name);
        members.filter(|(name, _)| !is_own(name)).collect()
    }

    /// A member of the caller's that is an object, with one more member.
    pub(super) fn with(&self, member: &str, name: &str, value: Option<Value>) -> Option<Value> {
        let own = self.options.members.get(member).cloned();
        let Some(value) = value else { return own };
        let mut object = match own {
            Some(Value::Object(object)) => object,
            _ => Map::new(),
        };
        object.insert(name.to_owned(), value);
        Some(Value::Object(object))
    }

    /// The images of a message. A model that takes none has the notes of what they are.
    pub(super) fn images(&self, at: usize) -> Vec<&'a Image> {
        let images = self.prompt.images(at);
        images.filter(|_| self.config.images).collect()
    }

    /// What this server gave with a message.
    pub(super) fn own(&self, at: usize) -> Option<&'a Unread> {
        let unread = self.prompt.unread(at);
        unread.filter(|own| own.provider == self.config.name)
    }

    /// The id of a call, as this server gets it.
    pub(super) fn id<'b>(&'b self, id: &'b str) -> &'b str {
        self.ids.get(id).map_or(id, String::as_str)
    }

    /// The result of a call, and the images in it.
    pub(super) fn result(&self, id: &str) -> (&'a str, Vec<&'a Image>) {
        let at = self.results.get(id).copied();
        match at.and_then(|at| Some((at, self.prompt.messages().get(at)?))) {
            Some((at, PromptMessage::Tool { content, .. })) => (content, self.images(at)),
            _ => (NO_RESULT, Vec::new()),
        }
    }
}

/// The parts of an answer, such as thoughts, that go back before a text or a call which has these members.
pub(super) fn before(members: &str) -> Vec<Value> {
    let members: Option<Map<String, Value>> = serde_json::from_str(members).ok();
    match members.and_then(|mut members| members.remove(BEFORE)) {
        Some(Value::Array(parts)) => parts,
        _ => Vec::new(),
    }
}

/// What goes back to a provider before the text of a step with so many calls, such as thoughts.
pub fn thoughts(provider: &str, parts: &[Value], calls: usize) -> Unread {
    Unread {
        provider: provider.to_owned(),
        members: json!({ BEFORE: parts }).to_string(),
        calls: vec![(None, String::new()); calls],
    }
}

/// The bytes of an image in base64.
pub(super) fn encoded(image: &Image) -> String {
    STANDARD.encode(image.bytes())
}

/// The address of an image that is all of it.
pub(super) fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.media_type(), encoded(image))
}

/// The calls that get other ids, and where the results are.
fn calls<'a>(
    config: &HttpConfig,
    prompt: &'a Prompt,
) -> (BTreeMap<&'a str, String>, BTreeMap<&'a str, usize>) {
    let (mut ids, mut results) = (BTreeMap::new(), BTreeMap::new());
    for (at, message) in prompt.messages().iter().enumerate() {
        match message {
            PromptMessage::Assistant { calls, .. } => {
                let unread = prompt.unread(at);
                let foreign = unread.is_some_and(|unread| unread.provider != config.name);
                for (index, call) in calls.iter().enumerate().filter(|_| foreign) {
                    ids.insert(call.id.as_str(), format!("call_{at}_{index}"));
                }
            }
            PromptMessage::Tool { call, .. } => drop(results.insert(call.as_str(), at)),
            PromptMessage::System(_) | PromptMessage::User(_) => {}
        }
    }
    (ids, results)
}

/// The machine's shape goes first: it asks for words where a call is of no use.
fn choice<'a>(
    names: &'a ToolNames,
    shape: &AnswerShape,
    wished: Option<&'a ToolChoice>,
) -> Choice<'a> {
    match (shape, wished) {
        (AnswerShape::Text | AnswerShape::Json { .. }, _) => Choice::None,
        (AnswerShape::Calls, None | Some(ToolChoice::None)) => Choice::Required,
        (AnswerShape::TextOrCalls, None) => Choice::Auto,
        (AnswerShape::TextOrCalls, Some(ToolChoice::None)) => Choice::None,
        (_, Some(ToolChoice::Required)) => Choice::Required,
        (_, Some(ToolChoice::Tool(name))) => Choice::Tool(names.sent(name)),
    }
}

fn tools<'a>(
    names: &'a ToolNames,
    prompt: &'a Prompt,
    options: &RequestOptions,
) -> Result<Vec<Tool<'a>>, String> {
    let tools = prompt.tools().iter().map(|tool| {
        let parameters = schema::sent(&tool.parameters).map_err(|error| {
            let name = &tool.name;
            format!("the parameters of the tool `{name}` are not JSON: {error}")
        })?;
        let strict = options.strict.get(&tool.name).copied();
        // The API refuses it for an open schema, such as one that stands for a masked schema.
        let fits = |strict: &bool| !strict || tool.parameters.contains("additionalProperties");
        Ok(Tool {
            name: names.sent(&tool.name),
            description: &tool.description,
            parameters,
            strict: strict.filter(fits),
        })
    });
    tools.collect()
}

/// The tool whose arguments are the answer.
fn answer_tool<'a>(wanted: &Wanted<'a>) -> Result<Tool<'a>, String> {
    let parameters = serde_json::from_str(wanted.text);
    Ok(Tool {
        name: ANSWER_TOOL,
        description: ANSWER_TOOL_WORDS,
        parameters: parameters.map_err(|error| error.to_string())?,
        strict: None,
    })
}
