//! `sluice init` and `sluice undo`, with servers in the real sandbox.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::home::{Home, said};
use crate::terminal::at_terminal;

const SERVER: &str = include_str!("gateway/server.js");
const CODEX: &str =
    "# mine\nmodel = \"m\"\n\n[mcp_servers.mail]\ncommand = \"node\"\nargs = [\"{}\"] # here\n";

/// A home with Claude Code and Codex. Claude's file has a server that does not start, one with a secret and one of a project.
fn home() -> Home {
    let home = Home::new();
    fs::write(home.path("home/server.js"), SERVER).unwrap();
    for folder in ["home/.claude", "home/.codex", "home/project"] {
        fs::create_dir_all(home.path(folder)).unwrap();
    }
    let server = home.path("home/server.js");
    let server = server.to_str().unwrap();
    let project = home.path("home/project");
    let claude = json!({
        "numStartups": 3,
        "mcpServers": {
            "mail": { "type": "stdio", "command": "node", "args": [server], "env": { "API_KEY": "hush-1234567890abcdef" } },
            "dead": { "command": "/bin/false" },
            "off": { "command": "/bin/false", "disabled": true },
        },
        "projects": { project.to_str().unwrap(): { "mcpServers": { "db": { "command": "node", "args": [server, "db"] } } } },
    });
    fs::write(
        home.path("home/.claude.json"),
        serde_json::to_string_pretty(&claude).unwrap(),
    )
    .unwrap();
    fs::write(
        home.path("home/.codex/config.toml"),
        CODEX.replace("{}", server),
    )
    .unwrap();
    home
}

fn text(home: &Home, name: &str) -> String {
    fs::read_to_string(home.path(name)).unwrap()
}

/// The files of the clients, and Sluice's configuration if there is one.
fn files(home: &Home) -> [Option<String>; 3] {
    [
        "home/.claude.json",
        "home/.codex/config.toml",
        "config/sluice/sluice.toml",
    ]
    .map(|name| fs::read_to_string(home.path(name)).ok())
}

fn servers(home: &Home) -> Value {
    let claude: Value = serde_json::from_str(&text(home, "home/.claude.json")).unwrap();
    claude["mcpServers"].clone()
}

