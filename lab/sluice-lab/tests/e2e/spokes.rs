//! Starts and stops leave nothing behind; spokes that run at once do not hear each other. The nightly
//! job does the same with 10,000 starts and 200 spokes.

use crate::stage::{Stage, text};

#[test]
fn fifty_starts_leave_nothing_behind_and_ten_spokes_at_once_are_themselves() {
    let stage = Stage::new();
    let arguments = ["bench", "spokes", "--count", "10", "--starts", "50"];
    let output = stage.lab(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = text(&output.stdout);
    for part in ["50 starts and stops", "10 spokes at once", "is left"] {
        assert!(found.contains(part), "{part} is missing in {found}");
    }
}
