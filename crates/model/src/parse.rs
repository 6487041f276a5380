//! From a model's answer to text and calls, also while it is being written.

use std::collections::BTreeMap;

use model_files::protocol::{Call, Shape};
use serde_json::value::RawValue;

use super::grammar::{CALL_CLOSE, CALL_OPEN};

/// The members of a call, each as it is written.
type Members<'a> = BTreeMap<String, &'a RawValue>;

#[derive(Debug)]
pub(crate) struct AnswerStream {
    raw: String,
    with_calls: bool,
    /// Bytes of `raw` that went to the reader.
    sent: usize,
}

impl AnswerStream {
    pub(crate) fn new(shape: &Shape, has_tools: bool) -> Self {
        let with_calls = match shape {
            Shape::Text | Shape::Json(_) => false,
            Shape::TextOrCalls | Shape::Calls => has_tools,
        };
        Self {
            raw: String::new(),
            with_calls,
            sent: 0,
        }
    }

    /// Takes generated text; returns what is certainly text of the answer and not yet sent.
    pub(crate) fn push(&mut self, text: &str) -> Option<String> {
        self.raw.push_str(text);
        let end = self.certain_text();
        self.send_to(end)
    }

    /// The whole answer, and the text that was not sent yet.
    pub(crate) fn finish(mut self, tools: &[&str]) -> (String, Vec<Call>, Option<String>) {
        let (end, calls) = if self.with_calls {
            split(&self.raw, tools)
        } else {
            (self.raw.trim_end().len(), Vec::new())
        };
        let rest = self.send_to(end);
        let start = self.raw.len() - self.raw.trim_start().len();
        let text = self.raw.get(start..end).unwrap_or_default().to_owned();
        (text, calls, rest)
    }

    fn send_to(&mut self, end: usize) -> Option<String> {
        let start = self.sent.max(self.raw.len() - self.raw.trim_start().len());
        let piece = self
            .raw
            .get(start..end)
            .filter(|piece| !piece.is_empty())?
            .to_owned();
        self.sent = end;
        Some(piece)
    }

    /// Where the part ends that can no longer become a call, nor white space at the end.
    fn certain_text(&self) -> usize {
        let raw = &self.raw;
        let mut end = raw.len();
        if self.with_calls {
            // Nothing is sent until the whole answer is known: a call that was shown as text could
            // not be taken back.
            if begins_like_a_call(raw) {
                return 0;
            }
            end = raw.find(CALL_OPEN).unwrap_or_else(|| {
                // Hold back what may be the beginning of the word.
                let partial = (1..CALL_OPEN.len())
                    .rev()
                    .filter_map(|length| CALL_OPEN.get(..length))
                    .find(|head| raw.ends_with(head));
                raw.len() - partial.map_or(0, str::len)
            });
        }
        raw.get(..end).map_or(0, |text| text.trim_end().len())
    }
}

fn begins_like_a_call(raw: &str) -> bool {
    let raw = raw.trim_start();
    raw.starts_with('{') || raw.starts_with("```json") || "```json".starts_with(raw) || {
        raw.strip_prefix("```")
            .is_some_and(|rest| rest.starts_with(['\n', '{', ' ']))
    }
}

/// The length of the text part and the calls after it. What does not parse is text.
fn split(raw: &str, tools: &[&str]) -> (usize, Vec<Call>) {
    let all_text = || (raw.trim_end().len(), Vec::new());
    if begins_like_a_call(raw) {
        // A fence with or without its language, or none.
        let body = raw.trim_start().trim_start_matches('`');
        let body = body.strip_prefix("json").unwrap_or(body);
        let calls = bare_calls(body, tools);
        // JSON that is no call of a known tool was meant for the user.
        return if calls.is_empty() {
            all_text()
        } else {
            (0, calls)
        };
    }
    let Some(at) = raw.find(CALL_OPEN) else {
        return all_text();
    };
    let (text, rest) = raw.split_at(at);
    let calls = tagged_calls(rest, tools);
    if calls.is_empty() {
        return all_text();
    }
    (text.trim_end().len(), calls)
}

fn tagged_calls(mut rest: &str, tools: &[&str]) -> Vec<Call> {
    let mut calls = Vec::new();
    while let Some(body) = rest.trim_start().strip_prefix(CALL_OPEN) {
        // An argument may hold the closing word, so the JSON itself says where it ends.
        let mut values = serde_json::Deserializer::from_str(body).into_iter::<Members<'_>>();
        let Some(Ok(members)) = values.next() else {
            break;
        };
        let after = body.get(values.byte_offset()..).unwrap_or_default();
        // The first thing that is no call ends the list; what follows it is not executed.
        let Some(found) = call(&members, tools) else {
            break;
        };
        calls.push(found);
        rest = after
            .trim_start()
            .strip_prefix(CALL_CLOSE)
            .unwrap_or_default();
    }
    calls
}

