//! LangChain's benchmarks with a model that makes no mistake: enforcement loses nothing and costs no completion.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::stage::{Stage, text};

#[test]
fn enforcement_loses_nothing_and_costs_no_completion() {
    let stage = Stage::new();
    let out = stage.path("out");
    let arguments = ["langchain", "--queries", "2", "--out", "out"];
    let output = stage.lab(&arguments).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    for part in ["Table 1", "completions", "VanillaGPT"] {
        assert!(stdout.contains(part), "{part} is missing in {stdout}");
    }
    let lines = fs::read_to_string(out.join("langchain.jsonl")).unwrap();
    let mut completions: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["steps"], true, "{row}");
        assert_eq!(row["overall"], 1.0, "{row}");
        let name = |key: &str| row[key].as_str().unwrap().to_owned();
        let count = row["completions"].as_u64().unwrap();
        *completions
            .entry((name("benchmark"), name("system")))
            .or_default() += count;
    }
    let of =
        |benchmark: &str, system: &str| completions[&(benchmark.to_owned(), system.to_owned())];
    for benchmark in [
        "typewriter-1",
        "typewriter-26",
        "relational-data",
        "email-extraction",
    ] {
        assert_eq!(
            of(benchmark, "sluice"),
            of(benchmark, "vanilla"),
            "{benchmark}"
        );
    }
    // One question of the planner for each query, however many apps there are.
    for benchmark in ["typewriter-1", "typewriter-26", "relational-data"] {
        let planned = of(benchmark, "sluice_planned");
        assert_eq!(planned, of(benchmark, "vanilla") + 2, "{benchmark}");
    }
}

#[test]
fn a_run_that_was_ended_goes_on_where_it_was() {
    let stage = Stage::new();
    let command = |more: &str| {
        let arguments = format!("langchain --only relational --out out {more}");
        stage.lab(&arguments.split_whitespace().collect::<Vec<_>>())
    };
    let run = |more: &str, code: i32| {
        let output = command(more).output().unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
        stdout + &stderr
    };
    let path = stage.path("out").join("langchain.jsonl");
    let mut first = command("--queries 1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut counts = Vec::new();
    while first.try_wait().unwrap().is_none() {
        let rows = fs::read_to_string(&path).unwrap_or_default();
        counts.push(rows.lines().count());
        sleep(Duration::from_millis(5));
    }
    assert!(first.wait().unwrap().success());
    assert!(counts.contains(&1), "rows are written as they are made");
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(lines.len(), 3, "one query, three systems");
    // Of three rows one is whole, with a count that no run comes to, and one was being written.
    let mut row: Value = serde_json::from_str(lines[0]).unwrap();
    row["completions"] = 1000.into();
    fs::write(&path, format!("{row}\n{}", &lines[1][..40])).unwrap();

    let report = run("--queries 2 --resume", 0);
    assert!(report.contains("Table 1"), "{report}");
    let rows = fs::read_to_string(&path).unwrap();
    let rows: Vec<Value> = rows
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 6, "two queries, three systems");
    assert_eq!(rows[0]["completions"], 1000, "what was there was run again");
    assert!(rows[1..].iter().all(|row| row["completions"] != 1000));

    // Rows of two models make no table.
    let mut other = rows[0].clone();
    other["model"] = "embedded".into();
    fs::write(&path, format!("{other}\n")).unwrap();
    let refused = run("--queries 1 --resume", 1);
    assert!(refused.contains("of the model embedded"), "{refused}");

    // Without --resume a run begins anew.
    run("--queries 1", 0);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
}

/// `sluice-lab langchain` for one query, with a script in the place of `sluice`.
fn with_sluice(stage: &Stage, script: &str, more: &[&str]) -> Output {
    let folder = stage.path("bin");
    fs::create_dir_all(&folder).unwrap();
    let sluice = folder.join("sluice");
    fs::write(&sluice, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&sluice, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("sluice-case-apps"), "").unwrap();
    let arguments = "langchain --only relational --queries 1 --out out".split(' ');
    let arguments: Vec<&str> = arguments.chain(more.iter().copied()).collect();
    let mut lab = stage.lab(&arguments);
    lab.env("SLUICE_BIN_DIR", folder).output().unwrap()
}

#[test]
fn a_session_that_does_not_start_is_no_run() {
    let stage = Stage::new();
    let output = with_sluice(&stage, "echo no sandbox here >&2; exit 1", &[]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    for part in ["no session was started", "no sandbox here"] {
        assert!(stderr.contains(part), "{part} is missing in {stderr}");
    }
    let rows = fs::read_to_string(stage.path("out").join("langchain.jsonl")).unwrap();
    assert_eq!(rows, "");
}

#[test]
fn a_run_that_failed_is_no_mistake_of_the_agent_and_is_run_again() {
    let stage = Stage::new();
    let record = r#"echo '{"at_ms": 1, "event": {"kind": "session_started"}}'"#;
    let rows = || -> Vec<Value> {
        let rows = fs::read_to_string(stage.path("out").join("langchain.jsonl")).unwrap();
        rows.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let failing = format!("{record}; echo the provider is gone >&2; exit 1");
    let output = with_sluice(&stage, &failing, &[]);
    assert_eq!(output.status.code(), Some(1));
    let stdout = text(&output.stdout);
    assert!(stdout.contains("3 runs ended with an error"), "{stdout}");
    for row in rows() {
        let error = row["error"].as_str().unwrap();
        assert!(error.contains("the provider is gone"), "{row}");
    }
    // An agent that does nothing is one that makes a mistake.
    with_sluice(&stage, record, &["--resume"]);
    let again = rows();
    assert_eq!(again.len(), 3);
    assert!(again.iter().all(|row| row.get("error").is_none()));
}
