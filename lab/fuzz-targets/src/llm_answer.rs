//! The answer of a server in each dialect, in portions that the first byte chooses. How it is cut changes nothing: not what
//! is passed on, not the completion, not the reason of a refusal. What is passed on is the text of the completion, and all
//! that comes out was in what went in.

use std::time::Duration;

use hub::Completion;
use llm::Dialect;

// The provider's own files: its crate does not export them.
#[path = "../../../crates/llm/src/http/answer/mod.rs"]
mod answer;

use answer::refused::Refused;
use answer::{Bounds, Reader};

/// Small, so that inputs go beyond them.
const BOUNDS: Bounds = Bounds {
    stream: 4096,
    event: 512,
};

pub(crate) fn llm_answer(bytes: &[u8]) -> bool {
    let Some((portion, said)) = bytes.split_first() else {
        return false;
    };
    let dialects = [Dialect::Chat, Dialect::Messages, Dialect::Responses];
    let accepted = dialects.map(|dialect| {
        let at_once = read(dialect, said, said.len().max(1));
        let in_pieces = read(dialect, said, usize::from(*portion).max(1));
        assert_eq!(at_once.passed_on, in_pieces.passed_on);
        assert!(at_once.outcome == in_pieces.outcome, "a cut changes it");
        at_once.outcome.is_ok()
    });
    accepted.contains(&true)
}

/// The result of an answer.
struct Read {
    passed_on: String,
    outcome: Result<Completion, Refused>,
}

fn read(dialect: Dialect, said: &[u8], portion: usize) -> Read {
    let mut reader = Reader::new(dialect, BOUNDS);
    let taken = take(&mut reader, said, portion);
    let mut passed_on = String::new();
    while let Some(piece) = reader.poll() {
        assert!(!piece.is_empty());
        passed_on.push_str(&piece);
    }
    assert!(reader.has_begun() || passed_on.is_empty());
    let outcome = taken.and_then(|()| reader.complete("fuzz", Duration::ZERO));
    if let Ok(completion) = &outcome {
        assert_eq!(completion.text, passed_on, "what was passed on is the text");
        bounded(completion, said.len());
    }
    Read { passed_on, outcome }
}

fn take(reader: &mut Reader, said: &[u8], portion: usize) -> Result<(), Refused> {
    for piece in said.chunks(portion) {
        reader.push(piece, Duration::ZERO)?;
        if reader.is_over() {
            return Ok(());
        }
    }
    assert!(said.len() <= BOUNDS.stream, "too large, and not refused");
    reader.end(Duration::ZERO)
}

/// A wrong byte becomes a character of three. But for that, an answer is no longer than what it was read from and the `{}` of
/// a call without arguments.
fn bounded(completion: &Completion, said: usize) {
    let calls = completion.calls.iter();
    let written = calls.map(|call| {
        let arguments = Some(call.arguments.len()).filter(|_| call.arguments != "{}");
        call.tool.len() + arguments.unwrap_or(0)
    });
    assert!(completion.text.len() + written.sum::<usize>() <= 3 * said);
    assert!(completion.calls.len() <= 128);
    for (id, _) in completion.unread.iter().flat_map(|unread| &unread.calls) {
        let is_word = |id: &str| id.bytes().all(|byte| byte.is_ascii_graphic());
        assert!(id.as_deref().is_none_or(is_word), "{id:?}");
    }
}
