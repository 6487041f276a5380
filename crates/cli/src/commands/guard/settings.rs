//! What an agent's own settings say, and what it is given in their place.

use anyhow::{Context, Result};
use llm::Dialect;
use serde_json::Value;

use super::agent::{Kind, Overlay, Own, Run, TOKEN, Upstream, var};
use super::workspace::Workspace;
use super::{claude, codex, opencode};
use crate::provider::key_of;

impl Kind {
    /// Reads its settings, and takes the arguments that the guard answers for out of `args`.
    pub(super) fn own(
        self,
        args: Vec<String>,
        workspace: &Workspace,
        is_sandboxed: bool,
    ) -> Result<Own> {
        let (folder, is_mine) = (&workspace.folder, workspace.is_mine());
        match self {
            Self::ClaudeCode => claude::own(args, folder, is_mine),
            Self::Codex => codex::own(args, folder, is_sandboxed),
            Self::Opencode => opencode::own(args, folder, is_mine),
            Self::Other => Ok(Own {
                args,
                writes: Vec::new(),
                upstream: of_environment(),
                servers: Vec::new(),
                notes: Vec::new(),
                settings: Value::Null,
            }),
        }
    }

    /// What the agent is given for this run.
    pub(super) fn overlay(self, run: &Run<'_>, own: &Own) -> Result<Overlay> {
        let mut overlay = match self {
            Self::ClaudeCode => claude::overlay(run, own)?,
            Self::Codex => codex::overlay(run)?,
            Self::Opencode => opencode::overlay(run, own)?,
            Self::Other => Overlay {
                env: [
                    ("OPENAI_BASE_URL", format!("{}/v1", run.url)),
                    ("OPENAI_API_KEY", run.token.to_owned()),
                    ("ANTHROPIC_BASE_URL", run.url.to_owned()),
                    ("ANTHROPIC_API_KEY", run.token.to_owned()),
                ]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
                ..Overlay::default()
            },
        };
        overlay.set(TOKEN, run.token);
        // Otherwise a web proxy of the user's would get the requests to this address.
        for name in ["NO_PROXY", "no_proxy"] {
            overlay.set(name, "127.0.0.1,localhost");
        }
        Ok(overlay)
    }
}

/// The usual variables of programs that name no other server.
fn of_environment() -> Result<Upstream> {
    let upstream = |dialect: Dialect| {
        let usual = dialect.usual();
        let url = var(usual.url_variable);
        Some(Upstream {
            dialect,
            base_url: url.unwrap_or_else(|| usual.base_url.to_owned()),
            key: Some(key_of(usual.key_variable)?),
        })
    };
    let found = [Dialect::Chat, Dialect::Messages]
        .into_iter()
        .find_map(upstream);
    found.context("set OPENAI_API_KEY or ANTHROPIC_API_KEY, or write a [[provider]]")
}
