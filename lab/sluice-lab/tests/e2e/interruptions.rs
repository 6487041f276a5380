//! Something dies in the middle of a turn: an error that says so, nothing left running, and a
//! trace that is complete up to that point.

use std::process::{Child, Command, Output};
use std::time::Duration;

use crate::stage::{Stage, runs, text};

/// Slow enough that every test strikes in the middle of an answer.
const PACE: Duration = Duration::from_millis(400);

fn signal(name: &str, pid: u32) {
    assert!(
        Command::new("kill")
            .args([name, &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

/// The output of a program that ends: a test that waits for ever is ended by its runner.
fn end(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

fn spoke(stage: &Stage) -> u64 {
    let trace = stage.trace();
    let started = trace
        .iter()
        .find(|event| event["kind"] == "spoke_started")
        .unwrap();
    started["pid"].as_u64().unwrap()
}

#[test]
fn a_spoke_that_dies_ends_the_turn() {
    let stage = Stage::with_pace(PACE);
    // The last step answers in many words.
    let child = stage.start_until("answered");
    let spoke = spoke(&stage);
    signal("-9", u32::try_from(spoke).unwrap());
    let output = end(child);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("spoke"),
        "{}",
        text(&output.stderr)
    );
    assert!(!runs(spoke));
    let kinds = stage.kinds();
    assert_eq!(kinds[kinds.len() - 2..], ["stopped", "spoke_ended"]);
}

#[test]
fn a_model_that_dies_ends_the_turn_with_its_reason() {
    let mut stage = Stage::with_pace(PACE);
    let child = stage.start_until("answered");
    stage.kill_model();
    let output = end(child);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("provider `remote`"),
        "{}",
        text(&output.stderr)
    );
    assert!(!runs(spoke(&stage)));
    assert_eq!(stage.kinds().last().unwrap(), "stopped");
}

#[test]
fn ctrl_c_ends_everything() {
    let stage = Stage::with_pace(PACE);
    let child = stage.start_until("answered");
    signal("-INT", child.id());
    let output = end(child);
    assert_eq!(output.status.code(), Some(130));
    assert!(!runs(spoke(&stage)));
    let trace = stage.trace();
    assert_eq!(trace.last().unwrap()["reason"], "interrupted");
}

#[test]
fn a_hub_that_is_killed_takes_its_spokes_along() {
    let stage = Stage::with_pace(PACE);
    let child = stage.start_until("answered");
    let spoke = spoke(&stage);
    signal("-9", child.id());
    end(child);
    while runs(spoke) {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Whole lines only, and all that had happened.
    assert!(stage.kinds().contains(&"asked".to_owned()));
}
