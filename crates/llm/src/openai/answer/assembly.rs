//! Chunks of a stream, or one whole message, put together to a completion.
//!
//! Servers write the same things in many forms, so nothing here insists on one: a member of a type that is not known counts
//! as absent. Members that the API does not have are collected unread, since their server may need them back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hub::{Completion, ProposedCall, StopReason, Usage};
use ifc::Unread;
use serde_json::{Deserializer, Map, Value, value::RawValue};

use super::refused::{ApiError, Refused};

/// Calls in one answer. The API's own bound on parallel calls is lower.
const MAX_CALLS: usize = 128;
/// Bytes of a call's id. Some servers keep a signed thought in it.
const MAX_ID: usize = 4096;
/// Bytes of what is carried unread. Long thoughts take some hundred kilobytes.
const MAX_UNREAD: usize = 1 << 20;
/// Members that are read, or have no meaning in a request.
const READ: [&str; 5] = ["role", "content", "refusal", "tool_calls", "annotations"];
const READ_OF_CALL: [&str; 4] = ["index", "id", "type", "function"];

/// Puts a completion together.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    text: String,
    calls: Vec<PartialCall>,
    stop: Option<StopReason>,
    usage: Usage,
    /// Anything of a message has come, even if it said nothing.
    has_message: bool,
    /// Some of it came in a piece, and not as a whole message.
    pub(super) has_pieces: bool,
    unread: Map<String, Value>,
    /// Received and not yet polled.
    pieces: VecDeque<String>,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: usize,
    /// Empty while none has come.
    id: String,
    name: String,
    arguments: String,
    unread: Map<String, Value>,
}

/// The members of an object, as they are written.
type Members<'a> = BTreeMap<String, &'a RawValue>;

