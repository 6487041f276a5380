//! The bench of the way out fetches what it says, by both ways.

use serde_json::Value;

use crate::stage::{Stage, text};

/// Without a round there is nothing to say, and one byte is what the connections beside the downloads bring.
#[test]
fn what_measures_nothing_is_refused() {
    let stage = Stage::new();
    for arguments in [["--rounds", "0"], ["--bytes", "1"], ["--bytes", "0"]] {
        let arguments = [&["bench", "egress"], &arguments[..]].concat();
        let output = stage.lab(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_download_comes_through_the_hub_as_it_comes_directly() {
    let stage = Stage::new();
    // More than what goes through a buffer before a pipe takes it.
    let arguments = [
        "bench", "egress", "--bytes", "3000000", "--rounds", "2", "--json",
    ];
    let output = stage.lab(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for way in ["direct", "through"] {
        let rate = found[format!("{way}_mb_per_s")].as_f64().unwrap();
        let first = found[format!("first_byte_{way}_us")]["p50"].as_f64();
        assert!(rate > 0.0 && first.unwrap() > 0.0, "{found}");
    }
}
