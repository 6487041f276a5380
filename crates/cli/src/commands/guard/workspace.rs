//! The folder that an agent works in: whose it is, what instructs agents there, and where its git remotes are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hub::trace::escape;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::paths;
use crate::private_file::PrivateFile;
use crate::terminal::{Terminal, ask, is_agreed, message, say};

/// Whose a workspace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Whose {
    /// Its text is trusted, and secret.
    Mine,
    /// Its text is untrusted.
    Stranger,
}

/// The folder that an agent works in.
#[derive(Clone)]
pub(super) struct Workspace {
    pub(super) folder: PathBuf,
    pub(super) whose: Whose,
}

/// Names of files that agents take as instructions, in any folder of a workspace.
const RULES: [&str; 7] = [
    "CLAUDE.md",
    "CLAUDE.local.md",
    "AGENTS.md",
    "AGENTS.override.md",
    "GEMINI.md",
    "copilot-instructions.md",
    ".cursorrules",
];
/// Folders whose texts are instructions.
const RULE_FOLDERS: [&str; 7] = [
    ".claude",
    ".codex",
    ".agents",
    ".opencode",
    ".cursor",
    ".gemini",
    ".github",
];
/// Folders and files that are looked at for instructions, folders below each other, and bytes of one text.
const MOST_ENTRIES: usize = 20_000;
const MOST_LEVELS: usize = 6;
const MOST_BYTES: u64 = 256 << 10;
/// Entries that are looked at for links, and links.
const MOST_FILES: usize = 200_000;
const MOST_LINKS: usize = 64;
/// The path in [`Workspace::is_plain`].
pub(super) const ARGUMENT: &str = "@argument@";

/// The mode of a folder such as /tmp: all may write, each their own files.
const SHARED: u32 = 0o1002;

/// Bytes of a path that a rule can name.
const MOST_PATH: usize = 480;

/// What the user has said of a folder.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answers {
    pub(crate) whose: Option<Whose>,
    /// Whether the agent's programs may connect to these, beside the registries.
    pub(crate) domains: BTreeMap<String, bool>,
}

pub(crate) type Known = BTreeMap<PathBuf, Answers>;

impl Workspace {
    /// The git repository around the working folder, or the folder itself. Whose it is is asked once; without an answer it is a
    /// stranger's.
    ///
    /// # Errors
    /// It holds the user's home, or what decides about Sluice itself.
    pub(super) fn here(said: Option<Whose>) -> Result<Self> {
        let here = std::env::current_dir().context("the working folder is gone")?;
        let here = here.canonicalize().context("the working folder is gone")?;
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let home = home.and_then(|home| home.canonicalize().ok());
        let is_in_home = |folder: &Path| home.as_ref().is_none_or(|home| !home.starts_with(folder));
        let mut above = here.ancestors().take_while(|folder| is_in_home(folder));
        // As git does: on a shared machine anybody could make one of /tmp.
        let folder = above.find(|folder| is_own(folder) && is_own(&folder.join(".git")));
        let folder = folder.unwrap_or(&here).to_owned();
        if !is_in_home(&folder) {
            bail!(
                "the agent may write its workspace, and {} holds your home; start it in the folder of a project",
                folder.display()
            );
        }
        if folder
            .metadata()
            .is_ok_and(|it| it.mode() & SHARED == SHARED)
        {
            bail!(
                "the agent may write its workspace, and {} is for files of all users; start it in the folder of a project",
                folder.display()
            );
        }
        let path = folder.to_string_lossy();
        if path.len() > MOST_PATH {
            bail!(
                "the path of the workspace has {} bytes, and a rule can name {MOST_PATH}; move the folder to a shorter path",
                path.len()
            );
        }
        if path.contains(char::is_control) || path.contains("'''") {
            bail!(
                "the path of the workspace has characters that no rule can name; rename the folder"
            );
        }
        for (what, kept) in paths::kept()? {
            let kept = paths::resolved(&kept);
            if kept.starts_with(&folder) || what != "this program" && folder.starts_with(&kept) {
                bail!(
                    "the agent may write its workspace, and {} holds {what}; start it in the folder of a project",
                    folder.display()
                );
            }
        }
        let whose = match said {
            Some(whose) => whose,
            None => whose_is(&folder)?,
        };
        Ok(Self { folder, whose })
    }

    pub(super) fn is_mine(&self) -> bool {
        self.whose == Whose::Mine
    }

