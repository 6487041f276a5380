//! The manifest covers what the app really returns: no tool without an entry, no value without a rule.

use serde_json::json;

use crate::client::Manifest;
use crate::support::{App, INVITATION};

fn manifest() -> Manifest {
    Manifest::new(include_str!("../../sluice-app.toml"))
}

#[tokio::test]
async fn every_value_has_a_rule_and_every_senders_word_is_untrusted() {
    let app = App::with(&[("invitation.ics", INVITATION)]).await;
    let manifest = manifest();
    manifest.assert_lists(&app).await;

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
        let (found, _) = manifest.assert_covers(tool, &result);
        assert_eq!(found, chosen, "{tool}: {result}");
    }
    app.stop().await;
}

#[test]
fn no_strangers_word_changes_the_calendar_unasked() {
    for (name, tool) in manifest().tools() {
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
