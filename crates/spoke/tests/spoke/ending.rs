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
fn output_that_is_not_the_protocol_is_skipped() {
    let mut hub = Hub::ready("noisy");
    hub.call(1, TEXT, 15_000);
    assert_eq!(hub.result(1), "hello");
    let lines: Vec<_> = hub.refused.iter().filter(|it| it.0 == Wish::Line).collect();
    assert!(lines.iter().all(|it| it.1 == Refusal::NoMessage));
    let counted: Vec<(u64, &str)> = lines.iter().map(|it| (it.2, it.3.as_str())).collect();
    let expected = [
        (1, "Listening on stdio [[[["),
        (2, "{not json, but begins like it}"),
        (4, "[\u{fffd}]"),
    ];
    assert_eq!(counted, expected);
}

#[test]
fn a_start_that_fails_is_reported() {
    let limits = || AppLimits {
        start_timeout_ms: 500,
        ..AppLimits::default()
    };
    let mut hub = Hub::start_with("wrong-id", limits());
    assert_eq!(hub.failure().0, FailureReason::StartTimeout(500));
    check_start("not-a-result", breach(Breach::Initialize));
    check_start(
        "refuse-initialize",
        FailureReason::Protocol {
            breach: Breach::Initialize,
            said: Quote::head("no licence"),
        },
    );
    check_start("close-stdout", FailureReason::OutputClosed);
    check_start(
        "refuse-list",
        FailureReason::Protocol {
            breach: Breach::ListTools,
            said: Quote::head("no tools today"),
        },
    );
}

fn tools(mode: &str, limits: AppLimits) -> (Vec<String>, Vec<Told>) {
    let mut hub = Hub::start_with(mode, limits);
    match hub.next() {
        Some(SpokeFrame::Ready { tools, .. }) => {
            let names = tools.into_iter().map(|tool| tool.name).collect();
            (names, std::mem::take(&mut hub.refused))
        }
        other => panic!("{mode}: {other:?}"),
    }
}

#[test]
fn pages_that_do_not_end_end_the_list() {
    let note = |why| [(Wish::Page, why, 1, String::new())];
    let (names, notes) = tools("repeated-pages", AppLimits::default());
    assert_eq!(names, ["echo"]);
    assert!(notes.contains(&note(Refusal::Repeats)[0]), "{notes:?}");
    let (names, notes) = tools("endless-pages", AppLimits::default());
    assert_eq!(names.len(), 1_000);
    assert_eq!(notes, note(Refusal::Endless));
    let limits = AppLimits {
        start_timeout_ms: 2_000,
        ..AppLimits::default()
    };
    let (names, notes) = tools("slow-pages", limits);
    assert_eq!(names, ["echo"]);
    assert_eq!(notes, note(Refusal::Endless));
}

#[test]
fn an_app_that_ends_instead_of_listing_its_tools_breaks_no_rule() {
    check_start("exit-at-list", exited(7));
    check_start("close-stdout-at-list", FailureReason::OutputClosed);
}

#[test]
fn an_answer_that_is_no_tool_result_fails_its_call() {
    let mut hub = Hub::ready("says-results");
    for (id, answer) in ["[]", "7"].into_iter().enumerate() {
        let arguments = serde_json::json!({ "text": answer });
        hub.call(id as u64, &arguments.to_string(), 15_000);
        let expected = breach(Breach::CallAnswer);
        assert_eq!(hub.call_failure(id as u64), expected, "{answer}");
    }
}

#[test]
fn tools_that_cannot_be_accepted_are_left_out() {
    let (names, notes) = tools("bad-tools", AppLimits::default());
    assert_eq!(names, ["echo", "fetching", "bare"]);
    let left_out = |problem, name: &str| (Wish::Tool, Refusal::Tool(problem), 1, name.to_owned());
    let expected = [
        left_out(ToolProblem::Name, "send mail\n"),
        left_out(ToolProblem::Duplicate, "echo"),
        left_out(ToolProblem::SchemaTooLong, "huge"),
        (
            Wish::Tool,
            Refusal::Unchecked,
            2,
            "fetching, bare".to_owned(),
        ),
    ];
    assert_eq!(notes, expected);
    let (names, notes) = tools("many-tools", AppLimits::default());
    assert_eq!(names.len(), 1_024);
    let names = "t1024, t1025, t1026, t1027, t1028, t1029".to_owned();
    let many = Refusal::Tool(ToolProblem::TooMany);
    assert_eq!(notes, [(Wish::Tool, many, 6, names)]);
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
fn an_answer_without_a_request_is_skipped() {
    let mut hub = Hub::ready("answer-twice");
    for id in 1..4 {
        hub.call(id, TEXT, 15_000);
        assert_eq!(hub.result(id), "one");
    }
    let mut hub = Hub::ready("wrong-id-mid-call");
    hub.call(1, TEXT, 300);
    assert_eq!(hub.call_failure(1), FailureReason::CallTimeout(300));
    assert_eq!(hub.refused[0].0, Wish::Line);
    assert!(hub.refused[0].3.contains("999"), "{:?}", hub.refused);
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
    let flood = FailureReason::Flood {
        max_messages: 1_000,
        max_bytes: 4 << 20,
    };
    check_flood("flood-requests", true, &flood);
}

/// What is skipped takes no memory, however much it is, and what is too much fails its call alone.
#[test]
fn lines_without_end_are_skipped_in_flat_memory() {
    let limits = || AppLimits {
        start_timeout_ms: 5_000,
        ..AppLimits::default()
    };
    for mode in ["flood-without-newline", "nesting"] {
        let mut hub = Hub::start_with(mode, limits());
        let peak = hub.watch_peak_until_end();
        assert!(peak < FLAT_KIB, "{mode}: peak {peak} KiB");
        assert_eq!(hub.failure().0, FailureReason::StartTimeout(5_000));
    }
    let mut hub = Hub::ready("flood-notifications");
    hub.call(1, TEXT, 2_000);
    let peak = hub.watch_peak_until_end();
    assert!(peak < FLAT_KIB, "peak {peak} KiB");
    assert_eq!(hub.call_failure(1), FailureReason::CallTimeout(2_000));
    assert_eq!(hub.failure().0, FailureReason::Unresponsive(10_000));
    for (mode, expected) in [
        ("many-values", FailureReason::TooManyValues(200_000)),
        ("huge-result", FailureReason::LineTooLong(4 << 20)),
    ] {
        let mut hub = Hub::ready(mode);
        for id in 1..3 {
            hub.call(id, TEXT, 60_000);
            assert_eq!(hub.call_failure(id), expected);
        }
        let peak = hub.peak_kib();
        assert!(peak < FLAT_KIB, "{mode}: peak {peak} KiB");
    }
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
