//! What conversations leave behind: who is told of it later, how it is looked at, and how it goes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::stage::{QUERY, Stage, text};

/// A chat of these lines.
fn chat(stage: &Stage, arguments: &[&str], lines: &str) -> Output {
    let arguments = [&["chat"], arguments].concat();
    let mut chat = stage.sluice(&arguments);
    let mut child = chat.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    child.wait_with_output().unwrap()
}

/// Everything that is remembered, newest first.
fn list(stage: &Stage, more: &[&str]) -> Vec<Value> {
    let arguments = [&["memory", "list", "--json"], more].concat();
    let output = stage.run(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn recalled(stage: &Stage) -> Vec<Value> {
    let trace = stage.newest_trace().into_iter();
    let told = trace.filter(|event| event["kind"] == "recalled");
    told.flat_map(|event| event["memories"].as_array().unwrap().clone())
        .collect()
}

#[test]
fn a_chat_is_remembered_with_its_labels_until_the_user_forgets_it() {
    let stage = Stage::new();
    let first = chat(&stage, &["--app", "mail"], &format!("{QUERY}\n"));
    let said = text(&first.stderr);
    assert!(said.contains("this chat is remembered"), "{said}");

    let kept = list(&stage, &[]);
    let by: Vec<&str> = kept.iter().map(|one| one["by"].as_str().unwrap()).collect();
    assert_eq!(by, ["assistant", "user"]);
    let label = serde_json::json!(["untrusted:email", "untrusted:sender", "secret:mail"]);
    assert_eq!(kept[0]["label"], label);
    assert_eq!(kept[1]["label"], serde_json::json!([]));
    assert_eq!(kept[0]["sources"][0], kept[1]["id"]);
    assert_eq!(kept[0]["namespace"], "app:mail");
    let id = kept[0]["id"].as_str().unwrap();

    // Whole, and for people.
    let shown = text(&stage.run(&["memory", "show", &id[..6]]).stdout);
    assert!(
        shown.starts_with(id) && shown.contains("{untrusted:email, "),
        "{shown}"
    );
    assert!(shown.contains("Invoice 2026-1187"), "{shown}");

    // The next day.
    let next = chat(&stage, &["--app", "mail"], "What about the invoice?\n");
    let said = text(&next.stderr);
    assert!(
        said.contains("from memory: ") && said.contains("with mail"),
        "{said}"
    );
    assert!(!said.contains("this chat is remembered"), "{said}");
    let told = recalled(&stage);
    assert!(told.iter().any(|one| one["id"] == id), "{told:?}");

    let found = list(&stage, &["--search", "invoice", "--namespace", "mail"]);
    assert!(found.iter().any(|one| one["id"] == id), "{found:?}");
    let nobody = stage.run(&["memory", "list", "--namespace", "nobody"]);
    assert_eq!(nobody.status.code(), Some(1));

    // Nobody to ask, and no word that none is needed.
    let refused = stage.run(&["memory", "forget", id]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(list(&stage, &[]).len(), 4);
    // The answer of the next day was made with it.
    let forgotten = stage.run(&["memory", "forget", id, "--yes"]);
    assert!(
        text(&forgotten.stderr).contains("2 forgotten"),
        "{forgotten:?}"
    );
    let left = list(&stage, &[]);
    assert!(left.len() == 2 && left.iter().all(|one| one["by"] == "user"));
    assert!(
        stage
            .run(&["memory", "forget", "--namespace", "mail", "--yes"])
            .status
            .success()
    );
    assert!(list(&stage, &[]).is_empty());
}

#[test]
fn facts_are_kept_with_the_labels_of_what_they_were_found_in() {
    let stage = Stage::new();
    let config = fs::read_to_string(stage.path("sluice.toml")).unwrap();
    let config = format!("{config}\n[memory]\nfacts = true\n");
    fs::write(stage.path("sluice.toml"), config).unwrap();
    chat(&stage, &["--app", "mail"], &format!("{QUERY}\n"));
    let kept = list(&stage, &[]);
    let of = |by: &str| -> Vec<&Value> { kept.iter().filter(|one| one["by"] == by).collect() };
    let (facts, answer, query) = (of("fact"), of("assistant")[0], of("user")[0]);
    let [found, told] = facts[..] else {
        panic!("{kept:?}");
    };
    assert_eq!(found["label"], answer["label"]);
    assert_eq!(found["sources"], serde_json::json!([answer["id"]]));
    assert_eq!(told["label"], serde_json::json!([]));
    assert_eq!(told["sources"], serde_json::json!([query["id"]]));
    let shown = text(&stage.run(&["memory", "list"]).stdout);
    assert!(shown.contains("mail, fact  {untrusted:email, "), "{shown}");
    let id = answer["id"].as_str().unwrap();
    let forgotten = stage.run(&["memory", "forget", id, "--yes"]);
    assert!(
        text(&forgotten.stderr).contains("2 forgotten"),
        "{forgotten:?}"
    );
}

#[test]
fn a_single_query_and_a_private_chat_leave_nothing() {
    let stage = Stage::new();
    stage.run(&["run", "--app", "mail", QUERY]);
    chat(
        &stage,
        &["--app", "mail", "--private"],
        &format!("{QUERY}\n"),
    );
    let memory = stage.path("state/sluice/memory");
    assert!(!memory.exists());

    // The user can say otherwise, for all sessions.
    let config = fs::read_to_string(stage.path("sluice.toml")).unwrap();
    let set = |enabled: &str| {
        let memory = format!("{config}\n[memory]\nenabled = {enabled}\n");
        fs::write(stage.path("sluice.toml"), memory).unwrap();
    };
    set("false");
    chat(&stage, &["--app", "mail"], &format!("{QUERY}\n"));
    assert!(!memory.exists());
    set("true");
    stage.run(&["run", "--app", "mail", QUERY]);
    assert_eq!(list(&stage, &[]).len(), 2);
}

#[test]
fn a_memory_that_others_can_read_is_not_used_and_the_chat_goes_on() {
    let stage = Stage::new();
    chat(&stage, &["--app", "mail"], &format!("{QUERY}\n"));
    let files = fs::read_dir(stage.path("state/sluice/memory")).unwrap();
    for file in files {
        let open = fs::Permissions::from_mode(0o644);
        fs::set_permissions(file.unwrap().path(), open).unwrap();
    }
    let next = chat(&stage, &["--app", "mail"], "What about the invoice?\n");
    let said = text(&next.stderr);
    assert!(
        said.contains("this session has no memory: ") && said.contains("chmod 600"),
        "{said}"
    );
    assert!(recalled(&stage).is_empty());
    assert_eq!(stage.run(&["memory", "list"]).status.code(), Some(1));
}
