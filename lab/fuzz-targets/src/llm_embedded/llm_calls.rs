//! What the embedded model writes, in portions that the first byte chooses. How it is cut changes nothing, what went to the reader
//! is the text of the answer, and what is proposed are calls of tools that there are, whose arguments are one object.

use model_files::protocol::{Call, Shape};
use serde::de::IgnoredAny;

use super::parse;

const TOOLS: [&str; 2] = ["read", "list"];

pub(crate) fn llm_calls(bytes: &[u8]) -> bool {
    let Some((portion, said)) = bytes.split_first() else {
        return false;
    };
    let Ok(said) = std::str::from_utf8(said) else {
        return false;
    };
    let portion = usize::from(*portion).max(1);
    let (text, calls) = read(said, portion, &Shape::TextOrCalls);
    let whole = read(said, said.len().max(1), &Shape::TextOrCalls);
    assert_eq!((&text, &calls), (&whole.0, &whole.1));
    assert!(said.contains(&text));
    for call in &calls {
        assert!(TOOLS.contains(&call.tool.as_str()));
        // One object.
        assert!(call.arguments.starts_with('{'));
        assert!(serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok());
    }
    // Who is not asked for calls makes none.
    let (text, none) = read(said, portion, &Shape::Text);
    assert_eq!((text.as_str(), none.len()), (said.trim(), 0));
    !calls.is_empty()
}

fn read(said: &str, portion: usize, shape: &Shape) -> (String, Vec<Call>) {
    let mut stream = parse::AnswerStream::new(shape, true);
    let mut sent = String::new();
    let mut rest = said;
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.ceil_char_boundary(portion.min(rest.len())));
        sent.extend(stream.push(piece));
        rest = more;
    }
    let (text, calls, last) = stream.finish(&TOOLS);
    sent.extend(last);
    assert_eq!(sent, text, "what the reader was shown is the text");
    (text, calls)
}
