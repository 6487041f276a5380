//! What `sluice app` writes into a configuration and takes out of it.
use std::fs;

use serde_json::json;

use super::{Stage, add, words};
use crate::terminal::at_terminal;

/// A configuration of the user's own, with comments around where apps are written.
const OWN: &str = "# mine\n[limits]\nsteps = 9 # few\n\n[app.notes] # by hand\ncommand = [\"/bin/cat\"]\n\n# at the end\n";

/// A stage with this file in the working folder, which is trusted.
fn trusted() -> Stage {
    let stage = Stage::new();
    stage.publish("1.0.0", "look\nsend", json!({}));
    fs::write(stage.path("home/sluice.toml"), OWN).unwrap();
    let (code, shown) = at_terminal(&stage.command(&["trust"]), &["trust"], |_| {});
    assert_eq!(code, 0, "{shown}");
    stage
}

fn file(stage: &Stage) -> String {
    fs::read_to_string(stage.path("home/sluice.toml")).unwrap()
}

fn servers(stage: &Stage, servers: &serde_json::Value) {
    let file = json!({ "mcpServers": servers });
    fs::write(stage.path("home/mcp.json"), file.to_string()).unwrap();
}

#[test]
fn removing_an_app_gives_the_file_back_and_keeps_its_trust() {
    let stage = trusted();
    stage.done(&add(&[], "@test/server"));
    assert!(file(&stage).starts_with(OWN) && file(&stage).contains("[app.server]"));
    // Without a terminal, an untrusted file is an error.
    stage.done(&["app", "test", "server"]);
    let (code, shown) = at_terminal(
        &stage.command(&["app", "remove", "server"]),
        &["no"],
        |_| {},
    );
    assert!(code == 3 && shown.contains("command = [\"npx\""), "{shown}");
    assert!(file(&stage).contains("[app.server]"));
    let remove = stage.command(&["app", "remove", "server"]);
    let (code, shown) = at_terminal(&remove, &["remove"], |_| {});
    assert_eq!(code, 0, "{shown}");
    assert_eq!(file(&stage), OWN);
    stage.done(&["policy", "check"]);
    stage.refused(&["app", "show", "server"], "is installed");
}

#[test]
fn an_unknown_app_is_an_error_at_once() {
    let stage = trusted();
    let remove = stage.command(&["app", "remove", "note"]);
    let (code, shown) = at_terminal(&remove, &[], |_| {});
    assert!(
        code == 1 && shown.contains("`sluice app list` has: notes") && !shown.contains("Type"),
        "{shown}"
    );
}

