//! `sluice` as a child process: the very program that users run.

use std::env;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ifc::Label;
use llm::{Broker, Provider};
use serde_json::Value;
use server::openai_server::{ModelServer, ModelServerConfig};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, Command};

use crate::progress::Progress;
use crate::terminal::print;

/// How `sluice` ends when it has done what was asked, with or without calls that policy or user refused, and when it is
/// interrupted.
const DONE: i32 = 0;
const REFUSED: i32 = 3;
const INTERRUPTED: i32 = 130;

pub(crate) struct Sluice {
    program: PathBuf,
    /// Sandbox layers that the kernel may lack, as the option has them.
    degraded: String,
}

/// Where a session finds its configuration and keeps its state.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    pub(crate) config: PathBuf,
    /// Where `sluice` keeps its state, and so the traces.
    pub(crate) state: PathBuf,
    /// Where what it says beside its events goes, if not to standard error.
    pub(crate) aside: Option<PathBuf>,
}

impl Home {
    /// A folder with a `sluice.toml` in it.
    pub(crate) fn at(folder: &Path) -> Self {
        Self {
            config: folder.join("sluice.toml"),
            state: folder.join("state"),
            aside: None,
        }
    }

    /// The same, with what `sluice` says beside its events in a file.
    #[cfg(feature = "bench")]
    pub(crate) fn quietly(self, folder: &Path) -> Self {
        let aside = Some(folder.join("stderr.txt"));
        Self { aside, ..self }
    }

    /// How `sluice` ended, and the last that it said beside its events where that is kept.
    fn failure(&self, status: ExitStatus) -> Result<String> {
        let said = self.aside.as_ref().map(std::fs::read_to_string);
        let said = said.transpose()?.unwrap_or_default();
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        let last = last.map_or_else(String::new, |line| format!(", {}", line.trim()));
        Ok(format!("`sluice` ended with {status}{last}"))
    }
}

/// What a session came to, by the events that it printed.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) answers: Vec<String>,
    /// Questions to the user. Nobody is there, so each answer was no.
    pub(crate) questions: usize,
    /// Whether it was ended by Ctrl-C.
    pub(crate) interrupted: bool,
    /// What went wrong, if it ended by an error: a model or an app that failed. What it came to then says nothing of the agent.
    pub(crate) failure: Option<String>,
    /// Every record, as it was printed.
    #[cfg(feature = "bench")]
    pub(crate) records: Vec<Value>,
}

impl Sluice {
    /// The one beside this program. From now on Ctrl-C ends it and not this program: it ends its spokes, and says that it
    /// was interrupted.
    pub(crate) fn find(degraded: &[String]) -> Result<Self> {
        tokio::spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
        Ok(Self {
            program: binary("sluice")?,
            degraded: degraded.join(","),
        })
    }

    /// One query to its end, or several in one chat. `forward` prints each event as it comes.
    pub(crate) async fn ask(
        &self,
        home: &Home,
        queries: &[&str],
        arguments: &[&str],
        forward: bool,
    ) -> Result<Session> {
        let progress = Progress::new();
        progress.say("loading the model");
        let mut command = self.command(home);
        let (verb, query) = match queries {
            [query] => ("run", Some(query)),
            _ => ("chat", None),
        };
        command.args([verb, "--json", "--config"]).arg(&home.config);
        if !self.degraded.is_empty() {
            command.args(["--allow-degraded", &self.degraded]);
        }
        command.args(arguments).args(query);
        if let Some(aside) = &home.aside {
            command.stderr(File::create(aside)?);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().context("no input to write to")?;
        let stdout = child.stdout.take().context("no output to read")?;
        let lines = match query {
            Some(_) => String::new(),
            None => queries.iter().map(|query| format!("{query}\n")).collect(),
        };
        // Beside the reading: a child that waits for its output to be read would otherwise never
        // read its input.
        let typed = tokio::spawn(type_in(stdin, lines));
        let mut lines = BufReader::new(stdout).lines();
        let mut session = Session::default();
        let mut has_begun = false;
        while let Some(line) = lines.next_line().await? {
            if forward {
                print(&line)?;
            }
            let record: Value = serde_json::from_str(&line)
                .with_context(|| format!("`sluice` printed no event: {line}"))?;
            has_begun = true;
            session.read(record.get("event").unwrap_or(&Value::Null), &progress);
            #[cfg(feature = "bench")]
            session.records.push(record);
        }
        progress.clear();
        // A session that ended early has not read all; what matters is what it printed.
        typed.abort();
        let status = child.wait().await?;
        match status.code() {
            Some(INTERRUPTED) => session.interrupted = true,
            Some(DONE | REFUSED) if has_begun => {}
            _ => session.failure = Some(home.failure(status)?),
        }
        if let Some(failure) = session.failure.as_ref().filter(|_| !has_begun) {
            bail!("no session was started: {failure}");
        }
        Ok(session)
    }

    /// Prints the trace of the last session for people.
    pub(crate) async fn show_trace(&self, home: &Home) -> Result<()> {
        let mut command = self.command(home);
        let status = command.args(["trace", "show", "latest"]).status().await?;
        if !status.success() {
            bail!("`sluice trace show` ended with {status}");
        }
        Ok(())
    }

    /// `sluice` in this home, with nobody at its terminal and no key of the user's.
    fn command(&self, home: &Home) -> Command {
        let mut command = Command::new(&self.program);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command.env("XDG_STATE_HOME", &home.state);
        // A key in the environment would let a session reach a paid model.
        command.env_remove("OPENAI_API_KEY");
        command
    }
}

/// Types all queries at once, as a pipe does, and ends the input.
async fn type_in(mut stdin: ChildStdin, lines: String) -> std::io::Result<()> {
    stdin.write_all(lines.as_bytes()).await?;
    stdin.shutdown().await
}

impl Session {
    fn read(&mut self, event: &Value, progress: &Progress) {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        match text("kind") {
            Some("asked") => self.questions += 1,
            Some("answer") => self.answers.extend(text("text").map(str::to_owned)),
            Some("user" | "returned") => progress.say("the model thinks"),
            _ => {}
        }
    }
}

/// Serves a model on loopback, by the API that `sluice` knows; its base URL.
pub(crate) async fn serve_model(model: Arc<dyn Provider>) -> Result<String> {
    // It runs on this machine, so it may see everything.
    let broker = Arc::new(Broker::new(model, Label::top()));
    let config = ModelServerConfig {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        allow_remote: false,
    };
    let server = ModelServer::bind(broker, config).await?;
    let base_url = server.base_url();
    tokio::spawn(server.serve(std::future::pending()));
    Ok(base_url)
}

/// Another binary of this project: in `$SLUICE_BIN_DIR`, or beside this one.
pub(crate) fn binary(name: &str) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find out where this program is")?;
    let beside = env::var_os("SLUICE_BIN_DIR").map(PathBuf::from);
    let beside = beside.or_else(|| Some(own.parent()?.to_owned()));
    let path = beside.unwrap_or_default().join(name);
    if !path.is_file() {
        bail!(
            "{} is missing; `cargo xtask demo` or `cargo build --workspace --bins` builds it",
            path.display()
        );
    }
    Ok(path)
}
