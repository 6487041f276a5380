//! The privacy-leakage benchmark as its users run it: rows, tables, figure, and rows of another system.

use std::fs;

use serde_json::Value;

use crate::stage::{Stage, text};

#[test]
fn rows_that_were_kept_are_reported_again_as_they_were() {
    let stage = Stage::new();
    let run = |arguments: &[&str]| {
        let output = stage.lab(arguments).output().unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
        stdout
    };
    let defences = "none,naive-checked,oracle-eager";
    let arguments = [
        "leakage",
        "--domain",
        "shop",
        "--defence",
        defences,
        "--out",
        "out",
    ];
    let report = run(&arguments);
    for part in [
        "Table 2",
        "8.3.1",
        "over-sharing",
        "all, seeded",
        "injection",
    ] {
        assert!(report.contains(part), "{part} is missing in {report}");
    }
    let out = stage.path("out");
    let figure = fs::read_to_string(out.join("figure-7-ground-truth.svg")).unwrap();
    assert!(figure.contains("oracle-eager"));
    let rows = out.join("rows.jsonl");
    assert_eq!(run(&["leakage", "--score", rows.to_str().unwrap()]), report);
    let exported = run(&[
        "leakage",
        "--export",
        "--domain",
        "flights",
        "--variant",
        "none",
    ]);
    let tasks: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(tasks.len(), 12);
    for task in &tasks {
        let messages = task["messages"].as_array().unwrap();
        assert_eq!(messages.last().unwrap()["role"], "user", "{task}");
        assert!(!task["truth"].as_array().unwrap().is_empty(), "{task}");
    }
}
