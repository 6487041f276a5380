//! OpenAI's responses: the events of a stream, or one whole response.

use std::time::Duration;

use serde_json::{Value, value::RawValue};

use super::assembly::{Assembly, PartialCall, reported};
use super::raw::{self, Members, items, members, number, object, text};
use super::refused::Refused;

impl Assembly {
    /// Takes an event, or a whole response.
    pub(super) fn response_event(
        &mut self,
        event: &RawValue,
        is_error: bool,
        at: Duration,
    ) -> Result<(), Refused> {
        let own = members(event);
        let kind = text(own.get("type"));
        let response = own.get("response").copied().unwrap_or(event);
        let members = members(response);
        let failed = kind == "error" || kind == "response.failed";
        let is_nothing_else = kind.is_empty() && !members.contains_key("output");
        reported(response, &members, is_error || failed, is_nothing_else)?;
        let index = number(own.get("output_index"));
        match kind.as_str() {
            "response.output_item.added" | "response.output_item.done" => {
                if let Some(item) = own.get("item") {
                    self.item(index, item, kind.ends_with("done"), at)?;
                }
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.spoken.insert(index);
                self.say(own.get("delta"), at);
            }
            "response.function_call_arguments.delta" => {
                let place = self.called(index, at)?;
                if let Some(call) = self.calls.get_mut(place) {
                    call.arguments.push_str(&object(own.get("delta")));
                }
            }
            "response.function_call_arguments.done" => {
                let place = self.called(index, at)?;
                self.replace(place, object(own.get("arguments")));
            }
            "response.completed" | "response.incomplete" | "response.done" => {
                self.response(&members, at)?;
                self.is_finished = true;
            }
            _ if members.contains_key("output") && kind.is_empty() => {
                self.has_message = true;
                return self.response(&members, at);
            }
            _ => {}
        }
        let is_of_answer = kind.starts_with("response.");
        self.has_message |= is_of_answer;
        self.has_pieces |= is_of_answer;
        Ok(())
    }

    /// Takes a whole response: what has not come in pieces, why it ended and what it cost.
    fn response(&mut self, response: &Members<'_>, at: Duration) -> Result<(), Refused> {
        let (has_text, has_calls) = (self.has_text(), !self.calls.is_empty());
        let is_new = !self.has_begun() && self.pending.is_empty();
        for (index, item) in items(response.get("output").copied())
            .into_iter()
            .enumerate()
        {
            let members = members(item);
            let wanted = match text(members.get("type")).as_str() {
                "message" => !has_text,
                "function_call" => {
                    let id = text(members.get("call_id"));
                    !has_calls || self.calls.iter().any(|call| call.id == id)
                }
                _ => is_new,
            };
            if wanted {
                self.item(Some(index), item, true, at)?;
            }
        }
        let details = response.get("incomplete_details");
        let details = details.map(|it| members(it)).unwrap_or_default();
        self.end_by(response.get("status"));
        self.end_by(details.get("reason"));
        if let Some(usage) = response.get("usage").filter(|it| it.get() != "null") {
            let usage: Value = serde_json::from_str(usage.get()).unwrap_or_default();
            let count = |at: &str| raw::count(&usage, at).unwrap_or(0);
            self.usage.prompt_tokens = count("/input_tokens");
            self.usage.completion_tokens = count("/output_tokens");
            let cached = count("/input_tokens_details/cached_tokens");
            self.usage.cached_tokens = cached.min(self.usage.prompt_tokens);
        }
        Ok(())
    }

    /// Takes an item that has begun, or one that is done, which has all that its pieces said.
    fn item(
        &mut self,
        index: Option<usize>,
        item: &RawValue,
        is_done: bool,
        at: Duration,
    ) -> Result<(), Refused> {
        let members = members(item);
        match text(members.get("type")).as_str() {
            "message" if is_done && self.spoken.insert(index) => {
                self.say(members.get("content"), at);
            }
            "function_call" => {
                // Its own id may be another in each event.
                let id = text(members.get("call_id"));
                let name = text(members.get("name"));
                let place = match self.known_call(index, &id, &name).filter(|_| is_done) {
                    Some(place) => place,
                    None => self.begin(index.unwrap_or(self.calls.len()), at)?,
                };
                let arguments = object(members.get("arguments"));
                if let Some(call) = self.calls.get_mut(place) {
                    for (known, given) in [(&mut call.id, id), (&mut call.name, name)] {
                        if !given.is_empty() {
                            *known = given;
                        }
                    }
                    call.at_once.clone_from(&arguments);
                }
                if is_done {
                    self.replace(place, arguments);
                }
            }
            // Without a type it could not be sent back.
            "message" | "" => {}
            _ if is_done => self.pending.extend(needed(item, &members)),
            _ => {}
        }
        Ok(())
    }

    /// The position of a call that has begun, by its id or its index; another name or id is another call.
    fn known_call(&self, index: Option<usize>, id: &str, name: &str) -> Option<usize> {
        let fits =
            |known: &str, given: &str| known.is_empty() || given.is_empty() || known == given;
        let is_meant =
            |call: &PartialCall| !id.is_empty() && call.id == id && fits(&call.name, name);
        if let Some(place) = self.calls.iter().rposition(is_meant) {
            return Some(place);
        }
        let place = self.newest(index)?;
        let call = self.calls.get(place)?;
        (fits(&call.id, id) && fits(&call.name, name)).then_some(place)
    }

    /// Puts the whole arguments in the place of their pieces.
    fn replace(&mut self, place: usize, arguments: String) {
        if let Some(call) = self.calls.get_mut(place).filter(|_| !arguments.is_empty()) {
            call.arguments = arguments;
        }
    }
}

/// An item that goes back with the next request. Thoughts that are neither encrypted nor written out are kept by the server
/// alone, and it refuses them where it was told not to keep any.
fn needed(item: &RawValue, members: &Members<'_>) -> Option<Value> {
    let item: Value = serde_json::from_str(item.get()).ok()?;
    let has = |name: &str| match item.get(name) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        _ => false,
    };
    let is_thought = text(members.get("type")) == "reasoning";
    (!is_thought || has("encrypted_content") || has("content")).then_some(item)
}
