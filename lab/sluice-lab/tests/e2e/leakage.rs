//! The privacy-leakage benchmark as its users run it: rows and tables.

use std::fs;

use serde_json::Value;

use crate::stage::{Stage, text};

#[test]
fn a_report_has_every_table() {
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
}

#[test]
fn a_run_that_was_ended_goes_on_where_it_was() {
    let stage = Stage::new();
    let run = |more: &[&str]| {
        let arguments = "leakage --domain shop --tasks seeded --variant none --agent ground-truth";
        let arguments = arguments.split(' ').chain(more.iter().copied());
        let output = stage.lab(&arguments.collect::<Vec<_>>()).output().unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
        stdout
    };
    run(&["--defence", "none", "--out", "out"]);
    let path = stage.path("out").join("rows.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 8, "four tasks, two users");
    // Of eight rows three are whole, one failed and one was being written. The first has a count that no run comes to.
    let counted = |line: &str, count: u32| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        row["completions"] = count.into();
        row.to_string()
    };
    let mut failed: Value = serde_json::from_str(&lines[3]).unwrap();
    failed["error"] = "the model is gone".into();
    lines[0] = counted(&lines[0], 1000);
    lines[3] = failed.to_string();
    let ended = lines[..4].join("\n") + "\n" + &lines[4][..40];
    fs::write(&path, ended).unwrap();

    let resumed = run(&["--defence", "none,redact-all", "--out", "out", "--resume"]);
    let rows = fs::read_to_string(&path).unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows.len(), 16, "eight of each defence");
    let first: Value = serde_json::from_str(rows[0]).unwrap();
    assert_eq!(first["completions"], 1000, "what was there was run again");
    assert!(rows.iter().all(|row| !row.contains("the model is gone")));
    assert!(resumed.contains("redact-all"));

    // Without --resume a run begins anew.
    run(&["--defence", "none", "--out", "out"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
}
