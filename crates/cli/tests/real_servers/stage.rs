//! A home with papers and a repository, a model that makes the calls that it is asked for, and a person at a terminal.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use hub::{Completion, CompletionRequest};
use ifc::{Label, PromptMessage};
use llm::{Broker, Scripted, call_answer, text_answer};
use server::openai_server::{ModelServer, ModelServerConfig};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::calls;
use crate::host::{Host, NAME};
use crate::registry::Registry;

/// What the person types where this stands at the end of what is shown.
const ANSWERS: [(&str, &str); 9] = [
    ("Type add to", "add\r"),
    ("Type write to", "\r"),
    ("Type allow to", "\r"),
    // Some servers of the suite name all of their host as what a token is for.
    ("Type agree if", "agree\r"),
    ("Type read to", "\r"),
    ("Allow once", "o\r"),
    ("or decline? [a/d", "a\r"),
    ("Type login to log in", "login\r"),
    // Of a server's form: whatever it suggests.
    ("cancel to end", "\r"),
];
/// Longest that anything takes: a large package, fetched on a busy machine.
const PATIENCE: Duration = Duration::from_secs(420);

pub(crate) struct Stage {
    folder: TempDir,
    /// The lines of the configuration that name the model.
    provider: String,
    pub(crate) host: Host,
    registry: Registry,
    /// Where the person's programs are.
    programs: OsString,
    _model: Runtime,
}

