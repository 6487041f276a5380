//! Chat completions: chunks of a stream, or one whole message.

use std::time::Duration;

use serde_json::{Value, value::RawValue};

use super::assembly::{Assembly, PartialCall, reported};
use super::raw::{self, Members, collect, items, members, number, object, text};
use super::refused::Refused;

/// Members that are read, or have no meaning in a request.
const READ: [&str; 5] = ["role", "content", "refusal", "tool_calls", "annotations"];
const READ_OF_CALL: [&str; 4] = ["index", "id", "type", "function"];

impl Assembly {
    /// Takes a chunk of a stream, or a whole answer.
    pub(super) fn chunk(
        &mut self,
        chunk: &RawValue,
        is_error: bool,
        at: Duration,
    ) -> Result<(), Refused> {
        let members = members(chunk);
        let choices = items(members.get("choices").copied());
        // Before anything else of the chunk: some servers report an error with status 200, beside empty choices.
        reported(chunk, &members, is_error, choices.is_empty())?;
        if let Some(usage) = members.get("usage").filter(|it| it.get() != "null") {
            let usage: Value = serde_json::from_str(usage.get()).unwrap_or_default();
            let count = |at: &str| raw::count(&usage, at).unwrap_or(0);
            self.usage.prompt_tokens = count("/prompt_tokens");
            self.usage.completion_tokens = count("/completion_tokens");
            let cached = count("/prompt_tokens_details/cached_tokens");
            // Cached tokens are a part of the prompt's: a server that counts otherwise must not make the rest negative.
            self.usage.cached_tokens = cached.min(self.usage.prompt_tokens);
        }
        for (position, choice) in choices.into_iter().enumerate() {
            let choice = raw::members(choice);
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
        let part = |name| choice.get(name).map(|it| raw::members(it));
        match (
            part("delta").filter(|it| !it.is_empty()),
            part("message"),
            choice.get("text"),
        ) {
            (Some(delta), ..) => self.delta(&delta, false, at)?,
            (None, Some(message), _) => self.delta(&message, true, at)?,
            (None, None, text) => self.say(text, at),
        }
        self.end_by(choice.get("finish_reason"));
        Ok(())
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
                None => self.begin(index.unwrap_or(position), at)?,
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
            // Some servers write the object itself, and not its text.
            slot.arguments.push_str(&object(function.get("arguments")));
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
}
