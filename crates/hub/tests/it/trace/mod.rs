//! Traces that were written before: they stay readable, and none of them steers a terminal.

use hub::trace::{Record, Text, VERSION, saliency, show};
use serde_json::Value;

/// Every kind of event, as version 2 of the format writes it.
const VERSION_2: &str = include_str!("version2.jsonl");

/// Ends a line, clears the screen and writes from right to left.
const HOSTILE: &str = "a\n\u{1b}[2J\u{202e}b";

#[test]
fn a_trace_of_version_2_is_read_and_written_byte_for_byte() {
    assert_eq!(VERSION, 2);
    for line in VERSION_2.lines() {
        let record: Record = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
    }
    // Earlier builds of this version wrote members and kinds that are gone.
    for event in [
        r#"{"kind":"draft_dropped","step":1,"missing":["x"]}"#,
        r#"{"kind":"sampling","provider":"local","max_tokens":9}"#,
        r#"{"kind":"refined","step":3,"of":2,"label":[],"taken":true,"whole":false}"#,
    ] {
        let record = format!(r#"{{"version":2,"sequence":1,"at_ms":0,"event":{event}}}"#);
        assert!(serde_json::from_str::<Record>(&record).is_ok());
    }
}

#[test]
fn a_refused_service_is_found_in_an_error() {
    let found = |error: &str| Text::refused(error).map(|it| it.as_str().to_owned());
    for (error, expected) in [
        ("connect ECONNREFUSED 127.0.0.1:5432", "127.0.0.1:5432"),
        (
            "Error: connect EACCES ::1:5432\n  at /app/node_modules/pg.js",
            "[::1]:5432",
        ),
        (
            "connect ECONNREFUSED ::1:5432, connect ECONNREFUSED 127.0.0.1:5432",
            "127.0.0.1:5432",
        ),
        (
            r#"connection to server at "127.0.0.1", port 5432 failed: Connection refused"#,
            "127.0.0.1:5432",
        ),
        (
            "Error 111 connecting to localhost:6379. Connection refused.",
            "localhost:6379",
        ),
        (
            "HTTPConnectionPool(host='localhost', port=80): [Errno 13] Permission denied",
            "localhost:80",
        ),
        (
            "dial tcp [::1]:5432: connect: connection refused",
            "[::1]:5432",
        ),
        (
            "EACCES: permission denied, open '/srv/127.0.0.1/a'",
            "/srv/127.0.0.1/a",
        ),
    ] {
        assert_eq!(found(error).as_deref(), Some(expected), "{error}");
    }
    for error in [
        "connect ECONNREFUSED 10.127.0.0.1:5432",
        "connection refused by not-localhost:80",
        "connection refused by localhost after 3 s",
        "connection refused by localhost:99999",
        "connection refused",
        "listening on 127.0.0.1:5432",
    ] {
        assert_eq!(found(error), None, "{error}");
    }
}

#[test]
fn no_text_of_a_record_steers_the_terminal_or_begins_a_line() {
    let shown = |record: &Value| -> Vec<String> {
        let record: Record = serde_json::from_value(record.clone()).unwrap();
        let mut lines = saliency(&record, false);
        lines.extend(show(&record, 0).split('\n').map(str::to_owned));
        lines
    };
    for line in VERSION_2.lines() {
        let harmless: Value = serde_json::from_str(line).unwrap();
        let mut hostile = harmless.clone();
        let replaced = replace(&mut hostile, "");
        let (lines, expected) = (shown(&hostile), shown(&harmless).len());
        assert_eq!(lines.len(), expected, "{hostile}: {lines:#?}");
        let lines = lines.concat();
        // Each kind has a line: after its time, something.
        assert!(!lines.trim_end().ends_with("0.00s"), "{harmless}");
        let steers = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!lines.contains(steers), "{hostile}: {lines}");
        let escaped = lines.contains(r"a\n\u{1b}[2J\u{202e}b");
        assert_eq!(escaped, replaced > 0, "{hostile}: {lines}");
    }
}

/// Puts hostile text in the place of every text of a record, and says how many there are. What must be
/// one of a few words is no text: with another word the record cannot be read.
fn replace(value: &mut Value, member: &str) -> usize {
    match value {
        Value::String(text) => {
            let kept = match member {
                "kind" | "stop" => return 0,
                "source" => ["result of ", "description of "]
                    .into_iter()
                    .find(|words| text.starts_with(words)),
                _ => Some(""),
            };
            let Some(kept) = kept else { return 0 };
            *text = format!("{kept}{HOSTILE}");
            1
        }
        Value::Array(values) => values.iter_mut().map(|value| replace(value, member)).sum(),
        Value::Object(members) => members
            .iter_mut()
            .map(|(name, value)| replace(value, name))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
