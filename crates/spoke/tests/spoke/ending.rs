//! Apps that end or must be ended: each with its exact reason, in time, in flat memory.

use wire::*;

use crate::hub::*;

/// An app that fails before it is ready.
fn check_start(mode: &str, expected: FailureReason) -> String {
    let mut hub = Hub::start(mode);
    let (reason, stderr) = hub.failure();
    assert_eq!(reason, expected, "{mode}");
    stderr
}

/// An app that fails during a call, which the failure ends too.
fn check_mid_call(mode: &str, expected: &FailureReason) -> String {
    let mut hub = Hub::ready(mode);
    hub.call(1, TEXT, 15_000);
    match hub.next() {
        Some(SpokeFrame::CallFailed { id: 1, reason }) => {
            assert_eq!(&reason, expected, "{mode}");
            let (reason, stderr) = hub.failure();
            assert_eq!(&reason, expected, "{mode}");
            stderr
        }
        other => panic!("{mode}: {other:?}"),
    }
}

fn exited(status: i32) -> FailureReason {
    FailureReason::AppExited {
        status: Some(status),
        signal: None,
    }
}

#[test]
fn an_app_that_crashes_at_its_start_is_reported_with_its_last_words() {
    assert_eq!(
        check_start("crash-at-start", exited(3)),
        "no configuration file\n"
    );
    assert_eq!(check_start("exit-at-start", exited(0)), "");
}

#[test]
fn a_program_that_is_not_there_is_reported() {
    let mut hub = Hub::open();
    let app = AppCommand {
        argv: vec!["/no/such/program".into()],
        ..command("")
    };
    hub.send(&HubFrame::Start {
        app,
        limits: AppLimits::default(),
        offer: Offer::default(),
    });
    assert_eq!(hub.failure().0, FailureReason::SpawnFailed(Some(2)));
}

#[test]
fn an_app_that_never_initializes_is_ended_in_time() {
    let limits = AppLimits {
        start_timeout_ms: 300,
        ..AppLimits::default()
    };
    let mut hub = Hub::start_with("silent", limits);
    assert_eq!(hub.failure().0, FailureReason::StartTimeout(300));
}

#[test]
fn output_that_is_not_the_protocol_ends_the_app() {
    check_start("broken-json", FailureReason::InvalidJson);
    check_start("wrong-id", breach(Breach::UnknownAnswer));
    check_start("not-a-result", breach(Breach::Initialize));
    check_start(
        "refuse-initialize",
        FailureReason::Protocol {
            breach: Breach::Initialize,
            said: Quote::head("no licence"),
        },
    );
    check_start("close-stdout", FailureReason::OutputClosed);
    check_start("endless-pages", breach(Breach::ListTools));
    check_start(
        "refuse-list",
        FailureReason::Protocol {
            breach: Breach::ListTools,
            said: Quote::head("no tools today"),
        },
    );
}

#[test]
fn an_app_that_ends_instead_of_listing_its_tools_breaks_no_rule() {
    check_start("exit-at-list", exited(7));
    check_start("close-stdout-at-list", FailureReason::OutputClosed);
}

#[test]
fn an_answer_that_is_no_tool_result_ends_the_app() {
    for answer in [r#"{"content":7}"#, r#"{"content":"hello"}"#, "7"] {
        let mut hub = Hub::ready("says-results");
        let arguments = serde_json::json!({ "text": answer });
        hub.call(1, &arguments.to_string(), 15_000);
        let expected = breach(Breach::CallAnswer);
        assert_eq!(hub.call_failure(1), expected, "{answer}");
        assert_eq!(hub.failure().0, expected, "{answer}");
    }
}

#[test]
fn tools_that_cannot_be_accepted_end_the_app() {
    let bad = |problem, name| FailureReason::BadTool {
        problem,
        name: Quote::head(name),
    };
    check_start("many-tools", FailureReason::TooManyTools(256));
    check_start("bad-tool-name", bad(ToolProblem::Name, "send mail\n"));
    check_start("two-tools-one-name", bad(ToolProblem::Duplicate, "a"));
    check_start("bad-schema", bad(ToolProblem::SchemaInvalid, "a"));
    check_start("fetching-schema", bad(ToolProblem::SchemaInvalid, "a"));
    check_start("long-schema", bad(ToolProblem::SchemaTooLong, "a"));
}

