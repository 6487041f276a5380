//! Real servers, unmodified from the user's registries, do a job each when they are added by the command that their
//! pages name: a person at a terminal adds them, asks for the job, and answers what Sluice asks. The browser among them is
//! Lightpanda: Chromium (`@playwright/mcp`) makes Unix sockets and shares memory between processes, which no spoke may.
//!
//! Some 400 MB are fetched once, with `SLUICE_REAL_SERVERS=1`, and kept in the user's cache folder. Where they are not, a test
//! says that it did nothing.
//!
//! `desk` tries `sluice desk` in the system's Chromium.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod catalog;
mod conformance;
mod desk;
mod host;
mod node;
mod plain;
mod registry;
mod services;
mod stage;
mod suite;

use std::fs;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::registry::{Mode, Registry};
use crate::stage::Stage;

/// A server, and a job for it.
struct Server {
    name: &'static str,
    /// How it is added, and its command after `--`.
    add: &'static str,
    /// What the model is to call, in turn. Words in capital letters are places of the stage.
    job: &'static str,
    /// What must be seen of it.
    seen: fn(&Stage, answer: &str) -> bool,
}

const SERVERS: [Server; 12] = [
    Server {
        name: "files",
        add: "-- npx -y @modelcontextprotocol/server-filesystem PAPERS",
        job: r#"read_text_file {"path": "PAPERS/heron.txt"}"#,
        seen: |_, answer| answer.contains("the bird stands in the reeds"),
    },
    Server {
        name: "memory",
        // It would write beside its program, which nobody may.
        add: "--write KEPT --env MEMORY_FILE_PATH=KEPT/graph.jsonl -- npx -y @modelcontextprotocol/server-memory",
        job: r#"create_entities {"entities": [{"name": "Heron", "entityType": "bird", "observations": ["stands in the reeds"]}]}
                open_nodes {"names": ["Heron"]}"#,
        seen: |stage, answer| {
            let kept = fs::read_to_string(stage.path("kept/graph.jsonl")).unwrap_or_default();
            answer.contains("stands in the reeds") && kept.contains("stands in the reeds")
        },
    },
    Server {
        name: "everything",
        add: "-- npx -y @modelcontextprotocol/server-everything",
        job: r#"get-sum {"a": 19, "b": 23}"#,
        seen: |_, answer| answer.contains("42"),
    },
    Server {
        name: "thinking",
        add: "-- npx -y @modelcontextprotocol/server-sequential-thinking",
        job: r#"sequentialthinking {"thought": "first", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1}"#,
        seen: |_, answer| answer.contains(r#""thoughtHistoryLength": 1"#),
    },
    Server {
        name: "time",
        add: "-- uvx mcp-server-time --local-timezone UTC",
        job: r#"convert_time {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}"#,
        seen: |_, answer| answer.contains("T21:00:00+09:00"),
    },
    Server {
        name: "git",
        add: "-- uvx mcp-server-git --repository REPOSITORY",
        job: r#"git_log {"repo_path": "REPOSITORY"}"#,
        seen: |_, answer| answer.contains("the first commit"),
    },
    Server {
        name: "fetch",
        add: "--env SSL_CERT_FILE=CERTIFICATE -- uvx mcp-server-fetch",
        job: r#"fetch {"url": "https://pages.example.test:PORT/heron"}"#,
        seen: |stage, answer| {
            answer.contains("a page about herons") && stage.host.was_asked("/heron")
        },
    },
    Server {
        name: "sqlite",
        // Without the first two words it does not start anywhere: it was written for an earlier SDK, and does not say so.
        add: "--write KEPT -- uvx --with mcp<2 mcp-server-sqlite --db-path KEPT/db.sqlite",
        job: r#"create_table {"query": "CREATE TABLE birds (name TEXT)"}
                write_query {"query": "INSERT INTO birds VALUES ('grey heron')"}
                read_query {"query": "SELECT * FROM birds"}"#,
        seen: |_, answer| answer.contains("grey heron"),
    },
    Server {
        name: "context",
        add: "--env CONTEXT7_API_URL=https://pages.example.test:PORT/api --env NODE_EXTRA_CA_CERTS=CERTIFICATE -- npx -y @upstash/context7-mcp",
        job: r#"resolve-library-id {"query": "how herons fish", "libraryName": "heron"}"#,
        seen: |stage, answer| {
            answer.contains("/birds/heron") && stage.host.was_asked("/api/v2/libs/search")
        },
    },
    Server {
        name: "notion",
        add: "--env BASE_URL=https://pages.example.test:PORT --env NODE_EXTRA_CA_CERTS=CERTIFICATE --env NOTION_TOKEN=none -- npx -y @notionhq/notion-mcp-server",
        job: "API-get-self {}",
        seen: |stage, answer| {
            answer.contains("a bot of herons") && stage.host.was_asked("/v1/users/me")
        },
    },
    Server {
        name: "browser",
        // It would believe the certificates of this machine alone.
        add: "-- uvx lightpanda mcp --ca-cert CERTIFICATE",
        job: r#"goto {"url": "https://pages.example.test:PORT/grown"}
                markdown {}"#,
        seen: |stage, answer| {
            answer.contains("written by its own script") && stage.host.was_asked("/grown")
        },
    },
    Server {
        name: "calculator",
        add: "-- uvx mcp-server-calculator",
        job: r#"calculate {"expression": "6 * 7"}"#,
        seen: |_, answer| answer.contains("42"),
    },
];

const LOCK: &str = include_str!("lock.txt");
const HEAD: &str = "server       added s  start ms   job s  job\n";
/// Servers at a time: each waits for a package manager most of its time.
const AT_ONCE: usize = 4;

#[test]
fn real_servers_are_added_by_the_command_that_their_pages_name_and_do_a_job() {
    let mode = match Mode::of(LOCK) {
        Ok(mode) => mode,
        Err(reason) => return say(&format!("{reason}\n")),
    };
    // For somebody who mends one of them.
    let only = std::env::var("SLUICE_REAL_SERVER").ok();
    let node = node::supported(mode);
    let registry = Registry::start(mode, LOCK);
    let wanted = |server: &&Server| only.as_deref().is_none_or(|only| only == server.name);
    let queue = Mutex::new(SERVERS.iter().filter(wanted));
    let (table, failed) = (Mutex::new(HEAD.to_owned()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(server) = { queue.lock().unwrap().next() } {
                    let mut stage = Stage::new(registry.clone());
                    if let Some(folder) = &node {
                        stage.prefer(&node::program(folder.path()));
                    }
                    let (line, reason) = try_out(&stage, server);
                    table.lock().unwrap().push_str(&line);
                    failed.lock().unwrap().extend(reason);
                }
            });
        }
    });
    let (table, mut failed) = (table.into_inner().unwrap(), failed.into_inner().unwrap());
    if only.is_none() && failed.is_empty() {
        registry.done(LOCK, "lock.txt");
    }
    // Package managers also ask for what is optional, and do without.
    let missing = registry.missing();
    if !failed.is_empty() && !missing.is_empty() {
        failed.push(format!(
            "not in the lock, which SLUICE_REAL_SERVERS=lock makes anew: {}",
            missing.join(", ")
        ));
    }
    say(&table);
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Past the capture of the test harness: nobody reads the output of a test that passed.
fn say(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

/// A line of the table, and what went wrong.
fn try_out(stage: &Stage, server: &Server) -> (String, Option<String>) {
    let begun = Instant::now();
    let mut words = vec!["app".to_owned(), "add".to_owned(), server.name.to_owned()];
    words.extend(stage.placed(server.add).split(' ').map(str::to_owned));
    let (code, added) = stage.sluice(&words);
    let fetched = begun.elapsed();
    if code != Some(0) {
        return row(
            server,
            [fetched, Duration::ZERO, Duration::ZERO],
            Some(added),
        );
    }
    stage.allow_the_host(server.name);
    let begun = Instant::now();
    let (code, tools) = stage.sluice(&["app", "test", server.name].map(str::to_owned));
    let started = begun.elapsed();
    if code != Some(0) {
        return row(server, [fetched, started, Duration::ZERO], Some(tools));
    }
    stage.host.forget();
    let begun = Instant::now();
    let query: Vec<&str> = server.job.lines().map(str::trim).collect();
    let run = [
        "run",
        "--app",
        server.name,
        &stage.placed(&query.join(" ; ")),
    ];
    let (_, answer) = stage.sluice(&run.map(str::to_owned));
    let times = [fetched, started, begun.elapsed()];
    let seen = (server.seen)(stage, &answer);
    row(server, times, (!seen).then_some(answer))
}

fn row(server: &Server, times: [Duration; 3], reason: Option<String>) -> (String, Option<String>) {
    let [fetched, started, took] = times;
    let tools: Vec<&str> = server
        .job
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let result = if reason.is_some() { "FAILS" } else { "done" };
    let line = format!(
        "{:<11}{:>9.1}{:>10}{:>8.1}  {} {result}\n",
        server.name,
        fetched.as_secs_f64(),
        started.as_millis(),
        took.as_secs_f64(),
        tools.join(", ")
    );
    (
        line,
        reason.map(|reason| format!("{}: {reason}", server.name)),
    )
}

/// The calls that a query asks for: `TOOL {ARGUMENTS} ; TOOL {ARGUMENTS}`.
fn calls(query: &str) -> Vec<(String, Value)> {
    let calls = query.split(" ; ").filter_map(|call| {
        let (tool, arguments) = call.trim().split_once(' ')?;
        Some((tool.to_owned(), serde_json::from_str(arguments).ok()?))
    });
    calls.collect()
}
