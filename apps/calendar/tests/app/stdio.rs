//! What the tools do, over real files.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::assert_plain;
use crate::support::{App, INVITATION};

fn titles(listing: &Value) -> Vec<&str> {
    let events = listing["events"].as_array().unwrap().iter();
    events
        .map(|event| event["title"].as_str().unwrap())
        .collect()
}

/// A file with one event of these lines.
fn file(lines: &str) -> String {
    format!("BEGIN:VCALENDAR\nBEGIN:VEVENT\n{lines}\nEND:VEVENT\nEND:VCALENDAR\n")
}

fn all() -> Value {
    json!({ "from": "2000-01-01", "to": "2099-12-31" })
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
async fn an_invitation_is_listed_found_and_read() {
    let app = App::with(&[("invitation.ics", INVITATION)]).await;
    let listing = app
        .ok(
            "list_events",
            json!({ "from": "2026-11-24", "to": "2026-11-24" }),
        )
        .await;
    let id = listing["events"][0]["id"].clone();
    assert_eq!(
        listing,
        json!({ "events": [{
            "id": id, "start": "2026-11-24T10:00:00+01:00", "end": "2026-11-24T11:30:00+01:00",
            "title": "CHOSEN title, with comma", "location": "CHOSEN place",
        }], "total": 1, "skipped": 0 })
    );
    for text in ["comma PLACE", "two", "chosen.ben@example.com"] {
        assert_eq!(
            app.ok("search_events", json!({ "text": text })).await,
            listing,
            "{text}"
        );
    }
    assert_eq!(
        app.ok("search_events", json!({ "text": "nobody" })).await["total"],
        0
    );
    let event = app.ok("read_event", json!({ "id": id })).await;
    assert_eq!(event["description"], "CHOSEN line one\nline two");
    assert_eq!(event["organizer"], "chosen@other.example");
    assert_eq!(event["attendees"], json!(["chosen.ben@example.com"]));
    app.stop().await;
}

#[tokio::test]
async fn ranges_hold_days_zones_and_series() {
    let app = App::with(&[
        (
            "1.ics",
            &file("UID:1\nDTSTART;VALUE=DATE:20261123\nSUMMARY:day"),
        ),
        // 23:30 in Berlin, a day later in UTC terms only in summer.
        (
            "2.ics",
            &file("UID:2\nDTSTART:20261123T233000\nSUMMARY:late"),
        ),
        (
            "3.ics",
            &file("UID:3\nDTSTART:20261123T233000Z\nSUMMARY:next day"),
        ),
        (
            "4.ics",
            &file("UID:4\nDTSTART:20200106T090000Z\nRRULE:FREQ=WEEKLY\nSUMMARY:weekly"),
        ),
        (
            "5.ics",
            &file("UID:5\nDTSTART:20200107T090000Z\nRRULE:FREQ=DAILY;UNTIL=20261122\nSUMMARY:over"),
        ),
        (
            "6.ics",
            &file(
                "UID:6\nDTSTART:20200107T090000Z\nRRULE:FREQ=DAILY;UNTIL=20200110\nRDATE:20270105T090000Z\nSUMMARY:once more",
            ),
        ),
    ])
    .await;
    let day = |day: &str| json!({ "from": day, "to": day });
    // A day that is named on its own may come after the end of the rule.
    let named = app.ok("list_events", day("2027-01-05")).await;
    assert_eq!(titles(&named), ["weekly", "once more"]);
    app.ok("delete_event", json!({ "id": named["events"][1]["id"] }))
        .await;
    let on = app.ok("list_events", day("2026-11-23")).await;
    assert_eq!(titles(&on), ["weekly", "day", "late"]);
    assert_eq!(on["events"][0]["recurring"], true);
    let after = app.ok("list_events", day("2026-11-24")).await;
    assert_eq!(titles(&after), ["weekly", "next day"]);
    assert_eq!(
        titles(&app.ok("list_events", day("2026-11-22")).await),
        ["weekly", "over"]
    );
    for (from, to) in [
        ("2026-11-24", "2026-11-22"),
        ("soon", "2026-11-22"),
        ("2026-11-24", ""),
    ] {
        app.refused("list_events", json!({ "from": from, "to": to }))
            .await;
    }
    app.stop().await;
}

#[tokio::test]
async fn an_event_is_created_changed_and_deleted() {
    let app = App::with(&[]).await;
    let created = app
        .ok(
            "create_event",
            json!({
                "title": "Delivery; \\n, ü", "start": "2026-11-24T10:00", "end": "2026-11-24T11:00",
                "location": "Yard", "description": "one\ntwo", "attendees": ["ben@example.com"],
            }),
        )
        .await;
    let id = &created["id"];
    assert_eq!(created, json!({ "created": true, "id": id }));
    let mut want = json!({
        "id": id, "start": "2026-11-24T10:00:00", "end": "2026-11-24T11:00:00", "title": "Delivery; \\n, ü",
        "location": "Yard", "description": "one\ntwo", "attendees": ["ben@example.com"],
    });
    assert_eq!(app.ok("read_event", json!({ "id": id })).await, want);
    let change = json!({ "id": id, "start": "2026-11-24T10:30", "location": "", "attendees": [] });
    assert_eq!(
        app.text("update_event", change).await.unwrap(),
        r#"{"updated":true}"#
    );
    want["start"] = json!("2026-11-24T10:30:00");
    want.as_object_mut()
        .unwrap()
        .retain(|key, _| key != "location" && key != "attendees");
    assert_eq!(app.ok("read_event", json!({ "id": id })).await, want);
    assert_eq!(fs::read_dir(app.folder()).unwrap().count(), 1);
    assert_eq!(
        app.text("delete_event", json!({ "id": id })).await.unwrap(),
        r#"{"deleted":true}"#
    );
    assert_eq!(fs::read_dir(app.folder()).unwrap().count(), 0);
    assert!(
        app.refused("delete_event", json!({ "id": id }))
            .await
            .contains("no event has this id")
    );
    app.stop().await;
}

#[tokio::test]
async fn a_change_keeps_what_the_app_does_not_know() {
    let app = App::with(&[("invitation.ics", INVITATION)]).await;
    let id = app.ok("list_events", all()).await["events"][0]["id"].clone();
    app.ok("update_event", json!({ "id": id, "title": "mine" }))
        .await;
    let text = fs::read_to_string(app.folder().join("invitation.ics")).unwrap();
    let stamps = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| !line.starts_with("DTSTAMP") && !line.starts_with("LAST-MODIFIED"));
        let mut lines: Vec<_> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let want = INVITATION.replace("SUMMARY:CHOSEN title\\, with comma", "SUMMARY:mine");
    assert_eq!(stamps(&text), stamps(&want));
    // Moving the start alone keeps the end.
    app.ok(
        "update_event",
        json!({ "id": id, "start": "2026-11-24T09:30:00Z" }),
    )
    .await;
    let event = app.ok("read_event", json!({ "id": id })).await;
    assert_eq!(
        (&event["start"], &event["end"]),
        (
            &json!("2026-11-24T09:30:00Z"),
            &json!("2026-11-24T10:30:00Z")
        )
    );
    app.stop().await;
}