    /// The texts that agents take as instructions.
    pub(super) fn rules(&self) -> Vec<String> {
        let (mut texts, mut count) = (Vec::new(), 0);
        let mut folders = vec![(self.folder.clone(), 0, false)];
        while let Some((folder, level, all)) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                count += 1;
                if count > MOST_ENTRIES {
                    message(
                        "note: the workspace has too many files to find all instructions in it; those not found are untrusted",
                    );
                    return texts;
                }
                let (name, path) = (entry.file_name(), entry.path());
                let (name, kind) = (name.to_string_lossy(), entry.file_type());
                let Ok(kind) = kind else { continue };
                if kind.is_dir() {
                    let is_of_rules = all || RULE_FOLDERS.contains(&&*name);
                    let is_hidden = name.starts_with('.') || name == "node_modules";
                    if level < MOST_LEVELS && (is_of_rules || !is_hidden) {
                        folders.push((path, level + 1, is_of_rules));
                    }
                } else if RULES.contains(&&*name) || all && name.ends_with(".md") {
                    let text = read(&path).and_then(|bytes| String::from_utf8(bytes).ok());
                    texts.extend(text);
                }
            }
        }
        texts
    }

    /// Cedar's condition for the path of a file in it that no program runs or obeys by its place: none of git, of an editor or of
    /// an agent, which are hidden; no rules; and none behind a link, which could lead to these.
    pub(super) fn is_plain(&self) -> String {
        let literal = |path: &Path| {
            let path = path.to_string_lossy().replace('\\', "\\\\");
            path.replace('"', "\\\"").replace('*', "\\*")
        };
        let Some(links) = self.links() else {
            return format!("{ARGUMENT} == \"\"");
        };
        let inside = literal(&self.folder);
        let hidden = ["/.", "/*/."].map(|below| format!("{inside}{below}*"));
        // An agent may take blanks off the end of a path.
        let rules = RULES.map(|name| format!("*/{name}*"));
        let links = links.iter().map(|link| format!("{}*", literal(link)));
        let not = ["*..*", "*//*", "*/node_modules*"].map(str::to_owned);
        let not = not.into_iter().chain(hidden).chain(rules).chain(links);
        let not: Vec<String> = not.map(|it| format!("{ARGUMENT} like \"{it}\"")).collect();
        format!("{ARGUMENT} like \"{inside}/*\" && !({})", not.join(" || "))
    }

    /// The links in a stranger's that are not hidden; nothing if they are not all known.
    fn links(&self) -> Option<Vec<PathBuf>> {
        let (mut links, mut count) = (Vec::new(), 0);
        let mut folders: Vec<PathBuf> = Vec::new();
        folders.extend((!self.is_mine()).then(|| self.folder.clone()));
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).ok()? {
                let entry = entry.ok()?;
                let (name, kind) = (entry.file_name(), entry.file_type().ok()?);
                let name = name.to_string_lossy();
                if name.starts_with('.') || name == "node_modules" {
                    continue;
                }
                // The path stands in a literal text of TOML, and beside `ARGUMENT`.
                let is_odd = |it: char| it.is_control() || ['\'', '@'].contains(&it);
                let path = entry.path();
                count += 1;
                if count > MOST_FILES || links.len() > MOST_LINKS {
                    return None;
                }
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_symlink()
                    && (path.to_string_lossy().contains(is_odd)
                        || path.as_os_str().len() > MOST_PATH)
                {
                    return None;
                } else if kind.is_symlink() {
                    links.push(path);
                }
            }
        }
        Some(links)
    }

    /// What git runs outside of any sandbox when the user calls it, to see whether it has changed.
    pub(super) fn run_by_git(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let git = self.folder.join(".git");
        let hooks = fs::read_dir(git.join("hooks")).into_iter().flatten();
        let mut files: Vec<PathBuf> = hooks.flatten().map(|entry| entry.path()).collect();
        files.extend(["config", "config.worktree", "commondir"].map(|name| git.join(name)));
        files.sort();
        files.retain(|path| path.symlink_metadata().is_ok());
        // A hook that cannot be read is there all the same.
        let read = |path: PathBuf| (path.clone(), self::read(&path).unwrap_or_default());
        files.into_iter().map(read).collect()
    }

    /// The domains beside the registries that the user has allowed for it. About its git remotes the user is asked here, once:
    /// a program of an earlier run, or who has packed the folder, can have added one.
    pub(super) fn domains(&self, named: &[String]) -> Result<Vec<String>> {
        let known = known()?.read::<Known>()?.remove(&self.folder);
        let known = known.unwrap_or_default().domains;
        let remotes = self.remotes().into_iter();
        let is_named = |name: &String| {
            let is_below = |above: &String| name.ends_with(&format!(".{above}"));
            named.iter().any(|it| it == name || is_below(it)) || known.contains_key(name)
        };
        let new: BTreeSet<String> = remotes.filter(|name| !is_named(name)).collect();
        let mut allowed: Vec<String> = known
            .into_iter()
            .filter_map(|(name, may)| may.then_some(name))
            .collect();
        for name in new {
            let shown = escape(&name);
            if !Terminal::attended() {
                message(&format!(
                    "note: the git remote {shown} may not be connected to; --domain {shown} allows it"
                ));
                continue;
            }
            let asked = format!(
                "The workspace has a git remote at {shown}. May the agent's programs connect there, \
                 from now on? Type yes [no]: "
            );
            let may = is_agreed(&asked, "yes");
            self.keep(&name, may)?;
            allowed.extend(may.then_some(name));
        }
        Ok(allowed)
    }

    /// Keeps whether the agent's programs may connect to a domain.
    pub(super) fn keep(&self, domain: &str, may: bool) -> Result<()> {
        known()?.change(|known: &mut Known| {
            let answers = known.entry(self.folder.clone()).or_default();
            answers.domains.insert(domain.to_owned(), may);
        })
    }

    /// The names of its git remotes that are reached over HTTPS.
    fn remotes(&self) -> Vec<String> {
        let config = read(&self.folder.join(".git/config")).unwrap_or_default();
        let (config, mut is_remote) = (String::from_utf8_lossy(&config), false);
        let urls = config.lines().filter_map(|line| {
            let line = line.trim();
            if line.starts_with('[') {
                is_remote = line.starts_with("[remote ");
            }
            let (key, value) = line.split_once('=').filter(|_| is_remote)?;
            (key.trim() == "url").then_some(value.trim())
        });
        let urls = urls.filter_map(|url| Url::parse(url).ok());
        let urls = urls.filter(|url| url.scheme() == "https");
        urls.filter_map(|url| url.domain().map(str::to_owned))
            .collect()
    }
}

