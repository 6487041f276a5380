//! Which apps a request goes to, at the terminal: the choice among several, a kept choice, a follow-up,
//! and a chat that leaves nothing behind.

use std::fs;

use hub::{Completion, CompletionRequest};
use ifc::PromptMessage;
use llm::{Scripted, call_answer, text_answer};
use serde_json::Value;

use crate::stage::{Stage, text};
use crate::terminal::Terminal;

const BOTH: &str = "What do mail and notes say about Heron?";
const FOLLOW_UP: &str = "And who wrote it?";
const END: &str = "\u{4}";

/// A request needs the apps that it names. The mail app's conversation lists the mails, that of the notes
/// searches them; a conversation without tools tells what it was told.
fn model(request: &CompletionRequest) -> Completion {
    let messages = request.prompt.messages();
    let said = |message: &PromptMessage| match message {
        PromptMessage::User(text) => Some(text.clone()),
        _ => None,
    };
    let users: Vec<String> = messages.iter().filter_map(said).collect();
    let last = users.last().unwrap();
    if let Some((about, query)) = last.split_once("Request: ") {
        let app = about.split('"').nth(1).unwrap();
        let needed = query.contains(app);
        return text_answer(format!(r#"{{"needed": {needed}}}"#));
    }
    let results = messages.iter().filter_map(|message| match message {
        PromptMessage::Tool { content, .. } => Some(content.as_str()),
        _ => None,
    });
    let results: Vec<&str> = results.collect();
    let has = |tool: &str| request.prompt.tools().iter().any(|own| own.name == tool);
    if request.prompt.tools().is_empty() {
        return text_answer(match results.as_slice() {
            [] => "There is nothing here.".to_owned(),
            told => format!("Together: {}", told.join(" ")),
        });
    }
    match (results.is_empty(), has("search_notes")) {
        (true, true) => call_answer("search_notes", r#"{"text":"Heron"}"#),
        (true, false) => call_answer("search_emails", r#"{"query":"Heron"}"#),
        (false, true) if last == FOLLOW_UP => text_answer("Anna wrote the note."),
        (false, true) => text_answer("The note says that Heron is due."),
        (false, false) => text_answer("A mail says that Heron is confidential."),
    }
}

fn stage() -> Stage {
    let stage = Stage::with_model(Scripted::new("worst-case", model));
    stage.take_the_example("apart.toml");
    fs::write(stage.path("Notes/Heron.md"), "Heron is due. Anna\n").unwrap();
    stage
}

/// The plan of each request in the newest session: apps, whether each by itself, and by whose word.
fn plans(stage: &Stage) -> Vec<(String, bool, String)> {
    let planned = stage.newest_trace().into_iter();
    let planned = planned.filter(|event| event["kind"] == "planned");
    let plan = |event: Value| {
        // No app, one, or several.
        let apps: Vec<&str> = match &event["app"] {
            Value::Array(apps) => apps.iter().map(|app| app.as_str().unwrap()).collect(),
            app => app.as_str().into_iter().collect(),
        };
        let by = event["by"].as_str().unwrap().to_owned();
        (apps.join(" "), event["each"] == true, by)
    };
    planned.map(plan).collect()
}

fn plan(apps: &str, each: bool, by: &str) -> (String, bool, String) {
    (apps.to_owned(), each, by.to_owned())
}

/// One request at the terminal, with this choice; what was shown.
fn choose(stage: &Stage, choice: &str) -> String {
    let mut terminal = Terminal::wide(stage, 100, &["run", BOTH]);
    terminal.wait_for(
        "Several apps may be needed, and no group lets them share a conversation: mail, notes.",
    );
    terminal.wait_for("Type mail, notes, each, always APP and Enter [none]: ");
    terminal.type_line(choice);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    shown
}

#[test]
fn each_app_is_asked_by_itself_and_a_choice_is_kept_until_it_is_revoked() {
    let stage = stage();
    let shown = choose(&stage, "each\r");
    let told = "Together: A mail says that Heron is confidential. The note says that Heron is due.";
    assert!(shown.contains(told), "{shown}");
    assert_eq!(plans(&stage), [plan("mail notes", true, "user")]);

    let shown = choose(&stage, "always notes\r");
    assert!(
        shown.contains("The note says that Heron is due."),
        "{shown}"
    );
    assert!(!shown.contains("Together"), "{shown}");
    let listed = text(&stage.run(&["permissions", "list"]).stdout);
    let id = listed.split_once(' ').unwrap().0.to_owned();
    let kept = format!("user, kept as permission {id}");
    assert_eq!(plans(&stage), [plan("notes", false, &kept)]);

    // Nobody is there, and nobody is needed.
    let output = stage.run(&["run", BOTH]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let by = format!("permission {id}");
    assert_eq!(plans(&stage), [plan("notes", false, &by)]);

    let revoked = stage.run(&["permissions", "revoke", &id]);
    assert!(revoked.status.success(), "{}", text(&revoked.stderr));
    stage.run(&["run", BOTH]);
    let by = "planner, no one can answer: there is no terminal";
    assert_eq!(plans(&stage), [plan("mail notes", true, by)]);
}

#[test]
fn a_word_that_was_not_offered_chooses_nothing() {
    let stage = stage();
    let mut terminal = Terminal::run(&stage, &["run", BOTH]);
    for line in ["calendar\r", "always calendar\r"] {
        terminal.wait_for("and Enter [none]: ");
        terminal.type_line(line);
    }
    terminal.wait_for("and Enter [none]: ");
    terminal.type_line("\r");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("name one with --app"), "{shown}");
    let started = stage.newest_trace().into_iter();
    let mut started = started.filter(|event| event["kind"] == "spoke_started");
    assert!(started.next().is_none());
}

#[test]
fn a_follow_up_keeps_its_spoke() {
    let stage = stage();
    let mut terminal = Terminal::run(&stage, &["chat"]);
    for (line, answer) in [
        ("What do my notes say about Heron?\r", "Heron is due."),
        (&format!("{FOLLOW_UP}\r"), "Anna wrote the note."),
    ] {
        terminal.wait_for("> ");
        terminal.type_line(line);
        terminal.wait_for(answer);
    }
    terminal.wait_for("> ");
    terminal.type_line(END);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    let follow_up = plan("notes", false, "planner, follow-up");
    assert_eq!(plans(&stage), [plan("notes", false, "planner"), follow_up]);
    let events = stage.newest_trace();
    let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
    assert_eq!(count("spoke_started"), 1, "{events:?}");
}

#[test]
fn in_a_private_chat_every_line_stands_alone_and_no_choice_is_kept() {
    let stage = stage();
    let mut terminal = Terminal::run(&stage, &["chat", "--private"]);
    terminal.wait_for("> ");
    terminal.type_line(&format!("{BOTH}\r"));
    terminal.wait_for("Type mail, notes, each and Enter [none]: ");
    terminal.type_line("notes\r");
    terminal.wait_for("Heron is due.");
    terminal.wait_for("> ");
    terminal.type_line(&format!("{FOLLOW_UP}\r"));
    terminal.wait_for("There is nothing here.");
    terminal.wait_for("> ");
    terminal.type_line(END);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    let alone = plan("", false, "planner");
    assert_eq!(plans(&stage), [plan("notes", false, "user"), alone]);
    assert_eq!(text(&stage.run(&["permissions", "list"]).stdout), "");
    assert_eq!(text(&stage.run(&["memory", "list"]).stdout), "");
}
