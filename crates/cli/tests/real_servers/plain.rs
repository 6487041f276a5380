//! A plain client: it starts a server as it is, with everything that the user has, and asks it in MCP's own words.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::registry::Registry;

/// Longest that an answer takes: the first one waits for the launcher to fetch a large package.
const PATIENCE: Duration = Duration::from_secs(420);

pub(crate) struct Plain {
    child: Child,
    input: ChildStdin,
    lines: mpsc::Receiver<Value>,
    asked: u64,
    /// The file of its log.
    log: PathBuf,
}

impl Plain {
    /// Starts a server and shakes hands.
    ///
    /// # Errors
    /// What it said instead.
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<Self, String> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(File::create(log).unwrap()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // It ends when the server does.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // What is no JSON is a server's log.
                let line = serde_json::from_str(&line).ok();
                if line.is_some_and(|line| sender.send(line).is_err()) {
                    break;
                }
            }
        });
        let input = child.stdin.take().unwrap();
        let mut client = Self {
            child,
            input,
            lines,
            asked: 0,
            log: log.to_owned(),
        };
        // The capability that Sluice has: servers list other tools for other clients.
        client.ask(
            "initialize",
            &json!({ "protocolVersion": "2025-06-18", "capabilities": { "elicitation": { "form": {} } },
                "clientInfo": { "name": "plain", "version": "1" } }),
        )?;
        client.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(client)
    }

    /// Each tool of all pages, as [`described`].
    pub(crate) fn tools(&mut self) -> Result<Vec<String>, String> {
        let (mut tools, mut params) = (Vec::new(), json!({}));
        loop {
            let page = self.ask("tools/list", &params)?;
            let of_page = page["tools"].as_array().into_iter().flatten();
            tools.extend(
                of_page.map(|it| described(&it["name"], &it["description"], &it["inputSchema"])),
            );
            match &page["nextCursor"] {
                Value::String(next) if !next.is_empty() => params = json!({ "cursor": next }),
                _ => return Ok(tools),
            }
        }
    }

    /// The result of a request.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.asked += 1;
        let id = json!(self.asked);
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.map_err(|_| {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                format!("{method}: {}", log.lines().last().unwrap_or_default())
            })?;
            let is_request = line.get("method").is_some();
            if is_request && line.get("id").is_some() {
                let error = json!({ "code": -32601, "message": "not offered" });
                self.write(&json!({ "jsonrpc": "2.0", "id": line["id"], "error": error }))?;
            } else if !is_request && line["id"] == id {
                let result = line.get("result").cloned();
                return result.ok_or_else(|| format!("{method}: {}", line["error"]));
            }
        }
    }

    fn write(&mut self, message: &Value) -> Result<(), String> {
        writeln!(self.input, "{message}").map_err(|error| error.to_string())
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A tool as it is compared: what it takes, in the order in which the server lists it.
pub(crate) fn described(name: &Value, description: &Value, schema: &Value) -> String {
    let description = description.as_str().unwrap_or_default();
    json!([name, description, schema]).to_string()
}

/// The programs of uv, which the plain client starts packages of Python with. Sluice does not use them.
pub(crate) fn uv(registry: &Registry) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--target"])
        .arg(folder.path())
        .arg("uv")
        .envs(registry.variables());
    assert!(pip.status().unwrap().success(), "pip brings no uv");
    folder
}
