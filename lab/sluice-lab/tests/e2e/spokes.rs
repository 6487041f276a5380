//! Starts and stops leave nothing behind; spokes that run at once do not hear each other. The nightly
//! job does the same with 10,000 starts and 200 spokes.

use serde_json::Value;

use crate::stage::{Stage, text};

#[test]
fn fifty_starts_leave_nothing_behind_and_ten_spokes_at_once_are_themselves() {
    let stage = Stage::new();
    let arguments = [
        "bench", "spokes", "--count", "10", "--starts", "50", "--json",
    ];
    let output = stage.lab(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&found["starts"], &found["spokes"]),
        (&50.into(), &10.into())
    );
    assert!(found["own_kib"].as_u64().unwrap() > 0, "{found}");
}
