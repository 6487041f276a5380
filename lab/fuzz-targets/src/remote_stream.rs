//! Bytes of a remote server's stream of events, in portions that the first byte chooses. How they are cut changes nothing, the
//! events are those of a plain reading of the whole text (WHATWG, "Interpreting an event stream"), no event is longer than
//! allowed, and what goes back in a header can stand in one. What an event holds is no panic, whether a message or not.

// The program's own files: what it reads is nobody else's, so its crate shows neither.
#[path = "../../../crates/remote/src/message.rs"]
mod message;
#[path = "../../../crates/remote/src/sse.rs"]
mod sse;

/// Small, so that inputs go beyond it.
const MAX: usize = 64;

/// The target.
pub(crate) fn remote_stream(bytes: &[u8]) -> bool {
    let Some((portion, stream)) = bytes.split_first() else {
        return false;
    };
    let portion = usize::from(*portion).max(1);
    let mut parser = sse::Parser::new(MAX);
    let mut events = Vec::new();
    let mut too_long = false;
    for piece in stream.chunks(portion) {
        match parser.feed(piece) {
            Ok(more) => events.extend(more),
            Err(sse::TooLong) => {
                too_long = true;
                break;
            }
        }
    }
    for event in &events {
        assert!(event.data.len() <= MAX, "{event:?}");
        let read = message::Message::read(&event.data);
        if message::answers(&event.data, "7") {
            assert_eq!(read, Some(message::Message::Answer), "{event:?}");
        }
        // Whatever a server says is quoted as text in an error.
        let error = message::error("7", &String::from_utf8_lossy(&event.data));
        assert!(message::answers(&error, "7"), "{event:?}");
    }
    if let Some(id) = parser.last_id() {
        assert!(!id.is_empty() && !id.contains(['\0', '\r', '\n']), "{id:?}");
    }
    // A server that asks for an eternity is bounded where the wait begins.
    let _ = parser.retry();
    let (expected, last_id) = plainly(stream);
    if !too_long {
        assert_eq!(events, expected);
        assert_eq!(parser.last_id().map(str::to_owned), last_id);
    } else if portion == 1 {
        // Byte by byte, so every event that ended before the limit has come out, and is the same as without one.
        assert_eq!(events, expected[..events.len()]);
    }
    !events.is_empty()
}

/// The events of a whole stream, and the last id, without any bound but on the length of an id and a name.
fn plainly(stream: &[u8]) -> (Vec<sse::Event>, Option<String>) {
    let mut lines: Vec<&[u8]> = Vec::new();
    let mut rest = stream;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        lines.push(&rest[..at]);
        rest = match &rest[at..] {
            [b'\r', b'\n', rest @ ..] => rest,
            other => &other[1..],
        };
    }
    // A line without an end is none yet.
    let (mut events, mut last_id) = (Vec::new(), None);
    let (mut name, mut data) = (String::new(), Vec::<&[u8]>::new());
    for line in lines {
        if line.is_empty() {
            if !data.is_empty() {
                let event = sse::Event {
                    name: name.clone(),
                    data: data.join(&b'\n'),
                };
                events.push(event);
            }
            name.clear();
            data.clear();
            continue;
        }
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => data.push(value),
            b"event" if value.len() <= 64 => {
                name = String::from_utf8(value.to_vec()).unwrap_or_default()
            }
            b"id" if value.len() <= 1024 && !value.contains(&0) => {
                last_id = String::from_utf8(value.to_vec())
                    .ok()
                    .filter(|id| !id.is_empty());
            }
            _ => {}
        }
    }
    (events, last_id)
}