#[test]
fn a_death_in_a_call_is_reported() {
    let mut hub = Hub::ready("exit-mid-call");
    hub.call(1, TEXT, 15_000);
    assert_eq!(hub.call_failure(1), exited(7));
    let (reason, stderr) = hub.failure();
    assert_eq!(reason, exited(7));
    assert_eq!(stderr, "panic: out of cheese\n");

    check_mid_call(
        "kill-mid-call",
        &FailureReason::AppExited {
            status: None,
            signal: Some(9),
        },
    );
}

#[test]
fn a_death_without_a_call_is_reported() {
    let mut hub = Hub::ready("echo");
    let app = hub.children().first().expect("the app").0;
    let killed = std::process::Command::new("/bin/kill")
        .args(["-9", &app.to_string()])
        .status();
    assert!(killed.unwrap().success());
    assert_eq!(
        hub.failure().0,
        FailureReason::AppExited {
            status: None,
            signal: Some(9)
        }
    );
}

#[test]
fn an_answer_given_before_the_end_is_not_lost() {
    let mut hub = Hub::ready("answer-then-exit");
    hub.call(1, TEXT, 15_000);
    assert_eq!(hub.result(1), "hello");
    assert_eq!(hub.failure().0, exited(0));
}

#[test]
fn an_app_that_gives_up_its_output_is_ended() {
    check_mid_call("close-stdout-mid-call", &FailureReason::OutputClosed);
}

#[test]
fn answers_that_nobody_asked_for_end_the_app() {
    check_mid_call("wrong-id-mid-call", &breach(Breach::UnknownAnswer));
    let mut hub = Hub::ready("answer-twice");
    hub.call(1, TEXT, 15_000);
    // The second answer may be seen before the first has been passed on.
    let reason = match hub.next() {
        Some(SpokeFrame::Result { id: 1, content, .. }) => {
            assert_eq!(content, "one");
            None
        }
        Some(SpokeFrame::CallFailed { id: 1, reason }) => Some(reason),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        reason.unwrap_or_else(|| breach(Breach::UnknownAnswer)),
        breach(Breach::UnknownAnswer)
    );
    assert_eq!(hub.failure().0, breach(Breach::UnknownAnswer));
}

/// A flood must have its reason soon and leave no trace in the spoke's memory. The peak is read as long as the spoke
/// lives: it stays for the frames that the test has not read.
fn check_flood(mode: &str, mid_call: bool, expected: &FailureReason) {
    let mut hub = if mid_call {
        Hub::ready(mode)
    } else {
        Hub::start(mode)
    };
    if mid_call {
        hub.call(1, TEXT, 15_000);
    }
    let peak = hub.watch_peak_until_end();
    let reason = match hub.next() {
        Some(SpokeFrame::CallFailed { id: 1, reason }) if mid_call => {
            assert_eq!(&hub.failure().0, expected, "{mode}");
            reason
        }
        Some(SpokeFrame::AppFailed { reason, .. }) if !mid_call => reason,
        other => panic!("{mode}: {other:?}"),
    };
    assert_eq!(&reason, expected, "{mode}");
    assert!(peak < FLAT_KIB, "{mode}: peak {peak} KiB");
}

#[test]
fn floods_are_refused_in_flat_memory() {
    let too_long = FailureReason::LineTooLong(4 << 20);
    let flood = FailureReason::Flood {
        max_messages: 1_000,
        max_bytes: 4 << 20,
    };
    check_flood("flood-without-newline", false, &too_long);
    check_flood("nesting", false, &FailureReason::TooDeep(64));
    check_flood("nesting-mid-call", true, &FailureReason::TooDeep(64));
    check_flood("many-values", true, &FailureReason::TooManyValues(200_000));
    check_flood("huge-result", true, &too_long);
    check_flood("flood-notifications", true, &flood);
    check_flood("flood-requests", true, &flood);
}

#[test]
fn a_gigabyte_of_stderr_costs_nothing_and_ends_nothing() {
    let mut hub = Hub::start("stderr-gigabyte");
    assert!(matches!(hub.next(), Some(SpokeFrame::Ready { .. })));
    let peak = hub.peak_kib();
    assert!(peak < FLAT_KIB, "peak {peak} KiB");
    hub.call(1, TEXT, 15_000);
    assert_eq!(hub.result(1), "hello");
}
