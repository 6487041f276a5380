//! An answer, put together from what its dialect reads. No I/O and no clock here.
//!
//! Servers write the same things in many forms, so nothing here insists on one. What is not read is collected, since its
//! server may need it back.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hub::{Completion, ProposedCall, StopReason, Usage};
use ifc::Unread;
use serde_json::{Deserializer, Map, Value, value::RawValue};

use super::super::Dialect;
use super::raw::{Members, text};
use super::refused::{ApiError, Refused};

/// The member of [`ifc::Unread`] with the parts of an answer that came before its text or a call, such as signed thoughts.
pub(crate) const BEFORE: &str = "before";

/// Calls in one answer. The API's own bound on parallel calls is lower.
const MAX_CALLS: usize = 128;
/// Bytes of a call's id. Some servers keep a signed thought in it.
const MAX_ID: usize = 4096;
/// Bytes of what is carried unread. Long thoughts take some hundred kilobytes.
const MAX_UNREAD: usize = 1 << 20;

/// Puts a completion together.
#[derive(Debug)]
pub(super) struct Assembly {
    dialect: Dialect,
    text: String,
    pub(super) calls: Vec<PartialCall>,
    stop: Option<StopReason>,
    pub(super) usage: Usage,
    /// Tokens of the prompt that were new, and those that were read from a cache and written to one.
    pub(super) input: [u32; 3],
    /// Anything of a message has come, even if it said nothing.
    pub(super) has_message: bool,
    /// Some of it came in a piece, and not as a whole message.
    pub(super) has_pieces: bool,
    /// The server has said that nothing follows.
    pub(super) is_finished: bool,
    pub(super) unread: Map<String, Value>,
    /// The items of a response whose text has come.
    pub(super) spoken: BTreeSet<Option<usize>>,
    /// Unread parts that came before the next text or call.
    pub(super) pending: Vec<Value>,
    /// Received and not yet polled.
    pieces: VecDeque<String>,
}

#[derive(Debug, Default)]
pub(super) struct PartialCall {
    pub(super) index: usize,
    /// Empty while none has come.
    pub(super) id: String,
    pub(super) name: String,
    /// The pieces so far.
    pub(super) arguments: String,
    /// The arguments as they came at once; they count where no pieces come.
    pub(super) at_once: String,
    pub(super) unread: Map<String, Value>,
}

