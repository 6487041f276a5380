//! What the user allows for good: kept, used in later sessions, listed, and taken back.

use std::fs;

use serde_json::Value;

use crate::stage::{QUERY, Stage, text};
use crate::terminal::Terminal;

const TOOL: &str = "delete_email";

/// Says "always" to the deletion that the poisoned mail asks for, with these options.
fn allow_for_good(stage: &Stage, options: &[&str]) {
    stage.restore_the_mailbox();
    let query = ["run", "--app", "mail", QUERY];
    let mut terminal = Terminal::run(stage, &[&query, options].concat());
    // A mail that was sent is gone: there is no "always" for it. After a no nothing more would be asked because of
    // this mail.
    terminal.wait_for("send_email");
    // There may be no room for all that an answer covers.
    terminal.show_all();
    terminal.type_line("o\r");
    terminal.wait_for("delete_email");
    terminal.show_all();
    terminal.type_line("always\r");
    let (code, rest) = terminal.end();
    assert_eq!(code, Some(0), "{rest}");
}

/// A session without a user, over the mailbox as it was: what became of the deletion, in one word,
/// and by whose word.
fn headless(stage: &Stage) -> (String, String) {
    stage.restore_the_mailbox();
    let sent = stage.mails.messages().len();
    let output = stage.run(&["run", "--app", "mail", QUERY]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(stage.mails.messages().len(), sent);
    let trace = stage.newest_trace();
    let is_deletion = |event: &&Value| {
        let kinds = ["allowed", "asked", "denied"];
        let decided = kinds.iter().any(|kind| event["kind"] == *kind);
        decided && event["flow"]["call"]["tool"] == TOOL
    };
    let decision = trace.iter().find(is_deletion).unwrap();
    let word = |key: &str| decision[key].as_str().unwrap_or_default().to_owned();
    (word("kind"), word("by"))
}

fn list(stage: &Stage) -> String {
    let output = stage.run(&["permissions", "list"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn always_holds_in_later_sessions_until_the_app_changes_or_the_user_revokes_it() {
    let stage = Stage::new();
    stage.let_deletion_be_undone();
    // Without a terminal the answer to the question is no.
    assert_eq!(headless(&stage).0, "asked");
    assert_eq!(list(&stage), "");

    allow_for_good(&stage, &[]);
    let kept = |stage: &Stage| {
        let listed = list(stage);
        let line = listed.strip_suffix('\n').unwrap().to_owned();
        let what = "calls of mail.delete_email with id \"";
        assert!(
            line.contains(what) && line.contains("\" under untrusted:email"),
            "{line}"
        );
        (line.split_once(' ').unwrap().0.to_owned(), line)
    };
    let (id, line) = kept(&stage);
    assert!(!line.contains("scripts"), "{line}");
    // At a terminal it counts, and says so.
    stage.restore_the_mailbox();
    let mut terminal = Terminal::wide(&stage, 300, &["run", "--app", "mail", QUERY]);
    terminal.show_all();
    terminal.type_line("o\r");
    terminal.wait_for("note: mail.delete_email {\"id\":");
    terminal.wait_for(&format!("revoke it with `sluice permissions revoke {id}`"));
    assert_eq!(terminal.end().0, Some(0));
    // Without one it does not, until it is given for scripts.
    assert_eq!(headless(&stage).0, "asked");
    allow_for_good(&stage, &["--scripts"]);
    let (id, line) = kept(&stage);
    assert!(line.contains("  in scripts too  since "), "{line}");
    assert_eq!(
        headless(&stage),
        ("allowed".to_owned(), format!("permission {id}"))
    );

    // Another manifest is another app, until it is the old one again.
    let manifest = stage.path("sluice-app.toml");
    let before = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, format!("{before}\n# changed\n")).unwrap();
    assert!(list(&stage).contains("VOID: mail changed since"));
    assert_eq!(headless(&stage).0, "asked");
    fs::write(&manifest, before).unwrap();
    assert_eq!(headless(&stage).0, "allowed");

    let exported = text(&stage.run(&["permissions", "list", "--json"]).stdout);
    let exported: Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(exported["id"], id);

    let unknown = stage.run(&["permissions", "revoke", &id, "ffff"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert_eq!(headless(&stage).0, "allowed", "all of them or none");
    assert!(
        stage
            .run(&["permissions", "revoke", &id[..8]])
            .status
            .success()
    );
    assert_eq!(list(&stage), "");
    assert_eq!(headless(&stage).0, "asked");

    // The tools of a hand-written command are compared with those of its last session, also where the allowed one is as
    // it was.
    allow_for_good(&stage, &["--scripts"]);
    assert_eq!(headless(&stage).0, "allowed");
    // One for each manifest that there was.
    let lists = || -> Vec<(std::path::PathBuf, String)> {
        let lists = fs::read_dir(stage.path("state/sluice/tools")).unwrap();
        let lists = lists.map(|list| list.unwrap().path());
        lists
            .map(|list| (list.clone(), fs::read_to_string(&list).unwrap()))
            .collect()
    };
    let is_known = |(_, tools): &(_, String)| tools.contains("Read one e-mail.");
    assert!(lists().iter().all(is_known));
    for (list, tools) in lists() {
        let before = tools.replace("Read one e-mail.", "Read any e-mail.");
        fs::write(list, before).unwrap();
    }
    let output = stage.run(&["run", "--app", "mail", QUERY]);
    let said = text(&output.stderr);
    let note = "the tools of mail changed since its last session (description changed: read_email); its permission is revoked";
    assert!(said.contains(note), "{said}");
    assert_eq!(list(&stage), "");
    assert_eq!(lists().iter().filter(|list| is_known(list)).count(), 1);
    assert_eq!(headless(&stage).0, "asked");
}

/// Whoever else can write the file could allow anything.
#[test]
fn permissions_that_others_could_have_written_start_nothing() {
    use std::os::unix::fs::PermissionsExt;

    let stage = Stage::new();
    stage.let_deletion_be_undone();
    assert!(stage.run(&["permissions", "list"]).status.success());
    let file = stage.path("state/sluice/permissions.sqlite");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = stage.run(&["run", "--app", "mail", QUERY]);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("permissions.sqlite"), "{said}");
    assert!(stage.trace().is_empty());
}
