//! The apps by themselves: fares, manifests, and the record of calls.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use case_apps::{App, Arguments, DICTATED_FARES, HEALTH_TERMS, SECRET_DOCUMENT, State, fare_texts};
use serde_json::{Value, json};

fn call(app: &str, tool: &str, arguments: &Value) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let state = State::open(folder.path().to_owned()).unwrap();
    let app = App::find(app).unwrap();
    let tool = app.tools.iter().find(|own| own.name == tool).unwrap();
    let arguments: Arguments = arguments.as_object().unwrap().clone();
    (tool.run)(&state, &arguments).unwrap()
}

#[test]
fn fares_are_those_of_the_case_study() {
    let ride = json!({"from": "Main Street", "to": "Elm Avenue"});
    assert_eq!(fare_texts("Main Street", "Elm Avenue"), ["51.80", "57.00"]);
    assert_eq!(call("metro-hail", "metro_hail_fare", &ride)["fare"], 51.8);
    for app in App::all()
        .iter()
        .filter(|app| app.name.starts_with("quick"))
    {
        let result = call(&app.name, "quick_ride_fare", &ride);
        assert_eq!(result["fare"], 57.0, "{}", app.name);
    }
    let dictated = call("quick-ride-dictate", "quick_ride_fare", &ride);
    let note = dictated["note"].as_str().unwrap();
    assert!(DICTATED_FARES.iter().all(|fare| note.contains(fare)));
}

#[test]
fn the_secrets_are_where_the_studies_look_for_them() {
    let record = call("health-companion", "recorded_data", &json!({})).to_string();
    assert!(HEALTH_TERMS.iter().all(|term| record.contains(term)));
    let (name, secret) = SECRET_DOCUMENT;
    let document = call("drive", "read_document", &json!({ "name": name }));
    assert!(document["body"].as_str().unwrap().contains(secret));
}

/// A tool without a rule would be missing from every study without anybody noticing.
#[test]
fn manifests_list_every_tool_and_no_other() {
    for app in App::all() {
        for manifest in [app.manifest(), app.unprotected_manifest()] {
            let parsed: toml::Table = manifest.parse().unwrap();
            let toml::Value::Table(tools) = &parsed["tools"] else {
                panic!("no tools: {manifest}")
            };
            let listed: BTreeSet<&str> = tools.keys().map(String::as_str).collect();
            let tools: BTreeSet<&str> = app.tools.iter().map(|tool| tool.name).collect();
            assert_eq!(listed, tools, "{}", app.name);
            assert_eq!(
                parsed["app"]["description"].as_str(),
                Some(app.description.as_str())
            );
        }
    }
}

/// A repeated read is no step, so what writes must be known to write.
#[test]
fn without_protection_a_write_is_still_a_write() {
    let manifest = |app: &str| App::find(app).unwrap().unprotected_manifest();
    assert!(manifest("typewriter").contains("effect = \"write\""));
    assert!(manifest("drive").contains("[tools.read_document]\neffect = \"read\""));
    assert!(manifest("drive").contains("[tools.share_document]\neffect = \"write\""));
}

#[test]
fn a_share_is_kept_and_no_call_is_no_record() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(State::calls(folder.path()), Ok(Vec::new()));
    assert!(State::open(folder.path().join("missing")).is_err());
    let shared = call(
        "drive",
        "share_document",
        &json!({"name": "Packing list", "with": "a@b.example"}),
    );
    assert_eq!(shared, json!({"shared": true}));
}

/// Calls of one app run side by side, and each is a whole line of its record.
#[test]
fn calls_at_the_same_time_are_kept_one_by_one() {
    const CALLS: usize = 400;
    let folder = tempfile::tempdir().unwrap();
    let mut app = Command::new(env!("CARGO_BIN_EXE_sluice-case-apps"))
        .arg("metro-hail")
        .env("STATE", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = app.stdin.take().unwrap();
    let mut answers = BufReader::new(app.stdout.take().unwrap()).lines();
    let mut say = |message: Value| writeln!(input, "{message}").unwrap();
    let client = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    say(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}));
    answers.next().unwrap().unwrap();
    say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let ride = json!({"from": "Main Street", "to": "Elm Avenue"});
    let params = json!({"name": "metro_hail_fare", "arguments": ride});
    for id in 1..=CALLS {
        say(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }
    for _ in 0..CALLS {
        let answer = answers.next().unwrap().unwrap();
        assert!(answer.contains("51.8"), "{answer}");
    }
    drop(input);
    assert!(app.wait().unwrap().success());
    let calls = State::calls(folder.path()).unwrap();
    assert_eq!(calls.len(), CALLS);
}
