//! Anthropic's messages: the events of a stream, or one whole message.

use std::time::Duration;

use serde_json::{Map, Value, value::RawValue};

use super::assembly::{Assembly, reported};
use super::raw::{self, Members, items, members, number, object, text};
use super::refused::Refused;

/// What a prompt costs, in the order of [`Assembly::input`].
const INPUT: [&str; 3] = [
    "/input_tokens",
    "/cache_read_input_tokens",
    "/cache_creation_input_tokens",
];

impl Assembly {
    /// Takes an event, or a whole message.
    pub(super) fn message_event(
        &mut self,
        event: &RawValue,
        is_error: bool,
        at: Duration,
    ) -> Result<(), Refused> {
        let members = members(event);
        let kind = text(members.get("type"));
        let is_nothing_else = kind.is_empty() && !members.contains_key("content");
        reported(
            event,
            &members,
            is_error || kind == "error",
            is_nothing_else,
        )?;
        let part = |name| members.get(name).map(|it| raw::members(it));
        let part = |name| part(name).unwrap_or_default();
        let index = number(members.get("index"));
        match kind.as_str() {
            "message_start" => self.cost(part("message").get("usage")),
            "content_block_start" => {
                if let Some(block) = members.get("content_block") {
                    self.block(index.unwrap_or(self.calls.len()), block, at)?;
                }
            }
            "content_block_delta" => self.block_delta(index, &part("delta"), at)?,
            "message_delta" => {
                self.end_by(part("delta").get("stop_reason"));
                self.cost(members.get("usage"));
            }
            "message_stop" => {
                self.is_finished = true;
                return Ok(());
            }
            _ => return self.message(&members, at),
        }
        (self.has_message, self.has_pieces) = (true, true);
        Ok(())
    }

    /// Takes a whole message.
    fn message(&mut self, message: &Members<'_>, at: Duration) -> Result<(), Refused> {
        let Some(content) = message.get("content") else {
            return Ok(());
        };
        self.has_message = true;
        if content.get().starts_with('"') {
            self.say(Some(content), at);
        }
        for (index, block) in items(Some(*content)).into_iter().enumerate() {
            self.block(index, block, at)?;
        }
        self.end_by(message.get("stop_reason"));
        self.cost(message.get("usage"));
        Ok(())
    }

    /// Begins a block. One of a type that is not known is carried, as a thought is.
    fn block(&mut self, index: usize, block: &RawValue, at: Duration) -> Result<(), Refused> {
        let members = members(block);
        match text(members.get("type")).as_str() {
            "text" => self.say(members.get("text"), at),
            "tool_use" => {
                let place = self.begin(index, at)?;
                if let Some(call) = self.calls.get_mut(place) {
                    call.id = text(members.get("id"));
                    call.name = text(members.get("name"));
                    call.at_once = object(members.get("input"));
                }
            }
            // Without a type it could not be sent back.
            "" => {}
            _ => (self.pending).extend(serde_json::from_str::<Value>(block.get()).ok()),
        }
        Ok(())
    }

    /// Goes on with the newest call of this index, or the newest of all; with the text; or with the newest thought.
    fn block_delta(
        &mut self,
        index: Option<usize>,
        delta: &Members<'_>,
        at: Duration,
    ) -> Result<(), Refused> {
        if let Some(json) = delta.get("partial_json") {
            let piece = object(Some(json));
            if !piece.is_empty() {
                let place = self.called(index, at)?;
                if let Some(call) = self.calls.get_mut(place) {
                    call.arguments.push_str(&piece);
                }
            }
        } else if delta.contains_key("text") {
            self.say(delta.get("text"), at);
        } else if let Some(Value::Object(block)) = self.pending.last_mut() {
            go_on(block, delta);
        }
        Ok(())
    }

    /// Takes what the answer costs so far. A later event may repeat a number, or leave it out.
    fn cost(&mut self, usage: Option<&&RawValue>) {
        let usage = usage.and_then(|it| serde_json::from_str(it.get()).ok());
        let usage: Value = usage.unwrap_or_default();
        for (known, name) in self.input.iter_mut().zip(INPUT) {
            *known = raw::count(&usage, name).unwrap_or(*known);
        }
        // The API counts what it has cached beside the rest of the prompt, and not as a part of it.
        self.usage.prompt_tokens = self.input.into_iter().fold(0, u32::saturating_add);
        self.usage.cached_tokens = self.input[1];
        let generated = raw::count(&usage, "/output_tokens");
        self.usage.completion_tokens = generated.unwrap_or(self.usage.completion_tokens);
    }
}

/// Adds a piece to a block that is not read: thoughts come in pieces, and signatures at once.
fn go_on(block: &mut Map<String, Value>, delta: &Members<'_>) {
    for (name, value) in delta.iter().filter(|(name, _)| *name != "type") {
        match (block.get_mut(name), serde_json::from_str(value.get())) {
            (Some(Value::String(known)), Ok(Value::String(more))) if name == "thinking" => {
                known.push_str(&more);
            }
            (_, Ok(value)) => drop(block.insert(name.clone(), value)),
            (_, Err(_)) => {}
        }
    }
}
