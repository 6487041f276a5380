//! OpenAI's Chat Completions.

use hub::Usage;
use llm::{TokenLimit, ToolChoice};
use serde_json::Value;

use super::conversation::{ClientCall, ClientTool, Conversation, Message, Role};
use super::dialect::Dialect;
use crate::openai_api::request::{self, ChatBody, ChatMessage, Choice as Wish, ToolEntry};
use crate::openai_api::response::{ApiError, Choice, Envelope};
use crate::openai_api::stream::Frame;

/// Choices of one request. Each is a turn of its own.
const MAX_CHOICES: u32 = 8;

/// The dialect.
pub(super) struct ChatCompletions;

impl Dialect for ChatCompletions {
    const PATH: &'static str = "/v1/chat/completions";

    type Answer = Envelope;

    fn read(body: &[u8], takes_images: bool) -> Result<Conversation, String> {
        let mut body = request::parse(body)?;
        body.refuse_foreign_parts()?;
        let choices = body.n.unwrap_or(1);
        if !(1..=MAX_CHOICES).contains(&choices) {
            return Err(format!("`n` must be 1 to {MAX_CHOICES}"));
        }
        let messages = std::mem::take(&mut body.messages).into_iter().enumerate();
        let messages = messages.map(|(number, message)| {
            let read = read_message(message, takes_images);
            read.map_err(|error| format!("messages[{number}]: {error}"))
        });
        Ok(Conversation {
            messages: messages.collect::<Result<_, _>>()?,
            tools: body
                .tools()
                .iter()
                .map(read_tool)
                .collect::<Result<_, _>>()?,
            tool_choice: match body.choice()? {
                Wish::Auto => None,
                Wish::None => Some(ToolChoice::None),
                Wish::Required => Some(ToolChoice::Required),
                Wish::Tool(name) => Some(ToolChoice::Tool(name)),
            },
            token_limit: token_limit(&body),
            choices: usize::try_from(choices).unwrap_or(1),
            streams: body.streams(),
            streams_usage: body.streams_usage(),
            members: body.sampling()?,
            model: body.model,
        })
    }

    fn begin(id: &str, model: &str) -> Envelope {
        Envelope::new(format!("chatcmpl-{id}"), model)
    }

    fn answer(answer: &Envelope, choices: &[Choice], usage: &Usage) -> Value {
        answer.completion(choices, usage)
    }

    fn start(answer: &Envelope, choices: usize) -> Vec<Frame> {
        (0..choices)
            .map(|index| Frame::data(&answer.start(index)))
            .collect()
    }

    fn text(answer: &Envelope, choice: usize, piece: &str) -> Frame {
        Frame::data(&answer.text(choice, piece))
    }

    fn end(answer: &Envelope, index: usize, choice: &Choice) -> Vec<Frame> {
        answer.end(index, choice).iter().map(Frame::data).collect()
    }

    fn finish(answer: &Envelope, usage: Option<&Usage>) -> Vec<Frame> {
        let cost = usage.map(|usage| Frame::data(&answer.cost(usage)));
        cost.into_iter().chain([Frame::done()]).collect()
    }

    fn error(error: &ApiError) -> Value {
        error.body()
    }
}

fn token_limit(body: &ChatBody) -> TokenLimit {
    match (body.max_completion_tokens, body.max_tokens) {
        (Some(limit), _) => TokenLimit::MaxCompletionTokens(limit),
        (None, Some(limit)) => TokenLimit::MaxTokens(limit),
        (None, None) => TokenLimit::Server,
    }
}

fn read_message(message: ChatMessage, takes_images: bool) -> Result<Message, String> {
    let (text, images) = match takes_images {
        true => message.text_and_images()?,
        false => (message.text()?, Vec::new()),
    };
    let role = match message.role.as_str() {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        "function" => return Err("the role `function` is not supported; use `tool`".to_owned()),
        _ => return Err("unknown `role`".to_owned()),
    };
    if !images.is_empty() && !matches!(role, Role::User | Role::Tool) {
        return Err("only `user` and `tool` have images".to_owned());
    }
    if role != Role::Assistant && !message.calls().is_empty() {
        return Err("only `assistant` makes `tool_calls`".to_owned());
    }
    let calls = message.calls().iter().map(|call| ClientCall {
        id: call.id.clone(),
        tool: call.function.name.clone(),
        arguments: call.function.arguments.clone(),
    });
    Ok(Message {
        role,
        text,
        images,
        calls: calls.collect(),
        name: message.name,
        answers: message.tool_call_id,
    })
}

fn read_tool(entry: &ToolEntry) -> Result<ClientTool, String> {
    let function = &entry.function;
    if !function.has_fit_name() {
        let message = "`tools`: a name has 1 to 64 of the characters a-z, A-Z, 0-9, _ and -";
        return Err(message.to_owned());
    }
    Ok(ClientTool {
        name: function.name.clone(),
        description: function.description(),
        parameters: function.parameters(),
    })
}
