//! What the tools do, over real mails.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::client::assert_plain;
use crate::support::{App, USER};
use serde_json::{Value, json};
use sluice_mail::sample;

fn subjects(listing: &Value) -> Vec<&str> {
    listing["emails"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mail| mail["subject"].as_str().unwrap())
        .collect()
}

/// Puts a mail into the Maildir, which need not exist yet.
fn put(maildir: &Path, name: &str, raw: impl AsRef<[u8]>) {
    let path = maildir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, raw).unwrap();
}

#[tokio::test]
async fn the_tools_are_described_for_a_small_model() {
    let app = App::with_sample().await;
    let tools = app.tools().await;
    let mut names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "delete_email",
            "list_emails",
            "read_email",
            "search_emails",
            "send_email"
        ]
    );
    assert_plain(&tools);
    for tool in &tools {
        let writes = ["delete_email", "send_email"].contains(&tool.name.as_ref());
        assert_eq!(
            tool.annotations.as_ref().unwrap().destructive_hint,
            writes.then_some(true)
        );
    }
    app.stop().await;
}

#[tokio::test]
async fn mails_are_listed_newest_first() {
    let app = App::with_sample().await;
    let listing = app.ok("list_emails", json!({})).await;
    let dates: Vec<_> = listing["emails"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mail| mail["date"].as_str().unwrap())
        .collect();
    assert_eq!(dates.len(), 10);
    assert!(dates.is_sorted_by(|a, b| a > b), "{dates:?}");
    assert_eq!(listing["total"], 12);
    let first = app
        .text("list_emails", json!({ "limit": 1 }))
        .await
        .unwrap();
    let id = listing["emails"][0]["id"].as_str().unwrap();
    assert_eq!(
        first,
        format!(
            r#"{{"emails":[{{"id":"{id}","from":{{"name":"Karin Lund","address":"karin.lund@lund-office.example"}},"date":"2026-11-20T08:42:00Z","subject":"{}","unread":true}}],"total":12}}"#,
            sample::NEWEST_SUBJECT
        )
    );
    let all = app.ok("list_emails", json!({ "limit": 50 })).await;
    let subjects = subjects(&all);
    for subject in [
        "会議の日程",
        "Déjeuner mardi",
        "Hilsen fra Tromsø",
        "Ihre Reise am 24. November: Lübeck – Hamburg",
    ] {
        assert!(subjects.contains(&subject), "{subject}: {subjects:?}");
    }
    assert_eq!(
        all["emails"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|mail| mail["unread"] == true)
            .count(),
        2
    );
    app.stop().await;
}

#[tokio::test]
async fn limits_folders_and_unknown_arguments_are_checked() {
    let app = App::start(
        |maildir| {
            put(maildir, ".Sent/cur/1.a:2,S", "Subject: in Sent\n\nx");
            put(maildir, ".Sent/tmp/2.b", "Subject: not delivered yet\n\nx");
            put(maildir, "cur/.hidden", "Subject: no mail\n\nx");
        },
        &[],
    )
    .await;
    assert_eq!(
        app.ok("list_emails", json!({})).await,
        json!({ "emails": [], "total": 0 })
    );
    assert_eq!(
        app.refused("read_email", json!({ "id": "newest" })).await,
        "the mailbox is empty"
    );
    for folder in ["Sent", "sent"] {
        assert_eq!(
            subjects(&app.ok("list_emails", json!({ "folder": folder })).await),
            ["in Sent"]
        );
    }
    for folder in ["Nowhere", "../mail", "..", "/", "", ".Sent", "Sent/../../x"] {
        let error = app
            .refused("list_emails", json!({ "folder": folder }))
            .await;
        assert!(
            error.ends_with("the folders are: INBOX, Sent"),
            "{folder}: {error}"
        );
    }
    for limit in [json!(0), json!(51), json!(-1), json!("ten")] {
        app.refused("list_emails", json!({ "limit": limit })).await;
    }
    app.refused("list_emails", json!({ "limt": 3 })).await;
    app.stop().await;
}

