//! What an app writes, checked byte by byte before anything interprets it. No I/O here.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use wire::json::{JsonError, JsonScan};
use wire::{Breach, FailureReason, Progress, Quote};

/// Requests that an app may write in one go. Each is answered, unlike a notification, which is skipped: a server may log as
/// much as it likes.
pub(crate) const FLOOD_MESSAGES: u64 = 1_000;

/// Bytes of such requests in one go.
pub(crate) const FLOOD_BYTES: u64 = 4 << 20;

/// The time in which a used-up allowance is full again.
const FLOOD_REFILL: Duration = Duration::from_secs(10);

/// Calls given up whose answers may still come. An app that leaves more unanswered works on nothing.
pub(crate) const MAX_ABANDONED: usize = 64;

/// The notifications that are looked at.
pub(crate) const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROGRESS: &str = "notifications/progress";

/// What the token of a call begins with, before the call's number. Those that `rmcp` gives to other requests are numbers.
pub(crate) const CALL_TOKEN: &str = "call-";

/// What is kept of a line that is not kept whole: of its beginning, for its id and for the log.
const HEAD: usize = 256;

/// And of its end, where some servers write the id.
const TAIL: usize = 64;

/// A line of an app, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// An object that goes too far: its first and last bytes, and the limit.
    Cut(Vec<u8>, Vec<u8>, FailureReason),
}

/// Cuts a stream into lines, of which it keeps no more than the limits allow.
#[derive(Debug)]
pub(crate) struct LineGuard {
    line: Vec<u8>,
    tail: Vec<u8>,
    scan: JsonScan,
    max_line: usize,
    cut: Option<FailureReason>,
}

impl LineGuard {
    pub(crate) fn new(max_line: usize) -> Self {
        Self {
            line: Vec::new(),
            tail: Vec::new(),
            scan: JsonScan::default(),
            max_line,
            cut: None,
        }
    }

    /// Takes bytes until a line is complete or the input is used up.
    pub(crate) fn feed(&mut self, input: &mut &[u8]) -> Option<Line> {
        let end = input.iter().position(|byte| *byte == b'\n');
        let (now, rest) = input.split_at_checked(end.unwrap_or(input.len()))?;
        self.take(now);
        *input = rest.split_first().map_or(rest, |(_, after)| after);
        end?;
        self.scan = JsonScan::default();
        let line = std::mem::take(&mut self.line);
        let tail = std::mem::take(&mut self.tail);
        Some(match self.cut.take() {
            Some(reason) => Line::Cut(line, tail, reason),
            None => Line::Whole(line),
        })
    }

    fn take(&mut self, now: &[u8]) {
        let mut now = now;
        if self.line.is_empty() && self.cut.is_none() {
            // White space and the mark of UTF-8, with which some servers begin.
            while let [b' ' | b'\t' | b'\r' | 0xef | 0xbb | 0xbf, rest @ ..] = now {
                now = rest;
            }
        }
        let first = self.line.first().or(now.first());
        if first.is_some_and(|first| *first != b'{') {
            // No message, of which the log gets the beginning. Its brackets count for nothing.
            let room = HEAD.saturating_sub(self.line.len()).min(now.len());
            self.line.extend(now.iter().take(room));
            return;
        }
        if self.cut.is_none() {
            self.cut = match self.scan.feed(now) {
                // Before it is kept, so that a line that is nested too deep takes no memory.
                Err(error) => Some(json_failure(error, self.max_line)),
                Ok(()) if self.line.len().saturating_add(now.len()) > self.max_line => {
                    Some(FailureReason::LineTooLong(self.max_line as u64))
                }
                Ok(()) => None,
            };
            if self.cut.is_none() {
                return self.line.extend_from_slice(now);
            }
            let last = self.line.len().saturating_sub(TAIL);
            self.tail.extend(self.line.iter().skip(last));
            let room = HEAD.saturating_sub(self.line.len()).min(now.len());
            self.line.extend(now.iter().take(room));
            self.line.truncate(HEAD);
            self.line.shrink_to_fit();
        }
        let last = now.len().saturating_sub(TAIL);
        self.tail.extend(now.iter().skip(last));
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..surplus);
    }
}

