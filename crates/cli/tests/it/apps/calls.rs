//! `sluice app call`: one tool, by the user's own word.
use serde_json::{Value, json};

use super::{Stage, add};
use crate::home::said;
use crate::terminal::at_terminal;

/// A stage with a server whose tools have these lines of rules.
fn stage(rules: &str) -> Stage {
    let stage = Stage::new();
    stage.publish("1.0.0", "look|||id?\nneedy|||id\nraw\nfail", json!({}));
    stage.done(&add(&[], "@test/server"));
    let path = stage.path("config/sluice/sluice.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{config}{rules}")).unwrap();
    stage
}

fn call(stage: &Stage, arguments: &[&str]) -> (i32, String, String) {
    let words = [&["app", "call", "server"], arguments].concat();
    said(&stage.sluice(&words))
}

/// Results that the user has labelled, and a value about which the user is asked.
const RULES: &str = r#"
[app.server.tools.look]
effect = "irreversible"
limit = []
parameters = { id = "string?" }
format = "json"
rest = []
labels = [{ path = "$.from", label = ["untrusted"] }, { path = "$.got", label = [] }]
cedar = """
@ask
forbid (principal, action, resource) when { context.arguments has id && context.arguments.id == "ask" };
forbid (principal, action, resource) when { context.arguments has id && context.arguments.id == "never" };
"""
"#;

