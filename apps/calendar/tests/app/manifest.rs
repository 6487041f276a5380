//! The manifest covers what the app really returns: no tool without an entry, no value without a rule.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use serde_json_path::JsonPath;

use crate::support::{App, INVITATION};

fn manifest() -> toml::Table {
    sluice_calendar::MANIFEST.parse().unwrap()
}

/// The labels of the rules of a tool, by path; its own or those of the results that it names.
fn rules(manifest: &toml::Table, tool: &str) -> Vec<(String, Vec<String>)> {
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let tool = &manifest["tools"][tool];
    let shape = tool
        .get("results")
        .map_or(tool, |name| &manifest["results"][name.as_str().unwrap()]);
    let rules = shape["labels"].as_array().unwrap().iter();
    rules
        .map(|rule| {
            (
                text(&rule["path"]),
                rule["label"].as_array().unwrap().iter().map(text).collect(),
            )
        })
        .collect()
}

/// The locations of all values that are no object and no array.
fn leaves(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| leaves(value, &format!("{at}['{name}']"), found)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(n, item)| leaves(item, &format!("{at}[{n}]"), found)),
        _ => drop(found.insert(at.to_owned())),
    }
}

#[tokio::test]
async fn every_value_has_a_rule_and_every_senders_word_is_untrusted() {
    let app = App::with(&[("invitation.ics", INVITATION)]).await;
    let manifest = manifest();
    let tools: BTreeSet<_> = app
        .tools()
        .await
        .iter()
        .map(|tool| tool.name.to_string())
        .collect();
    let entries: BTreeSet<_> = manifest["tools"]
        .as_table()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(tools, entries);

    let listing = app
        .ok(
            "list_events",
            json!({ "from": "2026-11-01", "to": "2026-11-30" }),
        )
        .await;
    let id = listing["events"][0]["id"].clone();
    let mut results = vec![
        (
            "read_event",
            app.ok("read_event", json!({ "id": id })).await,
            5,
        ),
        (
            "search_events",
            app.ok("search_events", json!({ "text": "chosen" })).await,
            2,
        ),
        ("list_events", listing, 2),
    ];
    let call = json!({ "title": "t", "start": "2026-11-24", "end": "2026-11-25" });
    results.push(("create_event", app.ok("create_event", call).await, 0));
    let call = json!({ "id": id, "title": "t" });
    results.push(("update_event", app.ok("update_event", call).await, 0));
    results.push((
        "delete_event",
        app.ok("delete_event", json!({ "id": id })).await,
        0,
    ));
    for (tool, result, chosen) in results {
        let (mut open, mut untrusted) = (BTreeSet::new(), 0);
        leaves(&result, "$", &mut open);
        assert!(!open.is_empty());
        for (path, label) in rules(&manifest, tool) {
            for node in JsonPath::parse(&path).unwrap().query_located(&result) {
                open.remove(&node.location().to_string());
                let written = node.node().to_string().to_lowercase().contains("chosen");
                let distrusted = label.iter().any(|taint| taint.starts_with("untrusted:"));
                assert!(!written || distrusted, "{tool} {path}: {}", node.node());
                untrusted += usize::from(written);
            }
        }
        assert!(open.is_empty(), "{tool}: no rule for {open:?}");
        assert_eq!(untrusted, chosen, "{tool}: {result}");
    }
    app.stop().await;
}

#[test]
fn no_strangers_word_changes_the_calendar_unasked() {
    for (name, tool) in manifest()["tools"].as_table().unwrap() {
        let effect = tool["effect"].as_str().unwrap();
        let want = match name.as_str() {
            "create_event" => "write",
            "update_event" | "delete_event" => "irreversible",
            _ => "read",
        };
        assert_eq!(effect, want, "{name}");
        if effect != "read" {
            assert_eq!(
                tool["limit"].to_string(),
                r#"["secret:calendar"]"#,
                "{name}"
            );
        }
    }
}
