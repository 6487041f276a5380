//! LangChain's benchmarks with a model that makes no mistake: enforcement loses nothing and costs no completion.

use std::collections::BTreeMap;
use std::fs;

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
    for part in ["Table 1", "Table 2", "Table 3", "VanillaGPT", "none"] {
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
    let figure = fs::read_to_string(out.join("figure9.svg")).unwrap();
    assert!(figure.contains("relational-data") && figure.contains("VanillaGPT"));
}
