//! The answer of an OpenAI-compatible server, as a stream in portions that the first byte chooses, and as one body. How a
//! stream is cut changes nothing: not what is passed on, not the completion, not the reason of a refusal. What is passed on
//! is the text of the completion, and all that comes out was in what went in.

use std::time::Duration;

use hub::Completion;

// The provider's own files: what they read is nobody else's, so its crate does not show them.
#[path = "../../../crates/llm/src/openai/answer/mod.rs"]
mod answer;

use answer::refused::Refused;
use answer::{Bounds, Piece, Reader};

/// Small, so that inputs go beyond them.
const BOUNDS: Bounds = Bounds {
    stream: 4096,
    event: 512,
};

pub(crate) fn llm_answer(bytes: &[u8]) -> bool {
    let Some((portion, said)) = bytes.split_first() else {
        return false;
    };
    let portion = usize::from(*portion).max(1);
    let at_once = read(said, |reader| stream(reader, said, said.len().max(1)));
    let in_pieces = read(said, |reader| stream(reader, said, portion));
    assert_eq!(at_once.passed_on, in_pieces.passed_on);
    assert!(at_once.outcome == in_pieces.outcome, "a cut changes it");
    let whole = read(said, |reader| reader.whole(said, Duration::ZERO));
    at_once.is_answer() || whole.is_answer()
}

/// What came of an answer.
#[derive(PartialEq)]
struct Read {
    /// The text, and the id of each call by its position.
    passed_on: (String, Vec<(usize, String)>),
    outcome: Result<Option<Completion>, Refused>,
}

impl Read {
    fn is_answer(&self) -> bool {
        matches!(self.outcome, Ok(Some(_)))
    }
}

fn stream(reader: &mut Reader, said: &[u8], portion: usize) -> Result<(), Refused> {
    let mut pieces = said.chunks(portion);
    let taken = pieces.try_for_each(|piece| match reader.is_finished() {
        true => Ok(()),
        false => reader.stream(piece, Duration::ZERO),
    });
    let is_too_large = matches!(taken, Err(Refused::TooLarge { .. }));
    assert!(said.len() <= BOUNDS.stream || is_too_large || taken.is_err() || reader.is_finished());
    taken
}

fn read(said: &[u8], take: impl FnOnce(&mut Reader) -> Result<(), Refused>) -> Read {
    let mut reader = Reader::new(BOUNDS);
    let taken = take(&mut reader);
    let (mut text, mut ids) = (String::new(), Vec::new());
    while let Some(piece) = reader.poll() {
        match piece {
            Piece::Text(piece) => {
                assert!(!piece.is_empty());
                text.push_str(&piece);
            }
            Piece::CallId { call, id } => ids.push((call, id)),
        }
    }
    let begun = reader.has_begun();
    assert!(begun || (text.is_empty() && ids.is_empty()));
    let passed_on = (text, ids);
    let outcome = taken.map(|()| {
        reader
            .complete(Duration::ZERO)
            .map(|it| whole(it, &passed_on))
    });
    if let Ok(Some(completion)) = &outcome {
        bounded(completion, said.len());
    }
    Read { passed_on, outcome }
}

fn whole(completion: Completion, passed_on: &(String, Vec<(usize, String)>)) -> Completion {
    let (text, ids) = passed_on;
    assert_eq!(&completion.text, text, "what was passed on is the text");
    let mut named = vec![false; completion.calls.len()];
    for (call, id) in ids {
        let is_word = id.bytes().all(|byte| byte.is_ascii_graphic());
        assert!(is_word && (1..=4096).contains(&id.len()), "{id:?}");
        assert!(!std::mem::replace(&mut named[*call], true), "a second id");
    }
    completion
}

/// An answer is no longer than what it was read from, but for the `{}` of a call without arguments.
fn bounded(completion: &Completion, said: usize) {
    let calls = completion.calls.iter();
    let written = calls.map(|call| {
        let arguments = Some(call.arguments.len()).filter(|_| call.arguments != "{}");
        call.tool.len() + arguments.unwrap_or(0)
    });
    assert!(completion.text.len() + written.sum::<usize>() <= said);
    assert!(completion.calls.len() <= 128);
}