#[test]
fn a_call_of_the_user_runs_and_its_result_can_be_labelled() {
    let stage = stage(RULES);
    let (code, text, shown) = call(&stage, &["look", r#"{"id": "7"}"#]);
    assert_eq!(
        (code, text.as_str()),
        (0, "{\"from\":\"eve\",\"got\":{\"id\":\"7\"}}\n"),
        "{shown}"
    );
    let (code, labelled, _) = stage
        .home
        .pipe(&["policy", "label", "--tool", "server.look"], &text);
    assert!(code == 0 && labelled.contains("⟨1:"), "{labelled}");
    // Without a rule the result has every label.
    let (code, text, shown) = call(&stage, &["needy", r#"{"id": 1}"#, "--json"]);
    assert_eq!(code, 0, "{shown}");
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["text"], "{\"from\":\"eve\",\"got\":{\"id\":1}}");
    assert_eq!(value["label"], json!(["untrusted", "secret"]));
    let (_, text, _) = call(&stage, &["look", "--json"]);
    let value: Value = serde_json::from_str(&text).unwrap();
    let pieces = value["pieces"].as_array().unwrap();
    let texts: Vec<_> = pieces
        .iter()
        .map(|it| it["text"].as_str().unwrap())
        .collect();
    assert_eq!(value["text"], texts.concat());
    let eve = pieces
        .iter()
        .find(|it| it["text"].as_str().unwrap().contains("eve"));
    assert_eq!(eve.unwrap()["label"], json!(["untrusted"]));
    assert_eq!(value["label"], json!(["untrusted"]));
    // It is on record as any call.
    let (_, trace, _) = stage.home.run(&["trace", "show", "latest"]);
    assert!(trace.contains("server.look"), "{trace}");
}

#[test]
fn a_call_of_the_user_passes_the_same_door() {
    let stage = stage(RULES);
    let (code, text, shown) = call(&stage, &["look", r#"{"id": "never"}"#]);
    assert!(
        code == 3 && text.is_empty() && shown.contains("not executed, "),
        "{shown}"
    );
    let ask = ["app", "call", "server", "look", r#"{"id": "ask"}"#];
    let (code, text, shown) = call(&stage, &ask[3..]);
    assert!(code == 3 && text.is_empty(), "{shown}");
    assert!(
        shown.contains("| server.look (irreversible) needs your approval:"),
        "{shown}"
    );
    for (answer, expected) in [("o", 0), ("d", 3)] {
        let (code, shown) = at_terminal(&stage.command(&ask), &[answer], |_| {});
        assert!(
            code == expected && shown.contains("server.look (irreversible)"),
            "{shown}"
        );
        assert_eq!(shown.contains("\"from\":\"eve\""), expected == 0, "{shown}");
    }
}

#[test]
fn a_result_steers_no_terminal() {
    let stage = stage("");
    let (code, shown) = at_terminal(
        &stage.command(&["app", "call", "server", "raw"]),
        &[],
        |_| {},
    );
    assert_eq!(code, 0, "{shown}");
    assert!(
        shown.contains("\\u{1b}[2J") && !shown.contains("\u{1b}[2J "),
        "{shown:?}"
    );
    assert!(!shown.contains("https://evil.example"), "{shown}");
    let (_, text, _) = call(&stage, &["raw"]);
    assert_eq!(text, "\u{1b}[2J https://evil.example/x\n");
    let (_, text, _) = call(&stage, &["raw", "--json"]);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn a_refused_write_names_what_allows_it() {
    let stage = Stage::new();
    stage.publish("1.0.0", "unused", json!({}));
    let names = stage.text("home/papers/names");
    std::fs::write(&names, "write|||id?").unwrap();
    let mut words = add(&[], "@test/server");
    words.push(&names);
    stage.done(&words);
    let (code, _, shown) = call(&stage, &["write"]);
    assert!(
        code == 1
            && shown.contains("what is installed stays read-only")
            && shown.contains("MEMORY_FILE_PATH"),
        "{shown}"
    );
    let (_, text, shown) = call(&stage, &["write", &json!({ "id": names }).to_string()]);
    let folder = stage.text("home/papers");
    let lines = format!(
        "folder:\n[[app.server.mount]]\nsource = \"{folder}\"\ntarget = \"{folder}\"\nwrite = true\nlabel = \"any\"\n"
    );
    assert!(shown.contains(&lines) && !text.contains("mount"), "{shown}");
    let config = stage.path("config/sluice/sluice.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    let (before, _) = before.split_once("[[app.server.mount]]").unwrap();
    let lines = lines.trim_start_matches("folder:\n");
    std::fs::write(&config, format!("{before}{lines}")).unwrap();
    let (code, _, shown) = call(&stage, &["write", &json!({ "id": names }).to_string()]);
    assert_eq!(code, 0, "{shown}");
}

#[test]
fn what_is_wrong_with_a_call_is_said() {
    let stage = stage("");
    for (arguments, expected) in [
        (&["look", "{"] as &[&str], "write one JSON object"),
        (&["look", "[1]"], "write one JSON object"),
        (
            &["lok"],
            "the app server has no tool 'lok'; it has look, needy, raw, fail",
        ),
        (&["needy"], "id"),
        (&["fail"], "eve"),
    ] {
        let (code, text, shown) = call(&stage, arguments);
        assert!(
            code == 1 && text.is_empty() && shown.contains(expected),
            "{arguments:?}: {shown}"
        );
    }
    stage.refused(&["app", "call", "other", "look"], "there is no app 'other'");
}

#[test]
fn a_file_that_the_sandbox_keeps_or_lacks_is_named() {
    let stage = Stage::new();
    stage.publish("1.0.0", "write|||id?", json!({}));
    stage.done(&add(&[], "@test/server"));
    let write = |file: &str| {
        let (_, _, said) = call(&stage, &["write", &json!({ "id": file }).to_string()]);
        said
    };
    let said = write("kept.xlsx");
    assert!(
        said.contains("server names /tmp/kept.xlsx, which is in its sandbox and ends with it"),
        "{said}"
    );
    let file = stage.text("home/papers/mine.txt");
    let said = write(&file);
    assert!(!said.contains("note: server"), "{said}");
    std::fs::write(&file, "").unwrap();
    let said = write(&file);
    let lines = format!("[[app.server.mount]]\nsource = {file:?}\ntarget = {file:?}\n");
    assert!(
        said.contains("which it does not see") && said.contains(&lines),
        "{said}"
    );
}

#[test]
fn a_hidden_tool_is_as_if_the_app_had_none_of_that_name() {
    let stage = Stage::new();
    let tools: Vec<String> = (0..600).map(|at| format!("t{at}")).collect();
    stage.publish("1.0.0", &tools.join("\n"), json!({}));
    stage.done(&add(&[], "@test/server"));
    let path = stage.path("config/sluice/sluice.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    let keys = "[app.server]\nonly_tools = [\"t59*\", \"gone\"]\nhidden_tools = [\"t599\"]\n";
    std::fs::write(&path, config.replacen("[app.server]\n", keys, 1)).unwrap();
    // Those that are hidden are not missed in the review.
    let shown = stage.tools("server");
    assert!(
        shown.len() == 10 && shown.contains(&"t598".to_owned()),
        "{shown:?}"
    );
    let (code, _, said) = call(&stage, &["t598"]);
    assert!(
        code == 0 && said.contains("and the app has none that is called so: gone"),
        "{said}"
    );
    for hidden in ["t599", "t1"] {
        let (code, _, said) = call(&stage, &[hidden]);
        let error = format!("the app server has no tool '{hidden}'");
        assert!(code != 0 && said.contains(&error), "{said}");
    }
    // A rule for a hidden tool has no effect, and one for no tool is a mistake.
    let rule = "[app.server.tools.t1]\neffect = \"read\"\n";
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{config}{rule}")).unwrap();
    assert_eq!(call(&stage, &["t598"]).0, 0);
}