#[test]
fn a_program_of_ones_own_is_listed_and_shown() {
    let stage = trusted();
    stage.done(&add(&[], "@test/server"));
    let listed = stage.done(&["app", "list"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(lines[0].contains("npm @test/server"), "{listed}");
    assert!(
        lines[1].starts_with("notes ") && lines[1].ends_with("command = [\"/bin/cat\"]"),
        "{listed}"
    );
    let shown = stage.done(&["app", "show", "notes"]);
    assert!(shown.contains("[app.notes] # by hand\ncommand"), "{shown}");
    let shown = stage.done(&["app", "show", "server"]);
    assert!(
        shown.contains("sha256") && shown.contains("\n[app.server]\n"),
        "{shown}"
    );
    let json = stage.sluice(&["app", "list", "--json"]).stdout;
    assert!(
        String::from_utf8(json)
            .unwrap()
            .contains("\"app\":\"notes\""),
    );
}

#[test]
fn an_app_that_another_line_names_is_not_removed() {
    let stage = Stage::new();
    let config = format!(
        "{OWN}[app.other]\ncommand = [\"/bin/cat\"]\n[group.all]\napps = [\"notes\", \"other\"]\n"
    );
    stage.home.configure(&config);
    stage.refused(&["app", "remove", "notes", "--yes"], "with this change");
    let after = fs::read_to_string(stage.path("config/sluice/sluice.toml")).unwrap();
    assert_eq!(after, config);
}

#[test]
fn a_removed_apps_secret_leaves_every_clearance() {
    let stage = Stage::new();
    let provider = |clearance: &str| {
        format!(
            "[lattice]\nconfidentiality = \"apps\"\n[[provider]]\nname = \"m\"\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\nclearance = {clearance}\n"
        )
    };
    let other = "[app.other]\ncommand = [\"/bin/cat\"]\n";
    let own = "[app.gone]\ncommand = [\"/bin/cat\"]\n";
    let before = provider("[\"secret:gone\", \"secret:other\"]");
    stage.home.configure(&format!("{before}{other}{own}"));
    stage.done(&["app", "remove", "gone", "--yes"]);
    let after = fs::read_to_string(stage.path("config/sluice/sluice.toml")).unwrap();
    assert_eq!(after, provider("[\"secret:other\"]") + other);
}

#[test]
fn a_change_by_others_is_not_trusted_with_ours() {
    let stage = trusted();
    let changed = format!("{OWN}[app.theirs]\ncommand = [\"/bin/cat\"]\n");
    fs::write(stage.path("home/sluice.toml"), &changed).unwrap();
    stage.refused(
        &["app", "remove", "notes", "--yes"],
        "changed since you trusted it",
    );
    assert_eq!(file(&stage), changed);
}

#[test]
fn an_app_of_the_same_name_is_replaced_when_the_user_says_so() {
    let stage = trusted();
    stage.done(&add(&[], "@test/server"));
    let before = file(&stage);
    stage.refused(&add(&[], "@test/server@1.0.0"), "--replace");
    let mut unsure = add(&[], "@test/server@1.0.0");
    unsure.retain(|word| *word != "--yes");
    for (lines, expected) in [(&["no"] as &[&str], 3), (&["replace", "no"], 3)] {
        let (code, shown) = at_terminal(&stage.command(&unsure), lines, |_| {});
        assert!(
            code == expected && shown.contains("installed already"),
            "{shown}"
        );
        assert_eq!(file(&stage), before, "{shown}");
        stage.done(&["app", "test", "server"]);
    }
    let (code, shown) = at_terminal(&stage.command(&unsure), &["replace", "add", "no"], |_| {});
    assert_eq!(code, 0, "{shown}");
    let after = file(&stage);
    assert_eq!(after.matches("[app.server]").count(), 1, "{after}");
    assert!(
        after.starts_with(OWN) && after.contains("@test/server@1.0.0"),
        "{after}"
    );
    assert!(after.contains("[app.server.tools.send]"), "{after}");
    // One that does not start leaves all as it was.
    stage.publish("2.0.0", "dead", json!({}));
    stage.refused(&add(&["--replace"], "@test/server@2.0.0"), "did not start");
    assert_eq!(file(&stage), after);
    assert_eq!(stage.tools("server"), ["look", "send"]);
}

#[test]
fn a_second_import_changes_nothing_and_succeeds() {
    let stage = trusted();
    let package = |version: &str| json!({ "command": "npx", "args": ["-y", format!("@test/server{version}")] });
    servers(
        &stage,
        &json!({ "one": package(""), "two": package("@1.0.0") }),
    );
    let import = ["app", "import", "mcp.json"];
    // Without a terminal nothing is written unless the user says so.
    assert_eq!(stage.sluice(&import).status.code(), Some(3));
    assert_eq!(file(&stage), OWN);
    let write = [&import[..], &["--write"]].concat();
    stage.done(&write);
    let written = file(&stage);
    assert!(
        written.contains("[app.one]") && written.contains("[app.two]"),
        "{written}"
    );
    let again = stage.done(&import);
    for name in ["one", "two"] {
        assert!(
            again.contains(&format!("{name} is already installed\n")),
            "{again}"
        );
    }
    assert!(
        !again.contains("fetching") && file(&stage) == written,
        "{again}"
    );
    // Another command of the same name is another app.
    servers(
        &stage,
        &json!({ "one": package("@1.0.0"), "two": package("@1.0.0") }),
    );
    stage.refused(&write, "--replace");
    assert_eq!(file(&stage), written);
    stage.done(&[&write[..], &["--replace"]].concat());
    assert_eq!(file(&stage).matches("@test/server@1.0.0").count(), 2);
}

#[test]
fn what_a_session_has_installed_is_written_without_a_second_fetch() {
    let stage = Stage::new();
    stage.publish("1.0.0", "look", json!({}));
    super::session(&stage, &["-y", "@test/server"], &["--yes"]);
    let said = stage.done(&["app", "import", "mcp.json", "--write"]);
    assert!(!said.contains("fetching"), "{said}");
    assert_eq!(stage.tools("server"), ["look"]);
}

#[test]
fn a_missing_variable_is_noticed_before_the_fetch_and_hinders_no_other() {
    let stage = Stage::new();
    stage.publish("1.0.0", "look", json!({}));
    let npx = |more: &[&str], env| {
        let arguments = [&["-y", "@test/server"] as &[&str], more].concat();
        json!({ "command": "npx", "args": arguments, "env": env })
    };
    servers(
        &stage,
        &json!({
            "inside": npx(&["--mode=${UNSET_MODE}"], json!({})),
            "keyed": npx(&[], json!({ "API_KEY": "${API_KEY}" })),
            "secret": npx(&["--key", "${SOME_TOKEN}"], json!({})),
            "tools": npx(&["${TOOLS_FILE}"], json!({})),
        }),
    );
    fs::write(stage.path("home/papers/names"), "found").unwrap();
    let mut import = stage.command(&["app", "import", "mcp.json", "--write"]);
    import
        .env("TOOLS_FILE", stage.path("home/papers/names"))
        .env("SOME_TOKEN", "do-not-copy");
    let output = import.output().unwrap();
    let said = words(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for line in [
        "inside is left out: its command needs the variable UNSET_MODE, which is not set; export it",
        "keyed is left out: it needs the variable API_KEY, which is not set; export it",
        "secret is left out: the variable SOME_TOKEN in its command looks like a secret",
        "tools starts, with found",
    ] {
        assert!(said.contains(line), "no {line} in {said}");
    }
    assert_eq!(said.matches("fetching").count(), 1, "{said}");
    let config = fs::read_to_string(stage.path("config/sluice/sluice.toml")).unwrap();
    assert!(!said.contains("do-not-copy") && !config.contains("do-not-copy"));
}

#[test]
fn files_of_several_programs_are_imported_with_their_variables() {
    let stage = Stage::new();
    stage.publish("1.0.0", "look", json!({}));
    for (file, text) in [
        (
            "opencode.jsonc",
            r#"{ // mine
                "mcp": {"open": {"type": "local", "command": ["npx", "-y", "@test/server"], "environment": {"X": "{env:MY_TOKEN}"}, "timeout": 120000},
                        "gone": {"type": "local", "command": ["x"], "enabled": false},},}"#,
        ),
        (
            "config.yaml",
            "extensions:\n  goose:\n    cmd: npx\n    args: [-y, '@test/server']\n    type: stdio\n    envs: {MODE: fast}\n  dev: {type: builtin, enabled: true}\n",
        ),
        (
            "config.toml",
            "[mcp_servers.codex]\ncommand = 'npx'\nargs = ['-y', '@test/server']\nenv_vars = ['MY_TOKEN']\nenabled_tools = ['look']\n",
        ),
    ] {
        fs::write(stage.path("home").join(file), text).unwrap();
        let mut import = stage.command(&["app", "import", file, "--write"]);
        let output = import.env("MY_TOKEN", "hush-4711").output().unwrap();
        let said = words(&output);
        assert!(output.status.success(), "{said}");
        if file == "opencode.jsonc" {
            assert!(said.contains("gone is left out: it is disabled"), "{said}");
            // Without the variable that X takes its value from, nothing starts.
            let again = [&["app", "import", file, "--write", "--replace"][..]].concat();
            stage.refused(
                &again,
                "it needs the variable MY_TOKEN, which is not set; export it and try again",
            );
        }
    }
    let written = fs::read_to_string(stage.path("config/sluice/sluice.toml")).unwrap();
    for line in [
        "env_from = [\"X=${MY_TOKEN}\"]\nlimits.call_timeout_s = 120\n",
        "env = { \"MODE\" = \"fast\" }",
        "only_tools = [\"look\"]\nenv_from = [\"MY_TOKEN\"]",
    ] {
        assert!(written.contains(line), "no {line} in {written}");
    }
    assert!(!written.contains("hush-4711"));
}