/// Whether a path is below a folder, leads there, or passes anything below it, such as a link.
pub(super) fn is_below(path: &Path, folder: &Path) -> bool {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut at = PathBuf::new();
    let passes = path.components().any(|part| {
        match part {
            Component::ParentDir => drop(at.pop()),
            part => at.push(part),
        }
        at != folder && at.starts_with(folder)
    });
    passes || at == folder || paths::resolved(&path).starts_with(folder)
}

/// Whether a file or folder is there and belongs to the user.
fn is_own(path: &Path) -> bool {
    let found = path.symlink_metadata();
    found.is_ok_and(|it| it.uid() == rustix::process::geteuid().as_raw())
}

/// A regular file of a workspace that is not long. A link could lead out of it, and a device or a pipe would never end.
fn read(path: &Path) -> Option<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(flags).open(path).ok()?;
    let is_short = |it: fs::Metadata| it.is_file() && it.len() <= MOST_BYTES;
    if !file.metadata().is_ok_and(is_short) {
        return None;
    }
    let mut bytes = Vec::new();
    let read = file.take(MOST_BYTES).read_to_end(&mut bytes);
    read.ok().map(|_| bytes)
}

/// What the user has said of all workspaces.
pub(crate) fn known() -> Result<PrivateFile> {
    let folder = paths::state()?.join("trust");
    Ok(PrivateFile::new(folder, "workspaces.json"))
}

fn whose_is(folder: &Path) -> Result<Whose> {
    let known: Known = known()?.read()?;
    if let Some(whose) = known.get(folder).and_then(|answers| answers.whose) {
        return Ok(whose);
    }
    let shown = escape(&folder.to_string_lossy());
    if !Terminal::attended() {
        message(&format!(
            "note: {shown} is treated as a stranger's: a command that its files ask for needs your yes. If it is yours, add --workspace mine"
        ));
        return Ok(Whose::Stranger);
    }
    say(&format!(
        "Whose text is in {shown}?\n  mine: what its files say may be done without a question, in the sandbox\n  stranger: \
         what its files say is read and not obeyed\n"
    ));
    let answer = ask(
        "Type mine or stranger [stranger]: ",
        "Type one of these words.",
        |line| match line.trim().to_lowercase().as_str() {
            "mine" => Some(Whose::Mine),
            "" | "stranger" => Some(Whose::Stranger),
            _ => None,
        },
    );
    let Some(answer) = answer else {
        return Ok(Whose::Stranger);
    };
    self::known()?.change(|known: &mut Known| {
        known.entry(folder.to_owned()).or_default().whose = Some(answer);
    })?;
    Ok(answer)
}