/// The times of the only event, as they stand in its file.
fn times(app: &App) -> Vec<String> {
    let mut files = fs::read_dir(app.folder()).unwrap();
    let text = fs::read_to_string(files.next().unwrap().unwrap().path()).unwrap();
    let lines = text.lines().map(str::to_owned);
    let mut times: Vec<String> = lines
        .filter(|line| line.starts_with("DTSTART") || line.starts_with("DTEND"))
        .collect();
    times.sort();
    times.reverse();
    times
}

/// RFC 5545 §3.8.2.2: start and end both have a zone, or neither.
#[tokio::test]
async fn start_and_end_are_alike_whichever_of_them_changes() {
    let zoned = "DTSTART;TZID=America/New_York:20261124T100000\nDTEND;TZID=America/New_York:20261124T110000";
    let floating = "DTSTART:20261124T100000\nDTEND:20261124T110000";
    for (lines, change, want) in [
        // A time without a zone is in that of the other one.
        (
            zoned,
            json!({ "start": "2026-11-24T09:00" }),
            ["DTSTART:20261124T140000Z", "DTEND:20261124T160000Z"],
        ),
        (
            zoned,
            json!({ "end": "2026-11-24T12:00" }),
            [
                "DTSTART;TZID=America/New_York:20261124T100000",
                "DTEND:20261124T170000Z",
            ],
        ),
        // A moment of the world in an event without a zone is what the user's clock shows then.
        (
            floating,
            json!({ "start": "2026-11-24T08:00:00Z" }),
            ["DTSTART:20261124T090000", "DTEND:20261124T110000"],
        ),
        (
            floating,
            json!({ "start": "2026-11-24T09:00", "end": "2026-11-24T11:00:00Z" }),
            ["DTSTART:20261124T080000Z", "DTEND:20261124T110000Z"],
        ),
    ] {
        let app = App::with(&[("a.ics", &file(&format!("UID:1\n{lines}\nSUMMARY:a")))]).await;
        let id = app.ok("list_events", all()).await["events"][0]["id"].clone();
        let mut call = change.clone();
        call["id"] = id;
        app.ok("update_event", call).await;
        assert_eq!(times(&app), want, "{lines} {change}");
        app.stop().await;
    }
    let app = App::with(&[]).await;
    let mixed =
        json!({ "title": "a", "start": "2026-11-24T10:00:00+01:00", "end": "2026-11-24T11:00" });
    app.ok("create_event", mixed).await;
    let want = ["DTSTART:20261124T100000", "DTEND:20261124T110000"];
    assert_eq!(times(&app), want);
    app.stop().await;
}

