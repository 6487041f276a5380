//! Traces that were written before: they stay readable, and none of them steers a terminal.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use hub::trace::{Record, VERSION};

/// Every kind of event, as version 2 of the format writes it.
const VERSION_2: &str = include_str!("version2.jsonl");

#[test]
fn a_trace_of_version_2_is_read_and_written_byte_for_byte() {
    assert_eq!(VERSION, 2);
    for line in VERSION_2.lines() {
        let record: Record = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
    }
}
