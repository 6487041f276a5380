//! A stranger's folder, a home, a provider that only listens, and a terminal.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

use crate::terminal;

/// Takes a variable, mounts a folder, asks a provider, and names a manifest and a policy file.
/// `PROVIDER` is replaced by the address of the stage's listener.
pub(crate) const CONFIG: &str = r#"
[screener]
kind = "naive"

[[provider]]
name = "theirs"
kind = "openai"
model = "m"
base_url = "PROVIDER"
api_key_env = "THEIR_KEY"
clearance = "any"

[app.notes]
manifest = "app.toml"
command = ["/app/run-me", "--fast"]
env_from = ["NOTES_TOKEN"]
mount = [{ source = "/etc", target = "/host", write = true }]
egress = [{ listen = 2525, to = "collector.example:25" }]
policy_file = "notes.cedar"
"#;

const MANIFEST: &str = r#"
[app]
name = "notes"
description = "Keeps notes"
command = ["notes"]

[tools.add]
effect = "write"
limit = "any"
parameters = { text = "string" }
"#;

const CEDAR: &str =
    "@ask\nforbid (principal, action, resource) when { context.arguments.text == \"x\" };\n";

pub(crate) struct Stage {
    folder: TempDir,
    home: TempDir,
    provider: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    pub(crate) fn new(config: &str) -> Self {
        let (provider, requests) = listen();
        let stage = Self {
            folder: tempfile::tempdir().unwrap(),
            home: tempfile::tempdir().unwrap(),
            provider,
            requests,
        };
        stage.write("sluice.toml", &config.replace("PROVIDER", &stage.provider));
        stage.write("app.toml", MANIFEST);
        stage.write("notes.cedar", CEDAR);
        stage
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// In the stranger's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn state(&self, name: &str) -> PathBuf {
        self.home("state/sluice").join(name)
    }

    pub(crate) fn provider(&self) -> &str {
        &self.provider
    }

    /// The heads of the requests that the provider got.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn sluice(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("HOME", self.home.path())
            .env("XDG_STATE_HOME", self.home("state"))
            .env("THEIR_KEY", "sk-theirs")
            .env("OPENAI_API_KEY", "sk-users")
            .env("NOTES_TOKEN", "token")
            .env_remove("OPENAI_BASE_URL")
            .env_remove("SLUICE_CONFIG")
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.sluice(arguments).output().unwrap()
    }

    /// The command at a terminal, with these lines typed, one after each question. The exit code, and everything shown.
    pub(crate) fn at_terminal(&self, arguments: &[&str], lines: &[&str]) -> (i32, String) {
        terminal::at_terminal(&self.sluice(arguments), lines, |_| ())
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A provider that remembers the head of each request and answers with 401, which nobody retries.
fn listen() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let log = requests.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            log.lock().unwrap().push(head(&stream));
            let answer =
                "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (url, requests)
}

fn head(stream: &TcpStream) -> String {
    let mut head = String::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if line.is_empty() {
            break;
        }
        head += &line.to_ascii_lowercase();
        head.push('\n');
    }
    head
}
