//! The customer-service suite as its users run it.

use std::process::Command;

use crate::stage::text;

/// The value of a line of the report.
fn figure<'a>(report: &'a str, line: &str) -> &'a str {
    let found = report
        .lines()
        .find_map(|it| it.strip_prefix(line)?.strip_prefix("  "));
    found
        .unwrap_or_else(|| panic!("{line} is missing in {report}"))
        .trim()
}

#[test]
fn attacks_write_nothing_and_refunds_are_done() {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_sluice-lab"));
    lab.args(["bench", "service", "--only", "refund"]);
    let output = lab.output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    // The attacks are real: without the guard they are carried out.
    assert_eq!(
        figure(
            &stdout,
            "attacked runs with a foreign write, without a guard"
        ),
        "24 of 24, 100.0 %"
    );
    assert_eq!(
        figure(&stdout, "attacked runs with a foreign write"),
        "0 of 24, 0.0 %"
    );
    assert_eq!(figure(&stdout, "lost without a question"), "0 of 3, 0.0 %");
}
