//! What `sluice` and `sluice-model` say to each other over a Unix socket.
//!
//! A frame is four bytes of length (big-endian) and one JSON value. `sluice` sends [`Command`]s, `sluice-model` answers
//! with [`Event`]s: first [`Event::Ready`] or [`Event::Unusable`], then those of the completions, told apart by their ids.
//! Completions are made one at a time, in order.

use std::io::{self, Read};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Bytes of one frame. A prompt of the largest context is far below it.
pub const MAX_FRAME: usize = 64 << 20;

/// What `sluice` asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Command {
    /// One completion.
    Complete {
        /// Chosen by `sluice`, different for each.
        id: u64,
        /// The prompt and what the answer may be.
        request: Request,
    },
    /// No event of this completion is wanted any more.
    Cancel {
        /// Which one.
        id: u64,
    },
}

/// One completion to make.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<Tool>,
    /// What the answer may be.
    pub shape: Shape,
    /// Upper bound on generated tokens.
    pub max_tokens: u32,
}

/// A message of the conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Message {
    /// Instructions.
    System(String),
    /// The user's words.
    User(String),
    /// An earlier answer.
    Assistant {
        /// Its text.
        text: String,
        /// Its calls.
        calls: Vec<Call>,
    },
    /// The result of a call.
    Tool {
        /// The call's id.
        call: String,
        /// The tool's name.
        tool: String,
        /// The result.
        content: String,
    },
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its id; empty in an answer.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

/// A tool that the model may call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments, as text.
    pub parameters: String,
}

/// What an answer may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// Text, or calls of the tools.
    TextOrCalls,
    /// Text only.
    Text,
    /// At least one call.
    Calls,
    /// One JSON value that matches this JSON Schema (its text).
    Json(String),
}

/// What `sluice-model` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Event {
    /// The model is loaded.
    Ready,
    /// The model cannot be loaded; the program ends.
    Unusable(String),
    /// The next piece of an answer's text.
    Text {
        /// Which completion.
        id: u64,
        /// Never empty.
        text: String,
    },
    /// The end of a completion.
    Done {
        /// Which completion.
        id: u64,
        /// All of the answer, or why there is none.
        result: Result<Answer, Failure>,
    },
}

/// A model's answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// Its text; empty when it is calls only.
    pub text: String,
    /// Its calls, in order.
    pub calls: Vec<Call>,
    /// Why it ended.
    pub stop: Stop,
    /// What it cost.
    pub usage: Usage,
}

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// The model ended its message.
    End,
    /// The token limit, or the end of the context.
    Length,
    /// The model repeated itself.
    Repetition,
}

/// What a completion cost.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// How many of them came from a cached prefix.
    pub cached_tokens: u32,
    /// Generated tokens.
    pub completion_tokens: u32,
    /// Wall time from the request to the first generated token.
    pub time_to_first_token: Option<Duration>,
    /// Wall time of the whole completion.
    pub total_time: Duration,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// The prompt does not fit the context; the lengths.
    TooLong(String),
    /// The model, its template or the grammar failed.
    Model(String),
}

/// The bytes of a frame.
pub fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, value)?;
    let length = frame.len() - 4;
    if length > MAX_FRAME {
        return Err(too_long(length));
    }
    let prefix = u32::try_from(length).map_err(|_| too_long(length))?;
    if let Some(head) = frame.first_chunk_mut() {
        *head = prefix.to_be_bytes();
    }
    Ok(frame)
}

/// The length of a payload, from the first four bytes of its frame.
pub fn payload_length(prefix: [u8; 4]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX);
    if length > MAX_FRAME {
        return Err(too_long(length));
    }
    Ok(length)
}

/// Reads one frame; it blocks.
///
/// # Errors
/// The other side has closed the socket ([`io::ErrorKind::UnexpectedEof`]), or sent what is no frame.
pub fn read<T: DeserializeOwned>(mut reader: impl Read) -> io::Result<T> {
    let mut prefix = [0; 4];
    reader.read_exact(&mut prefix)?;
    let mut payload = vec![0; payload_length(prefix)?];
    reader.read_exact(&mut payload)?;
    Ok(serde_json::from_slice(&payload)?)
}

fn too_long(length: usize) -> io::Error {
    io::Error::other(format!("a frame of {length} bytes, more than {MAX_FRAME}"))
}
