//! Apps that flood, stay silent, or speak nonsense: refused with a reason, inside the limits.

use crate::stage::Stage;

/// The most that the hub's own memory may grow while an app floods it, in KiB. A frame may have
/// eight megabytes, and is held once as bytes and once decoded.
const GROWTH_KIB: u64 = 64 * 1024;

async fn check(mode: &str, expected: &str) {
    let mut stage = Stage::new(mode);
    let before = high_water_kib();
    let said = stage.said().await;
    assert!(
        said.contains(expected),
        "{mode}: expected '{expected}' in '{said}'"
    );
    // The kernel counts pages in batches, so the peak can seem to shrink a little.
    let growth = high_water_kib().saturating_sub(before);
    assert!(growth < GROWTH_KIB, "{mode}: the hub grew by {growth} KiB");
    stage.trace();
}

/// The peak of this process's memory.
fn high_water_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

macro_rules! modes {
    ($($name:ident: $mode:literal => $expected:literal,)*) => {
        $(#[tokio::test]
        async fn $name() {
            check($mode, $expected).await;
        })*
    };
}

modes! {
    // At the start: there is no spoke, and an error that says why.
    an_endless_line_at_the_start: "flood-without-newline" => "error: the app test did not start",
    endless_nesting_at_the_start: "nesting" => "error: the app test did not start",
    prose_beside_json: "noisy" => "it said hello",
    silence_at_the_start: "silent" => "error: the app test did not start",
    a_crash_at_the_start: "crash-at-start" => "no configuration file",
    a_closed_stdout: "close-stdout" => "error: the app test did not start",
    a_gigabyte_on_stderr: "stderr-gigabyte" => "it said hello",
    // In a call: the call fails or the spoke is lost; either way there is a reason.
    no_answer_to_a_call: "never-answer" => "not known whether this call ran",
    a_flood_of_notifications: "flood-notifications" => "not known whether this call ran",
    nesting_in_a_call: "nesting-mid-call" => "not known whether this call ran",
    a_result_over_the_limit: "huge-result" => "ask for less at once",
    an_exit_in_a_call: "exit-mid-call" => "out of cheese",
    a_kill_in_a_call: "kill-mid-call" => "the app failed",
    an_error_of_the_app: "error-answer" => "mailbox is locked",
}
