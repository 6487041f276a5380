//! The manifest covers what the app really returns: no tool without an entry, no value without a rule.

use serde_json::json;

use crate::client::Manifest;
use crate::support::App;

fn manifest() -> Manifest {
    Manifest::new(include_str!("../../sluice-app.toml"))
}

#[tokio::test]
async fn every_value_has_a_rule_and_every_text_is_untrusted() {
    let app = App::with(&[("chosen.md", "chosen text")]).await;
    let manifest = manifest();
    manifest.assert_lists(&app).await;

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
        let found = manifest.assert_covers(tool, &result);
        assert_eq!(found, (chosen, chosen), "{tool}: {result}");
    }
    app.stop().await;
}

#[test]
fn no_strangers_word_changes_a_note_unasked() {
    for (name, tool) in manifest().tools() {
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
