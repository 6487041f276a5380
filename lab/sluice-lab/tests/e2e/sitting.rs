//! One sitting over three apps, as the guide shows it: mail, which asks the calendar and the notes,
//! on a terminal, with a model that makes no mistake. The mailbox is the sample one, in which the mail
//! that the user asks about tries to have a confidential one sent away.

use std::fs;
use std::path::Path;

use hub::{Completion, CompletionRequest};
use ifc::PromptMessage;
use llm::{Scripted, call_answer, text_answer};
use serde_json::{Value, json};

use crate::screen;
use crate::stage::{Stage, text};
use crate::terminal::Terminal;

const QUERY: &str =
    "What did Karin write about the delivery? Put the dates into my calendar and tell Ben.";
const LATER: &str = "When is the delivery?";
/// The two lots of the sample mail.
const LOTS: [(&str, &str); 2] = [("3 December", "2026-12-03"), ("10 December", "2026-12-10")];
const COLUMNS: usize = 100;
/// In the place of what is another at every run.
const DAY: &str = "2026-11-22";

/// Does what it can with what it sees, in this order: search, read, put both dates into the calendar, look
/// Ben up, write to him, answer. So it asks for Ben's note also where it is shown no mail.
fn model(request: &CompletionRequest) -> Completion {
    let messages = request.prompt.messages();
    let begin = messages
        .iter()
        .rposition(|it| matches!(it, PromptMessage::User(_)));
    let turn = &messages[begin.unwrap()..];
    let PromptMessage::User(said) = &turn[0] else {
        unreachable!("it was found")
    };
    if said.contains(LATER) {
        let known = said.contains("on 3 and 10 December");
        return text_answer(match known {
            true => {
                "On 3 and 10 December, between 8 and 11: Karin Lund wrote so, and you had it put into your calendar."
            }
            false => "I do not know.",
        });
    }
    let results = turn.iter().filter_map(|message| match message {
        PromptMessage::Tool { content, .. } => serde_json::from_str::<Value>(content).ok(),
        _ => None,
    });
    let results: Vec<Value> = results.collect();
    let find = |member: &str| results.iter().find(|result| !result[member].is_null());
    let called = |tool: &str| {
        let calls = turn.iter().filter_map(|message| match message {
            PromptMessage::Assistant { calls, .. } => Some(calls),
            _ => None,
        });
        calls.flatten().filter(|call| call.tool == tool).count()
    };
    let call = |tool: &str, arguments: Value| call_answer(tool, arguments.to_string());
    if called("search_emails") == 0 {
        return call("search_emails", json!({"query": "Karin delivery"}));
    }
    let mail = find("body").filter(|mail| {
        mail["body"]
            .as_str()
            .unwrap()
            .contains("on 3 and 10 December")
    });
    if let Some(found) = find("emails").filter(|_| mail.is_none()) {
        return call("read_email", json!({"id": found["emails"][0]["id"]}));
    }
    let entered = called("ask__new_event");
    if let Some((_, day)) = LOTS.get(entered).filter(|_| mail.is_some()) {
        let (start, end) = (format!("{day}T08:00"), format!("{day}T11:00"));
        let event =
            json!({"title": "Office chairs, delivered by Lund", "start": start, "end": end});
        return call("ask__new_event", event);
    }
    let Some(note) = find("text") else {
        return call("ask__read_note", json!({"name": "Ben"}));
    };
    if called("send_email") == 0 {
        let mut words = note["text"].as_str().unwrap().split_whitespace();
        let address = words.find(|word| word.contains('@')).unwrap();
        let body = "Hello Ben,\n\nthe office chairs come on 3 and 10 December, between 8 and 11. Can you open the gate?\n\nAnna";
        let mail = json!({"to": [address], "subject": "Delivery of the chairs", "body": body});
        return call("send_email", mail);
    }
    text_answer(
        "Karin Lund writes that the delivery of the office chairs comes in two lots, on 3 and 10 December, between 8 and 11. Both dates are in your calendar, and I have written to Ben.",
    )
}

/// `sluice` at the terminal: what is typed after which words. What was on it in the end, after the
/// command.
fn at_the_terminal(stage: &Stage, arguments: &[&str], typed: &[(&str, &str)]) -> String {
    let mut terminal = Terminal::wide(stage, COLUMNS, arguments);
    for (after, line) in typed {
        terminal.wait_for(after);
        // What is typed while the question is still being written is no answer, and spoils the record.
        if *after == QUESTION {
            terminal.wait_for(", default deny] ");
        }
        terminal.type_line(line);
    }
    let (code, recorded) = terminal.recorded();
    let shown = screen::lines(&recorded, COLUMNS).join("\n");
    assert_eq!(code, Some(0), "{shown}");
    format!("$ sluice {}\n{}\n", arguments.join(" "), shown.trim_end())
}

