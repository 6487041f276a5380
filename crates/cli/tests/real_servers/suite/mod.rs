//! The official conformance suite of MCP for servers, against `sluice gateway --http` before a plain server that has what the
//! suite looks for. The suite knows neither tokens nor prefixes of tools, so a relay adds both.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::registry::{Mode, Registry};
use crate::{node, say};

const LOCK: &str = include_str!("lock.txt");
const DOCUMENT: &str = include_str!("../../../../../docs/conformance.md");
/// With the sets of what each version of the protocol requires, which the newest release lacks.
const PACKAGES: [&str; 2] = [
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    node::PACKAGE,
];
const EVERYTHING: &str = include_str!("everything.js");
const RELAY: &str = include_str!("relay.js");
const TOKEN: &str = "of-the-suite";
/// The name of the server, and with `_` what the names of its tools begin with.
const APP: &str = "everything";
const TOOLS: [&str; 10] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_logging_tool",
    "test_streaming_elicitation",
    "test_tool_with_progress",
    "json_schema_2020_12_tool",
];
/// What follows the name of a scenario in that of its folder.
const TIME: &str = "-2026-11-27T06-22-11-932Z";
const VERSIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

#[test]
#[ignore = "takes a minute; `cargo xtask servers` runs it"]
fn the_official_suite_for_servers_finds_what_the_documentation_lists() {
    let mode = match Mode::of(LOCK) {
        Ok(mode) => mode,
        Err(reason) => return say(&format!("{reason}\n")),
    };
    if !cfg!(target_arch = "x86_64") {
        return say("NOT RUN: the lock has a Node for x86-64 alone\n");
    }
    let registry = Registry::start(mode, LOCK);
    let folder = node::install(&registry, &PACKAGES);
    let home = tempfile::tempdir().unwrap();
    let (gateway, address) = gateway(&home);
    let port = address.rsplit(':').next().unwrap();
    let mut relay = Command::new(node::program(folder.path()));
    fs::write(home.path().join("relay.js"), RELAY).unwrap();
    relay
        .arg(home.path().join("relay.js"))
        .args([port, TOKEN, &format!("{APP}_")]);
    let mut relay = Running(relay.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let output = relay.0.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    let url = format!("http://127.0.0.1:{}/mcp", line.trim());

    let mut outcomes: BTreeMap<String, [String; 2]> = BTreeMap::new();
    for (at, version) in VERSIONS.into_iter().enumerate() {
        let results = home.path().join(version);
        let suite = folder
            .path()
            .join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
        let mut command = Command::new(node::program(folder.path()));
        command
            .arg(suite)
            .args(["server", "--url", &url, "--requirements", version, "-o"]);
        // It ends with an error if anything fails.
        command.arg(&results).output().unwrap();
        for (scenario, outcome) in read(&results) {
            outcomes.entry(scenario).or_default()[at] = outcome;
        }
    }
    drop((relay, gateway));
    let mut table = String::new();
    for (scenario, [old, new]) in &outcomes {
        // Some are of one version alone.
        let [old, new] = [old, new].map(|it| if it.is_empty() { "–" } else { it });
        table += &format!("| `{scenario}` | {old} | {new} |\n");
    }
    say(&table);
    let missing: Vec<&str> = table
        .lines()
        .filter(|row| !DOCUMENT.contains(row))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/conformance.md lacks:\n{}",
        missing.join("\n")
    );
    registry.done(LOCK, "suite/lock.txt");
}

/// A gateway in this home, and its address.
fn gateway(home: &TempDir) -> (Running, String) {
    let path = |name: &str| home.path().join(name);
    fs::create_dir_all(path("config/sluice")).unwrap();
    fs::write(path("server.js"), EVERYTHING).unwrap();
    let mut config = format!(
        "[app.{APP}]\ncommand = [\"node\", {:?}]\ndescriptions = \"trusted\"\nresources = true\nprompts = true\n[app.{APP}.tools]\n",
        path("server.js")
    );
    let natives = [
        "resources/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
    ];
    for tool in TOOLS.iter().chain(&natives) {
        config += &format!("{tool:?} = {{ effect = \"read\", limit = \"any\" }}\n");
    }
    fs::write(path("config/sluice/sluice.toml"), config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command
        .args(["gateway", "--http", "127.0.0.1:0", "--token-env", "TOKEN"])
        .current_dir(home)
        .envs([("HOME", path("")), ("XDG_CONFIG_HOME", path("config"))])
        .envs([
            ("XDG_DATA_HOME", path("data")),
            ("XDG_STATE_HOME", path("state")),
        ])
        .env("TOKEN", TOKEN)
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let line = lines
        .find(|line| line.starts_with("serving MCP at http://"))
        .unwrap();
    // So that the gateway can go on writing.
    std::thread::spawn(move || lines.for_each(drop));
    let address = line.trim_start_matches("serving MCP at http://");
    (Running(child), address.trim_end_matches("/mcp").to_owned())
}

/// What the suite found, by scenario: how many checks it made, and those that failed.
fn read(results: &Path) -> BTreeMap<String, String> {
    let mut outcomes = BTreeMap::new();
    for folder in fs::read_dir(results).unwrap() {
        let folder = folder.unwrap().path();
        let text = fs::read_to_string(folder.join("checks.json")).unwrap();
        let checks: Vec<Value> = serde_json::from_str(&text).unwrap();
        let of = |status: &str| -> Vec<&Value> {
            checks
                .iter()
                .filter(|check| check["status"] == status)
                .collect()
        };
        let mut failed: Vec<&str> = of("FAILURE")
            .iter()
            .filter_map(|it| it["id"].as_str())
            .collect();
        failed.dedup();
        let outcome = match failed.len() {
            0 => format!("passed ({})", of("SUCCESS").len()),
            count => format!("{count} of {} failed", count + of("SUCCESS").len()),
        };
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let name = name.strip_prefix("server-").unwrap();
        outcomes.insert(name[..name.len() - TIME.len()].to_owned(), outcome);
    }
    outcomes
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
