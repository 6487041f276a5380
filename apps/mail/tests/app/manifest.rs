//! The manifest covers what the app really returns: no tool without an entry, no value without a rule.

use serde_json::{Value, json};

use crate::client::Manifest;
use crate::support::App;

fn manifest() -> Manifest {
    Manifest::new(include_str!("../../sluice-app.toml"))
}

/// Calls every tool over the sample; the tool and its result.
async fn results(app: &App) -> Vec<(&'static str, Value)> {
    let listing = app.ok("list_emails", json!({ "limit": 50 })).await;
    let mut results = vec![(
        "search_emails",
        app.ok("search_emails", json!({ "query": "anna" })).await,
    )];
    for mail in listing["emails"].as_array().unwrap() {
        results.push((
            "read_email",
            app.ok("read_email", json!({ "id": mail["id"] })).await,
        ));
    }
    let call = json!({ "to": "a@b.org", "subject": "s", "body": "b" });
    results.push(("send_email", app.ok("send_email", call).await));
    results.push((
        "delete_email",
        app.ok("delete_email", json!({ "id": listing["emails"][0]["id"] }))
            .await,
    ));
    results.push(("list_emails", listing));
    results
}

#[tokio::test]
async fn every_tool_has_an_entry_and_every_value_a_rule() {
    let app = App::with_sample().await;
    let manifest = manifest();
    manifest.assert_lists(&app).await;
    for (tool, result) in results(&app).await {
        manifest.assert_covers(tool, &result);
    }
    app.stop().await;
}

#[tokio::test]
async fn every_text_that_a_sender_chose_is_untrusted() {
    let app = App::start(
        |maildir| {
            std::fs::create_dir_all(maildir.join("new")).unwrap();
            // Everything that the sender can write says so.
            let mail = "From: CHOSEN <chosen@chosen.example>\nTo: chosen@to.example\nSubject: CHOSEN\nDate: CHOSEN\nMIME-Version: 1.0\n\
                Content-Type: multipart/mixed; boundary=b\n\n--b\n\nCHOSEN\n--b\nContent-Type: a/b; name=CHOSEN\n\nx\n--b--\n";
            std::fs::write(maildir.join("new/1.x"), mail).unwrap();
        },
        &[],
    )
    .await;
    let manifest = manifest();
    for (tool, result, chosen) in [
        ("list_emails", app.ok("list_emails", json!({})).await, 3),
        (
            "search_emails",
            app.ok("search_emails", json!({ "query": "chosen" })).await,
            3,
        ),
        (
            "read_email",
            app.ok("read_email", json!({ "id": "newest" })).await,
            6,
        ),
    ] {
        let found = manifest.assert_covers(tool, &result);
        assert_eq!(found, (chosen, chosen), "{tool}: {result}");
    }
    app.stop().await;
}

#[test]
fn what_cannot_be_undone_says_so_and_takes_nothing_untrusted() {
    let manifest = manifest();
    for (name, tool) in manifest.tools() {
        let irreversible = tool["effect"].as_str() == Some("irreversible");
        assert_eq!(
            irreversible,
            ["send_email", "delete_email"].contains(&name.as_str()),
            "{name}"
        );
        if irreversible {
            let limit = tool["limit"].as_array().unwrap();
            assert!(
                limit
                    .iter()
                    .all(|taint| !taint.as_str().unwrap().starts_with("untrusted:")),
                "{name}"
            );
        }
    }
}
