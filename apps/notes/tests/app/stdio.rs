//! What the tools do, over real files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::client::assert_plain;
use crate::support::App;

fn names(listing: &Value) -> Vec<&str> {
    let notes = listing["notes"].as_array().unwrap().iter();
    let mut names: Vec<_> = notes.map(|note| note["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn the_tools_are_described_for_a_small_model() {
    let app = App::with(&[]).await;
    let tools = app.tools().await;
    assert_eq!(tools.len(), 6);
    assert_plain(&tools);
    app.stop().await;
}

#[tokio::test]
async fn notes_are_listed_found_and_read() {
    let app = App::with(&[
        ("Heron.md", "# Heron\nThe offer is ready.\r\n"),
        ("Grüße.md", "hello"),
        (".hidden.md", "x"),
        ("other.txt", "x"),
    ])
    .await;
    let listing = app.ok("list_notes", json!({})).await;
    assert_eq!(names(&listing), ["Grüße", "Heron"]);
    assert_eq!(
        (&listing["total"], &listing["skipped"]),
        (&json!(2), &json!(0))
    );
    for (text, want) in [
        ("OFFER heron", vec!["Heron"]),
        ("grüße", vec!["Grüße"]),
        ("nothing", vec![]),
    ] {
        assert_eq!(
            names(&app.ok("search_notes", json!({ "text": text })).await),
            want,
            "{text}"
        );
    }
    app.refused("search_notes", json!({ "text": " " })).await;
    let note = app.ok("read_note", json!({ "name": "Heron" })).await;
    assert_eq!(note["text"], "# Heron\nThe offer is ready.");
    assert!(note["modified"].as_str().unwrap().ends_with('Z') && note.get("truncated").is_none());
    app.stop().await;
}

#[tokio::test]
async fn a_note_is_written_appended_to_and_deleted() {
    let app = App::with(&[]).await;
    let call = json!({ "name": "Shopping list", "text": "milk" });
    let file = app.folder().join("Shopping list.md");
    assert!(
        app.refused("append_note", call.clone())
            .await
            .contains("no note of this name")
    );
    assert_eq!(
        app.text("write_note", call.clone()).await.unwrap(),
        r#"{"written":true,"replaced":false}"#
    );
    assert_eq!(
        app.text("append_note", call.clone()).await.unwrap(),
        r#"{"appended":true}"#
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "milk\nmilk\n");
    assert_eq!(
        app.text("write_note", call).await.unwrap(),
        r#"{"written":true,"replaced":true}"#
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "milk");
    let name = json!({ "name": "Shopping list" });
    assert_eq!(
        app.text("delete_note", name.clone()).await.unwrap(),
        r#"{"deleted":true}"#
    );
    assert_eq!(fs::read_dir(app.folder()).unwrap().count(), 0);
    assert!(
        app.refused("delete_note", name)
            .await
            .contains("no note of this name")
    );
    app.stop().await;
}

#[tokio::test]
async fn no_name_and_no_link_leads_out_of_the_folder() {
    let app = App::with(&[("in.md", "inside")]).await;
    let outside = app.folder().parent().unwrap().join("secret.md");
    fs::write(&outside, "outside").unwrap();
    symlink(&outside, app.folder().join("link.md")).unwrap();
    symlink(app.folder().parent().unwrap(), app.folder().join("up.md")).unwrap();
    let absolute = outside.with_extension("");
    let bad = [
        "../secret",
        "..",
        ".",
        "",
        "/",
        "up.md/secret",
        "a/b",
        "a\\b",
        ".in",
        "-rf",
        "a\0",
        "a\nb",
        "in ",
        "a\u{202e}b",
    ];
    let long = "a".repeat(101);
    for name in bad
        .into_iter()
        .chain([absolute.to_str().unwrap(), &long, "link", "up"])
    {
        for (tool, call) in [
            ("read_note", json!({ "name": name })),
            ("delete_note", json!({ "name": name })),
            ("write_note", json!({ "name": name, "text": "evil" })),
            ("append_note", json!({ "name": name, "text": "evil" })),
        ] {
            let error = app.refused(tool, call).await;
            let want = ["name must have", "links are not followed"];
            assert!(
                want.iter().any(|want| error.contains(want)),
                "{tool} {name:?}: {error}"
            );
            assert!(
                !error.contains("outside") && !error.contains("evil"),
                "{error}"
            );
        }
    }
    let listing = app.ok("list_notes", json!({})).await;
    assert_eq!(
        (names(&listing), &listing["skipped"]),
        (vec!["in"], &json!(2))
    );
    assert_eq!(
        names(&app.ok("search_notes", json!({ "text": "outside" })).await),
        Vec::<&str>::new()
    );
    assert_eq!(fs::read_to_string(outside).unwrap(), "outside");
    assert_eq!(fs::read_dir(app.folder()).unwrap().count(), 3);
    app.stop().await;
}

#[tokio::test]
async fn sizes_are_bounded_and_what_is_hidden_is_not_shown() {
    let app = App::with(&[
        ("huge.md", &"x".repeat(1024 * 1024 + 1)),
        ("full.md", &"x".repeat(1024 * 1024 - 2)),
        ("long.md", &"ü".repeat(8_001)),
        ("hidden.md", "pay\u{202e}\u{200b}pal\u{1b}[31m"),
    ])
    .await;
    fs::write(app.folder().join("bytes.md"), [0xff]).unwrap();
    let listing = app.ok("list_notes", json!({})).await;
    assert_eq!(
        (names(&listing), &listing["skipped"]),
        (vec!["full", "hidden", "long"], &json!(2))
    );
    let long = app.ok("read_note", json!({ "name": "long" })).await;
    assert_eq!(
        (
            long["text"].as_str().unwrap().chars().count(),
            &long["truncated"]
        ),
        (8_000, &json!(true))
    );
    assert_eq!(
        app.ok("read_note", json!({ "name": "hidden" })).await["text"],
        "paypal[31m"
    );
    for name in ["huge", "bytes"] {
        app.refused("read_note", json!({ "name": name })).await;
    }
    // A note that would be too long stays as it was.
    app.refused("append_note", json!({ "name": "full", "text": "more" }))
        .await;
    assert_eq!(
        fs::metadata(app.folder().join("full.md")).unwrap().len(),
        1024 * 1024 - 2
    );
    for text in [
        String::new(),
        "a\0".to_owned(),
        "a\u{202e}b".to_owned(),
        "x".repeat(100_001),
    ] {
        app.refused("write_note", json!({ "name": "new", "text": text }))
            .await;
    }
    app.refused(
        "write_note",
        json!({ "name": "new", "text": "x", "mode": "x" }),
    )
    .await;
    assert!(!app.folder().join("new.md").exists());
    app.stop().await;
}

#[test]
fn a_wrong_configuration_is_told_at_once() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("missing");
    for (vars, want) in [
        (vec![], "NOTES is not set"),
        (
            vec![("NOTES", missing.to_str().unwrap())],
            "cannot be opened",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_sluice-notes"))
            .env_clear()
            .envs(vars)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(want));
    }
}

/// The most memory that the app over this folder has had at a time, in KiB.
fn peak(app: &App) -> u64 {
    let own = format!("NOTES={}", app.folder().display());
    let is_own = |process: &Path| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == own.as_bytes())
    };
    let mut processes = fs::read_dir("/proc").unwrap().map(|it| it.unwrap().path());
    let process = processes.find(|process| is_own(process)).unwrap();
    let status = fs::read_to_string(process.join("status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.unwrap().trim().strip_suffix(" kB").unwrap();
    peak.parse().unwrap()
}

#[tokio::test]
async fn a_listing_keeps_no_texts() {
    const MIB: usize = 1024 * 1024;
    let app = App::with(&[("0.md", &"a".repeat(MIB))]).await;
    for n in 1..200 {
        // A second name of the same file: each is read, and the disk holds one.
        let name = app.folder().join(format!("{n}.md"));
        fs::hard_link(app.folder().join("0.md"), name).unwrap();
    }
    let before = peak(&app);
    let listing = app.ok("list_notes", json!({})).await;
    assert_eq!(listing["total"], 200);
    assert_eq!(listing["notes"][0]["bytes"], MIB);
    let more = peak(&app) - before;
    assert!(more < 32 * 1024, "{more} KiB for 200 notes of 1 MiB");
    app.stop().await;
}