#[tokio::test]
async fn mails_are_read_by_id_and_as_the_newest() {
    let app = App::with_sample().await;
    let listing = app.ok("list_emails", json!({ "limit": 50 })).await;
    let newest = app.ok("read_email", json!({ "id": "newest" })).await;
    assert_eq!(newest["id"], listing["emails"][0]["id"]);
    assert_eq!(newest["to"], json!([USER]));
    assert!(
        newest["body"]
            .as_str()
            .unwrap()
            .contains("drop@evil.example")
    );
    assert!(newest.get("truncated").is_none() && newest.get("attachments").is_none());
    assert_eq!(
        app.ok("read_email", json!({ "id": "Latest" })).await,
        newest
    );

    let by_subject = |wanted: &str| {
        let mails = listing["emails"].as_array().unwrap();
        mails
            .iter()
            .find(|mail| mail["subject"].as_str().unwrap().starts_with(wanted))
            .unwrap()["id"]
            .clone()
    };
    for (subject, body) in [
        ("Ihre Reise", "Preis: 17,40 €."),
        ("Your reading list", "3. Maps & the people who fold them"),
        ("会議", "11月25日の午後3時"),
        ("Déjeuner", "on se voit mardi à midi au café de la gare ?"),
        (
            "Hilsen",
            "The ferry to Tromsø was late, the soup was worth it.",
        ),
        ("Project Heron", sample::SECRET),
    ] {
        let mail = app
            .ok("read_email", json!({ "id": by_subject(subject) }))
            .await;
        let text = mail["body"].as_str().unwrap();
        assert!(text.contains(body), "{subject}: {text}");
        assert!(
            !text.contains('<') && !text.contains("color"),
            "{subject}: {text}"
        );
    }
    let minutes = app
        .ok("read_email", json!({ "id": by_subject("Minutes") }))
        .await;
    assert_eq!(minutes["attachments"], json!(["minutes-2026-11-16.pdf"]));
    assert!(minutes["body"].as_str().unwrap().ends_with("Tom"));
    // Reading changed nothing.
    assert_eq!(app.ok("list_emails", json!({ "limit": 50 })).await, listing);
    app.stop().await;
}

