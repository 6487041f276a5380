//! Real servers, unmodified from the user's registries, start when they are added by the command that their pages name.
//!
//! They are fetched, so `cargo xtask nightly` runs this: `SLUICE_REAL_SERVERS=1`. Without it the test says that it did nothing.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Name, command, and a tool that it must have.
const SERVERS: [(&str, &str, &str); 10] = [
    (
        "files",
        "npx -y @modelcontextprotocol/server-filesystem PAPERS",
        "read_text_file",
    ),
    (
        "memory",
        "npx -y @modelcontextprotocol/server-memory",
        "read_graph",
    ),
    (
        "everything",
        "npx -y @modelcontextprotocol/server-everything",
        "echo",
    ),
    (
        "thinking",
        "npx -y @modelcontextprotocol/server-sequential-thinking",
        "sequentialthinking",
    ),
    (
        "time",
        "uvx mcp-server-time --local-timezone UTC",
        "get_current_time",
    ),
    (
        "git",
        "uvx mcp-server-git --repository REPOSITORY",
        "git_status",
    ),
    ("fetch", "uvx mcp-server-fetch", "fetch"),
    (
        "sqlite",
        "uvx --with mcp<2 mcp-server-sqlite --db-path /tmp/db.sqlite",
        "read_query",
    ),
    (
        "browser",
        "npx -y @playwright/mcp@latest",
        "browser_navigate",
    ),
    (
        "context",
        "npx -y @upstash/context7-mcp",
        "resolve-library-id",
    ),
];

#[test]
fn real_servers_are_added_by_the_command_that_their_pages_name() {
    if std::env::var_os("SLUICE_REAL_SERVERS").is_none() {
        eprintln!(
            "NOT RUN: SLUICE_REAL_SERVERS=1 fetches {} servers from your registries",
            SERVERS.len()
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (papers, repository) = (
        folder.path().join("papers"),
        folder.path().join("repository"),
    );
    fs::create_dir(&papers).unwrap();
    fs::write(papers.join("a.txt"), "a word").unwrap();
    assert!(
        Command::new("git")
            .args(["init", "-q"])
            .arg(&repository)
            .status()
            .unwrap()
            .success()
    );
    let mut failed = Vec::new();
    for (name, command, tool) in SERVERS {
        let begun = std::time::Instant::now();
        let command = command
            .replace("PAPERS", papers.to_str().unwrap())
            .replace("REPOSITORY", repository.to_str().unwrap());
        let mut words = vec!["app", "add", name, "--yes", "--"];
        words.extend(command.split(' '));
        let added = sluice(folder.path(), &words);
        let tools = sluice(folder.path(), &["app", "tools", name]);
        let has = String::from_utf8_lossy(&tools.stdout).contains(tool);
        eprintln!(
            "{name:<12} {} in {} s",
            if has { "starts" } else { "FAILS" },
            begun.elapsed().as_secs()
        );
        if !has {
            failed.push(format!(
                "{name}: {}",
                String::from_utf8_lossy(&added.stderr)
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn sluice(folder: &Path, arguments: &[&str]) -> Output {
    let at = |name: &str| -> PathBuf { folder.join(name) };
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("SLUICE_CONFIG");
    command
        .env("XDG_DATA_HOME", at("data"))
        .env("XDG_CONFIG_HOME", at("config"))
        .env("XDG_STATE_HOME", at("state"));
    command.output().unwrap()
}
