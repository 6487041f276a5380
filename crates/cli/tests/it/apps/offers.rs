//! What is offered for an app that is added: folders to write, and domains that it tried to reach.
use std::fs;

use serde_json::{Value, json};

use super::Stage;
use crate::terminal::at_terminal;

/// A stage with a file of one server, with these variables and these words after its package.
fn stage(env: &Value, more: &[&str]) -> Stage {
    let stage = Stage::new();
    stage.publish("1.0.0", "look", json!({}));
    fs::create_dir_all(stage.path("home/notes")).unwrap();
    let arguments = [&["-y", "@test/server"] as &[&str], more].concat();
    let server = json!({ "command": "npx", "args": arguments, "env": env });
    let file = json!({ "mcpServers": { "server": server } });
    fs::write(stage.path("home/mcp.json"), file.to_string()).unwrap();
    stage
}

fn config(stage: &Stage) -> String {
    fs::read_to_string(stage.path("config/sluice/sluice.toml")).unwrap_or_default()
}

/// What an import shows at a terminal where these lines are typed.
fn import(stage: &Stage, lines: &[&str]) -> String {
    let (code, shown) = at_terminal(
        &stage.command(&["app", "import", "mcp.json"]),
        lines,
        |_| {},
    );
    assert_eq!(code, 0, "{shown}");
    shown
}

#[test]
fn a_domain_that_a_server_tried_is_offered() {
    let env = json!({ "LOOKUP": "api.example.org" });
    let rule = "[[app.server.domain]]\nname = \"api.example.org\"\n";
    let unasked = stage(&env, &[]);
    let said = unasked.done(&["app", "import", "mcp.json", "--write"]);
    assert!(
        said.contains("server tried to connect to api.example.org; to allow it"),
        "{said}"
    );
    assert!(
        said.contains(rule) && !config(&unasked).contains("domain"),
        "{said}"
    );
    for (answer, is_allowed) in [("allow", true), ("no", false)] {
        let stage = stage(&env, &[]);
        let shown = import(&stage, &[answer, "add"]);
        assert!(
            shown.contains("tried to connect to api.example.org. Type allow"),
            "{shown}"
        );
        assert_eq!(config(&stage).contains(rule), is_allowed, "{shown}");
        stage.done(&["policy", "check"]);
    }
}

#[test]
fn a_server_that_needs_a_domain_to_start_gets_another_try() {
    let stage = stage(
        &json!({ "LOOKUP": "api.example.org", "NEEDS_IT": "1" }),
        &[],
    );
    stage.refused(
        &["app", "import", "mcp.json", "--write"],
        "tried to reach places",
    );
    assert_eq!(config(&stage), "");
    let shown = import(&stage, &["allow", "add"]);
    assert!(
        config(&stage).contains("name = \"api.example.org\""),
        "{shown}"
    );
}

#[test]
fn a_public_suffix_is_not_offered() {
    let stage = stage(&json!({ "LOOKUP": "co.uk" }), &[]);
    let said = stage.done(&["app", "import", "mcp.json", "--write"]);
    assert!(!said.contains("[[app.server.domain]]"), "{said}");
}

#[test]
fn the_folder_of_a_variable_or_an_argument_is_offered_to_be_written() {
    let papers = |stage: &Stage| stage.text("home/papers");
    let notes = |stage: &Stage| stage.text("home/notes");
    let both = || {
        let bare = stage(&json!({}), &[]);
        let env = json!({ "MEMORY_FILE_PATH": bare.text("home/notes/memory.json") });
        let server = json!({ "command": "npx", "args": ["-y", "@test/server", bare.text("home/names"), papers(&bare)], "env": env });
        fs::write(bare.path("home/names"), "look").unwrap();
        let file = json!({ "mcpServers": { "server": server } });
        fs::write(bare.path("home/mcp.json"), file.to_string()).unwrap();
        bare
    };
    let writable = |stage: &Stage, folder: &str| {
        let mount = format!("source = \"{folder}\"\ntarget = \"{folder}\"\nwrite = true\n");
        config(stage).contains(&mount)
    };
    let stage = both();
    let said = stage.done(&["app", "import", "mcp.json", "--write"]);
    for line in [
        "which MEMORY_FILE_PATH names; to allow it",
        "which its command names; to allow it",
        "write = true",
    ] {
        assert!(said.contains(line), "no {line} in {said}");
    }
    assert!(!config(&stage).contains("write = true"), "{said}");
    // In the order of their paths.
    for (answers, expected) in [
        (["write", "no"], [true, false]),
        (["no", "write"], [false, true]),
        (["no", ""], [false, false]),
    ] {
        let stage = both();
        let shown = import(&stage, &[answers[0], answers[1], "add"]);
        let found = [
            writable(&stage, &notes(&stage)),
            writable(&stage, &papers(&stage)),
        ];
        assert_eq!(found, expected, "{shown}");
    }
}

#[test]
fn a_home_is_never_offered() {
    let bare = stage(&json!({}), &[]);
    let env = json!({ "STORE": bare.text("home/store.json"), "FOLDER": bare.text("home/.ssh/known"), "OWN": bare.text("state/sluice/x") });
    let file = json!({ "mcpServers": { "server": { "command": "npx", "args": ["-y", "@test/server"], "env": env } } });
    fs::create_dir_all(bare.path("state/sluice")).unwrap();
    fs::write(bare.path("home/mcp.json"), file.to_string()).unwrap();
    let said = bare.done(&["app", "import", "mcp.json", "--write"]);
    assert!(!said.contains("write = true"), "{said}");
}
