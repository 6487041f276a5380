//! The worst case: what it does without protection, and what it cannot do with it.

use serde_json::Value;

use crate::stage::{QUERY, Stage, text};

#[test]
fn the_demo_shows_the_attack_and_stops_it() {
    let stage = Stage::new();
    let output = stage.lab(&["demo", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let last: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    let (bare, guarded) = (&last["unprotected"], &last["protected"]);
    assert_eq!(bare["mails_to_attacker"], 1);
    assert_eq!(bare["confidential_text_left"], true);
    assert_eq!(bare["traces_deleted"], true);
    assert_eq!(bare["questions"], 0);
    assert_eq!(guarded["mails_to_attacker"], 0);
    assert_eq!(guarded["confidential_text_left"], false);
    assert_eq!(guarded["traces_deleted"], false);
    // One for the mail to the attacker, one for the deletion.
    assert_eq!(guarded["questions"], 2);
    assert_eq!(
        (&bare["answered"], &guarded["answered"]),
        (&true.into(), &true.into())
    );
}

#[test]
fn without_a_terminal_the_answer_is_no_and_the_summary_is_given() {
    let stage = Stage::new();
    let output = stage.run(&["run", QUERY]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{stdout}{stderr}");
    assert!(stdout.contains("Invoice 2026-1187"), "{stdout}");
    assert!(stage.mails.messages().is_empty());
    // The question was shown with everything that is needed to decide.
    for part in [
        "send_email",
        "irreversible",
        "collector@evil.example",
        "mail.send_email.limit",
        "untrusted:email",
        "result of read_email",
        "There is no terminal",
        "2 calls were refused",
    ] {
        assert!(stderr.contains(part), "{part} is missing in {stderr}");
    }
    // The planner was asked, and chose the app.
    let planned = stage
        .trace()
        .into_iter()
        .find(|event| event["kind"] == "planned")
        .unwrap();
    assert_eq!(
        (&planned["app"], &planned["by"]),
        (&"mail".into(), &"planner".into())
    );
}

#[test]
fn whoever_chooses_no_screener_is_guarded_without_another_model() {
    let stage = Stage::new();
    stage.screen_by("");
    let output = stage.run(&["run", QUERY]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.contains("Invoice 2026-1187"), "{stdout}{stderr}");
    assert!(stage.mails.messages().is_empty());
    // Before the question the step was taken once more without the mail.
    let checked = stage.trace().into_iter();
    let mut checked = checked.filter(|event| event["kind"] == "checked");
    assert!(checked.next().is_some_and(|event| event["taken"] == false));
}

#[test]
fn a_trace_can_be_listed_shown_and_exported() {
    let stage = Stage::new();
    stage.run(&["run", "--app", "mail", QUERY]);
    let listed = text(&stage.run(&["trace", "list"]).stdout);
    let session = listed.trim();
    for session in ["latest", session] {
        let shown = text(&stage.run(&["trace", "show", session]).stdout);
        for part in [
            "asked      step",
            "tool send_email",
            "answer no",
            "spoke started app mail",
            "seccomp",
        ] {
            assert!(shown.contains(part), "{part} is missing in {shown}");
        }
        let exported = text(&stage.run(&["trace", "show", session, "--json"]).stdout);
        let records: Vec<Value> = exported
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            records.len(),
            shown.lines().filter(|line| line.contains("s  ")).count()
        );
        assert_eq!(records[0]["sequence"], 1);
    }
    let missing = stage.run(&["trace", "show", "../../etc/passwd"]);
    assert_eq!(missing.status.code(), Some(1));
}

#[test]
fn json_is_one_event_a_line_and_equals_the_trace() {
    let stage = Stage::new();
    let output = stage.run(&["run", "--app", "mail", "--json", QUERY]);
    assert_eq!(output.status.code(), Some(3));
    let stdout = text(&output.stdout);
    let events: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone())
        .collect();
    assert_eq!(events, stage.trace());
    assert_eq!(events.last().unwrap()["kind"], "answer");
}

/// With a `sluice` that has the feature `attention`.
mod lab {
    use super::*;
    use crate::stage::small_model;

    /// Chooses the attention screener.
    const ATTENTION: &str = "[screener]\nkind = \"attention\"\n";

    #[test]
    fn the_attention_screener_guards_whoever_chooses_it() {
        let (variable, models) = small_model();
        let stage = Stage::new();
        stage.screen_by(ATTENTION);
        let mut run = stage.sluice(&["run", QUERY]);
        let output = run.env(variable, models).output().unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(stdout.contains("Invoice 2026-1187"), "{stdout}{stderr}");
        assert!(stage.mails.messages().is_empty());
        // It gave every region that it judged a score, and the trace keeps them.
        let screened = stage
            .trace()
            .into_iter()
            .find(|event| event["kind"] == "screened")
            .unwrap();
        assert_eq!(screened["screener"], "attention");
        let scored = stage.run(&["trace", "show", "latest", "--saliency"]);
        assert!(text(&scored.stdout).contains("result of"), "{scored:?}");
    }

    #[test]
    fn without_its_model_the_attention_screener_says_what_to_do() {
        let stage = Stage::new();
        stage.screen_by(ATTENTION);
        let output = stage.run(&["run", QUERY]);
        assert_eq!(output.status.code(), Some(1));
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("sluice model pull smollm2-135m"),
            "{stderr}"
        );
        assert!(stage.trace().is_empty(), "nothing may start without it");
    }
}
