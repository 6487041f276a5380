//! The three agents: their files of settings in a HOME of their own, and the command that does a task headless.

use std::fs;
use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::{Value, json};

/// A name that no agent knows, so that it uses what it uses for any model.
const MODEL: &str = "worst-case";
/// A model of Codex's own catalogue: it offers such a one a tool that runs scripts (code mode).
const CODE_MODEL: &str = "gpt-6.2-sol";
/// What the upstream lists.
pub(crate) const MODELS: [&str; 2] = [MODEL, CODE_MODEL];

/// A program in its permissive mode, with the API that it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Agent {
    /// Claude Code (Messages).
    Claude,
    /// Codex with plain tools (Responses).
    Codex,
    /// Codex as it is with a model of its own.
    CodexCode,
    /// opencode (Chat Completions).
    Opencode,
    /// opencode (Messages).
    OpencodeMessages,
    /// opencode (Responses).
    OpencodeResponses,
}

impl Agent {
    /// The program and its arguments; the task is its standard input.
    pub(crate) fn command(self) -> Vec<&'static str> {
        const CODEX: [&str; 5] = [
            "codex",
            "exec",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "-m",
        ];
        match self {
            Self::Claude => vec![
                "claude",
                "-p",
                "--dangerously-skip-permissions",
                "--model",
                MODEL,
            ],
            Self::Codex => [&CODEX[..], &[MODEL, "-"]].concat(),
            Self::CodexCode => [&CODEX[..], &[CODE_MODEL, "-"]].concat(),
            _ => vec!["opencode", "run", "--auto"],
        }
    }

    /// The kind of provider that the guard proxy forwards to.
    pub(crate) fn provider_kind(self) -> &'static str {
        match self {
            Self::Claude | Self::OpencodeMessages => "anthropic",
            Self::Codex | Self::CodexCode | Self::OpencodeResponses => "responses",
            Self::Opencode => "openai",
        }
    }

    /// Variables that a user of the agent would set, beside those of every run.
    pub(crate) fn variables(self, upstream: &str) -> Vec<(&'static str, String)> {
        let fixed: &[(&str, &str)] = match self {
            Self::Claude => &[
                ("ANTHROPIC_API_KEY", "sk-ant-none"),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                // Without it, only an error of the model's server makes it sum up.
                ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "150000"),
                // It runs as root in some laboratories.
                ("IS_SANDBOX", "1"),
            ],
            Self::Codex | Self::CodexCode => &[("OPENAI_API_KEY", "sk-none")],
            _ => &[
                ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ],
        };
        let fixed = fixed
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let own = (self == Self::Claude).then(|| ("ANTHROPIC_BASE_URL", upstream.to_owned()));
        fixed.chain(own).collect()
    }

    /// Writes the user's settings of the agent: the model's address and one MCP server.
    pub(crate) fn configure(
        self,
        home: &Path,
        upstream: &str,
        server: &[String],
        env: &Value,
    ) -> Result<()> {
        let (program, arguments) = server
            .split_first()
            .map_or((json!(""), json!([])), |it| (json!(it.0), json!(it.1)));
        let write = |name: &str, text: String| -> Result<()> {
            let file = home.join(name);
            fs::create_dir_all(file.parent().unwrap_or(home))?;
            Ok(fs::write(file, text)?)
        };
        match self {
            Self::Claude => {
                let notes =
                    json!({"type": "stdio", "command": program, "args": arguments, "env": env});
                let own = json!({"hasCompletedOnboarding": true, "mcpServers": {"notes": notes}});
                write(".claude.json", own.to_string())?;
                // The check asks a host of the maker's.
                write(
                    ".claude/settings.json",
                    json!({"skipWebFetchPreflight": true}).to_string(),
                )
            }
            Self::Codex | Self::CodexCode => {
                let provider = json!({"name": "up", "base_url": format!("{upstream}/v1"), "wire_api": "responses",
                    "env_key": "OPENAI_API_KEY"});
                let notes = json!({"command": program, "args": arguments, "env": env});
                let own = json!({"model_provider": "up", "check_for_update_on_startup": false,
                    "model_context_window": 200_000, "analytics": {"enabled": false},
                    "model_providers": {"up": provider}, "mcp_servers": {"notes": notes}});
                write(".codex/config.toml", toml::to_string(&own)?)
            }
            _ => {
                let npm = match self {
                    Self::OpencodeMessages => "@ai-sdk/anthropic",
                    Self::OpencodeResponses => "@ai-sdk/openai",
                    _ => "@ai-sdk/openai-compatible",
                };
                let model = json!({"name": MODEL, "limit": {"context": 200_000, "output": 8_000}});
                let provider = json!({"npm": npm, "name": "up", "models": {MODEL: model},
                    "options": {"baseURL": format!("{upstream}/v1"), "apiKey": "sk-none"}});
                let notes = json!({"type": "local", "command": server, "environment": env});
                let own = json!({"provider": {"up": provider}, "model": format!("up/{MODEL}"), "autoupdate": false,
                    "share": "disabled", "mcp": {"notes": notes}});
                write(".config/opencode/opencode.json", own.to_string())
            }
        }
    }
}
