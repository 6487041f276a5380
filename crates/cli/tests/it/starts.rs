//! An `mcpServers` file as other programs have it: its servers start as they are, in the real sandbox.
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

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

struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    /// A home with a server in a package of its own, run by an interpreter in another place, both reached by links.
    fn new() -> Self {
        let stage = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for name in [
            "home/.ssh",
            "home/papers",
            "home/bin",
            "home/tools/v1/bin",
            "home/node_modules/server",
        ] {
            fs::create_dir_all(stage.path(name)).unwrap();
        }
        fs::copy("/bin/sh", stage.path("home/tools/v1/bin/own-shell")).unwrap();
        symlink("v1", stage.path("home/tools/current")).unwrap();
        let server = stage.path("home/node_modules/server/main");
        fs::write(&server, SERVER).unwrap();
        fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(
            stage.path("home/node_modules/server/name.sh"),
            "name=package\n",
        )
        .unwrap();
        symlink(&server, stage.path("home/bin/server")).unwrap();
        fs::write(stage.path("home/papers/a.txt"), "a").unwrap();
        fs::write(stage.path("home/.ssh/id_rsa"), "key").unwrap();
        symlink(".ssh/id_rsa", stage.path("home/paper")).unwrap();
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// What `sluice doctor --start` says of these servers.
    fn start(&self, servers: &Value) -> (Output, Vec<Value>) {
        let file = self.path("home/mcp.json");
        fs::write(&file, json!({ "mcpServers": servers }).to_string()).unwrap();
        let path = format!(
            "{}:{}:/usr/bin:/bin",
            self.path("home/bin").display(),
            self.path("home/tools/current/bin").display()
        );
        let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(["doctor", "--start", "--json", "--config"])
            .arg(&file)
            .current_dir(self.path("home"))
            .env("HOME", self.path("home"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("PATH", path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let findings = said.lines().map(|line| serde_json::from_str(line).unwrap());
        let findings = findings
            .filter(|finding: &Value| finding["subject"].as_str().unwrap().starts_with("app "));
        (output, findings.collect())
    }
}

#[test]
fn a_server_starts_unchanged_with_what_its_command_takes_and_no_more() {
    let stage = Stage::new();
    let papers = stage.path("home/papers/a.txt");
    let (output, findings) = stage.start(&json!({
        "named": { "command": "server", "args": ["x", papers] },
        "unnamed": { "command": stage.path("home/bin/server"), "args": ["papers", "../papers/a.txt"] },
    }));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
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
        stage.path("home/node_modules"),
        stage.path("home/tools/v1/bin/own-shell"),
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
    let stage = Stage::new();
    let (output, findings) = stage.start(&json!({
        "fetched": { "command": "npx", "args": ["-y", "@scope/server", "/tmp"] },
        "gone": { "command": "no-such-program" },
        "key": { "command": "server", "args": ["x", stage.path("home/paper")] },
        "server": { "command": "server" },
    }));
    assert!(!output.status.success());
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