impl Stage {
    pub(crate) fn new(registry: Registry) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let model = Scripted::new("scripted", answer);
        let broker = Arc::new(Broker::new(Arc::new(model), Label::top()));
        let runtime = Runtime::new().unwrap();
        let config = ModelServerConfig {
            address: any_port,
            allow_remote: false,
        };
        let server = runtime.block_on(ModelServer::bind(broker, config)).unwrap();
        let provider = format!(
            "[[provider]]\nname = \"scripted\"\nkind = \"openai\"\nmodel = \"scripted\"\nbase_url = {:?}\nclearance = \"any\"\n",
            server.base_url()
        );
        runtime.spawn(server.serve(std::future::pending()));
        let host = Host::start(folder.path());
        let stage = Self {
            folder,
            provider,
            host,
            registry,
            programs: std::env::var_os("PATH").unwrap(),
            _model: runtime,
        };
        for name in ["repository", "config/sluice"] {
            fs::create_dir_all(stage.path(name)).unwrap();
        }
        stage.configure("");
        stage.lay_files();
        fs::write(stage.path("repository/file"), "a word").unwrap();
        stage.git(&["init", "-q"]);
        stage.git(&["add", "file"]);
        stage.git(&[
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@example.org",
            "commit",
            "-q",
            "-m",
            "the first commit",
        ]);
        stage
    }

    /// The folders that servers are given, as if none had written there.
    pub(crate) fn lay_files(&self) {
        for name in ["papers", "kept"] {
            let _ = fs::remove_dir_all(self.path(name));
            fs::create_dir_all(self.path(name)).unwrap();
        }
        let text = "the bird stands in the reeds";
        fs::write(self.path("papers/heron.txt"), text).unwrap();
    }

    /// The names of the files in the folder that servers may write.
    pub(crate) fn kept(&self) -> BTreeSet<OsString> {
        let files = fs::read_dir(self.path("kept")).unwrap();
        files.map(|file| file.unwrap().file_name()).collect()
    }

    /// The person has this program before all others of its name.
    pub(crate) fn prefer(&mut self, program: &Path) {
        let before = std::env::split_paths(&self.programs);
        let folders = std::iter::once(program.parent().unwrap().to_owned()).chain(before);
        self.programs = std::env::join_paths(folders).unwrap();
    }

    fn git(&self, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.path("repository")).args(arguments);
        assert!(git.status().unwrap().success());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Makes the configuration anew: the model, and these lines.
    pub(crate) fn configure(&self, lines: &str) {
        let text = format!("{}{lines}", self.provider);
        fs::write(self.path("config/sluice/sluice.toml"), text).unwrap();
    }

    /// With the stage's places for words in capital letters.
    pub(crate) fn placed(&self, text: &str) -> String {
        let at = |name: &str| self.path(name).to_str().unwrap().to_owned();
        text.replace("PAPERS", &at("papers"))
            .replace("KEPT", &at("kept"))
            .replace("REPOSITORY", &at("repository"))
            .replace("CERTIFICATE", &at("host.pem"))
            .replace("PORT", &self.host.port.to_string())
    }

    /// The host stands for one in the world. That a name leads to this machine is the user's word only.
    pub(crate) fn allow_the_host(&self, app: &str) {
        self.append(&format!(
            "[[app.{app}.domain]]\nname = {NAME:?}\nports = [{}]\naddresses = [\"127.0.0.1\"]\n",
            self.host.port
        ));
    }

    /// More lines of the configuration.
    pub(crate) fn append(&self, lines: &str) {
        let file = self.path("config/sluice/sluice.toml");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, before + lines).unwrap();
    }

    /// The person keeps a secret for this host.
    pub(crate) fn keep_secret(&self, name: &str, host: &str, value: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.args(["secret", "set", name, "--for", host]);
        let command = command.env("XDG_DATA_HOME", self.path("data"));
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{value}").unwrap();
        drop(input);
        assert!(child.wait().unwrap().success());
    }

    /// A command of a shell, where the host has a name and the registries are those of the test.
    pub(crate) fn shell(&self, line: &str) -> Command {
        // Nobody else sees this file of names.
        let hosts = quoted(self.path("hosts").to_str().unwrap());
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--map-root-user", "sh", "-c"])
            .arg(format!("mount --bind {hosts} /etc/hosts && {line}"))
            .current_dir(self.folder.path())
            .env_remove("SLUICE_CONFIG");
        for (variable, name) in [
            ("XDG_DATA_HOME", "data"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
        ] {
            command.env(variable, self.path(name));
        }
        command
            .env("PATH", &self.programs)
            .envs(self.registry.variables());
        command
    }

    /// `sluice` with these words at a terminal, where somebody agrees to everything. The exit code, and all that was shown.
    pub(crate) fn sluice(&self, words: &[String]) -> (Option<i32>, String) {
        let program = env!("CARGO_BIN_EXE_sluice").to_owned();
        let words = std::iter::once(&program).chain(words);
        let line: Vec<String> = words.map(|word| quoted(word)).collect();
        let line = quoted(&format!("stty cols 300; exec {}", line.join(" ")));
        let script = "exec script --quiet --return --flush --command";
        let mut command = self.shell(&format!("{script} {line} /dev/null"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut keyboard, mut screen) =
            (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, shown) = mpsc::channel();
        // It ends when the child does.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                if sender
                    .send(String::from_utf8_lossy(&buffer[..count]).into_owned())
                    .is_err()
                {
                    break;
                }
            }
        });
        let (mut all, mut answered, mut browsed) = (String::new(), 0, 0);
        let end = Instant::now() + PATIENCE;
        loop {
            match shown.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(text) => all += &text,
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    // Nobody else would end it.
                    let _ = child.kill();
                    break;
                }
            }
            if let Some(page) = page(&all[browsed..]) {
                browsed = all.len();
                // The person's browser, which goes where it is sent.
                std::thread::spawn(move || {
                    let curl = ["--silent", "--location", "--output", "/dev/null"];
                    Command::new("curl").args(curl).arg(page).status()
                });
            }
            let new = &all[answered..];
            let asked = ANSWERS.iter().find(|(question, _)| {
                let is_prompt = ["] ", "]: ", "): "].iter().any(|end| all.ends_with(end));
                is_prompt && new.contains(question)
            });
            if let Some((_, word)) = asked {
                answered = all.len();
                // A program that has ended needs no answer.
                let _ = keyboard.write_all(word.as_bytes());
            }
        }
        (child.wait().unwrap().code(), all)
    }
}

/// A word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The address that the person is to open, once it is there to its end.
fn page(shown: &str) -> Option<String> {
    let (_, after) = shown.split_once("Open this address in a browser")?;
    let mut lines = after.split_inclusive('\n').skip(1);
    let line = lines.find(|line| line.starts_with("http") && line.ends_with('\n'))?;
    Some(line.trim_end().to_owned())
}

/// Makes the next of the calls that the user asks for, and says at the end what came of all.
fn answer(request: &CompletionRequest) -> Completion {
    let messages = request.prompt.messages();
    let query = messages.iter().rev().find_map(|message| match message {
        PromptMessage::User(text) => Some(text.clone()),
        _ => None,
    });
    let calls = calls(&query.unwrap_or_default());
    let made = messages
        .iter()
        .filter(|message| matches!(message, PromptMessage::Tool { .. }))
        .count();
    match calls.get(made) {
        Some((tool, arguments)) if !request.prompt.tools().is_empty() => {
            call_answer(tool, arguments.to_string())
        }
        _ => text_answer(
            messages
                .iter()
                .filter_map(|message| match message {
                    PromptMessage::Tool { content, .. } => Some(content.as_str()),
                    _ => None,
                })
                .collect::<Vec<_>>()
                .join("\n"),
        ),
    }
}
