//! The manifest covers what the app really returns: no tool without an entry, no value without a rule.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use serde_json_path::JsonPath;

use crate::support::App;

fn manifest() -> toml::Table {
    sluice_notes::MANIFEST.parse().unwrap()
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
async fn every_value_has_a_rule_and_every_text_is_untrusted() {
    let app = App::with(&[("chosen.md", "chosen text")]).await;
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

    let name = json!({ "name": "chosen" });
    let text = json!({ "name": "chosen", "text": "chosen" });
    for (tool, call, chosen) in [
        ("list_notes", json!({}), 1),
        ("search_notes", json!({ "text": "chosen" }), 1),
        ("read_note", name.clone(), 2),
        ("append_note", text.clone(), 0),
        ("write_note", text, 0),
        ("delete_note", name, 0),
    ] {
        let result = app.ok(tool, call).await;
        let (mut open, mut untrusted) = (BTreeSet::new(), 0);
        leaves(&result, "$", &mut open);
        assert!(!open.is_empty());
        for (path, label) in rules(&manifest, tool) {
            for node in JsonPath::parse(&path).unwrap().query_located(&result) {
                open.remove(&node.location().to_string());
                let written = node.node().to_string().contains("chosen");
                let distrusted = label.iter().any(|taint| taint.starts_with("untrusted:"));
                assert_eq!(written, distrusted, "{tool} {path}: {}", node.node());
                untrusted += usize::from(written);
            }
        }
        assert!(open.is_empty(), "{tool}: no rule for {open:?}");
        assert_eq!(untrusted, chosen, "{tool}: {result}");
    }
    app.stop().await;
}

#[test]
fn no_strangers_word_changes_a_note_unasked() {
    for (name, tool) in manifest()["tools"].as_table().unwrap() {
        let effect = tool["effect"].as_str().unwrap();
        let want = match name.as_str() {
            "append_note" => "write",
            "write_note" | "delete_note" => "irreversible",
            _ => "read",
        };
        assert_eq!(effect, want, "{name}");
        if effect != "read" {
            assert_eq!(tool["limit"].to_string(), r#"["secret:notes"]"#, "{name}");
        }
    }
}