/// What a line is, as far as must be known to let it pass.
#[derive(Debug, PartialEq)]
pub(crate) enum Kind {
    /// An answer to the request with this number: its result as it is written, or its error.
    Answer(u64, Result<String, FailureReason>),
    /// A request of the app to us.
    Request,
    /// The notice that the app's tools have changed.
    ToolsChanged,
    /// How far the app has come with the call of this number.
    Progress(u64, Progress),
    /// Another notification, or nothing but white space. Nothing of ours depends on it.
    Ignored,
    /// No message.
    Noise,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    /// Ours are numbers; an answer with anything else answers no request.
    id: Option<Value>,
    method: Option<Value>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Says what a line is.
pub(crate) fn classify(line: &str) -> Kind {
    if line.trim_ascii().is_empty() {
        return Kind::Ignored;
    }
    // A key that stands twice is an error here: `rmcp` reads a request again, and could take the other one. Arrays are none
    // either: MCP has had no batches of JSON-RPC since 2025-06-18.
    let Ok(it) = serde_json::from_str::<Envelope<'_>>(line) else {
        return Kind::Noise;
    };
    let answers = it.result.is_some() || it.error.is_some();
    match (it.method.is_some(), it.id, answers) {
        (true, Some(_), false) => Kind::Request,
        (true, None, false) => match it.method.as_ref().and_then(Value::as_str) {
            Some(TOOLS_CHANGED) => Kind::ToolsChanged,
            Some(PROGRESS) => progress(it.params).unwrap_or(Kind::Ignored),
            _ => Kind::Ignored,
        },
        (false, Some(id), _) => match number(&id) {
            Some(id) => Kind::Answer(
                id,
                match it.error {
                    Some(error) => Err(app_error(error.get())),
                    None => Ok(it.result.map_or("null", |it| it.get()).to_owned()),
                },
            ),
            None => Kind::Noise,
        },
        _ => Kind::Noise,
    }
}

/// The progress of a call of ours.
fn progress(params: Option<&RawValue>) -> Option<Kind> {
    let params: Value = serde_json::from_str(params?.get()).ok()?;
    let text = |name: &str| params.get(name).and_then(Value::as_str);
    let number = |name: &str| params.get(name).and_then(Value::as_number).cloned();
    let progress = Progress {
        progress: number("progress")?,
        total: number("total"),
        message: text("message").map(Quote::head),
    };
    let call = text("progressToken")?.strip_prefix(CALL_TOKEN)?;
    let call = call.parse().ok()?;
    Some(Kind::Progress(call, progress))
}

/// An id of ours, which some servers give back as text.
fn number(id: &Value) -> Option<u64> {
    let text = id.as_str().and_then(|id| id.parse().ok());
    id.as_u64().or(text)
}

/// All words of a JSON-RPC error of any form.
fn app_error(error: &str) -> FailureReason {
    let value: Value = serde_json::from_str(error).unwrap_or_default();
    let code = value.get("code").and_then(Value::as_i64);
    let message = value.get("message").unwrap_or(&value);
    let message = message.as_str().unwrap_or(error);
    let data = value.get("data").filter(|data| !data.is_null());
    let data = data.map(|data| data.as_str().map_or(data.to_string(), str::to_owned));
    let said = match data {
        Some(data) => Quote::head(&format!("{message}\n{data}")),
        None => Quote::head(message),
    };
    let code = code.and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
    FailureReason::AppError { code, said }
}

/// The number of the request that a line answers of which only both ends are known.
pub(crate) fn answered_by(head: &[u8], tail: &[u8]) -> Option<u64> {
    let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    let id = |rest: &str| -> Option<(u64, String)> {
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let rest = rest.trim_start_matches('"');
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (id, rest) = rest.split_at_checked(digits)?;
        Some((id.parse().ok()?, rest.to_owned()))
    };
    let before = head.split("\"result\"").next()?;
    if before.contains("\"method\"") {
        return None;
    }
    // Before the result, or as the very last member.
    let first = before.split_once("\"id\"").and_then(|(_, rest)| id(rest));
    let last = tail.rsplit_once("\"id\"").and_then(|(_, rest)| id(rest));
    let last = last.filter(|(_, rest)| rest.trim_matches(['"', ' ', '\r']) == "}");
    first.or(last).map(|(id, _)| id)
}

pub(crate) fn breach(breach: Breach) -> FailureReason {
    FailureReason::Protocol {
        breach,
        said: Quote::default(),
    }
}

fn json_failure(error: JsonError, max_line: usize) -> FailureReason {
    match error {
        JsonError::TooDeep(limit) => FailureReason::TooDeep(limit as u64),
        JsonError::TooManyNodes(limit) => FailureReason::TooManyValues(limit as u64),
        // A scan reports no other.
        _ => FailureReason::LineTooLong(max_line as u64),
    }
}

/// Which of our requests are unanswered.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The handshake, whose answer `rmcp` itself reads.
    pub(crate) initialize: Option<u64>,
    awaited: BTreeSet<u64>,
    abandoned: BTreeSet<u64>,
}

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Wanted,
    /// Its request was given up.
    Late,
    /// It answers nothing, or for a second time.
    Unasked,
}

impl Ledger {
    pub(crate) fn asked(&mut self, id: u64) {
        self.awaited.insert(id);
    }

