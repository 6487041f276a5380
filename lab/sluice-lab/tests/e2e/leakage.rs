//! The privacy-leakage benchmark as its users run it.

use crate::stage::{Stage, text};

#[test]
fn the_table_has_each_agent_behind_each_defence() {
    let stage = Stage::new();
    let arguments = ["leakage", "--defence", "none,naive-checked"];
    let output = stage.lab(&arguments).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    for part in [
        "ground-truth  none",
        "over-sharing  naive-checked",
        "leaking",
    ] {
        assert!(stdout.contains(part), "{part} is missing in {stdout}");
    }
}
