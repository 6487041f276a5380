//! `sluice audit`: what commands have noted, and whether it is whole.

use serde_json::Value;

use crate::home::{Home, said};

#[test]
fn commands_note_what_they_change_and_a_change_of_the_log_is_found() {
    let home = Home::with("");
    let run = |arguments: &[&str]| said(&home.sluice(arguments).output().unwrap());
    // To read the log makes no secret, which would be another one than that of a log that is copied here.
    let secret = home.path("state/sluice/secret");
    for (what, expected) in [("show", 0), ("export", 0), ("verify", 1), ("key", 1)] {
        let (code, _, error) = run(&["audit", what]);
        assert!(code == expected && !secret.exists(), "{what}: {error}");
        assert_eq!(error.contains("copy this file too"), code == 1, "{error}");
    }
    let (code, _, error) = run(&["token", "new", "bot", "--role", "agent"]);
    assert_eq!(code, 0, "{error}");
    let (code, _, _) = run(&["token", "revoke", "nobody"]);
    assert_eq!(code, 1);
    let (code, _, error) = run(&["token", "revoke", "bot"]);
    assert_eq!(code, 0, "{error}");

    let lines = |arguments: &[&str]| -> Vec<Value> {
        let (code, output, error) = run(arguments);
        assert_eq!(code, 0, "{error}");
        let lines = output.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let entries = lines(&["audit", "show", "--json"]);
    let noted: Vec<[&Value; 3]> = (entries.iter().map(|it| &it["note"]))
        .map(|note| [&note["kind"], &note["outcome"], &note["about"]["name"]])
        .collect();
    assert_eq!(noted, [["token", "new", "bot"], ["token", "revoke", "bot"]]);
    // The second command names the end of the first one.
    assert_eq!(entries[1]["after"][0]["chain"], entries[0]["chain"]);
    assert_eq!(
        lines(&[
            "audit",
            "show",
            "--json",
            "--outcome",
            "revoke",
            "--since",
            "1h"
        ])
        .len(),
        1
    );
    let (_, shown, _) = run(&["audit", "show"]);
    assert!(
        shown.contains("token new") && shown.contains("name bot"),
        "{shown}"
    );
    let exported = lines(&["audit", "export"]);
    assert_eq!(exported[1]["class_uid"], 3004);

    let (code, _, text) = run(&["audit", "verify"]);
    assert!(
        code == 0 && text.contains("2 entries in 2 chains"),
        "{text}"
    );
    let (_, key, _) = run(&["audit", "key"]);
    assert_eq!(key.trim().len(), 64);
    let (code, _, text) = run(&["audit", "verify", "--key", &"0".repeat(64)]);
    assert!(
        code == 3 && text.contains("another key") && text.contains("copy the file `secret`"),
        "{text}"
    );

    let file = rusqlite::Connection::open(home.path("state/sluice/audit.db")).unwrap();
    let change = "UPDATE audit_entry SET entry = replace(entry, 'revoke', 'new')";
    file.execute_batch(change).unwrap();
    drop(file);
    let (code, output, _) = run(&["audit", "verify", "--json"]);
    let report: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &report["faults"][0]["entry"]), (3, &Value::from(1)));
    let (code, _, text) = run(&["audit", "verify"]);
    assert!(code == 3 && text.contains("The log was changed"), "{text}");
}
