//! Chunks of a stream, or one whole message, put together to a completion.

use std::collections::VecDeque;
use std::time::Duration;

use hub::{Completion, ProposedCall, StopReason, Usage};
use serde::Deserialize;
use serde_json::Value;

use super::refused::{ApiError, Refused};

/// Calls in one answer. The API's own bound on parallel calls is lower.
const MAX_CALLS: usize = 128;
/// Bytes of a call's id. Some servers keep a signed thought in it.
const MAX_ID: usize = 4096;

/// What is passed on of an answer before it is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The next piece of its text; never empty.
    Text(String),
    /// What the server calls the call at this position.
    CallId { call: usize, id: String },
}

/// Puts a completion together.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    text: String,
    calls: Vec<PartialCall>,
    stop: Option<StopReason>,
    usage: Usage,
    /// The server has said that it stopped, and not why.
    unnamed_stop: bool,
    /// Received and not yet polled.
    pieces: VecDeque<Piece>,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: usize,
    /// Empty while none has come.
    id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Value>,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct Choice {
    /// In a stream.
    delta: Option<Delta>,
    /// In a whole answer.
    message: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<usize>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

impl Assembly {
    /// Takes a chunk of a stream, or a whole answer, as JSON that has come so long after the request.
    pub(super) fn chunk(&mut self, data: &[u8], at: Duration) -> Result<(), Refused> {
        let chunk: Chunk = serde_json::from_slice(data)
            .map_err(|error| Refused::Malformed(format!("not a chat completion: {error}")))?;
        // Before anything else of the chunk: some servers report an error with status 200, beside empty choices.
        if let Some(error) = chunk.error {
            return Err(Refused::Reported(error));
        }
        if let Some(usage) = chunk.usage {
            // An answer is not refused for what is said of its cost: what is no count is 0.
            let count = |at: &str| {
                let count = usage.pointer(at).and_then(Value::as_u64);
                count.and_then(|it| u32::try_from(it).ok()).unwrap_or(0)
            };
            self.usage.prompt_tokens = count("/prompt_tokens");
            self.usage.completion_tokens = count("/completion_tokens");
            let cached = count("/prompt_tokens_details/cached_tokens");
            // Cached tokens are a part of the prompt's: a server that counts otherwise must not make the rest negative.
            self.usage.cached_tokens = cached.min(self.usage.prompt_tokens);
        }
        // One is asked for. A chunk without any has the usage.
        let Some(choice) = chunk.choices.into_iter().next() else {
            return Ok(());
        };
        match (choice.delta, choice.message) {
            (Some(delta), _) => self.delta(delta, false, at)?,
            (None, Some(message)) => self.delta(message, true, at)?,
            (None, None) => {}
        }
        match choice.finish_reason.as_deref() {
            None => {}
            // From some servers in each chunk, from others in the last one only.
            Some("") => self.unnamed_stop = true,
            Some(reason) => self.stop = Some(stop_reason(reason)),
        }
        Ok(())
    }

    /// What is to be passed on next.
    pub(super) fn poll(&mut self) -> Option<Piece> {
        self.pieces.pop_front()
    }

    /// Whether anything of an answer has come.
    pub(super) fn has_begun(&self) -> bool {
        !self.text.is_empty() || !self.calls.is_empty()
    }

    /// The answer, with the names of tools as the server writes them; `None` when the server has not said why it stopped. `is_finished` says that it has said that nothing
    /// follows.
    pub(super) fn complete(mut self, is_finished: bool, at: Duration) -> Option<Completion> {
        self.usage.total_time = at;
        let unnamed = (self.unnamed_stop && is_finished).then_some(StopReason::End);
        let stop = self.stop.or(unnamed)?;
        // Some servers send nothing for a call without arguments. Of one that was cut off they had not come yet.
        let none = if stop == StopReason::End { "{}" } else { "" };
        Some(Completion {
            stop,
            text: self.text,
            calls: self
                .calls
                .into_iter()
                .map(|call| ProposedCall {
                    tool: call.name,
                    arguments: if call.arguments.trim().is_empty() {
                        none.to_owned()
                    } else {
                        call.arguments
                    },
                })
                .collect(),
            usage: self.usage,
        })
    }

    /// Takes a piece of the message, or the whole one, in which each call stands once.
    fn delta(&mut self, delta: Delta, is_whole: bool, at: Duration) -> Result<(), Refused> {
        // A refusal is an answer to the user like any other text.
        for piece in [delta.content, delta.refusal].into_iter().flatten() {
            if !piece.is_empty() {
                self.usage.time_to_first_token.get_or_insert(at);
                self.text.push_str(&piece);
                self.pieces.push_back(Piece::Text(piece));
            }
        }
        for (position, call) in delta.tool_calls.into_iter().flatten().enumerate() {
            self.usage.time_to_first_token.get_or_insert(at);
            // A whole answer has no indexes; some servers leave them out of streams too.
            let index = call.index.filter(|_| !is_whole);
            let id = call.id.unwrap_or_default();
            let function = call.function.unwrap_or_default();
            let name = function.name.unwrap_or_default();
            let known = match is_whole {
                true => None,
                false => self.known(index, position, &id, &name),
            };
            let place = match known {
                Some(place) => place,
                None => self.begin(index.unwrap_or(position))?,
            };
            let lost = || Refused::Malformed("lost a tool call".to_owned());
            let slot = self.calls.get_mut(place).ok_or_else(lost)?;
            // The first one names the call: some servers repeat it in each piece, some make a new one for each.
            if slot.id.is_empty() && !id.is_empty() {
                // It goes to a proxy's client as it is, so nothing that could break a line or a terminal.
                let is_word = id.bytes().all(|byte| byte.is_ascii_graphic());
                if id.len() <= MAX_ID && is_word {
                    let id = id.clone();
                    self.pieces.push_back(Piece::CallId { call: place, id });
                }
                slot.id = id;
            }
            // Some servers repeat the name in each piece; none sends it in parts.
            if !name.is_empty() {
                slot.name = name;
            }
            slot.arguments
                .push_str(&function.arguments.unwrap_or_default());
        }
        Ok(())
    }

    /// The position of the call that a piece goes on with; `None` if it begins one. Only a piece with a tool's name
    /// does so. Its index alone does not tell: some servers leave it out, some have the same one for all calls. In
    /// doubt it begins a call: a piece that is none has arguments that do not parse, while a piece that is mixed into
    /// another call could change what that one does.
    fn known(&self, index: Option<usize>, position: usize, id: &str, name: &str) -> Option<usize> {
        let has_name =
            |call: &PartialCall| name.is_empty() || call.name.is_empty() || call.name == name;
        let is_meant = |call: &PartialCall| {
            let same_index = index.is_none_or(|index| call.index == index);
            same_index && !id.is_empty() && call.id == id && has_name(call)
        };
        if let Some(at) = self.calls.iter().rposition(is_meant) {
            return Some(at);
        }
        let index = index.unwrap_or(position);
        let newest = self.calls.iter().rposition(|call| call.index == index)?;
        let call = self.calls.get(newest)?;
        let has_id = id.is_empty() || call.id.is_empty() || call.id == id;
        (name.is_empty() || (has_id && has_name(call))).then_some(newest)
    }

    /// Begins a call with this index; its position among all.
    fn begin(&mut self, index: usize) -> Result<usize, Refused> {
        let at = self.calls.len();
        // A hostile server could otherwise make a call of each event, and each call is shown, judged and recorded.
        if at >= MAX_CALLS {
            return Err(Refused::Malformed(format!(
                "more than {MAX_CALLS} tool calls"
            )));
        }
        self.calls.push(PartialCall {
            index,
            ..PartialCall::default()
        });
        Ok(at)
    }
}

/// The meaning of a server's word for why it stopped. An unknown word does not make an answer complete.
fn stop_reason(word: &str) -> StopReason {
    match word.to_ascii_lowercase().as_str() {
        "stop" | "tool_calls" | "function_call" => StopReason::End,
        // Of compatible servers (Together, Text Generation Inference), and of gateways to Anthropic's models.
        "eos" | "eos_token" | "stop_sequence" | "end_turn" | "tool_use" => StopReason::End,
        "length" | "max_tokens" | "model_length" => StopReason::Length,
        "content_filter" => StopReason::Filter,
        _ => StopReason::Other,
    }
}
