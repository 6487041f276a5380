//! What an app writes, in portions that the first byte chooses. How it is cut changes nothing.

#[path = "../../../crates/mcp/src/guard.rs"]
mod guard;

use guard::{Kind, Line};

/// Small, so that inputs go beyond it.
const MAX_LINE: usize = 256;

pub(crate) fn mcp_guard(bytes: &[u8]) -> bool {
    let Some((portion, stream)) = bytes.split_first() else {
        return false;
    };
    let cut = lines(stream, usize::from(*portion).max(1));
    assert_eq!(cut, lines(stream, stream.len().max(1)));
    let mut is_message = false;
    for line in cut.into_iter().flatten() {
        assert!(line.len() <= MAX_LINE && !line.contains(&b'\n'));
        let Ok(text) = std::str::from_utf8(&line) else {
            continue;
        };
        let kind = guard::classify(text);
        if matches!(kind, Kind::Noise | Kind::Ignored) {
            continue;
        }
        is_message = true;
        // The guard passes over the members that it does not need, with numbers that are too large for `Value`.
        let Ok(read) = serde_json::from_str::<serde_json::Value>(text) else {
            continue;
        };
        if let Kind::Answer(id, outcome) = kind {
            let said = read.get("id");
            let said = said.and_then(|it| it.as_u64().or_else(|| it.as_str()?.parse().ok()));
            assert_eq!(said, Some(id));
            let result = outcome.ok();
            assert!(result.is_none_or(|it| it == "null" || text.contains(&it)));
        }
    }
    is_message
}

/// The lines; `None` for one that goes too far.
fn lines(stream: &[u8], portion: usize) -> Vec<Option<Vec<u8>>> {
    let mut guard = guard::LineGuard::new(MAX_LINE);
    let mut lines = Vec::new();
    for mut input in stream.chunks(portion) {
        while let Some(line) = guard.feed(&mut input) {
            lines.push(match line {
                Line::Whole(line) => Some(line),
                Line::Cut(..) => None,
            });
        }
    }
    lines
}
