//! Which agent it is, and what the modules of the agents share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use llm::{ApiKey, Dialect};
use serde_json::{Map, Value};

pub(super) use crate::commands::gateway::SERVER;

/// The variable with the token of the run. Only the agent gets it.
pub(super) const TOKEN: &str = "SLUICE_TOKEN";
/// Milliseconds that an agent waits for an answer or a result: a question to the user may be open meanwhile.
pub(super) const PATIENCE_MS: u64 = 20 * 60 * 1000;

/// The agents whose settings and tools are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// opencode.
    Opencode,
    /// Any program that takes OPENAI_BASE_URL or ANTHROPIC_BASE_URL.
    Other,
}

/// What an agent's settings and its command line say.
pub(super) struct Own {
    /// Its arguments, without those whose work the guard does.
    pub(super) args: Vec<String>,
    /// Files outside of the workspace that they name to be written.
    pub(super) writes: Vec<PathBuf>,
    /// The model's server; or why there is none that can be used.
    pub(super) upstream: Result<Upstream>,
    /// Its MCP servers: files, or parts of files, with the paths that theirs are relative to.
    pub(super) servers: Vec<(PathBuf, Value)>,
    /// What is not carried over.
    pub(super) notes: Vec<String>,
    /// What else [`Kind::overlay`] needs of its settings.
    pub(super) settings: Value,
}

/// A model's server, by the agent's own settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Upstream {
    pub(super) dialect: Dialect,
    pub(super) base_url: String,
    pub(super) key: Option<ApiKey>,
}

/// A run of an agent: what its overlay says.
pub(super) struct Run<'a> {
    /// The address of the proxy and the gateway, without a path.
    pub(super) url: &'a str,
    pub(super) token: &'a str,
    /// Whether there are MCP servers behind the gateway.
    pub(super) has_servers: bool,
    /// The agent's own home.
    pub(super) home: &'a Path,
    pub(super) workspace: &'a Path,
    pub(super) is_mine: bool,
    pub(super) is_sandboxed: bool,
    /// The agent's program.
    pub(super) program: &'a Path,
    /// The model of the upstream, where the agent's settings name none.
    pub(super) model: &'a str,
}

/// What an agent gets beside the user's arguments.
#[derive(Default)]
pub(super) struct Overlay {
    /// Before the user's own arguments.
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

impl Overlay {
    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.env.insert(name.to_owned(), value.into());
    }
}

impl Kind {
    /// By the name of the program, or that of a link which leads to it.
    pub(super) fn of(program: &Path) -> Self {
        let mut at = program.to_owned();
        // More links are none that an installation makes.
        for _ in 0..8 {
            let name = at.file_stem().unwrap_or_default().to_string_lossy();
            match &*name {
                "claude" | "claude-code" => return Self::ClaudeCode,
                "codex" => return Self::Codex,
                "opencode" => return Self::Opencode,
                _ => {}
            }
            let Ok(to) = at.read_link() else { break };
            at = at.parent().unwrap_or(Path::new("/")).join(to);
        }
        Self::Other
    }

    /// The app with the rules of its tools.
    pub(super) fn app(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Other => "agent",
        }
    }

    /// The rules of its tools. Those of another program's are unknown, and have the most restrictive ones.
    pub(super) fn profile(self) -> &'static str {
        match self {
            Self::ClaudeCode => include_str!("../../../../../policies/agents/claude-code.toml"),
            Self::Codex => include_str!("../../../../../policies/agents/codex.toml"),
            Self::Opencode => include_str!("../../../../../policies/agents/opencode.toml"),
            Self::Other => "[app.agent]\nclient = true\n",
        }
    }

    /// The API of its model, if it speaks one only.
    pub(super) fn dialect(self) -> Option<Dialect> {
        match self {
            Self::ClaudeCode => Some(Dialect::Messages),
            Self::Codex => Some(Dialect::Responses),
            Self::Opencode | Self::Other => None,
        }
    }
}

/// A variable of the user's that is not empty.
pub(super) fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A file in the user's home.
pub(super) fn in_home(path: impl AsRef<Path>) -> Option<PathBuf> {
    Some(PathBuf::from(var("HOME")?).join(path))
}

/// A file of settings, in JSON with comments or TOML; nothing if it is not there.
pub(super) fn settings(path: &Path) -> Result<Value> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Value::Object(Map::new()));
        }
        text => text.with_context(|| format!("{} cannot be read", path.display()))?,
    };
    parsed(path, &text)
}

/// The settings in a text, whose form the path says.
pub(super) fn parsed(path: &Path, text: &str) -> Result<Value> {
    let value = config::foreign_value(path, text);
    value.with_context(|| format!("{} cannot be read", path.display()))
}

/// Puts members of `over` over those of `value`, at all levels.
pub(super) fn merge(value: &mut Value, over: Value) {
    match (value, over) {
        (Value::Object(below), Value::Object(over)) => {
            for (key, over) in over {
                merge(below.entry(key).or_insert(Value::Null), over);
            }
        }
        (value, over) => *value = over,
    }
}

/// A text member of an object.
pub(super) fn text(value: &Value, at: &str) -> Option<String> {
    let text = value.pointer(at)?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// The words of a command line, one option after the other.
pub(super) struct Options(std::vec::IntoIter<String>);

impl Options {
    pub(super) fn new(args: Vec<String>) -> Self {
        Self(args.into_iter())
    }

    /// The next word, split at its `=` if it is an option. After `--` there are no options.
    pub(super) fn next(&mut self) -> Option<(String, Option<String>)> {
        let word = self.0.next()?;
        Some(match word.split_once('=') {
            Some((name, value)) if name.starts_with('-') => {
                (name.to_owned(), Some(value.to_owned()))
            }
            _ => (word, None),
        })
    }

    /// The value of an option: that behind its `=`, or the next word.
    pub(super) fn value(&mut self, name: &str, given: Option<String>) -> Result<String> {
        let value = given.or_else(|| self.0.next());
        value.with_context(|| format!("the agent's option {name} needs a value"))
    }

    /// All words up to the next option.
    pub(super) fn values(&mut self, given: Option<String>) -> Vec<String> {
        let mut values: Vec<String> = given.into_iter().collect();
        while self
            .0
            .as_slice()
            .first()
            .is_some_and(|word| !word.starts_with('-'))
        {
            values.extend(self.0.next());
        }
        values
    }

    pub(super) fn rest(self) -> impl Iterator<Item = String> {
        self.0
    }
}

/// A word as it was written.
pub(super) fn written(name: String, value: Option<String>) -> String {
    match value {
        Some(value) => format!("{name}={value}"),
        None => name,
    }
}

/// An option that would lead past the guard.
pub(super) fn refused<T>(option: &str, help: &str) -> Result<T> {
    bail!("the agent's option {option} would lead past the guard; {help}")
}

/// Where an agent has no key that can be used.
pub(super) fn no_key(agent: &str, help: &str) -> anyhow::Error {
    anyhow!(
        "{agent} has no key that Sluice could use: {help}, or write a [[provider]] into sluice.toml"
    )
}
