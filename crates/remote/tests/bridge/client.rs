//! `sluice-remote` as a spoke starts it, spoken to line by line.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use remote::{Settings, VARIABLE};

/// Long enough for a machine under load.
const PATIENCE: Duration = Duration::from_secs(30);

/// The value of the header that every test's server gets.
pub(crate) const SECRET: &str = "token-of-the-user";

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// What a server says of itself.
pub(crate) const HANDSHAKE: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;

/// The span of each call.
pub(crate) const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

pub(crate) fn settings(url: &str) -> Settings {
    Settings {
        app: "app".to_owned(),
        url: url.to_owned(),
        headers: BTreeMap::from([("authorization".to_owned(), format!("Bearer {SECRET}"))]),
        ca_file: None,
        tokens: None,
        step: None,
    }
}

impl Client {
    pub(crate) fn start(settings: &Settings) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_remote-under-test"))
            .env_clear()
            .env(VARIABLE, serde_json::to_string(settings).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout: ChildStdout = child.stdout.take().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let _ = sender.send(line.unwrap());
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
        }
    }

    /// Started, and past the handshake.
    pub(crate) fn open(settings: &Settings) -> Self {
        let mut client = Self::start(settings);
        client.say(INITIALIZE);
        let answer = client.hear();
        assert!(answer.contains("\"serverInfo\""), "{answer}");
        client.say(INITIALIZED);
        client
    }

    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        // A program that has just ended says why on stderr.
        let _ = stdin.write_all(format!("{line}\n").as_bytes());
    }

    /// A call with this id of a tool `t`, as the client of apps writes it.
    pub(crate) fn call(&mut self, id: u64) {
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":"{id}","traceparent":"{TRACEPARENT}"}},"name":"t","arguments":{{}}}}}}"#
        ));
    }

    pub(crate) fn hear(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(_) => panic!("nothing was heard: {}", self.end().1),
        }
    }

    /// Closes its stdin, waits for its end, and says how it ended and what it wrote to stderr.
    pub(crate) fn leave(mut self) -> (bool, String) {
        self.stdin.take();
        self.end()
    }

    /// Waits until it ends by itself.
    pub(crate) fn ends(mut self) -> String {
        let (done, said) = self.end();
        assert!(!done, "it ended well");
        said
    }

    fn end(&mut self) -> (bool, String) {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                let mut said = String::new();
                let stderr = self.child.stderr.as_mut().unwrap();
                stderr.read_to_string(&mut said).unwrap();
                return (status.success(), said);
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not end");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
