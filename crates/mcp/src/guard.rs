//! What an app writes, checked byte by byte before anything interprets it. No I/O here.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use wire::json::{JsonError, JsonScan};
use wire::{Breach, FailureReason, Quote};

/// Messages that an app may write in one go without being asked (logs, progress, requests of its
/// own). A chatty server logs a few per call; a loop writes thousands in a second.
pub(crate) const FLOOD_MESSAGES: u64 = 1_000;

/// Bytes of such messages in one go.
pub(crate) const FLOOD_BYTES: u64 = 4 << 20;

/// The time in which a used-up allowance is full again.
const FLOOD_REFILL: Duration = Duration::from_secs(10);

/// Calls given up whose answers may still come. An app that leaves more unanswered works on nothing.
pub(crate) const MAX_ABANDONED: usize = 64;

/// Capacity that is kept for the next line; more is given back.
const KEPT_LINE: usize = 64 << 10;

/// Cuts a stream into lines, and refuses a line at the byte that goes too far.
#[derive(Debug)]
pub(crate) struct LineGuard {
    line: Vec<u8>,
    scan: JsonScan,
    max_line: usize,
}

impl LineGuard {
    pub(crate) fn new(max_line: usize) -> Self {
        Self {
            line: Vec::new(),
            scan: JsonScan::default(),
            max_line,
        }
    }

    /// Takes bytes until a line is complete (given without its end) or the input is used up.
    pub(crate) fn feed(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, FailureReason> {
        let end = input.iter().position(|byte| *byte == b'\n');
        let wanted = end.unwrap_or(input.len());
        // Look no further than the limit allows, so that a long portion costs no more than a short one.
        let room = self.max_line.saturating_sub(self.line.len());
        let Some((now, rest)) = input.split_at_checked(wanted.min(room)) else {
            return Ok(None);
        };
        // Before it is kept: text that is nested too deep is refused while its line is still under way.
        self.scan.feed(now).map_err(json_failure)?;
        if wanted > room {
            return Err(FailureReason::LineTooLong(self.max_line as u64));
        }
        self.append(now);
        if end.is_none() {
            *input = rest;
            return Ok(None);
        }
        *input = rest.split_first().map_or(rest, |(_, after)| after);
        self.scan = JsonScan::default();
        Ok(Some(std::mem::take(&mut self.line)))
    }

    /// A line that has been dealt with gives its memory to the next.
    pub(crate) fn recycle(&mut self, mut line: Vec<u8>) {
        if line.capacity() <= KEPT_LINE && self.line.capacity() == 0 {
            line.clear();
            self.line = line;
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        let needed = self.line.len().saturating_add(bytes.len());
        if needed > self.line.capacity() {
            let goal = needed
                .max(self.line.capacity().saturating_mul(2))
                .min(self.max_line);
            self.line
                .reserve_exact(goal.saturating_sub(self.line.len()));
        }
        self.line.extend_from_slice(bytes);
    }
}

/// What a line is, as far as must be known to let it pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing but white space: tolerated, but counted.
    Blank,
    /// An answer or error to one of our requests.
    Answer(u64),
    /// A request of the app to us.
    Request,
    /// A notification.
    Notification,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    /// Ours are numbers; an answer with anything else answers no request.
    id: Option<Value>,
    method: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// Says what a line is.
pub(crate) fn classify(line: &[u8]) -> Result<Kind, FailureReason> {
    let Some(first) = line.iter().find(|byte| !byte.is_ascii_whitespace()) else {
        return Ok(Kind::Blank);
    };
    // Arrays too: MCP has had no batches of JSON-RPC since 2025-06-18.
    if *first != b'{' {
        return Err(FailureReason::InvalidJson);
    }
    // A key that stands twice is an error here. Otherwise the app could show this guard one id, and `rmcp`,
    // which reads the line again, another.
    let it: Envelope<'_> = serde_json::from_slice(line).map_err(|_| not_an_envelope(line))?;
    if it.jsonrpc.as_deref() != Some("2.0") {
        return Err(breach(Breach::Message));
    }
    let answers = it.result.is_some() || it.error.is_some();
    match (it.method.is_some(), it.id, answers) {
        (true, Some(_), false) => Ok(Kind::Request),
        (true, None, false) => Ok(Kind::Notification),
        (false, id, true) => {
            // None of ours, or `null`, by which JSON-RPC answers a request that could not be read.
            let unknown = || breach(Breach::UnknownAnswer);
            let id = id.as_ref().and_then(Value::as_u64);
            id.map(Kind::Answer).ok_or_else(unknown)
        }
        _ => Err(breach(Breach::Message)),
    }
}

/// Whether a notification says that the app's tools have changed.
pub(crate) fn is_of_tools(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Method<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
    }
    let it: Result<Method<'_>, _> = serde_json::from_slice(line);
    it.is_ok_and(|it| it.method == "notifications/tools/list_changed")
}

/// Tells bad JSON from JSON of a wrong shape.
fn not_an_envelope(line: &[u8]) -> FailureReason {
    match serde_json::from_slice::<IgnoredAny>(line) {
        Ok(_) => breach(Breach::Message),
        Err(_) => FailureReason::InvalidJson,
    }
}

pub(crate) fn breach(breach: Breach) -> FailureReason {
    FailureReason::Protocol {
        breach,
        said: Quote::default(),
    }
}

fn json_failure(error: JsonError) -> FailureReason {
    match error {
        JsonError::TooDeep(limit) => FailureReason::TooDeep(limit as u64),
        JsonError::TooManyNodes(limit) => FailureReason::TooManyValues(limit as u64),
        JsonError::Invalid | JsonError::NotAnObject => FailureReason::InvalidJson,
    }
}

/// Which of our requests are unanswered.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    awaited: BTreeSet<u64>,
    abandoned: BTreeSet<u64>,
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