const END: &str = "\u{4}";
/// How the last line of a question begins; what may be answered follows it.
const QUESTION: &str = "Allow? ";

/// The events of the newest session of this kind.
fn events(stage: &Stage, kind: &str) -> Vec<Value> {
    let trace = stage.newest_trace().into_iter();
    trace.filter(|event| event["kind"] == kind).collect()
}

/// Who allowed the calendar to be asked; `None` if nobody did.
fn asked_by_mail(stage: &Stage) -> Vec<String> {
    let allowed = events(stage, "allowed").into_iter();
    let create = allowed.filter(|event| event["flow"]["call"]["tool"] == "create_event");
    create
        .map(|event| event["by"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_sitting_over_three_apps() {
    let stage = Stage::with_model(Scripted::new("worst-case", model));
    stage.take_the_example("apart.toml");
    fs::write(
        stage.path("Notes/Ben.md"),
        "Ben Ode, caretaker: ben.ode@example.org\n",
    )
    .unwrap();
    let chat = ["chat", "--app", "mail"];

    let mut all = at_the_terminal(
        &stage,
        &chat,
        &[
            ("> ", &format!("{QUERY}\r")),
            (QUESTION, "s\r"),
            (QUESTION, "session\r"),
            (QUESTION, "o\r"),
            ("written to Ben.", ""),
            ("> ", END),
        ],
    );
    // Both events, one of them by the word for the session; the mail as it was shown; nothing else went anywhere.
    let events_in_the_calendar = fs::read_dir(stage.path("Calendar")).unwrap().count();
    assert_eq!(events_in_the_calendar, LOTS.len());
    let sent = stage.mails.messages();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].to, ["ben.ode@example.org"]);
    assert_eq!(asked_by_mail(&stage), ["user, for the session"]);
    assert_eq!(text(&stage.run(&["permissions", "list"]).stdout), "");
    all += "\n(a later session)\n";
    all += &at_the_terminal(
        &stage,
        &chat,
        &[
            ("> ", &format!("{LATER}\r")),
            ("into your calendar.", ""),
            ("> ", END),
        ],
    );
    assert!(
        events(&stage, "allowed")
            .iter()
            .all(|event| event["flow"]["call"].is_null())
    );

    // In a session without a user it does not count.
    stage.run(&["run", "--app", "mail", QUERY]);
    assert_eq!(asked_by_mail(&stage), [""; 0]);

    let all = with_what_changes_replaced(&all);
    insta::assert_snapshot!("a_sitting_over_three_apps", all);
}

/// The day is another at every run, and so is the order of memories of one moment.
fn with_what_changes_replaced(all: &str) -> String {
    let lines = all
        .lines()
        .map(|line| match line.strip_prefix("from memory: ") {
            Some(origin) => format!("from memory: {DAY}{}", &origin[DAY.len()..]),
            None => line.to_owned(),
        });
    let mut lines: Vec<String> = lines.collect();
    for pair in 1..lines.len() {
        let both = [pair - 1, pair].map(|at| lines[at].starts_with("from memory: "));
        if both == [true; 2] && lines[pair] < lines[pair - 1] {
            lines.swap(pair - 1, pair);
        }
    }
    lines.join("\n")
}

/// The guide shows lines of the recording, to the letter and in their order. `…` stands for lines that it leaves out.
#[test]
fn the_guide_has_the_recorded_sitting() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let snapshot = "tests/e2e/snapshots/e2e__sitting__a_sitting_over_three_apps.snap";
    let recorded = fs::read_to_string(own.join(snapshot)).unwrap();
    let recorded = recorded.splitn(3, "---\n").nth(2).unwrap();
    let mut recorded = recorded.lines().map(str::trim_end);
    let guide = fs::read_to_string(own.join("../../docs/guide.md")).unwrap();
    let shown = guide.split("## A session over three apps").nth(1).unwrap();
    let shown = shown.lines().filter_map(|line| line.strip_prefix("    "));
    let shown: Vec<&str> = shown.filter(|line| *line != "…").collect();
    assert!(shown.len() > 15, "{shown:?}");
    for line in shown {
        assert!(recorded.any(|recorded| recorded == line), "{line}");
    }
}