#[tokio::test]
async fn search_finds_all_words_in_any_case_and_place() {
    let app = App::with_sample().await;
    for (query, want) in [
        (
            "heron OFFER",
            vec!["Project Heron: our offer (confidential)"],
        ),
        (
            "data room heron-7731",
            vec!["Project Heron: our offer (confidential)"],
        ),
        ("jonas.weber@example.net", vec!["Dinner on Saturday?"]),
        ("DÉJEUNER", vec!["Déjeuner mardi"]),
        ("会議", vec!["会議の日程"]),
        (
            "invoice karin",
            vec![sample::NEWEST_SUBJECT, "Re: Invoice 2026-1102"],
        ),
        ("no such words here", vec![]),
    ] {
        let found = app.ok("search_emails", json!({ "query": query })).await;
        assert_eq!(subjects(&found), want, "{query}");
        assert_eq!(found["total"], want.len());
    }
    assert_eq!(
        app.ok("search_emails", json!({ "query": "anna", "limit": 2 }))
            .await["emails"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    for query in [String::new(), "  ".to_owned(), "x".repeat(201)] {
        app.refused("search_emails", json!({ "query": query }))
            .await;
    }
    app.stop().await;
}

#[tokio::test]
async fn a_sent_message_arrives_as_it_was_written() {
    let app = App::with_sample().await;
    let body = "Grüße aus Lübeck – 会議\n.\n..two dots\nFrom here on\n\nBcc: x@evil.example\n";
    let sent = app
        .text(
            "send_email",
            json!({ "to": "ben@example.com", "subject": "Grüße: 1 < 2", "body": body }),
        )
        .await;
    assert_eq!(sent.unwrap(), r#"{"sent":true,"recipients":1}"#);
    app.ok("send_email", json!({ "to": ["b@example.com", "c@example.com"], "subject": "plain", "body": ".\n.x\nend" })).await;

    let messages = app.sink.messages();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0].from, USER);
    assert_eq!(messages[0].to, ["ben@example.com"]);
    assert_eq!(messages[1].to, ["b@example.com", "c@example.com"]);
    let (header, text) = messages[1].data.split_once("\r\n\r\n").unwrap();
    assert_eq!(text, ".\r\n.x\r\nend\r\n");
    for line in [
        "Subject: plain",
        "To: b@example.com, c@example.com",
        "From: anna.berg@example.org",
        "MIME-Version: 1.0",
    ] {
        assert!(header.contains(line), "{header}");
    }
    assert!(
        header.contains("Date: ") && header.contains("Message-ID: <"),
        "{header}"
    );
    // What arrived, read by the app itself, is what was sent.
    put(&app.maildir(), "new/9999999999.back", &messages[0].data);
    let back = app
        .ok("search_emails", json!({ "query": "Lübeck –" }))
        .await;
    let id = back["emails"]
        .as_array()
        .unwrap()
        .iter()
        .find(|mail| mail["subject"] == "Grüße: 1 < 2")
        .unwrap()["id"]
        .clone();
    assert_eq!(
        app.ok("read_email", json!({ "id": id })).await["body"],
        body.trim_end()
    );
    app.stop().await;
}

#[tokio::test]
async fn what_would_change_the_header_or_the_recipients_is_refused() {
    let app = App::with_sample().await;
    for (to, subject, body) in [
        (json!("a@b.org\r\nBcc: c@evil.example"), "s", "b"),
        (json!("a@b.org\nRCPT TO:<c@evil.example>"), "s", "b"),
        (json!("a@b.org>\r\nRCPT TO:<c@evil.example"), "s", "b"),
        (json!("a@b.org, c@evil.example"), "s", "b"),
        (json!("Anna <a@b.org>"), "s", "b"),
        (json!(["a@b.org", "not an address"]), "s", "b"),
        (json!([]), "s", "b"),
        (json!(vec!["a@b.org"; 21]), "s", "b"),
        (json!(""), "s", "b"),
        (json!({ "a": 1 }), "s", "b"),
        (json!([["a@b.org"]]), "s", "b"),
        (json!("a@b.org"), "s\r\nBcc: c@evil.example", "b"),
        (json!("a@b.org"), "s\nX: y", "b"),
        (json!("a@b.org"), "s\0", "b"),
        (json!("a@b.org"), &"s".repeat(201), "b"),
        (json!("a@b.org"), "s", "b\0"),
        (json!("a@b.org"), "s", &"b".repeat(100_001)),
    ] {
        let error = app
            .refused(
                "send_email",
                json!({ "to": to, "subject": subject, "body": body }),
            )
            .await;
        assert!(
            !error.contains("evil"),
            "an error repeats its arguments: {error}"
        );
    }
    app.refused(
        "send_email",
        json!({ "to": "a@b.org", "subject": "s", "body": "b", "bcc": "c@d.org" }),
    )
    .await;
    app.refused("send_email", json!({ "to": "a@b.org", "subject": "s" }))
        .await;
    assert!(app.sink.messages().is_empty());
    app.stop().await;
}

#[tokio::test]
async fn sending_fails_closed_without_tls_and_without_a_server() {
    let call = json!({ "to": "a@b.org", "subject": "s", "body": "b" });
    for (mode, want) in [("starttls", "lacks what SMTP_TLS"), ("tls", "not sent")] {
        let app = App::start(
            |_| {},
            &[("SMTP_TLS", mode), ("SMTP_TLS_NAME", "mail.example.org")],
        )
        .await;
        let error = app.refused("send_email", call.clone()).await;
        assert!(error.contains(want), "{mode}: {error}");
        assert!(
            app.sink.messages().is_empty(),
            "{mode} fell back to plain text"
        );
        app.stop().await;
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let app = App::start(|_| {}, &[("SMTP_SERVER", &free)]).await;
    let error = app.refused("send_email", call).await;
    assert!(error.contains("cannot be reached"), "{error}");
    app.stop().await;
}

#[tokio::test]
async fn deleting_removes_exactly_one_mail() {
    let app = App::with_sample().await;
    let before = app.ok("list_emails", json!({ "limit": 50 })).await;
    let id = &before["emails"][3]["id"];
    for word in ["newest", "Latest"] {
        assert!(
            app.refused("delete_email", json!({ "id": word }))
                .await
                .contains("exact id")
        );
    }
    assert_eq!(
        app.text("delete_email", json!({ "id": id })).await.unwrap(),
        r#"{"deleted":true}"#
    );
    let mut want = before.clone();
    want["emails"].as_array_mut().unwrap().remove(3);
    want["total"] = json!(11);
    assert_eq!(app.ok("list_emails", json!({ "limit": 50 })).await, want);
    assert!(
        app.refused("delete_email", json!({ "id": id }))
            .await
            .starts_with("no e-mail has this id")
    );
    app.stop().await;
}

#[tokio::test]
async fn an_id_cannot_leave_the_maildir() {
    let app = App::with_sample().await;
    let maildir = app.maildir();
    let outside = maildir.parent().unwrap().join("secret");
    fs::write(&outside, "Subject: outside\n\nx").unwrap();
    std::os::unix::fs::symlink(&outside, maildir.join("cur/link:2,S")).unwrap();
    std::os::unix::fs::symlink(maildir.parent().unwrap(), maildir.join(".Link")).unwrap();
    let file = fs::read_dir(maildir.join("cur"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .file_name();
    for id in [
        "../secret",
        "../../secret",
        "cur/link:2,S",
        "link",
        "/etc/passwd",
        "",
        ".",
        "..",
        "secret",
        "%2e%2e/secret",
        "000000000000",
        "0000000000000",
        "ABCDEFABCDEF",
        "new/\0",
        file.to_str().unwrap(),
        outside.to_str().unwrap(),
    ] {
        for tool in ["read_email", "delete_email"] {
            let error = app.refused(tool, json!({ "id": id })).await;
            assert!(error.contains("id"), "{id}: {error}");
        }
    }
    let all = app.ok("list_emails", json!({ "limit": 50 })).await;
    assert_eq!(all["total"], 12, "a link was followed");
    assert!(outside.exists());
    app.stop().await;
}

#[tokio::test]
async fn equal_dates_are_ordered_by_delivery_and_implausible_dates_do_not_count() {
    let app = App::start(
        |maildir| {
            for (name, second, subject, date) in [
                (
                    "cur/a:2,S",
                    1_700_000_100,
                    "first",
                    "Tue, 14 Nov 2023 22:00:00 +0000",
                ),
                (
                    "cur/b:2,S",
                    1_700_000_300,
                    "third",
                    "Tue, 14 Nov 2023 22:00:00 +0000",
                ),
                (
                    "cur/c:2,S",
                    1_700_000_200,
                    "second",
                    "Tue, 14 Nov 2023 22:00:00 +0000",
                ),
                (
                    "cur/d:2,S",
                    1_600_000_000,
                    "says 2999",
                    "Tue, 1 Jan 2999 00:00:00 +0000",
                ),
                ("cur/e:2,S", 1_650_000_000, "no date", "never"),
            ] {
                put(
                    maildir,
                    name,
                    format!("Subject: {subject}\nDate: {date}\n\nx"),
                );
                let file = fs::File::options()
                    .write(true)
                    .open(maildir.join(name))
                    .unwrap();
                file.set_modified(UNIX_EPOCH + Duration::from_secs(second))
                    .unwrap();
            }
        },
        &[],
    )
    .await;
    let listing = app.ok("list_emails", json!({})).await;
    assert_eq!(
        subjects(&listing),
        ["third", "second", "first", "no date", "says 2999"]
    );
    assert_eq!(listing["emails"][4]["date"], "2020-09-13T12:26:40Z");
    app.stop().await;
}

#[tokio::test]
async fn an_id_stays_when_the_mail_is_marked_as_seen() {
    let app = App::start(|maildir| put(maildir, "new/1.x", "Subject: s\n\nb"), &[]).await;
    let new = app.ok("list_emails", json!({})).await;
    fs::rename(
        app.maildir().join("new/1.x"),
        app.maildir().join("cur/1.x:2,S"),
    )
    .unwrap();
    let seen = app.ok("list_emails", json!({})).await;
    assert_eq!(new["emails"][0]["id"], seen["emails"][0]["id"]);
    assert_eq!(
        (&new["emails"][0]["unread"], &seen["emails"][0]["unread"]),
        (&json!(true), &json!(false))
    );
    app.stop().await;
}

#[tokio::test]
async fn broken_mails_do_not_break_the_mailbox() {
    let app = App::start(
        |maildir| {
            put(maildir, "new/1.empty", "");
            put(maildir, "new/2.zero", [0; 5000]);
            put(maildir, "new/3.binary", (0..=255_u8).cycle().take(100_000).collect::<Vec<_>>());
            put(maildir, "new/4.nohead", "just text, no header at all");
            put(maildir, "new/5.unclosed", "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/mixed; boundary=b\n\n--b\n");
            put(maildir, "new/6.deep", "Content-Type: message/rfc822\n\n".repeat(30_000));
            put(maildir, "new/7.parts", format!("Content-Type: multipart/mixed; boundary=b\n\n{}", "--b\nContent-Type: multipart/mixed; boundary=c\n\n".repeat(20_000)));
            put(maildir, "new/8.header", format!("Subject: {}", "x".repeat(3_000_000)));
            put(maildir, "new/9.date", "Date: Fri, 99 Foo 99999 99:99:99 +9999\nSubject: odd date\n\nb");
            put(maildir, "new/10.future", "Date: Thu, 1 Jan 2999 00:00:00 +0000\nSubject: from the future\n\nb");
            put(maildir, "new/11.charset", "Content-Type: text/plain; charset=x-none\nContent-Transfer-Encoding: base64\n\n!!!!\n");
            put(maildir, "new/12.big", format!("Subject: big\n\n{}", "line\n".repeat(1_000_000)));
            fs::create_dir_all(maildir.join("new/13.directory")).unwrap();
        },
        &[],
    )
    .await;
    let begin = Instant::now();
    let listing = app.ok("list_emails", json!({ "limit": 50 })).await;
    assert_eq!(listing["total"], 12);
    for mail in listing["emails"].as_array().unwrap() {
        let read = app.ok("read_email", json!({ "id": mail["id"] })).await;
        assert!(read["body"].as_str().unwrap().chars().count() <= sluice_mail::MAX_BODY_CHARS);
        assert!(
            read["date"].as_str().unwrap().starts_with("20"),
            "a date was not checked: {read}"
        );
        if mail["subject"] == "big" {
            assert_eq!(read["truncated"], true);
        }
    }
    assert_eq!(
        app.ok("search_emails", json!({ "query": "from the future" }))
            .await["total"],
        1
    );
    assert!(
        begin.elapsed() < Duration::from_secs(30),
        "{:?}",
        begin.elapsed()
    );
    app.stop().await;
}

#[tokio::test]
async fn a_maildir_that_goes_away_is_an_error_and_not_a_crash() {
    let app = App::with_sample().await;
    fs::remove_dir_all(app.maildir()).unwrap();
    let error = app.refused("list_emails", json!({})).await;
    assert!(
        error.starts_with("the maildir could not be listed"),
        "{error}"
    );
    assert!(!error.contains('/'), "an error shows a path: {error}");
    app.refused("read_email", json!({ "id": "newest" })).await;
    app.stop().await;
}

#[test]
fn a_bad_configuration_stops_the_start() {
    let output = Command::new(env!("CARGO_BIN_EXE_sluice-mail"))
        .env_clear()
        .env("MAILDIR", "/nonexistent")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    // Only the protocol may use standard output.
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("sluice-mail: MAILDIR is not a maildir"));
}

#[test]
fn the_app_ends_well_when_its_input_ends() {
    let home = tempfile::tempdir().unwrap();
    sample::write(home.path(), "x@evil.example").unwrap();
    let mut app = Command::new(env!("CARGO_BIN_EXE_sluice-mail"))
        .env_clear()
        .envs([("SMTP_SERVER", "127.0.0.1:25"), ("MAIL_FROM", USER)])
        .env("MAILDIR", home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "0" } },
    });
    let mut stdin = app.stdin.take().unwrap();
    writeln!(stdin, "{hello}").unwrap();
    let mut stdout = BufReader::new(app.stdout.take().unwrap());
    let mut answer = String::new();
    stdout.read_line(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["result"]["serverInfo"]["name"], "sluice-mail");
    writeln!(
        stdin,
        "{}",
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
    )
    .unwrap();
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    assert!(app.wait().unwrap().success());
}
