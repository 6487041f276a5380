//! An `mcpServers` file as other programs have it: its servers start as they are, in the real sandbox.
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::home::{Home, said};

/// An MCP server with one tool. It says in the tool's name whether it sees the file that its second argument names.
const SERVER: &str = r#"#!/usr/bin/env own-shell
. "${0%/*}/name.sh"
if [ -e "$2" ]; then seen=sees; else seen=misses; fi
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"%s_%s","inputSchema":{"type":"object"}}]}}\n' "$id" "$name" "$seen" ;;
  esac
done
"#;

/// A home with a server in a package of its own, run by an interpreter in another place, both reached by links.
fn home() -> Home {
    let home = Home::new();
    for name in [
        "home/.ssh",
        "home/papers",
        "home/bin",
        "home/tools/v1/bin",
        "home/node_modules/server",
    ] {
        fs::create_dir_all(home.path(name)).unwrap();
    }
    fs::copy("/bin/sh", home.path("home/tools/v1/bin/own-shell")).unwrap();
    symlink("v1", home.path("home/tools/current")).unwrap();
    let server = home.path("home/node_modules/server/main");
    for (name, text) in [
        ("home/node_modules/server/main", SERVER),
        ("home/node_modules/server/name.sh", "name=package\n"),
        ("home/papers/a.txt", "a"),
        ("home/.ssh/id_rsa", "key"),
    ] {
        fs::write(home.path(name), text).unwrap();
    }
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(&server, home.path("home/bin/server")).unwrap();
    symlink(".ssh/id_rsa", home.path("home/paper")).unwrap();
    home
}

/// What `sluice doctor --start` finds of these servers, and what it says beside that.
fn start(home: &Home, servers: &Value) -> (i32, String, Vec<Value>) {
    let file = home.path("home/mcp.json");
    fs::write(&file, json!({ "mcpServers": servers }).to_string()).unwrap();
    let path = format!(
        "{}:{}:/usr/bin:/bin",
        home.path("home/bin").display(),
        home.path("home/tools/current/bin").display()
    );
    let mut doctor = home.sluice(&["doctor", "--start", "--json", "--config", "mcp.json"]);
    let (code, found, said) = said(&doctor.env("PATH", path).output().unwrap());
    let findings = found
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let is_app = |finding: &Value| finding["subject"].as_str().unwrap().starts_with("app ");
    (code, said, findings.filter(is_app).collect())
}

#[test]
fn a_server_starts_unchanged_with_what_its_command_takes_and_no_more() {
    let home = home();
    let papers = home.path("home/papers/a.txt");
    let (_, said, findings) = start(
        &home,
        &json!({
            "named": { "command": "server", "args": ["x", papers] },
            "unnamed": { "command": home.path("home/bin/server"), "args": ["papers", "../papers/a.txt"] },
        }),
    );
    let details: Vec<_> = findings
        .iter()
        .map(|finding| finding["detail"].as_str().unwrap())
        .collect();
    let expected = [
        "starts, with 1 tool: package_sees",
        "starts, with 1 tool: package_misses",
    ];
    assert_eq!(details, expected, "{said}");
    // Each app has its line.
    let (modules, shell) = (
        home.path("home/node_modules"),
        home.path("home/tools/v1/bin/own-shell"),
    );
    let begin = format!("named: runs {}, {}", modules.display(), shell.display());
    let end = format!("; reads {}", papers.display());
    let mut lines = said.lines();
    assert!(
        lines.any(|line| line.starts_with(&begin) && line.ends_with(&end)),
        "{said}"
    );
}

#[test]
fn what_cannot_start_says_what_is_missing_and_hinders_no_other() {
    let home = home();
    let (code, _, findings) = start(
        &home,
        &json!({
            "fetched": { "command": "npx", "args": ["-y", "@scope/server", "/tmp"] },
            "gone": { "command": "no-such-program" },
            "key": { "command": "server", "args": ["x", home.path("home/paper")] },
            "server": { "command": "server" },
        }),
    );
    assert_eq!(code, 1);
    let detail = |app: &str| {
        let subject = format!("app {app}");
        let finding = findings
            .iter()
            .find(|finding| finding["subject"] == *subject);
        finding.unwrap()["detail"].as_str().unwrap().to_owned()
    };
    assert!(detail("fetched").contains("`sluice app add fetched -- npx -y @scope/server /tmp`"));
    assert!(detail("gone").contains("there is no program 'no-such-program' in PATH"));
    assert!(detail("key").contains("keys are kept in '.ssh'"));
    assert!(detail("server").starts_with("starts, with 1 tool"));
}
