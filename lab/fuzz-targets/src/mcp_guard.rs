//! What an app writes, in portions that the first byte chooses. How it is cut changes nothing.

#[path = "../../../crates/mcp/src/guard.rs"]
mod guard;

/// Small, so that inputs go beyond it.
const MAX_LINE: usize = 256;

pub(crate) fn mcp_guard(bytes: &[u8]) -> bool {
    let Some((portion, stream)) = bytes.split_first() else {
        return false;
    };
    let cut = lines(stream, usize::from(*portion).max(1));
    assert_eq!(cut, lines(stream, stream.len().max(1)));
    let mut is_message = false;
    for line in cut.0 {
        assert!(line.len() <= MAX_LINE && !line.contains(&b'\n'));
        let Ok(kind) = guard::classify(&line) else {
            continue;
        };
        if kind == guard::Kind::Blank {
            assert!(line.trim_ascii().is_empty());
            continue;
        }
        is_message = true;
        let read = serde_json::from_slice::<serde_json::Value>(&line);
        // The guard passes over the members that it does not need, with numbers that are too large
        // for `Value`.
        let Ok(read) = read else { continue };
        assert_eq!(read.get("jsonrpc").and_then(|it| it.as_str()), Some("2.0"));
        if let guard::Kind::Answer(id) = kind {
            assert_eq!(read.get("id").and_then(|it| it.as_u64()), Some(id));
        }
    }
    is_message
}

/// The lines up to the first that is refused, and why it is.
fn lines(stream: &[u8], portion: usize) -> (Vec<Vec<u8>>, Option<wire::FailureReason>) {
    let mut guard = guard::LineGuard::new(MAX_LINE);
    let mut lines = Vec::new();
    for mut input in stream.chunks(portion) {
        loop {
            match guard.feed(&mut input) {
                Ok(Some(line)) => lines.push(line),
                Ok(None) => break,
                Err(why) => return (lines, Some(why)),
            }
        }
    }
    (lines, None)
}
