//! LangChain's benchmarks with a model that makes no mistake: enforcement loses nothing and costs no completion.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use crate::stage::{Stage, text};

#[test]
fn enforcement_loses_nothing_and_costs_no_completion() {
    let stage = Stage::new();
    let arguments = ["langchain", "--queries", "2"];
    let output = stage.lab(&arguments).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    // It fails if a step or an answer is wrong, or if anything is asked.
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    let of = |benchmark: &str, system: &str| {
        let mut lines = stdout.lines();
        let line = lines.find(|it| it.starts_with(benchmark) && it.contains(system));
        line.map(|line| line.split_whitespace().last().unwrap().to_owned())
    };
    for benchmark in [
        "typewriter-1",
        "typewriter-26",
        "relational-data",
        "email-extraction",
    ] {
        let ratio = of(benchmark, "Sluice  ");
        assert_eq!(ratio.as_deref(), Some("1.00x"), "{benchmark}: {stdout}");
    }
    // One question of the planner for each query, however many apps there are.
    let planned = ["typewriter-1 ", "typewriter-26"].map(|it| of(it, "Sluice, planned"));
    assert!(planned[0].is_some() && planned[0] == planned[1], "{stdout}");
    assert_eq!(of("email-extraction", "Sluice, planned"), None);
}

/// `sluice-lab langchain` for one query, with a script in the place of `sluice`.
fn with_sluice(stage: &Stage, script: &str) -> Output {
    let folder = stage.path("bin");
    fs::create_dir_all(&folder).unwrap();
    let sluice = folder.join("sluice");
    fs::write(&sluice, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&sluice, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("sluice-case-apps"), "").unwrap();
    let mut lab = stage.lab(&["langchain", "--only", "relational", "--queries", "1"]);
    lab.env("SLUICE_BIN_DIR", folder).output().unwrap()
}

#[test]
fn a_session_that_does_not_start_is_no_run() {
    let stage = Stage::new();
    let output = with_sluice(&stage, "echo no sandbox here >&2; exit 1");
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    for part in ["no session was started", "no sandbox here"] {
        assert!(stderr.contains(part), "{part} is missing in {stderr}");
    }
}

#[test]
fn a_run_that_failed_is_no_mistake_of_the_agent() {
    let stage = Stage::new();
    let record = r#"echo '{"at_ms": 1, "event": {"kind": "session_started"}}'"#;
    let failing = format!("{record}; echo the provider is gone >&2; exit 1");
    let output = with_sluice(&stage, &failing);
    assert_eq!(output.status.code(), Some(1));
    let stdout = text(&output.stdout);
    for part in ["3 runs ended with an error", "the provider is gone"] {
        assert!(stdout.contains(part), "{part} is missing in {stdout}");
    }
    // An agent that does nothing is one that makes a mistake.
    let stderr = text(&with_sluice(&stage, record).stderr);
    assert!(stderr.contains("not as expected"), "{stderr}");
}
