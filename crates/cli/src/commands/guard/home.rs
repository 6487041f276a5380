//! A home of an agent's own, kept between runs.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::agent::{Kind, in_home};
use crate::paths;

/// A home of an agent's own.
pub(super) struct Home {
    pub(super) folder: PathBuf,
    /// Files and folders of the user's to which links in it lead. The agent reads them.
    pub(super) shown: Vec<PathBuf>,
}

/// The user's own words to any agent and to git, which hold no keys.
const SHOWN: [&str; 2] = [".gitconfig", ".config/git"];

impl Home {
    /// The home of an agent, with links to what the user has written for it.
    pub(super) fn of(kind: Kind) -> Result<Self> {
        let folder = paths::data()?.join("agents").join(kind.app());
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&folder);
        made.with_context(|| format!("{} cannot be created", folder.display()))?;
        let folder = folder.canonicalize()?;
        let own: &[&str] = match kind {
            Kind::ClaudeCode => &[
                ".claude/CLAUDE.md",
                ".claude/agents",
                ".claude/commands",
                ".claude/output-styles",
                ".claude/rules",
                ".claude/skills",
            ],
            Kind::Codex => &[".codex/AGENTS.md", ".codex/prompts"],
            Kind::Opencode => &[
                ".config/opencode/AGENTS.md",
                ".config/opencode/agent",
                ".config/opencode/agents",
                ".config/opencode/command",
                ".config/opencode/commands",
                ".config/opencode/themes",
            ],
            Kind::Other => &[],
        };
        let mut shown = Vec::new();
        for name in SHOWN.iter().chain(own) {
            let link = folder.join(name);
            let of_user = in_home(name).and_then(|path| path.canonicalize().ok());
            // The link of an earlier run; a file that the agent has made since stays.
            if link.is_symlink() {
                fs::remove_file(&link)?;
            }
            let Some(of_user) = of_user.filter(|_| !link.exists()) else {
                continue;
            };
            fs::create_dir_all(link.parent().unwrap_or(&folder))?;
            symlink(&of_user, &link)?;
            shown.push(of_user);
        }
        Ok(Self { folder, shown })
    }
}
