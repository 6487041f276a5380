//! A home of an agent's own, kept between runs.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{
    AtFlags, Mode, OFlags, mkdirat, openat, readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::agent::{Kind, in_home};
use super::workspace::Workspace;
use crate::hex::hex;
use crate::paths;

/// Bytes of a file of a home that this program reads.
const MOST_BYTES: u64 = 16 << 20;
/// Letters of the name of a workspace.
const NAME: usize = 16;

/// A home of an agent's own.
pub(super) struct Home {
    pub(super) folder: PathBuf,
    /// Files and folders of the user's to which links in it lead. The agent reads them.
    pub(super) shown: Vec<PathBuf>,
}

/// What git reads. Its settings are shown only without words that come with keys; its stores of keys never.
const SHOWN: [&str; 4] = [
    ".gitconfig",
    ".config/git/config",
    ".config/git/ignore",
    ".config/git/attributes",
];
const KEYS: [&str; 6] = [
    "extraheader",
    "insteadof",
    "credential",
    "include",
    "token",
    "password",
];

impl Home {
    /// The home of an agent, with links to what the user has written for it. Each workspace has one of its own: a program
    /// that runs there can write what the agent reads at its next start.
    pub(super) fn of(kind: Kind, workspace: &Workspace) -> Result<Self> {
        let path = workspace.folder.as_os_str().as_encoded_bytes();
        let digest = hex(&Sha256::digest(path));
        let digest = digest.get(..NAME).unwrap_or(&digest);
        let name = match workspace.is_mine() {
            true => format!("{digest}-mine"),
            false => digest.to_owned(),
        };
        let folder = paths::data()?.join("agents").join(kind.app()).join(name);
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
            let name = Path::new(name);
            let (Some(parent), Some(last)) = (name.parent(), name.file_name()) else {
                continue;
            };
            let of_user = in_home(name).and_then(|path| path.canonicalize().ok());
            let is_of_git = name.to_string_lossy().contains("git");
            let of_user = of_user.filter(|path| !is_of_git || has_no_keys(path));
            if Folder::open(&folder, parent)?.link(last, of_user.as_deref())? {
                shown.extend(of_user);
            }
        }
        Ok(Self { folder, shown })
    }
}

/// Whether settings of git have no word that comes with a key.
fn has_no_keys(settings: &Path) -> bool {
    let text = fs::read_to_string(settings).map(|text| text.to_lowercase());
    text.is_ok_and(|text| !KEYS.iter().any(|word| text.contains(word)))
}

/// A folder of a home, by its descriptor. Programs of the agent's write the home, also while this program prepares it, so no
/// link in it is followed: it could lead out of the sandbox.
pub(super) struct Folder(OwnedFd);

impl Folder {
    /// A folder below a home, with those above it. What is in its place is removed, if it is no folder.
    pub(super) fn open(home: &Path, below: &Path) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = rustix::fs::open(home, flags, Mode::empty())?;
        for part in below {
            at = match openat(&at, part, flags, Mode::empty()) {
                Ok(found) => found,
                Err(_) => {
                    // What cannot be removed stops the next call.
                    let _ = unlinkat(&at, part, AtFlags::empty());
                    mkdirat(&at, part, Mode::RWXU)?;
                    openat(&at, part, flags, Mode::empty())?
                }
            };
        }
        Ok(Self(at))
    }

    /// A file in it; nothing if it is no regular file.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.0, name, flags, Mode::empty()).ok()?);
        file.metadata().ok().filter(fs::Metadata::is_file)?;
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Writes a file in it, in the place of what is there.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let new = format!("{name}.{}", std::process::id());
        let _ = unlinkat(&self.0, &*new, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.0, &*new, flags, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(text.as_bytes())?;
        Ok(renameat(&self.0, &*new, &self.0, name)?)
    }

    /// A link in it to what the user has, in the place of that of an earlier run. False if the agent has something there.
    fn link(&self, name: &OsStr, to: Option<&Path>) -> Result<bool> {
        if readlinkat(&self.0, name, Vec::new()).is_ok() {
            unlinkat(&self.0, name, AtFlags::empty())?;
        }
        match to.map(|to| symlinkat(to, &self.0, name)) {
            Some(Ok(())) => Ok(true),
            None | Some(Err(Errno::EXIST)) => Ok(false),
            Some(Err(error)) => Err(error.into()),
        }
    }
}