#[test]
fn servers_go_behind_the_gateway_and_come_back() {
    let home = home();
    let before = files(&home);
    let (code, out, err) = home.run(&["init", "--dry-run"]);
    assert_eq!(code, 0, "{err}");
    for part in [
        "off                  disabled: it is disabled",
        "-    \"mail\": {",
        "+[mcp_servers.sluice]",
        "+    \"sluice\": {",
        "[app.db]",
    ] {
        assert!(out.contains(part), "{part} is not in {out}");
    }
    let (code, _, err) = home.run(&["init"]);
    assert!(code == 1 && err.contains("add --yes with --all"), "{err}");
    assert_eq!(files(&home), before);
    let (code, _, err) = home.run(&["init", "--all", "--yes"]);
    assert!(
        code == 1 && err.contains("dead is left alone: the app dead did not start"),
        "{err}"
    );
    let sluice = env!("CARGO_BIN_EXE_sluice");
    let config = home.path("config/sluice/sluice.toml");
    let now = servers(&home);
    let entry = json!({ "type": "stdio", "command": sluice, "args": ["gateway", "--config", config, "--app", "mail"],
        "env": { "SLUICE_MAIL_API_KEY": "hush-1234567890abcdef" } });
    assert_eq!(now["sluice"], entry);
    assert_eq!(
        now.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["dead", "off", "sluice"]
    );
    let codex = text(&home, "home/.codex/config.toml");
    assert!(
        codex.starts_with("# mine\nmodel = \"m\"\n\n[mcp_servers.sluice]\n")
            && codex.contains("tool_timeout_sec = 1200"),
        "{codex}"
    );
    // The same command with other variables is another app.
    assert!(codex.contains("\"mail-codex\""), "{codex}");
    let own = text(&home, "config/sluice/sluice.toml");
    assert!(
        own.contains("API_KEY=${SLUICE_MAIL_API_KEY}") && !own.contains("hush"),
        "{own}"
    );
    // The client can use it: the server gets its variable.
    let mut gateway = Command::new(sluice);
    let arguments = entry["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap());
    let environment = home.sluice(&[]);
    gateway.args(arguments).current_dir(home.path("home"));
    gateway.envs(
        environment
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    gateway
        .env("SLUICE_MAIL_API_KEY", "hush-1234567890abcdef")
        .stdin(Stdio::null());
    let (code, _, err) = said(&gateway.output().unwrap());
    assert!(code == 0 && err.contains("trace:"), "{err}");
    // Again: nothing is new but the server that does not start.
    let after = files(&home);
    let (_, _, err) = home.run(&["init", "--all", "--yes"]);
    assert!(err.contains("nothing was changed"), "{err}");
    assert_eq!(files(&home), after);
    let (code, out, _) = home.run(&["undo", "--list"]);
    assert!(
        code == 0 && out.contains("codex ") && out.contains("mail-codex"),
        "{out}"
    );
    let (code, _, err) = home.run(&["undo"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(files(&home), before);
    let (code, _, err) = home.run(&["undo"]);
    assert!(code == 0 && err.contains("nothing to undo"), "{err}");
}

#[test]
fn a_second_run_takes_what_is_new_and_each_is_undone_alone() {
    let home = home();
    let codex = ["init", "--client", "codex", "--yes"];
    let before = files(&home);
    let (code, _, err) = home.run(&codex);
    assert_eq!(code, 0, "{err}");
    let first = files(&home);
    // The user adds a server and writes a rule for the first one.
    let server = home.path("home/server.js");
    let file = home.path("home/.codex/config.toml");
    let more = text(&home, "home/.codex/config.toml")
        + &format!("[mcp_servers.more]\ncommand = \"node\"\nargs = [{server:?}, \"more\"]\n");
    fs::write(&file, &more).unwrap();
    let (code, _, err) = home.run(&codex);
    assert!(
        code == 0 && err.contains("behind Sluice now: more"),
        "{err}"
    );
    assert!(!text(&home, "home/.codex/config.toml").contains("more"));
    home.run(&["undo"]);
    assert_eq!(text(&home, "home/.codex/config.toml"), more);
    fs::write(&file, first[1].as_ref().unwrap()).unwrap();
    let own = text(&home, "config/sluice/sluice.toml")
        + "[app.mail.tools.inbox]\neffect = \"read\"\nlimit = \"any\"\n";
    fs::write(home.path("config/sluice/sluice.toml"), &own).unwrap();
    let (code, _, err) = home.run(&["undo", "--client", "codex"]);
    assert!(
        code == 0 && err.contains("the app mail was changed since and stays"),
        "{err}"
    );
    assert_eq!(files(&home)[1], before[1]);
    assert_eq!(text(&home, "config/sluice/sluice.toml"), own);
}

#[test]
fn a_wrapped_server_keeps_its_entry() {
    let home = home();
    let before = files(&home);
    let (code, _, err) = home.run(&[
        "init",
        "--wrap",
        "--client",
        "claude-code",
        "--scope",
        "user",
        "--yes",
    ]);
    assert_eq!(code, 0, "{err}");
    let now = servers(&home);
    let mail = &now["mail"];
    let server = home.path("home/server.js");
    assert_eq!(mail["command"], env!("CARGO_BIN_EXE_sluice"));
    assert_eq!(
        mail["args"],
        json!([
            "wrap",
            "--name",
            "mail",
            "--yes",
            "--env-from",
            "API_KEY",
            "--",
            "node",
            server
        ])
    );
    assert_eq!(
        (&mail["type"], &mail["env"]["API_KEY"]),
        (&json!("stdio"), &json!("hush-1234567890abcdef"))
    );
    assert_eq!(
        now["off"],
        json!({ "command": "/bin/false", "disabled": true })
    );
    assert_eq!(
        (files(&home)[1].clone(), files(&home)[2].clone()),
        (before[1].clone(), None)
    );
    home.run(&["undo"]);
    assert_eq!(files(&home), before);
}

#[test]
fn the_user_is_asked_about_each_client() {
    let home = home();
    let before = files(&home);
    let command = home.sluice(&["init", "--wrap"]);
    let (code, screen) = at_terminal(&command, &["no", "yes"], |_| {});
    assert!(
        code == 0 && screen.contains("between Codex and the servers"),
        "{screen}"
    );
    let now = files(&home);
    assert_eq!(now[0], before[0]);
    assert!(now[1].as_ref().unwrap().contains("\"wrap\""), "{screen}");
    // An entry that the user has changed since is asked about too.
    let changed = now[1].clone().unwrap().replace("\"--yes\", ", "");
    fs::write(home.path("home/.codex/config.toml"), changed).unwrap();
    let (code, screen) = at_terminal(&home.sluice(&["undo"]), &["remove"], |_| {});
    assert!(code == 0, "{screen}");
    let codex: toml::Table = toml::from_str(&text(&home, "home/.codex/config.toml")).unwrap();
    let old: toml::Table = toml::from_str(before[1].as_ref().unwrap()).unwrap();
    assert_eq!(codex, old);
}