    /// Whether the answer is wanted (`true`) or comes too late (`false`).
    pub(crate) fn answered(&mut self, id: u64) -> Result<bool, FailureReason> {
        if self.awaited.remove(&id) {
            Ok(true)
        } else if self.abandoned.remove(&id) {
            Ok(false)
        } else {
            Err(breach(Breach::UnknownAnswer))
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

    #[test]
    fn lines_come_whole_in_any_portions() {
        for portion in 1..12 {
            let mut guard = LineGuard::new(100);
            let mut lines = Vec::new();
            for chunk in b"{\"a\":1}\n\n[2]\nrest".chunks(portion) {
                let mut input = chunk;
                while let Some(line) = guard.feed(&mut input).unwrap() {
                    lines.push(String::from_utf8(line.clone()).unwrap());
                    guard.recycle(line);
                }
                assert!(input.is_empty());
            }
            assert_eq!(lines, ["{\"a\":1}", "", "[2]"]);
        }
    }

    #[test]
    fn a_line_may_have_its_limit_and_no_more() {
        assert_eq!(
            LineGuard::new(3).feed(&mut &b"abc\n"[..]),
            Ok(Some(b"abc".to_vec()))
        );
        let expected = Err(FailureReason::LineTooLong(3));
        assert_eq!(LineGuard::new(3).feed(&mut &b"abcd\n"[..]), expected);
        assert_eq!(LineGuard::new(3).feed(&mut &b"abcdefgh"[..]), expected);
    }

    #[test]
    fn nesting_is_refused_long_before_the_line_ends() {
        let mut guard = LineGuard::new(1 << 20);
        let result = guard.feed(&mut &b"[".repeat(1 << 16)[..]);
        assert_eq!(result, Err(FailureReason::TooDeep(64)));
        assert_eq!(guard.line.capacity(), 0);
    }

    #[test]
    fn messages_are_told_apart() {
        let check = |line: &str, expected: Result<Kind, FailureReason>| {
            assert_eq!(classify(line.as_bytes()), expected, "{line}");
        };
        check(" \r", Ok(Kind::Blank));
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":{"x":[1]}}"#,
            Ok(Kind::Answer(7)),
        );
        check(
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":1}}"#,
            Ok(Kind::Answer(7)),
        );
        check(
            r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#,
            Ok(Kind::Request),
        );
        check(
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#,
            Ok(Kind::Notification),
        );
        check(
            r#"{"jsonrpc":"2.0","id":"7","result":{}}"#,
            Err(breach(Breach::UnknownAnswer)),
        );
        check(
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
            Err(breach(Breach::UnknownAnswer)),
        );
        check(
            r#"{"jsonrpc":"2.0","id":7,"method":"a","result":{}}"#,
            Err(breach(Breach::Message)),
        );
        check(
            r#"{"jsonrpc":"1.0","id":7,"result":{}}"#,
            Err(breach(Breach::Message)),
        );
        check(r#"{"id":7,"result":{}}"#, Err(breach(Breach::Message)));
        check(
            r#"{"jsonrpc":"2.0","id":7,"id":8,"result":{}}"#,
            Err(breach(Breach::Message)),
        );
        check("[]", Err(FailureReason::InvalidJson));
        check("Server started", Err(FailureReason::InvalidJson));
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":{}"#,
            Err(FailureReason::InvalidJson),
        );
    }

    #[test]
    fn of_notifications_one_is_known() {
        let is = |method: &str| {
            is_of_tools(format!(r#"{{"method":{method},"params":{{}}}}"#).as_bytes())
        };
        assert!(is(r#""notifications/tools/list_changed""#));
        assert!(is(r#""notifications\/tools\/list_changed""#));
        assert!(!is(r#""notifications/message""#) && !is("7"));
    }

    #[test]
    fn each_request_is_answered_once() {
        let mut ledger = Ledger::default();
        ledger.asked(1);
        ledger.asked(2);
        assert_eq!(ledger.answered(1), Ok(true));
        assert_eq!(ledger.answered(1), Err(breach(Breach::UnknownAnswer)));
        assert_eq!(ledger.gave_up(2), Ok(()));
        assert_eq!(ledger.answered(2), Ok(false));
        assert_eq!(ledger.answered(2), Err(breach(Breach::UnknownAnswer)));
        assert_eq!(ledger.answered(3), Err(breach(Breach::UnknownAnswer)));
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