#[tokio::test]
async fn deleting_leaves_the_other_events_of_a_file() {
    let two = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:s\nDTSTART:20261101T090000Z\nRRULE:FREQ=DAILY\nSUMMARY:series\nEND:VEVENT\n\
        BEGIN:VEVENT\nUID:s\nRECURRENCE-ID:20261102T090000Z\nDTSTART:20261102T100000Z\nSUMMARY:moved\nEND:VEVENT\n\
        BEGIN:VEVENT\nUID:o\nDTSTART:20261103T090000Z\nSUMMARY:other\nEND:VEVENT\nEND:VCALENDAR\n";
    let app = App::with(&[("two.ics", two)]).await;
    let listing = app.ok("list_events", all()).await;
    assert_eq!(titles(&listing), ["series", "moved", "other"]);
    app.ok("delete_event", json!({ "id": listing["events"][0]["id"] }))
        .await;
    assert_eq!(titles(&app.ok("list_events", all()).await), ["other"]);
    app.stop().await;
}

#[tokio::test]
async fn what_would_break_a_file_is_refused() {
    let app = App::with(&[]).await;
    let good = json!({ "title": "t", "start": "2026-11-24T10:00", "end": "2026-11-24T11:00" });
    for (key, value) in [
        ("title", json!("")),
        ("title", json!("a\nEND:VEVENT")),
        ("title", json!("a\r\nATTENDEE:mailto:x@evil.example")),
        ("title", json!("t".repeat(201))),
        ("location", json!("a\u{202e}b")),
        ("description", json!("a\0")),
        ("description", json!("d".repeat(8_001))),
        ("attendees", json!(["Ben <ben@example.com>"])),
        ("attendees", json!(["ben@example.com\r\nSUMMARY:x"])),
        ("attendees", json!(vec!["a@b.org"; 51])),
        ("start", json!("2026-11-24T10:00\nX:1")),
        ("start", json!("2026-11-24T12:00")),
        ("end", json!("2026-11-25")),
        ("end", json!("2026-11-24T10:00")),
        ("file", json!("../x.ics")),
    ] {
        let mut call = good.clone();
        call[key] = value.clone();
        let error = app.refused("create_event", call).await;
        assert!(
            !error.contains("evil"),
            "an error repeats its arguments: {error}"
        );
    }
    assert_eq!(fs::read_dir(app.folder()).unwrap().count(), 0);
    let id = app.ok("create_event", good).await["id"].clone();
    app.refused("update_event", json!({ "id": id })).await;
    app.refused(
        "update_event",
        json!({ "id": id, "end": "2026-11-24T09:00" }),
    )
    .await;
    app.stop().await;
}

