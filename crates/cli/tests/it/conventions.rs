//! What scripts and people at a terminal rely on, whatever the command: exit codes, lines for programs, a pipe that is
//! closed early, Ctrl-C, and errors that say what to do.
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::home::{Home, said};
use crate::terminal::typed;

/// A provider that nobody asks: what is tested comes before.
const CONFIG: &str = r#"
[[provider]]
name = "nobody"
kind = "openai"
model = "m"
base_url = "http://127.0.0.1:9/v1"

[app.notes]
command = ["/bin/cat"]

[app.theirs]
client = true
"#;

#[test]
fn a_pipe_that_is_closed_early_is_no_news_and_no_success() {
    let home = Home::with(CONFIG);
    for arguments in [
        &["model", "list"] as &[&str],
        &["policy", "check"],
        &["policy", "check", "--json"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = home.sluice(arguments).stdout(writer).output().unwrap();
        let (code, _, stderr) = said(&output);
        assert_eq!((code, stderr.as_str()), (1, ""), "{arguments:?}");
    }
    // Another error of standard output is one that the user has to know.
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = home
        .sluice(&["model", "list"])
        .stdout(full)
        .output()
        .unwrap();
    let (code, _, stderr) = said(&output);
    assert!(code == 1 && stderr.contains("No space"), "{stderr}");
}

#[test]
fn every_list_is_lines_of_json_for_programs() {
    let home = Home::with(CONFIG);
    let traces = home.path("state/sluice/traces");
    fs::create_dir_all(&traces).unwrap();
    fs::write(traces.join("20261123-000000-000-aaaaaa.jsonl"), "").unwrap();
    home.run(&["policy", "check"]);
    for (arguments, least) in [
        (&["trace", "list", "--json"] as &[&str], 1),
        (&["trust", "--list", "--json"], 0),
        (&["permissions", "list", "--json"], 0),
        (&["memory", "list", "--json"], 0),
        (&["secret", "list", "--json"], 0),
        (&["app", "list", "--json"], 0),
        (&["model", "list", "--json"], 2),
        (&["policy", "check", "--json"], 4),
        (&["policy", "test", "--json"], 1),
        (&["doctor", "--json"], 5),
    ] {
        let (code, stdout, stderr) = home.run(arguments);
        let lines: Vec<Value> = stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(lines.len() >= least, "{arguments:?}: {stdout}{stderr}");
        assert!(matches!(code, 0 | 1), "{arguments:?}: {stderr}");
    }
    let (_, stdout, _) = home.run(&["trace", "list", "--json"]);
    let listed: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(listed.get("session").unwrap(), "20261123-000000-000-aaaaaa");
}

#[test]
fn what_is_typed_wrong_is_said_before_anything_starts_and_with_what_is_right() {
    let home = Home::with(CONFIG);
    let folder = home.path("config/sluice");
    let folder = folder.to_str().unwrap();
    for (arguments, expected) in [
        (
            &["run", "--app", "note", "hello"] as &[&str],
            "there is no app 'note'; configured are: notes",
        ),
        (&["run", "--app", "theirs", "hello"], "start `sluice proxy`"),
        (
            &["chat", "--config", folder],
            "is a folder; name the file in it",
        ),
        (
            &["app", "test", "note"],
            "there is no app 'note' that is started here; configured are: notes",
        ),
        (&["app", "remove", "note", "--yes"], "`sluice app list`"),
        (&["app", "logout", "note"], "`sluice app login note`"),
        (
            &["policy", "label", "--tool", "note.read"],
            "it has notes, theirs",
        ),
    ] {
        let (code, _, stderr) = home.run(arguments);
        assert_eq!(code, 1, "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    // Nor does it depend on a model, which a new user has not fetched yet.
    home.configure("");
    let (code, _, stderr) = home.run(&["run", "--app", "notes", "hello"]);
    let expected =
        "there is no app 'notes'; the configuration has no app; add one with `sluice app add";
    assert!(code == 1 && stderr.contains(expected), "{stderr}");
}

#[test]
fn a_no_is_a_refusal_and_no_error() {
    let home = Home::with(CONFIG);
    let (code, _, stderr) = home.run(&["app", "remove", "notes"]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("--yes"), "{stderr}");
}

#[test]
fn a_chat_says_why_a_line_cannot_be_read() {
    let home = Home::with(CONFIG);
    let mut chat = home.sluice(&["chat", "--no-app"]);
    let chat = chat.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut chat = chat.spawn().unwrap();
    chat.stdin.take().unwrap().write_all(b"a\xff\n").unwrap();
    let (code, _, stderr) = said(&chat.wait_with_output().unwrap());
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("lines of UTF-8 text"), "{stderr}");
}

#[test]
fn a_chat_says_how_it_ends() {
    let home = Home::with(CONFIG);
    let chat = home.sluice(&["chat", "--no-app"]);
    let mut script = Command::new("script");
    let line = format!("{} chat --no-app", chat.get_program().to_string_lossy());
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    for (name, value) in chat.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    // The end of its input is Ctrl-D.
    let (code, shown, _) = said(&script.stdin(Stdio::null()).output().unwrap());
    assert_eq!(code, 0, "{shown}");
    assert_eq!(shown.matches("Ctrl-D ends the chat.").count(), 1, "{shown}");
}

#[test]
fn ctrl_c_at_the_prompt_of_a_chat_clears_the_line() {
    let home = Home::with(CONFIG);
    let chat = home.sluice(&["chat", "--no-app"]);
    let cleared = ("ends the chat.\r\n> ", &b"hello\x03"[..]);
    let shown = typed(&chat, &[cleared, ("Ctrl-C again", b"\x04")]);
    assert!(shown.contains("code 0"), "{shown}");
    let shown = typed(&chat, &[cleared, ("Ctrl-C again", b"\x03")]);
    let is_over = shown.contains("code 0") || shown.contains("code 130");
    assert!(is_over && !shown.contains("failed"), "{shown}");
}

/// The user's shell goes on at this terminal, and would show nothing of what is typed there.
#[test]
fn ctrl_c_at_a_hidden_prompt_brings_the_echo_back() {
    let home = Home::with(CONFIG);
    let secret = home.sluice(&["secret", "set", "x", "--for", "https://api.example.org"]);
    let shown = typed(&secret, &[("(not shown): ", b"\x03")]);
    assert!(shown.contains("code 130"), "{shown}");
    assert!(shown.contains("nothing was saved"), "{shown}");
    let is_echoing = shown.split_whitespace().any(|word| word == "echo");
    assert!(is_echoing, "{shown}");
    let (_, kept, _) = home.run(&["secret", "list"]);
    assert_eq!(kept, "");
}
