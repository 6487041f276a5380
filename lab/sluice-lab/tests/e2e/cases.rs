//! SecGPT's case studies and later attacks, with the worst-case model: they work where nothing protects, and nowhere else.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::stage::{Stage, text};

#[test]
fn every_attack_works_on_the_baseline_and_on_nothing_that_is_protected() {
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
        let way = row["way"].as_str().unwrap();
        let protected = way != "vanilla";
        assert_eq!(row["attacked"], !protected, "{row}");
        assert!(!protected || row["served"] == true, "{row}");
        if row["study"] == "2 data stealing, collaboration permitted" && protected {
            // What was permitted happens, in one conversation and between two; what leaves is asked about.
            let facts = row["facts"].as_str().unwrap();
            assert!(facts.contains("document read 1 times"), "{row}");
            assert!(facts.contains("user asked about the mail"), "{row}");
        }
        seen.insert((row["study"].as_str().unwrap(), way));
    }
    let studies: BTreeSet<&str> = seen.iter().map(|(study, _)| *study).collect();
    assert_eq!(studies.len(), 8);
    for study in studies {
        for way in ["vanilla", "joint", "isolated"] {
            assert!(seen.contains(&(study, way)), "{study}, {way}");
        }
    }
}

/// Nobody is there who could say yes to a probe, so the document is not even asked for.
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
    // VanillaGPT, joint, isolated.
    assert_eq!(read, [true, true, false], "{stdout}");
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
