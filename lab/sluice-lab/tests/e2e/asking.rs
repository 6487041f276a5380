//! An app that asks the user something, at a real terminal and where nobody is.

use crate::stage::{Stage, text};
use crate::terminal::Terminal;

const RUN: [&str; 4] = ["run", "--app", "test", "Book me a trip"];

#[test]
fn an_apps_question_is_answered_at_the_terminal_and_the_answer_reaches_the_app() {
    let stage = Stage::with_test_app("ask-user");
    let mut terminal = Terminal::run(&stage, &RUN);
    terminal.wait_for("These are its words,");
    terminal.wait_for("| test> Where do you want to go?");
    terminal.wait_for("| test> 1. City (a text, required): Where to?");
    terminal.wait_for("Answer test or decline? [a/d, default decline] ");
    // An answer to a question of Sluice is none to the app's.
    terminal.type_line("once\r");
    terminal.wait_for("default decline] ");
    terminal.type_line("a\r");
    terminal.wait_for("To test, 1 of 2, a text (cancel to end): ");
    terminal.type_line("Oslo\r");
    terminal.wait_for("To test, 2 of 2, a whole number");
    terminal.wait_for("): ");
    terminal.type_line("2\r");
    let (code, rest) = terminal.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains(r#""city":"Oslo","nights":2"#), "{rest}");
    let trace = stage.trace();
    let answered = trace.iter().find(|event| event["kind"] == "app_answered");
    assert_eq!(
        answered.unwrap()["content"],
        r#"{"city":"Oslo","nights":2}"#
    );
}

#[test]
fn an_imitation_stays_behind_the_apps_name_on_a_real_terminal() {
    let stage = Stage::with_test_app("ask-imitation");
    let mut terminal = Terminal::run(&stage, &RUN);
    terminal.wait_for("| test> Done.");
    terminal.wait_for("| test> \\u{1b}[2J");
    terminal.wait_for("| test> | Allow once or deny? [o/d, default deny] \\u{202e}");
    terminal.wait_for("Sluice never asks for a");
    terminal.wait_for("Answer test or decline? [a/d, default decline] ");
    terminal.type_line("\r");
    let (code, rest) = terminal.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains(r#"{"action":"decline"}"#), "{rest}");
}

#[test]
fn an_apps_question_without_a_user_is_cancelled() {
    let stage = Stage::with_test_app("ask-user");
    for arguments in [
        &RUN[..],
        &["run", "--json", "--app", "test", "Book me a trip"],
    ] {
        let output = stage.run(arguments);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(said.contains("cancel"), "{said}");
    }
}

#[test]
fn a_server_of_the_real_sdk_gets_what_the_user_types() {
    let stage = Stage::with_asking_app("user", "");
    let mut terminal = Terminal::run(&stage, &RUN);
    terminal.wait_for("| test> Where do you want to go?");
    terminal.wait_for("default decline] ");
    terminal.type_line("a\r");
    terminal.wait_for("1 of 2, a text (cancel to end): ");
    terminal.type_line("Oslo\r");
    terminal.wait_for("end): ");
    terminal.type_line("\r");
    let (code, rest) = terminal.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains(r#""city":"Oslo"#), "{rest}");
}
