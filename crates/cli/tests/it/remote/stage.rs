//! A user's folders, the command line, and what it speaks to.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};

use crate::home::Home;
use crate::remote::server::{Reply, Request, json, json_with, status};
use crate::terminal;

/// What the user keeps for the server.
pub(crate) const SECRET: &str = "token-of-the-user";

pub(crate) struct Stage(Home);

impl Stage {
    pub(crate) fn new() -> Self {
        Self(Home::new())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.0.sluice(arguments);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The command at a terminal, with these lines typed, one after each question. The exit code, and everything shown.
    pub(crate) fn at_terminal(
        &self,
        arguments: &[&str],
        lines: &[&str],
        watch: impl FnMut(&str),
    ) -> (i32, String) {
        let (code, shown) = terminal::at_terminal(&self.0.sluice(arguments), lines, watch);
        assert!(!shown.contains(SECRET), "{shown}");
        (code, shown)
    }

    pub(crate) fn sluice(&self, arguments: &[&str], input: &str) -> (bool, String, String) {
        let mut child = self.start(arguments);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        Self::ended(child)
    }

    /// How it ended, and what it said.
    pub(crate) fn ended(child: Child) -> (bool, String, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(stdout), text(stderr));
        // Whatever is done, the value is never shown.
        assert!(!stdout.contains(SECRET) && !stderr.contains(SECRET));
        (status.success(), stdout, stderr)
    }

    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let (done, stdout, stderr) = self.sluice(arguments, "");
        assert!(done, "{arguments:?}: {stdout}{stderr}");
        stdout
    }

    pub(crate) fn refused(&self, arguments: &[&str], expected: &str) {
        let (done, stdout, stderr) = self.sluice(arguments, "");
        let said = format!("{stdout}{stderr}");
        assert!(
            !done && said.contains(expected),
            "no {expected:?} in: {said}"
        );
    }

    pub(crate) fn keep(&self, server: &str) {
        self.keep_value(server, SECRET);
    }

    /// Keeps this as the secret `own`.
    pub(crate) fn keep_value(&self, server: &str, value: &str) {
        let set = ["secret", "set", "own", "--for", server];
        assert!(self.sluice(&set, &format!("{value}\n")).0);
    }
}

/// An MCP server with one tool, for everybody.
pub(crate) fn mcp(request: &Request) -> Reply {
    match () {
        () if request.asks("initialize") => json_with(
            200,
            &[("Mcp-Session-Id", "s")],
            request.result(
                r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#,
            ),
        ),
        () if request.asks("tools/list") => json(request.result(
            r#"{"tools":[{"name":"look_up","description":"Looks up","inputSchema":{"type":"object"}}]}"#,
        )),
        () if request.method == "GET" => status(405),
        () => status(202),
    }
}

/// A model that calls the tool once, and then repeats what came back.
pub(crate) fn model(request: &Request) -> Reply {
    let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
    let newest = body["messages"].as_array().unwrap().last().unwrap();
    let message = match newest["role"].as_str() {
        Some("tool") => {
            serde_json::json!({"role": "assistant", "content": format!("It says {}", newest["content"])})
        }
        _ => serde_json::json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        ]}),
    };
    json(
        serde_json::json!({"id": "x", "object": "chat.completion", "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
        .to_string(),
    )
}