    /// We no longer want the answer, but it may still come.
    pub(crate) fn gave_up(&mut self, id: u64) -> Result<(), FailureReason> {
        if self.awaited.remove(&id) {
            self.abandoned.insert(id);
        }
        // An id leaves this set only with its answer, so an app that never answers would let it grow without end.
        if self.abandoned.len() > MAX_ABANDONED {
            return Err(FailureReason::TooManyCalls(MAX_ABANDONED as u64));
        }
        Ok(())
    }

    /// Whether an answer is wanted. Each is once.
    pub(crate) fn answered(&mut self, id: u64) -> Due {
        match (self.awaited.remove(&id), self.abandoned.remove(&id)) {
            (true, _) => Due::Wanted,
            (false, true) => Due::Late,
            (false, false) => Due::Unasked,
        }
    }
}

/// An allowance of unasked messages and bytes that refills with time.
#[derive(Debug)]
pub(crate) struct FloodMeter {
    /// What is left of each, as a part of the whole allowance.
    messages: f64,
    bytes: f64,
    seen: Duration,
}

impl FloodMeter {
    pub(crate) fn new() -> Self {
        Self {
            messages: 1.0,
            bytes: 1.0,
            seen: Duration::ZERO,
        }
    }

    /// Counts one message of `bytes` bytes at the time `now` since the start.
    pub(crate) fn count(&mut self, bytes: usize, now: Duration) -> Result<(), FailureReason> {
        let refill = now.saturating_sub(self.seen).div_duration_f64(FLOOD_REFILL);
        self.seen = now;
        let spend = |left: f64, part: f64| (left + refill).min(1.0) - part;
        self.messages = spend(self.messages, 1.0 / FLOOD_MESSAGES as f64);
        self.bytes = spend(self.bytes, bytes as f64 / FLOOD_BYTES as f64);
        // A thousandth part a thousand times leaves not exactly nothing.
        match self.messages < -1e-9 || self.bytes < -1e-9 {
            true => Err(FailureReason::Flood {
                max_messages: FLOOD_MESSAGES,
                max_bytes: FLOOD_BYTES,
            }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(line: &[u8]) -> Option<Line> {
        Some(Line::Whole(line.to_vec()))
    }

    #[test]
    fn lines_come_whole_in_any_portions() {
        for portion in 1..12 {
            let mut guard = LineGuard::new(100);
            let mut lines = Vec::new();
            for chunk in b"{\"a\":1}\n\n  [2]\nrest".chunks(portion) {
                let mut input = chunk;
                while let Some(line) = guard.feed(&mut input) {
                    let Line::Whole(line) = line else {
                        panic!("{line:?}")
                    };
                    lines.push(String::from_utf8(line).unwrap());
                }
                assert!(input.is_empty());
            }
            assert_eq!(lines, ["{\"a\":1}", "", "[2]"]);
        }
    }

    #[test]
    fn an_object_may_have_its_limit_and_no_more() {
        let fed = |text: &str| {
            let mut guard = LineGuard::new(9);
            let line = guard.feed(&mut text.as_bytes());
            assert_eq!(guard.feed(&mut &b"{}\n"[..]), whole(b"{}"), "the next one");
            line
        };
        assert_eq!(fed("{\"id\":12}\n"), whole(b"{\"id\":12}"));
        let cut = |head: &str, tail: &str| {
            let reason = FailureReason::LineTooLong(9);
            Some(Line::Cut(head.into(), tail.into(), reason))
        };
        assert_eq!(fed("{\"id\":123}\n"), cut("{\"id\":123}", "{\"id\":123}"));
        let text = "x".repeat(1_000);
        assert_eq!(fed(&format!("{text}\n")), whole(&b"x".repeat(HEAD)));
    }

    /// The piece that goes too far may be shorter than the id before it.
    #[test]
    fn a_cut_line_keeps_its_end_in_any_portions() {
        let line = format!("{{\"result\":\"{}\",\"id\":12}}\n", "x".repeat(500));
        for portion in 1..80 {
            let mut guard = LineGuard::new(line.len() - 3);
            let mut pieces = line.as_bytes().chunks(portion);
            match pieces.find_map(|mut piece| guard.feed(&mut piece)) {
                Some(Line::Cut(head, tail, _)) => {
                    assert!(head.len() <= HEAD && tail.len() <= TAIL);
                    assert_eq!(answered_by(&head, &tail), Some(12), "{portion}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn nesting_takes_no_memory() {
        let mut guard = LineGuard::new(1 << 20);
        let nested = [&b"{\"a\":"[..], &b"[".repeat(1 << 16), b"]},\"id\":7}\n"].concat();
        match guard.feed(&mut nested.as_slice()) {
            Some(Line::Cut(head, tail, FailureReason::TooDeep(64))) => {
                assert!(head.capacity() <= HEAD && tail.len() <= TAIL);
                assert_eq!(answered_by(&head, &tail), Some(7));
            }
            other => panic!("{other:?}"),
        }
        // What is no object has no depth.
        let mut input = &b"[[[[".repeat(100)[..];
        assert_eq!(guard.feed(&mut input), None);
    }

    #[test]
    fn a_cut_answer_is_known_by_its_ends() {
        let check = |head: &str, tail: &str, expected: Option<u64>| {
            assert_eq!(answered_by(head.as_bytes(), tail.as_bytes()), expected);
        };
        check(r#"{"jsonrpc":"2.0","id":7,"result":{"x"#, "xx}}", Some(7));
        check(
            r#"{"result":{"id":3,"x"#,
            r#"xx"},"jsonrpc":"2.0","id":7}"#,
            Some(7),
        );
        check(r#"{"result":{"id":3,"x"#, r#"xx","id":4}}"#, None);
        check(r#"{"method":"notifications/message","id":7,"#, "}", None);
    }

    #[test]
    fn messages_are_told_apart() {
        let check = |line: &str, expected: Kind| assert_eq!(classify(line), expected, "{line}");
        let result = |id: u64, text: &str| Kind::Answer(id, Ok(text.to_owned()));
        check(" \r", Kind::Ignored);
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":{"x":[1.10,1e400,"\ud800"]}}"#,
            result(7, r#"{"x":[1.10,1e400,"\ud800"]}"#),
        );
        // Of forms that are met with.
        check(r#"{"id":"7","result":{},"error":null}"#, result(7, "{}"));
        check(r#"{"jsonrpc":"2.0","id":7}"#, result(7, "null"));
        check(
            r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#,
            Kind::Request,
        );
        check(
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#,
            Kind::Ignored,
        );
        check(
            r#"{"method":"notifications\/tools\/list_changed","params":7}"#,
            Kind::ToolsChanged,
        );
        check(r#"{"method":7}"#, Kind::Ignored);
        for noise in [
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"a","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"id":8,"result":{}}"#,
            r#"{"level":30,"msg":"started"}"#,
            "[]",
            "Server started",
            r#"{"jsonrpc":"2.0","id":7,"result":{}"#,
        ] {
            check(noise, Kind::Noise);
        }
    }

    #[test]
    fn an_error_of_any_form_keeps_its_words() {
        let check = |error: &str, code: i32, said: &str| {
            let said = Quote::head(said);
            assert_eq!(app_error(error), FailureReason::AppError { code, said });
        };
        check(r#"{"code":-32001,"message":"a\nb"}"#, -32001, "a\nb");
        check(
            r#"{"code":"E1","message":"m","data":{"n":1}}"#,
            0,
            "m\n{\"n\":1}",
        );
        check(r#""it broke""#, 0, "it broke");
        check(r#"{"message":7}"#, 0, r#"{"message":7}"#);
    }

    #[test]
    fn each_request_is_answered_once() {
        let mut ledger = Ledger::default();
        ledger.asked(1);
        ledger.asked(2);
        assert_eq!(ledger.answered(1), Due::Wanted);
        assert_eq!(ledger.answered(1), Due::Unasked);
        assert_eq!(ledger.gave_up(2), Ok(()));
        assert_eq!(ledger.answered(2), Due::Late);
        assert_eq!(ledger.answered(2), Due::Unasked);
        assert_eq!(ledger.answered(3), Due::Unasked);
    }

    #[test]
    fn an_app_that_leaves_too_much_unanswered_is_given_up() {
        let mut ledger = Ledger::default();
        let result = (0..=MAX_ABANDONED as u64).try_for_each(|id| {
            ledger.asked(id);
            ledger.gave_up(id)
        });
        assert_eq!(
            result,
            Err(FailureReason::TooManyCalls(MAX_ABANDONED as u64))
        );
    }

    #[test]
    fn a_burst_is_a_flood_and_a_trickle_is_not() {
        let mut meter = FloodMeter::new();
        for _ in 0..FLOOD_MESSAGES {
            assert_eq!(meter.count(10, Duration::ZERO), Ok(()));
        }
        assert!(matches!(
            meter.count(10, Duration::ZERO),
            Err(FailureReason::Flood { .. })
        ));

        let mut meter = FloodMeter::new();
        assert!(matches!(
            meter.count(FLOOD_BYTES as usize + 1, Duration::ZERO),
            Err(FailureReason::Flood { .. })
        ));

        let mut meter = FloodMeter::new();
        for second in 0..10_000 {
            for _ in 0..50 {
                assert_eq!(meter.count(1_000, Duration::from_secs(second)), Ok(()));
            }
        }
    }
}
