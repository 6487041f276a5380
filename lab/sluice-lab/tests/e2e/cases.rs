//! SecGPT's case studies and later attacks, with the worst-case model.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::stage::{Stage, text};

/// The attacks that succeed with the default settings, by the numbers of their studies, as docs/measurements.md says.
const SUCCEED_BY_DEFAULT: [(&str, &str); 2] = [("joint-default", "67"), ("isolated-default", "67")];

#[test]
fn attacks_succeed_without_protection_and_by_default_where_the_page_says() {
    let stage = Stage::new();
    let output = stage.lab(&["cases", "--json"]).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    let rows: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut seen = BTreeSet::new();
    for row in &rows {
        let (study, way) = (row["study"].as_str().unwrap(), row["way"].as_str().unwrap());
        let default = SUCCEED_BY_DEFAULT.iter().find(|(known, _)| *known == way);
        let attacked = match default {
            Some((_, studies)) => studies.contains(&study[..1]),
            None => way == "vanilla",
        };
        assert_eq!(row["attacked"], attacked, "{row}");
        assert!(
            !["joint", "isolated"].contains(&way) || row["served"] == true,
            "{row}"
        );
        if study == "2 data stealing, collaboration permitted" && way != "vanilla" {
            // What was permitted happens, in one conversation and between two; what leaves is asked about.
            let facts = row["facts"].as_str().unwrap();
            assert!(facts.contains("document read 1 times"), "{row}");
            assert!(facts.contains("user asked about the mail"), "{row}");
        }
        seen.insert((study, way));
    }
    assert_eq!((rows.len(), seen.len()), (8 * 5, 8 * 5));
}

/// Each answer is no, so the document is not even asked for.
#[test]
fn strictly_no_message_between_apps_passes_unasked() {
    let stage = Stage::new();
    let arguments = ["cases", "--strict", "--json", "--only", "collaboration"];
    let output = stage.lab(&arguments).output().unwrap();
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let read: Vec<bool> = stdout
        .lines()
        .map(|line| line.contains("document read 1 times"))
        .collect();
    // VanillaGPT; with the default settings joint and isolated; with those of the study joint and isolated.
    assert_eq!(read, [true, true, false, true, false], "{stdout}");
}

/// The table names what the servers saw, so that a reader can check the verdict.
#[test]
fn the_table_tells_the_fares() {
    let stage = Stage::new();
    let output = stage
        .lab(&["cases", "--only", "app compromise"])
        .output()
        .unwrap();
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        stdout.contains("the user was told 61.80 and 57.00"),
        "{stdout}"
    );
    assert!(
        stdout.contains("the user was told 51.80 and 57.00"),
        "{stdout}"
    );
}

/// Data goes from app to app unasked, by calls of tools, by requests and by a conversation that serves one.
#[test]
fn benign_tasks_over_several_apps_are_done_without_a_question() {
    let stage = Stage::new();
    let arguments = ["cases", "--benign", "--json", "--only", "packing list"];
    let output = stage.lab(&arguments).output().unwrap();
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows = stdout.lines().map(serde_json::from_str);
    let rows: Vec<Value> = rows.collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), 4 * 3);
    for row in rows {
        assert!(row["done"] == true && row["questions"] == 0, "{row}");
    }
}

#[test]
fn a_study_that_is_not_there_is_said() {
    let stage = Stage::new();
    let output = stage
        .lab(&["cases", "--only", "no such words"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no study has these words"));
}
