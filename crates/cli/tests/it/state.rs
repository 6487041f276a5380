//! `sluice state`: a backup of a store, and its way to another kind of store.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use store::{Commit, SessionWrite, Store, Time};
use test_support::{PASSWORD, Postgres};

use crate::home::Home;

/// A home whose store has a record and a document.
async fn filled() -> Home {
    let home = Home::new();
    let store = Store::sqlite(&home.path("state/sluice")).unwrap();
    let commit = Commit {
        records: vec!["{\"a\":1}".to_owned()],
        session: Some(SessionWrite {
            key: [1; 32],
            base: 0,
            body: "{}".to_owned(),
        }),
        ..Commit::new(Time::from_millis(0))
    };
    store.state().commit(&[2; 32], commit).await.unwrap();
    home
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_restored_and_pruned() {
    let home = filled().await;
    let backup = home.path("home/backup.jsonl");
    let (code, out, err) = home.run(&["state", "export", "backup.jsonl"]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (0, "", "exported 3 rows\n")
    );
    let mode = fs::metadata(&backup).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(&backup).unwrap();
    let (code, piped, _) = home.run(&["state", "export", "-", "--json"]);
    assert_eq!((code, piped.as_str()), (0, text.as_str()));

    let other = Home::new();
    let cut = &text[..text.len() / 2];
    let (code, _, err) = other.pipe(&["state", "import", "-"], cut);
    assert!(code == 1 && err.contains("nothing was imported"), "{err}");
    let (code, out, _) = other.pipe(&["state", "import", "-", "--json"], &text);
    assert_eq!((code, out.as_str()), (0, "{\"imported\":3}\n"));
    let (code, _, err) = other.pipe(&["state", "import", "-"], &text);
    assert!(code == 1 && err.contains("has rows already"), "{err}");
    let (_, again, _) = other.run(&["state", "export", "-"]);
    assert_eq!(again, text);
    let (code, out, _) = other.run(&["state", "status", "--json"]);
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &status["usable"]), (0, &Value::Bool(true)));
    assert_eq!(status["rows"]["record"], 1);
    let (code, out, _) = other.run(&["state", "prune", "--days", "1", "--json"]);
    assert_eq!((code, out.as_str()), (0, "{\"removed\":2}\n"));

    let folder = other.path("elsewhere");
    let url = format!("sqlite:{}", folder.display());
    let (code, ..) = other.pipe(&["state", "import", "-", "--url", &url], &text);
    assert!(code == 0 && folder.join("state.db").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_moves_to_postgres_and_back() {
    let Some(server) = Postgres::fast() else {
        return;
    };
    let (home, url) = (filled().await, server.database());
    let (_, text, _) = home.run(&["state", "export", "-"]);
    let (code, _, err) = home.pipe(&["state", "import", "-", "--url", &url], &text);
    assert_eq!((code, err.as_str()), (0, "imported 3 rows\n"));
    home.configure(&format!("[state]\nurl = \"{url}\"\n"));
    let (code, moved, err) = home.run(&["state", "export", "-"]);
    assert_eq!((code, moved.as_str()), (0, text.as_str()), "{err}");
    let (code, out, err) = home.run(&["state", "status"]);
    assert!(code == 0 && out.contains("record"), "{out}{err}");
    assert!(!out.contains(PASSWORD), "{out}");
    server.stop();
    let (code, out, err) = home.run(&["state", "status"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("cannot be used"), "{err}");
    assert!(!err.contains(PASSWORD), "{err}");
}