#[tokio::test]
async fn nothing_outside_of_the_folder_is_read_or_deleted() {
    let app = App::with(&[("invitation.ics", INVITATION)]).await;
    let outside = app.folder().parent().unwrap().join("secret.ics");
    fs::write(&outside, file("UID:9\nDTSTART:20261124\nSUMMARY:outside")).unwrap();
    symlink(&outside, app.folder().join("link.ics")).unwrap();
    symlink(app.folder().parent().unwrap(), app.folder().join("up.ics")).unwrap();
    let listing = app.ok("list_events", all()).await;
    assert_eq!(
        (listing["total"].clone(), listing["skipped"].clone()),
        (json!(1), json!(2))
    );
    for id in [
        "../secret",
        "../secret.ics",
        "link.ics",
        "invitation.ics",
        "/etc/passwd",
        "",
        "..",
        "0A1B2C3D4E5F",
    ] {
        for tool in ["read_event", "update_event", "delete_event"] {
            let error = app.refused(tool, json!({ "id": id })).await;
            assert!(error.contains("not an event id"), "{tool} {id}: {error}");
        }
    }
    assert!(fs::read_to_string(outside).unwrap().contains("outside"));
    app.stop().await;
}

#[tokio::test]
async fn broken_and_huge_files_are_counted_and_harm_no_other() {
    let deep = "BEGIN:VCALENDAR\n".to_owned() + &"BEGIN:VEVENT\n".repeat(100_000);
    let huge = file(&format!(
        "UID:1\nDTSTART:20261124\nSUMMARY:{}",
        "x".repeat(2 * 1024 * 1024)
    ));
    let long = file(&format!(
        "UID:1\nDTSTART:20261124\nSUMMARY:long {}",
        "x".repeat(100_000)
    ));
    let app = App::with(&[
        ("a.ics", "no calendar at all"),
        ("b.ics", &deep),
        ("c.ics", &huge),
        ("d.ics", &file("UID:2\nSUMMARY:no start")),
        ("e.ics", "BEGIN:VCALENDAR\nBEGIN:VEVENT\n"),
        ("f.ics", &long),
        ("notes.txt", "no calendar"),
    ])
    .await;
    fs::write(app.folder().join("g.ics"), [0xff, 0xfe]).unwrap();
    let listing = app.ok("list_events", all()).await;
    assert_eq!(listing["skipped"], 6);
    assert_eq!(titles(&listing)[0].chars().count(), 201);
    app.stop().await;
}

#[tokio::test]
async fn an_event_of_very_many_lines_is_changed_and_deleted_in_time() {
    let attendees = "ATTENDEE:mailto:a@b.org\n".repeat(70_000);
    let many = file(&format!("UID:1\nDTSTART:20261124\n{attendees}SUMMARY:many"));
    let app = App::with(&[("many.ics", &many)]).await;
    let id = app.ok("list_events", all()).await["events"][0]["id"].clone();
    let started = Instant::now();
    let event = app.ok("read_event", json!({ "id": id })).await;
    assert_eq!(event["attendees"].as_array().unwrap().len(), 50);
    app.ok("update_event", json!({ "id": id, "attendees": [] }))
        .await;
    app.ok("delete_event", json!({ "id": id })).await;
    // A second or less; comparing every line with every other would take minutes.
    assert!(started.elapsed() < Duration::from_secs(20));
    app.stop().await;
}

#[tokio::test]
async fn two_events_of_one_id_are_not_guessed_between() {
    let two = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:s\nDTSTART:20261101\nEND:VEVENT\nBEGIN:VEVENT\nUID:s\nDTSTART:20261102\nEND:VEVENT\nEND:VCALENDAR\n";
    let app = App::with(&[("two.ics", two)]).await;
    let id = app.ok("list_events", all()).await["events"][0]["id"].clone();
    assert!(
        app.refused("delete_event", json!({ "id": id }))
            .await
            .contains("more than one event")
    );
    app.stop().await;
}

#[test]
fn a_wrong_configuration_is_told_at_once() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("missing");
    for (vars, want) in [
        (vec![], "CALENDAR is not set"),
        (
            vec![("CALENDAR", missing.to_str().unwrap())],
            "cannot be opened",
        ),
        (
            vec![
                ("CALENDAR", home.path().to_str().unwrap()),
                ("CALENDAR_ZONE", "Berlin!"),
            ],
            "give a zone",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_sluice-calendar"))
            .env_clear()
            .envs(vars)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(want));
    }
}