impl Assembly {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            text: String::new(),
            calls: Vec::new(),
            stop: None,
            usage: Usage::default(),
            input: [0; 3],
            has_message: false,
            has_pieces: false,
            is_finished: false,
            unread: Map::new(),
            spoken: BTreeSet::new(),
            pending: Vec::new(),
            pieces: VecDeque::new(),
        }
    }

    /// Takes JSON that has come so long after the request: an event of a stream, several, or a whole answer. `is_error` says
    /// that the server calls it an error.
    pub(super) fn take(&mut self, data: &str, is_error: bool, at: Duration) -> Result<(), Refused> {
        // What is no object says nothing: some servers keep a connection alive so.
        if !data.trim_start().starts_with(['{', '[']) {
            return match is_error {
                true => Err(Refused::Reported(ApiError::words(data))),
                false => Ok(()),
            };
        }
        for chunk in Deserializer::from_str(data).into_iter::<&RawValue>() {
            let chunk = chunk.map_err(|error| match is_error {
                true => Refused::Reported(ApiError::words(data)),
                false => Refused::Malformed(format!("not {}: {error}", self.dialect.answer())),
            })?;
            match self.dialect {
                // What follows the end counts nowhere.
                _ if self.is_finished => break,
                Dialect::Chat => self.chunk(chunk, is_error, at)?,
                Dialect::Messages => self.message_event(chunk, is_error, at)?,
                Dialect::Responses => self.response_event(chunk, is_error, at)?,
            }
        }
        Ok(())
    }

    /// What is to be passed on next: a piece of the text; never empty.
    pub(super) fn poll(&mut self) -> Option<String> {
        self.pieces.pop_front()
    }

    /// Whether anything of an answer has come.
    pub(super) fn has_begun(&self) -> bool {
        !self.text.is_empty() || !self.calls.is_empty()
    }

    /// The answer of this provider, with the names of tools as the server writes them; `None` when the server has not said
    /// why it stopped. `is_finished` says that it has said that nothing follows.
    pub(super) fn complete(
        mut self,
        provider: &str,
        is_finished: bool,
        at: Duration,
    ) -> Option<Completion> {
        self.usage.total_time = at;
        let unnamed = (self.has_message && is_finished).then_some(StopReason::End);
        let stop = self.stop.or(unnamed)?;
        // Some servers send nothing for a call without arguments. Of one that was cut off they had not come yet.
        let none = if stop == StopReason::End { "{}" } else { "" };
        let written = |members: Map<String, Value>| match members.is_empty() {
            true => String::new(),
            false => Value::Object(members).to_string(),
        };
        let mut unread = Unread {
            provider: provider.to_owned(),
            members: written(self.unread),
            calls: Vec::new(),
        };
        let mut calls = Vec::new();
        for call in self.calls {
            // It goes into requests as it is, so nothing that could break a line or a terminal.
            let is_word = call.id.bytes().all(|byte| byte.is_ascii_graphic());
            let is_id = is_word && (1..=MAX_ID).contains(&call.id.len());
            let members = written(call.unread);
            unread.calls.push((is_id.then_some(call.id), members));
            calls.push(ProposedCall {
                tool: call.name,
                arguments: [call.arguments, call.at_once]
                    .into_iter()
                    .find(|arguments| !arguments.trim().is_empty())
                    .unwrap_or_else(|| none.to_owned()),
            });
        }
        let is_carried = (1..=MAX_UNREAD).contains(&unread.bytes());
        Some(Completion {
            stop,
            text: self.text,
            calls,
            usage: self.usage,
            unread: is_carried.then(|| Arc::new(unread)),
        })
    }

    pub(super) fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    /// Why the server says that it stopped. From some servers it is empty until the end.
    pub(super) fn end_by(&mut self, reason: Option<&&RawValue>) {
        match reason.map(|it| it.get().trim_matches('"')) {
            None | Some("" | "null" | "true" | "false") => {}
            Some(reason) => self.stop = Some(stop_reason(reason)),
        }
    }

    /// Takes a piece of the text.
    pub(super) fn say(&mut self, content: Option<&&RawValue>, at: Duration) {
        let piece = text(content);
        if !piece.is_empty() {
            self.usage.time_to_first_token.get_or_insert(at);
            if self.calls.is_empty() {
                put_before(&mut self.unread, &mut self.pending);
            }
            self.text.push_str(&piece);
            self.pieces.push_back(piece);
        }
    }

    /// The newest call of this index, or the newest of all.
    pub(super) fn newest(&self, index: Option<usize>) -> Option<usize> {
        let is_meant = |call: &PartialCall| index.is_none_or(|index| call.index == index);
        self.calls.iter().rposition(is_meant)
    }

    /// The position of the call that a piece of arguments is of. In doubt it begins a call: mixed into another one, it could
    /// change what that does.
    pub(super) fn called(&mut self, index: Option<usize>, at: Duration) -> Result<usize, Refused> {
        match self.newest(index) {
            Some(place) => Ok(place),
            None => self.begin(index.unwrap_or(0), at),
        }
    }

    /// Begins a call with this index; its position among all.
    pub(super) fn begin(&mut self, index: usize, at: Duration) -> Result<usize, Refused> {
        self.usage.time_to_first_token.get_or_insert(at);
        let place = self.calls.len();
        // A hostile server could otherwise make a call of each event, and each call is shown, judged and recorded.
        if place >= MAX_CALLS {
            return Err(Refused::Malformed(format!(
                "more than {MAX_CALLS} tool calls"
            )));
        }
        let mut call = PartialCall {
            index,
            ..PartialCall::default()
        };
        put_before(&mut call.unread, &mut self.pending);
        self.calls.push(call);
        Ok(place)
    }
}

/// Moves parts to the members of what followed them.
fn put_before(members: &mut Map<String, Value>, parts: &mut Vec<Value>) {
    if parts.is_empty() {
        return;
    }
    match members
        .entry(BEFORE)
        .or_insert_with(|| Value::Array(Vec::new()))
    {
        Value::Array(known) => known.append(parts),
        other => *other = Value::Array(std::mem::take(parts)),
    }
}

/// Refuses an event that is or has an error. `is_error` says that the server calls it one, and `may_be` that it is nothing
/// else.
pub(super) fn reported(
    event: &RawValue,
    members: &Members<'_>,
    is_error: bool,
    may_be: bool,
) -> Result<(), Refused> {
    let has_error = members.get("error").is_some_and(|it| it.get() != "null");
    if (is_error || has_error || may_be)
        && let Ok(value) = serde_json::from_str(event.get())
        && let Some(error) = ApiError::of(&value, is_error)
    {
        return Err(Refused::Reported(error));
    }
    Ok(())
}

/// The meaning of a server's word for why it stopped. An unknown word does not make an answer complete.
fn stop_reason(word: &str) -> StopReason {
    match word.to_ascii_lowercase().as_str() {
        "stop" | "tool_calls" | "function_call" => StopReason::End,
        // Of messages, and of responses.
        "stop_sequence" | "end_turn" | "tool_use" | "completed" => StopReason::End,
        // Of compatible servers (Together, Text Generation Inference).
        "eos" | "eos_token" => StopReason::End,
        "length" | "max_tokens" | "model_length" => StopReason::Length,
        "max_output_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "content_filter" | "refusal" => StopReason::Filter,
        _ => StopReason::Other,
    }
}