fn bare_calls(body: &str, tools: &[&str]) -> Vec<Call> {
    serde_json::Deserializer::from_str(body)
        .into_iter::<Members<'_>>()
        .map_while(Result::ok)
        .map_while(|members| call(&members, tools))
        .collect()
}

fn call(members: &Members<'_>, tools: &[&str]) -> Option<Call> {
    let tool: String = serde_json::from_str(members.get("name")?.get()).ok()?;
    let arguments = members.get("arguments")?.get();
    // A name that the prompt did not list is no call, so no call of it is evaluated.
    let is_call = arguments.starts_with('{') && tools.contains(&tool.as_str());
    is_call.then(|| Call {
        id: String::new(),
        tool,
        // As the model wrote them: reading them here would round numbers, and keep one of two members of one name.
        arguments: arguments.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, text: &str, calls: &[(&str, &str)]) {
        // In one piece, and character by character.
        for step in [raw.chars().count().max(1), 1] {
            let mut stream = AnswerStream::new(&Shape::TextOrCalls, true);
            let mut sent = String::new();
            let chars: Vec<char> = raw.chars().collect();
            for piece in chars.chunks(step) {
                sent.extend(stream.push(&piece.iter().collect::<String>()));
            }
            let (got, got_calls, rest) = stream.finish(&["read", "list"]);
            sent.extend(rest);
            assert_eq!(got, text);
            assert_eq!(sent, text, "what was streamed is the text");
            let got_calls: Vec<(&str, &str)> = got_calls
                .iter()
                .map(|c| (c.tool.as_str(), c.arguments.as_str()))
                .collect();
            assert_eq!(got_calls, calls);
        }
    }

    #[test]
    fn every_spelling_of_a_call_is_read() {
        let (read, wide) = (("read", r#"{"id":1}"#), ("read", r#"{"id": 1}"#));
        check(r#"{"name": "read", "arguments": {"id": 1}}"#, "", &[wide]);
        check(
            "```json\n{\"name\": \"read\", \"arguments\": {\"id\": 1}}\n```",
            "",
            &[wide],
        );
        check(
            "\n<tool_call>\n{\"name\":\"read\",\"arguments\":{\"id\":1}}\n</tool_call>",
            "",
            &[read],
        );
        check(
            "I look.\n<tool_call>{\"name\":\"read\",\"arguments\":{\"id\":1}}</tool_call>\n<tool_call>{\"name\":\"list\",\"arguments\":{}}</tool_call>",
            "I look.",
            &[read, ("list", "{}")],
        );
        check(
            "{\"name\":\"list\",\"arguments\":{}}\n{\"name\":\"read\",\"arguments\":{\"id\":1}}",
            "",
            &[("list", "{}"), read],
        );
    }

    #[test]
    fn everything_else_is_text() {
        check("  Hello <b>you</b> \n", "Hello <b>you</b>", &[]);
        check("a < b, <tool", "a < b, <tool", &[]);
        check("```python\nprint(1)\n```", "```python\nprint(1)\n```", &[]);
        check(
            "{\"name\":\"other\",\"arguments\":{}}",
            "{\"name\":\"other\",\"arguments\":{}}",
            &[],
        );
        check("{\"name\":\"read\",\"arg", "{\"name\":\"read\",\"arg", &[]);
        check(
            "<tool_call>{\"name\":\"read\"",
            "<tool_call>{\"name\":\"read\"",
            &[],
        );
        check("", "", &[]);
    }

    #[test]
    fn arguments_are_those_that_the_model_wrote() {
        for written in [
            r#"{"id": 21000418450200051332}"#,
            r#"{"z": 1.0, "a": 1e2}"#,
            // Refused where a call is read, as those of any other provider.
            r#"{"to": "eve", "to": "ada"}"#,
            r#"{"id": "\ud800"}"#,
        ] {
            let raw = format!(r#"{{"name": "read", "arguments": {written}}}"#);
            check(&raw, "", &[("read", written)]);
        }
        let deep = format!(r#"{{"id":{}{}}}"#, "[".repeat(1000), "]".repeat(1000));
        let raw = format!(r#"<tool_call>{{"name":"read","arguments":{deep}}}</tool_call>"#);
        check(&raw, "", &[("read", &deep)]);
        for text in [
            r#"{"name":"read","arguments":"{\"id\":1}"}"#,
            r#"{"name":"read","arguments":[]}"#,
            "```json\n[\"read\",{}]\n```",
            "<tool_call>[\"read\",{}]</tool_call>",
        ] {
            check(text, text, &[]);
        }
    }

    #[test]
    fn an_argument_may_hold_the_words_that_mark_calls() {
        let raw = r#"<tool_call>{"name":"read","arguments":{"id":"</tool_call><tool_call>{}"}}</tool_call>"#;
        check(
            raw,
            "",
            &[("read", r#"{"id":"</tool_call><tool_call>{}"}"#)],
        );
    }
}
