//! What `sluice gateway` costs: a list of ten servers, a call beside one without it, and what many calls leave behind.
//! `cargo bench -p sluice --bench gateway`.
//!
//! The server is a Node program that answers at once, the same with and without the gateway. Calls go one after the other.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking, and prints"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const SERVER: &str = include_str!("../tests/it/gateway/server.js");
const APPS: usize = 10;
/// Calls of each kind: enough for a 99th percentile.
const CALLS: usize = 2_000;
/// Calls before and between the two looks at what is left behind.
const MANY: usize = 10_000;

struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        let mut client = Self {
            child,
            input,
            output,
        };
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
        client.ask("initialize", &params);
        client
    }

    /// Sends a request, and reads its answer.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(self.input, "{request}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn call(&mut self, tool: &str) {
        let params = json!({ "name": tool, "arguments": { "text": "hello" } });
        let answer = self.ask("tools/call", &params);
        assert!(answer["result"]["content"].is_array(), "{answer}");
    }

    fn times(&mut self, tool: &str) -> Vec<Duration> {
        let mut times: Vec<Duration> = (0..CALLS)
            .map(|_| {
                let begun = Instant::now();
                self.call(tool);
                begun.elapsed()
            })
            .collect();
        times.sort();
        times
    }

    /// Kilobytes of memory, and the counts of open files and of processes.
    fn holds(&self) -> [usize; 3] {
        let own = format!("/proc/{}", self.child.id());
        let status = fs::read_to_string(format!("{own}/status")).unwrap();
        let memory = status.lines().find(|line| line.starts_with("VmRSS"));
        let memory = memory.unwrap().split_whitespace().nth(1).unwrap();
        let files = fs::read_dir(format!("{own}/fd")).unwrap().count();
        let tasks = fs::read_dir(format!("{own}/task")).unwrap();
        let children = tasks.map(|task| {
            let children = fs::read_to_string(task.unwrap().path().join("children"));
            children.unwrap_or_default().split_whitespace().count()
        });
        [memory.parse().unwrap(), files, children.sum()]
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The gateway with everything that is the user's in this folder.
fn gateway(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command
        .arg("gateway")
        .current_dir(home)
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_DATA_HOME", home.join("data"))
        .env("XDG_STATE_HOME", home.join("state"));
    command
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn main() {
    let home = tempfile::tempdir().unwrap();
    let server = home.path().join("server.js");
    fs::write(&server, SERVER).unwrap();
    fs::create_dir_all(home.path().join("config/sluice")).unwrap();
    let app = |number| {
        format!(
            "[app.a{number}]\ncommand = [\"node\", {server:?}]\ndescriptions = \"trusted\"\n\
             [app.a{number}.tools]\necho = {{ effect = \"read\", limit = \"any\" }}\n"
        )
    };
    let config: String = (0..APPS).map(app).collect();
    fs::write(home.path().join("config/sluice/sluice.toml"), config).unwrap();

    // The lists of the first start are kept.
    drop(Client::start(&mut gateway(home.path())));
    let begun = Instant::now();
    let mut client = Client::start(&mut gateway(home.path()));
    let started = begun.elapsed();
    let begun = Instant::now();
    let list = client.ask("tools/list", &json!({}));
    let listed = begun.elapsed();
    let tools = list["result"]["tools"].as_array().unwrap().len();
    println!(
        "start with {APPS} servers {:.1} ms; tools/list ({tools} tools) {:.2} ms",
        ms(started),
        ms(listed)
    );

    let mut direct = Client::start(Command::new("node").arg(&server));
    let (direct, through) = (direct.times("echo"), client.times("a0_echo"));
    println!("{:10}{:>9}{:>9}   (ms, {CALLS} calls)", "", "median", "p99");
    for (name, times) in [("direct", &direct), ("gateway", &through)] {
        let at = |part: usize| ms(times[CALLS * part / 100]);
        println!("{name:10}{:>9.3}{:>9.3}", at(50), at(99));
    }
    for _ in 0..2 {
        (0..MANY).for_each(|_| client.call("a0_echo"));
        let [memory, files, children] = client.holds();
        let traces = fs::read_dir(home.path().join("state/sluice/traces")).unwrap();
        let bytes: u64 = traces
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        println!(
            "after {MANY} calls: {memory} kB, {files} files, {children} processes, traces of {bytes} bytes"
        );
    }
}
