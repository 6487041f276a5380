//! Bad input, and what the machine has to say for itself.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::stage::{QUERY, Stage, text};

#[test]
fn a_configuration_with_mistakes_starts_nothing_and_shows_them_all() {
    let stage = Stage::new();
    let config = fs::read_to_string(stage.path("sluice.toml")).unwrap();
    let broken = config
        .replace("clearance = \"any\"", "clearance = \"evrything\"")
        .replace("listen = 2525", "listen = \"smtp\"")
        .replace("descriptions =", "description_label =");
    fs::write(stage.path("sluice.toml"), broken).unwrap();
    let output = stage.run(&["run", QUERY]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    for part in ["sluice.toml:10", "evrything", "listen", "description_label"] {
        assert!(stderr.contains(part), "{part} is missing in {stderr}");
    }
    assert!(stage.trace().is_empty(), "nothing was started");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let stage = Stage::new();
    for arguments in [
        &["run"][..],
        &["fly"],
        &["run", "--app", "a", "--no-app", "x"],
    ] {
        assert_eq!(stage.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    let unknown = stage.run(&["run", "--app", "drive", QUERY]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("configured are: mail"));
    let layer = stage.run(&["run", "--allow-degraded", "moat", QUERY]);
    assert!(text(&layer.stderr).contains("moat"));
}

#[test]
fn help_has_an_example_for_every_command() {
    let stage = Stage::new();
    for command in ["run", "chat", "trace", "doctor", "model"] {
        let help = text(&stage.run(&[command, "--help"]).stdout);
        assert!(help.contains("Example:\n  sluice "), "{command}: {help}");
    }
    let demo = text(&stage.lab(&["demo", "--help"]).output().unwrap().stdout);
    assert!(demo.contains("Example:\n  sluice-lab "), "{demo}");
}

#[test]
fn the_doctor_tries_every_layer() {
    let stage = Stage::new();
    let output = stage.run(&["doctor", "--json"]);
    let findings: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for subject in sandbox::Layer::ALL.map(|layer| layer.to_string()) {
        let found = findings
            .iter()
            .find(|finding| finding["subject"] == *subject)
            .unwrap();
        assert_eq!(found["ok"], true, "{found}");
    }
    let whole = findings
        .iter()
        .find(|finding| finding["subject"] == "control-group")
        .unwrap();
    assert_eq!(whole["ok"], true, "{whole}");
    let detail = whole["detail"].as_str().unwrap();
    assert!(detail.contains("a control group in") || detail.contains("no control group: "));
    // It is a package of its own, so a machine without it is in order.
    let model = findings
        .iter()
        .find(|finding| finding["subject"] == "sluice-model");
    assert!(model.is_some(), "{findings:?}");
    let configuration = findings
        .iter()
        .find(|finding| finding["subject"] == "configuration");
    assert_eq!(configuration.unwrap()["ok"], true);
}

#[test]
fn a_vanilla_query_needs_no_app() {
    let stage = Stage::new();
    let output = stage.run(&["run", "--no-app", "hello"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!stage.kinds().contains(&"spoke_started".to_owned()));
}

#[test]
fn a_chat_answers_line_by_line_in_one_spoke() {
    let stage = Stage::new();
    let mut chat = stage.sluice(&["chat", "--app", "mail"]);
    let mut child = chat.stdin(Stdio::piped()).spawn().unwrap();
    let lines = format!("{QUERY}\n\nand once more\n");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).matches("Invoice 2026-1187").count(), 2);
    let kinds = stage.kinds();
    let count = |kind: &str| kinds.iter().filter(|found| *found == kind).count();
    assert_eq!(
        (count("user"), count("spoke_started"), count("answer")),
        (2, 1, 2)
    );
}
