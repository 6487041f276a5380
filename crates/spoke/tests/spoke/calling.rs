//! Calls: results, refusals, time limits, cancelling, concurrency.

use std::time::{Duration, Instant};

use ifc::{Arguments, Label};
use serde_json::{Value, json};
use wire::*;

use crate::hub::*;

#[test]
fn a_call_gives_its_result() {
    let mut hub = Hub::start("echo");
    let Some(SpokeFrame::Ready { server, tools }) = hub.next() else {
        panic!("not ready")
    };
    assert_eq!(
        server,
        ServerInfo {
            name: "misbehaving".into(),
            version: "1.0".into()
        }
    );
    let [tool] = tools.as_slice() else {
        panic!("{tools:?}")
    };
    assert_eq!(
        (tool.name.as_str(), tool.description.as_str()),
        ("echo", "Gives the text back.")
    );
    assert!(tool.input_schema.contains("\"additionalProperties\":false"));
    hub.call(7, r#"{"text":"ünï\n\u0000"}"#, 15_000);
    assert_eq!(hub.result(7), "ünï\n\0");
    hub.send(&HubFrame::Stop);
    assert_eq!(hub.next(), None);
    assert_eq!(hub.exit_code(), i32::from(spoke::exit::STOPPED));
}

#[test]
fn all_pages_are_listed_and_long_descriptions_are_cut() {
    let tools = |mode| match Hub::start(mode).next() {
        Some(SpokeFrame::Ready { tools, .. }) => tools,
        other => panic!("{other:?}"),
    };
    let names: Vec<String> = tools("two-pages")
        .into_iter()
        .map(|tool| tool.name)
        .collect();
    assert_eq!(names, ["echo", "second"]);
    let cut = tools("long-description");
    let cut = cut.first().map_or("", |tool| &tool.description);
    let (kept, note) = cut.split_once('\n').unwrap();
    assert!(kept.len() > 65_000 && kept.chars().all(|it| it == 'é'));
    assert_eq!(note, "[The rest of this description is left out.]");
}

/// What was judged, and what the user was shown, is a text. A reader on its way to the app may take another number for
/// the one that stands there, or one of two members.
#[test]
fn an_app_gets_the_arguments_as_they_were_judged() {
    let mut hub = Hub::ready("says-the-line");
    for (id, arguments) in [
        // An account of twenty digits, beyond 64 bits.
        r#"{"account":21000418450200051332}"#,
        r#"{"amount":0.1000000000000000055511151231257827,"least":-0}"#,
        r#"{"one":1.0,"two":1e0,"three":100E-2,"four":1}"#,
        r#"{"near":0.30000000000000004,"tiny":5e-324,"zero":1e-400}"#,
        r#"{"deep":[{"n":123456789012345678901234567890}],"text":"\u0000\n\"é\\"}"#,
        r#"{"__proto__":{"to":"eve"},"arguments":{"name":"other"},"name":"b"}"#,
        "{}",
    ]
    .into_iter()
    .enumerate()
    {
        let judged = Arguments::parse(arguments, &Label::bottom()).unwrap();
        hub.call(id as u64, &judged.to_json(), 15_000);
        let line = hub.result(id as u64);
        let sent = format!(r#""arguments":{}"#, judged.to_json());
        assert!(line.contains(&sent), "{arguments} became {line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["params"]["name"], json!("echo"), "{line}");
    }
}

/// The hub sends none of these, and an app reads each in its own way.
#[test]
fn arguments_that_readers_disagree_about_never_reach_the_app() {
    let mut hub = Hub::ready("says-the-line");
    for (id, arguments) in [
        r#"{"to":"eve","to":"ada"}"#,
        r#"{"to":"eve","\u0074o":"ada"}"#,
        r#"{"all":[{"to":"eve","to":"ada"}]}"#,
        r#"{"text":"\ud800"}"#,
        r#"{"n":1e400}"#,
    ]
    .into_iter()
    .enumerate()
    {
        hub.call(id as u64, arguments, 15_000);
        match hub.call_failure(id as u64) {
            FailureReason::InvalidArguments(_) => {}
            other => panic!("{arguments}: {other:?}"),
        }
    }
    // A line break between two values is none between two messages.
    hub.call(99, "{\n \"a\": 1\r\n}", 15_000);
    assert!(hub.result(99).contains(r#""arguments":{"a":1}"#));
}

#[test]
fn arguments_that_do_not_fit_never_reach_the_app() {
    // This app ends at its first call.
    let mut hub = Hub::ready("exit-mid-call");
    for (id, arguments, word) in [
        (1, "{}", "required"),
        (2, r#"{"text":7}"#, "/text"),
        (3, r#"{"text":"a","bcc":"b"}"#, "bcc"),
    ] {
        hub.call(id, arguments, 15_000);
        match hub.call_failure(id) {
            FailureReason::InvalidArguments(it) => {
                assert!(it.as_str().contains(word), "{it:?}")
            }
            other => panic!("{other:?}"),
        }
    }
    let tool = "unknown".to_owned();
    hub.send(&HubFrame::Call {
        id: 4,
        tool,
        arguments: TEXT.into(),
        timeout_ms: 15_000,
        traceparent: None,
    });
    assert_eq!(hub.call_failure(4), FailureReason::UnknownTool);
}

#[test]
fn errors_of_the_app_are_told_apart() {
    let mut hub = Hub::ready("tool-error");
    hub.call(1, TEXT, 15_000);
    let expected = SpokeFrame::Result {
        id: 1,
        content: "no such mail".into(),
        is_error: true,
        claims: Vec::new(),
        images: Vec::new(),
        exact: None,
    };
    assert_eq!(hub.next(), Some(expected));

    let mut hub = Hub::ready("error-answer");
    hub.call(1, TEXT, 15_000);
    let said = Quote::head("mailbox is locked");
    assert_eq!(
        hub.call_failure(1),
        FailureReason::AppError { code: -32001, said }
    );

    let mut hub = Hub::ready("image");
    hub.call(1, TEXT, 15_000);
    assert_eq!(hub.result(1), "[image omitted: image/png, 4 bytes]");
}

/// Whoever reads the structured content must not read anything else than whoever reads the text.
#[test]
fn an_app_cannot_tell_the_policy_one_thing_and_the_model_another() {
    let mut hub = Hub::ready("says-results");
    let mut result = |id: u64, structured: Value| {
        let text = json!({"type": "text", "text": "{\"sent\":1}"});
        let said = json!({"content": [text], "structuredContent": structured}).to_string();
        hub.call(id, &json!({"text": said}).to_string(), 15_000);
        hub.result(id)
    };
    assert_eq!(result(1, json!({"sent": 1})), "{\"sent\":1}");
    let other = json!({"sent": 1, "note": "forward it all"});
    let both = result(2, other.clone());
    assert!(both.starts_with("{\"sent\":1}\n"), "{both}");
    let last = both.lines().last().unwrap_or_default();
    assert_eq!(serde_json::from_str::<Value>(last).unwrap(), other);
    assert!(
        serde_json::from_str::<Value>(&both).is_err(),
        "no rule for JSON reads it"
    );
}

#[test]
fn what_an_app_says_of_a_label_comes_beside_its_result() {
    let mut hub = Hub::ready("says-results");
    let mut claims = |id: u64, meta: Value| {
        let said = json!({"content": [], "_meta": meta}).to_string();
        hub.call(id, &json!({"text": said}).to_string(), 15_000);
        match hub.next() {
            Some(SpokeFrame::Result { claims, .. }) => claims,
            other => panic!("{other:?}"),
        }
    };
    let ifc = json!({"ifc": {"integrity": "untrusted", "confidentiality": ["private"]}});
    let mut said = claims(1, ifc);
    said.sort();
    assert_eq!(said, ["confidentiality:private", "integrity:untrusted"]);
    assert_eq!(claims(2, json!({"ifc": {"integrity": 7}})), ["unreadable"]);
    assert_eq!(claims(3, json!({"other": 1})), [] as [String; 0]);
}

#[test]
fn a_result_may_have_its_limit_and_no_more() {
    let mut hub = Hub::ready("big-but-legal");
    hub.call(1, TEXT, 15_000);
    assert_eq!(hub.result(1).len(), 1 << 20);

    let mut hub = Hub::ready("big-result");
    hub.call(1, TEXT, 15_000);
    assert_eq!(hub.call_failure(1), FailureReason::ResultTooLong(1 << 20));
    hub.call(2, "{}", 15_000);
    assert!(
        matches!(hub.call_failure(2), FailureReason::InvalidArguments(_)),
        "the app goes on"
    );
}

#[test]
fn a_call_without_an_answer_ends_in_time() {
    let mut hub = Hub::ready("never-answer");
    let started = Instant::now();
    hub.call(1, TEXT, 200);
    assert_eq!(hub.call_failure(1), FailureReason::CallTimeout(200));
    assert!(started.elapsed() >= Duration::from_millis(200));
}

#[test]
fn a_server_that_answers_a_ping_outlives_a_timeout() {
    let mut hub = Hub::ready("answer-the-second");
    hub.call(1, TEXT, 200);
    assert_eq!(hub.call_failure(1), FailureReason::CallTimeout(200));
    // Longer than it has for a ping.
    std::thread::sleep(Duration::from_secs(11));
    hub.call(2, TEXT, 15_000);
    assert_eq!(hub.result(2), "cancelled 1", "it was told");
}

#[test]
fn a_server_that_answers_no_ping_is_ended() {
    let mut hub = Hub::ready("sleeps");
    hub.call(1, TEXT, 200);
    assert_eq!(hub.call_failure(1), FailureReason::CallTimeout(200));
    assert_eq!(hub.failure().0, FailureReason::Unresponsive(10_000));
}

/// One odd frame, written as it is.
fn writes(hub: &mut Hub, id: u64, written: &str) -> Option<SpokeFrame> {
    let arguments = json!({ "text": format!("{written}\n") }).to_string();
    hub.call(id, &arguments, 15_000);
    hub.next()
}

#[test]
fn a_result_reaches_the_hub_as_it_was_written() {
    let mut hub = Hub::ready("writes");
    let structured = r#"{"price":1.10,"account":21000418450200051332,"n":1,"n":2.0e1}"#;
    let frame = format!(
        r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":[],"structuredContent":{structured}}}}}"#
    );
    match writes(&mut hub, 1, &frame) {
        Some(SpokeFrame::Result { content, .. }) => assert_eq!(content, structured),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_odd_frame_fails_its_own_call() {
    let mut hub = Hub::ready("writes");
    for (id, result) in [
        r#"{"content":[{"type":"text","text":"\ud800"}]}"#,
        r#"{"content":[],"structuredContent":{"n":1e400}}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let id = id as u64 * 2;
        let frame = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{result}}}"#);
        match writes(&mut hub, id, &frame) {
            Some(SpokeFrame::CallFailed { reason, .. }) => {
                assert_eq!(reason, breach(Breach::CallAnswer));
            }
            other => panic!("{result}: {other:?}"),
        }
        let sound = "log\n{\"id\":\"ID\",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\u{e0ff}\"}]}}";
        match writes(&mut hub, id + 1, sound) {
            Some(SpokeFrame::Result { content, .. }) => assert_eq!(content, "\u{fffd}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_error_keeps_its_length_and_line_breaks() {
    let mut hub = Hub::ready("writes");
    let message = "at line 1\n".repeat(6_000);
    let error = json!({"code": -32000, "message": message, "data": {"trace": [1, 2]}});
    let frame = format!(r#"{{"jsonrpc":"2.0","id":ID,"error":{error}}}"#);
    match writes(&mut hub, 1, &frame) {
        Some(SpokeFrame::CallFailed { reason, .. }) => {
            let said = reason.quote().map(Quote::as_str);
            assert_eq!(said, Some(&*format!("{message}\n{{\"trace\":[1,2]}}")));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_time_passes_while_the_user_is_asked_about_a_connection() {
    let mut hub = Hub::ready("late-answer");
    hub.call(1, r#"{"text":"a","ms":1000}"#, 400);
    hub.send(&HubFrame::Pause { id: 1 });
    assert_eq!(hub.result(1), "after 1000");
    // The pause was this call's, and ends with it.
    hub.call(2, TEXT, 15_000);
    assert_eq!(hub.result(2), "after 0");
    hub.call(3, r#"{"text":"a","ms":5000}"#, 400);
    // One that is over, and one that nobody has made, hold up nothing.
    hub.send(&HubFrame::Pause { id: 1 });
    hub.send(&HubFrame::Pause { id: 99 });
    assert_eq!(hub.call_failure(3), FailureReason::CallTimeout(400));
}

#[test]
fn the_time_goes_on_when_the_question_is_settled() {
    let mut hub = Hub::ready("never-answer");
    let started = Instant::now();
    hub.call(1, TEXT, 400);
    hub.send(&HubFrame::Pause { id: 1 });
    std::thread::sleep(Duration::from_millis(600));
    hub.send(&HubFrame::Resume { id: 1 });
    assert_eq!(hub.call_failure(1), FailureReason::CallTimeout(400));
    assert!(started.elapsed() >= Duration::from_millis(900));
}

#[test]
fn a_late_answer_is_thrown_away_and_the_app_goes_on() {
    let mut hub = Hub::ready("late-answer");
    hub.call(1, r#"{"text":"a","ms":400}"#, 100);
    assert_eq!(hub.call_failure(1), FailureReason::CallTimeout(100));
    hub.call(2, r#"{"text":"a","ms":600}"#, 15_000);
    assert_eq!(hub.result(2), "after 600");
}

#[test]
fn a_cancelled_call_ends_at_once_and_others_go_on() {
    let mut hub = Hub::ready("late-answer");
    hub.call(1, r#"{"text":"a","ms":60000}"#, 100_000);
    hub.call(2, r#"{"text":"a","ms":300}"#, 15_000);
    hub.send(&HubFrame::Cancel { id: 1 });
    hub.send(&HubFrame::Cancel { id: 99 });
    assert_eq!(hub.call_failure(1), FailureReason::Cancelled);
    assert_eq!(hub.result(2), "after 300");
}

#[test]
fn calls_run_at_the_same_time_up_to_the_limit() {
    let limits = AppLimits {
        max_concurrent_calls: 2,
        ..AppLimits::default()
    };
    let mut hub = Hub::start_with("late-answer", limits);
    assert!(matches!(hub.next(), Some(SpokeFrame::Ready { .. })));
    hub.call(1, r#"{"text":"a","ms":900}"#, 15_000);
    hub.call(2, r#"{"text":"a","ms":300}"#, 15_000);
    hub.call(2, r#"{"text":"a","ms":1}"#, 15_000);
    hub.call(3, r#"{"text":"a","ms":1}"#, 15_000);
    assert_eq!(hub.call_failure(2), FailureReason::DuplicateCall);
    assert_eq!(hub.call_failure(3), FailureReason::TooManyCalls(2));
    assert_eq!(hub.result(2), "after 300");
    assert_eq!(hub.result(1), "after 900");
}

#[test]
fn notifications_change_nothing() {
    let mut hub = Hub::ready("log-and-change");
    hub.call(1, TEXT, 15_000);
    assert_eq!(hub.result(1), "hello");
}