impl Assembly {
    /// Takes JSON that has come so long after the request: a chunk of a stream, several, or a whole answer. `is_error` says
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
                false => Refused::Malformed(format!("not a chat completion: {error}")),
            })?;
            self.chunk(chunk, is_error, at)?;
        }
        Ok(())
    }

    fn chunk(&mut self, chunk: &RawValue, is_error: bool, at: Duration) -> Result<(), Refused> {
        let members = members(chunk);
        let choices = items(members.get("choices").copied());
        // Before anything else of the chunk: some servers report an error with status 200, beside empty choices.
        let has_error = members.get("error").is_some_and(|it| it.get() != "null");
        if (is_error || has_error || choices.is_empty())
            && let Ok(value) = serde_json::from_str(chunk.get())
            && let Some(error) = ApiError::of(&value, is_error)
        {
            return Err(Refused::Reported(error));
        }
        if let Some(usage) = members.get("usage").filter(|it| it.get() != "null") {
            // An answer is not refused for what is said of its cost: what is no count is 0.
            let usage: Value = serde_json::from_str(usage.get()).unwrap_or_default();
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
        for (position, choice) in choices.into_iter().enumerate() {
            let choice = self::members(choice);
            // One is asked for. A server that sends more of them sends other answers.
            if number(choice.get("index")).unwrap_or(position) == 0 {
                self.choice(&choice, at)?;
            }
        }
        Ok(())
    }

    fn choice(&mut self, choice: &Members<'_>, at: Duration) -> Result<(), Refused> {
        self.has_message = true;
        self.has_pieces |= !choice.contains_key("message");
        let part = |name| choice.get(name).map(|it| self::members(it));
        match (
            part("delta").filter(|it| !it.is_empty()),
            part("message"),
            choice.get("text"),
        ) {
            (Some(delta), ..) => self.delta(&delta, false, at)?,
            (None, Some(message), _) => self.delta(&message, true, at)?,
            (None, None, text) => self.say(text, at),
        }
        // From some servers an empty one in each chunk, from others in the last one only.
        let reason = choice
            .get("finish_reason")
            .map(|it| it.get().trim_matches('"'));
        match reason {
            None | Some("" | "null" | "true" | "false") => {}
            Some(reason) => self.stop = Some(stop_reason(reason)),
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
                arguments: match call.arguments.trim().is_empty() {
                    true => none.to_owned(),
                    false => call.arguments,
                },
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

    fn say(&mut self, content: Option<&&RawValue>, at: Duration) {
        let piece = text(content);
        if !piece.is_empty() {
            self.usage.time_to_first_token.get_or_insert(at);
            self.text.push_str(&piece);
            self.pieces.push_back(piece);
        }
    }

    /// Takes a piece of the message, or the whole one, in which each call stands once.
    fn delta(&mut self, delta: &Members<'_>, is_whole: bool, at: Duration) -> Result<(), Refused> {
        // A refusal is an answer to the user like any other text.
        self.say(delta.get("content"), at);
        self.say(delta.get("refusal"), at);
        collect(&mut self.unread, delta, &READ);
        let calls = items(delta.get("tool_calls").copied());
        for (position, call) in calls.into_iter().enumerate() {
            let call = members(call);
            self.usage.time_to_first_token.get_or_insert(at);
            // A whole answer has no indexes; some servers leave them out of streams too.
            let index = number(call.get("index")).filter(|_| !is_whole);
            let id = text(call.get("id"));
            let function = call.get("function").map(|it| members(it));
            let function = function.unwrap_or_default();
            let name = text(function.get("name"));
            let known = match is_whole {
                true => None,
                false => self.known(index, position, &id, &name),
            };
            let place = match known {
                Some(place) => place,
                // Nothing of a call.
                None if id.is_empty() && name.is_empty() && function.is_empty() => continue,
                None => self.begin(index.unwrap_or(position))?,
            };
            let lost = || Refused::Malformed("lost a tool call".to_owned());
            let slot = self.calls.get_mut(place).ok_or_else(lost)?;
            // The first one names the call: some servers repeat it in each piece, some make a new one for each.
            if slot.id.is_empty() {
                slot.id = id;
            }
            // Some servers repeat the name in each piece; none sends it in parts.
            if !name.is_empty() {
                slot.name = name;
            }
            collect(&mut slot.unread, &call, &READ_OF_CALL);
            match function.get("arguments") {
                // Some servers write the object itself, and not its text.
                Some(object) if object.get().starts_with('{') => {
                    slot.arguments.push_str(object.get());
                }
                arguments => slot.arguments.push_str(&text(arguments)),
            }
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

/// The members of an object; none of anything else.
fn members(value: &RawValue) -> Members<'_> {
    serde_json::from_str(value.get()).unwrap_or_default()
}

/// The items of a list; anything else is one item.
fn items(value: Option<&RawValue>) -> Vec<&RawValue> {
    match value.filter(|it| it.get() != "null") {
        None => Vec::new(),
        Some(value) => serde_json::from_str(value.get()).unwrap_or_else(|_| vec![value]),
    }
}

/// A count, also one that is written as a text.
fn number(value: Option<&&RawValue>) -> Option<usize> {
    text(value).trim().parse().ok()
}

/// A text: a string, a number, or the parts of a list. Thoughts among the parts are none.
fn text(value: Option<&&RawValue>) -> String {
    let Some(value) = value.copied() else {
        return String::new();
    };
    let part = |part: &RawValue| {
        let members = members(part);
        let kind = members.get("type").map_or("", |kind| kind.get());
        match kind.contains("thinking") || kind.contains("reasoning") {
            true => String::new(),
            false => members
                .get("text")
                .map_or_else(|| string(part), |it| string(it)),
        }
    };
    match value.get().starts_with(['[', '{']) {
        true => items(Some(value)).into_iter().map(part).collect(),
        false => string(value),
    }
}

/// A string or a number; nothing of any other type. Half a character costs itself.
fn string(value: &RawValue) -> String {
    let raw = value.get();
    if !raw.starts_with('"') {
        let is_number = raw.starts_with(|it: char| it == '-' || it.is_ascii_digit());
        return if is_number {
            raw.to_owned()
        } else {
            String::new()
        };
    }
    serde_json::from_str(raw).unwrap_or_else(|_| {
        let mut parts = raw.split("\\u");
        let mut mended = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_half = part.as_bytes().first().is_some_and(|it| b"dD".contains(it))
                && !part
                    .as_bytes()
                    .get(1)
                    .is_some_and(|it| (b'0'..b'8').contains(it));
            mended.push_str("\\u");
            mended.push_str(if is_half {
                "fffd"
            } else {
                part.get(..4).unwrap_or("")
            });
            mended.push_str(part.get(4..).unwrap_or(""));
        }
        serde_json::from_str(&mended).unwrap_or_default()
    })
}

/// Adds the members that are not read to those of the pieces before.
fn collect(known: &mut Map<String, Value>, members: &Members<'_>, read: &[&str]) {
    let unread = members.iter().filter(|(name, _)| !read.contains(&&***name));
    for (name, value) in unread {
        match serde_json::from_str(value.get()) {
            Ok(Value::Null) | Err(_) => {}
            Ok(value) => join(known, name, value),
        }
    }
}

/// Adds a piece of a member: texts and lists go on, anything else is replaced.
fn join(known: &mut Map<String, Value>, name: &str, more: Value) {
    match (known.get_mut(name), more) {
        (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
        (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
        (Some(Value::Array(list)), Value::Array(more)) => {
            for item in more {
                match (list.last_mut(), item) {
                    // The next piece of the newest item.
                    (Some(Value::Object(last)), Value::Object(item))
                        if item.contains_key("index")
                            && ["index", "type"]
                                .iter()
                                .all(|it| last.get(*it) == item.get(*it)) =>
                    {
                        for (name, more) in item.into_iter().filter(|(_, it)| !it.is_null()) {
                            match name.as_str() {
                                "text" | "summary" | "data" => join(last, &name, more),
                                _ => drop(last.insert(name, more)),
                            }
                        }
                    }
                    (_, item) => list.push(item),
                }
            }
        }
        (_, more) => drop(known.insert(name.to_owned(), more)),
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
