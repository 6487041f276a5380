//! The paths that arguments and variables name, and the git folders of worktrees.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::FindError;
use super::finder::Finder;
use super::places::{Hold, Places};
use super::script::Language;
use super::wanted::{Found, Host, Purpose, Wanted};
use crate::files;

/// Longest file by which git leads from a worktree to its repository.
const MAX_GIT_FILE: u64 = 8 << 10;

/// The files and folders that the arguments and variables of a command name, without those to which a link inside of a
/// `writable` place leads. Its program and the script that an interpreter runs are none of them: [`find`](super::find) finds
/// these.
pub fn named(
    host: &Host,
    command: &[String],
    env: &BTreeMap<String, String>,
    writable: &[PathBuf],
) -> Result<Vec<Found>, FindError> {
    let mut finder = Finder::new(host, &Wanted::nothing(env, writable));
    let program = command.first().map(Path::new);
    let arguments = command.get(1..).unwrap_or_default();
    let script = program.and_then(Language::of);
    let script = script.and_then(|language| language.script(arguments));
    finder.data(others(arguments, script).chain(env.values()))?;
    Ok(finder.places.finish())
}

/// Whether a link inside of a `writable` place decides where an absolute path leads.
#[must_use]
pub fn is_diverted(host: &Host, path: &Path, writable: &[PathBuf]) -> bool {
    Places::new(host, &[], writable).hold(path) == Hold::Way
}

/// The arguments without the one at this place.
pub(super) fn others(arguments: &[String], script: Option<usize>) -> impl Iterator<Item = &String> {
    let others = arguments.iter().enumerate();
    let others = others.filter(move |(at, _)| Some(*at) != script);
    others.map(|(_, argument)| argument)
}

/// The absolute path that a text names: the text, the value of an option, or an address of a file or a database in a file.
#[must_use]
pub fn named_path(text: &str) -> Option<PathBuf> {
    let option = text.split_once('=');
    let value = option.filter(|(key, _)| !key.contains(['/', ':']));
    let value = value.map_or(text, |(_, value)| value);
    let path = match value.split_once(':') {
        Some((scheme, rest)) if !scheme.contains('/') => {
            let rest = rest.split(['?', '#']).next()?;
            let rest = rest.strip_prefix("//").unwrap_or(rest);
            let host = if scheme == "file" { "localhost" } else { "" };
            let rest = rest.strip_prefix(host).unwrap_or(rest);
            // `sqlite:////a` and `file:///a` name `/a`.
            let rest = rest
                .starts_with('/')
                .then(|| rest.trim_start_matches('/'))?;
            format!("/{}", decoded(rest)?)
        }
        _ => value.to_owned(),
    };
    Some(PathBuf::from(path)).filter(|path| path.is_absolute())
}

/// A text with the bytes of its `%20` and the like.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

impl Finder<'_> {
    /// The places that arguments and variables name.
    pub(super) fn data<'t>(
        &mut self,
        texts: impl Iterator<Item = &'t String>,
    ) -> Result<(), FindError> {
        for path in texts.filter_map(|text| named_path(text)) {
            if self.places.is_there(&path, Purpose::Data) {
                continue;
            }
            // An app decides where it leads.
            if self.places.hold(&path) == Hold::Way {
                continue;
            }
            // A missing path may be one that the app creates.
            if let Ok(end) = path.canonicalize() {
                self.places.provide(&path, &end, Purpose::Data)?;
                self.worktree(&end);
            }
        }
        Ok(())
    }

    /// The git folder of the repository that a worktree belongs to. All that is in the worktree may be a stranger's, so the
    /// repository has to be outside of it and to name it, and no app may write either.
    pub(super) fn worktree(&mut self, folder: &Path) {
        let line = |path: PathBuf| {
            let text = files::text(&path, MAX_GIT_FILE).ok()?;
            Some(text.trim_end().to_owned())
        };
        let found = || {
            let root = folder.canonicalize().ok()?;
            let file = root.join(".git");
            let own = line(file.clone())?;
            let own = root.join(own.strip_prefix("gitdir:")?.trim_start());
            let back = own.join(line(own.join("gitdir"))?);
            let common = own.join(line(own.join("commondir"))?).canonicalize().ok()?;
            // Not equal if the file is a link, which could lead to that of another worktree.
            let is_named = back.canonicalize().ok()? == file;
            let deciding = [&file, &back, &own.join("gitdir"), &own.join("commondir")];
            let is_free = (deciding.iter()).all(|path| self.places.hold(path) == Hold::None);
            let own = own.canonicalize().ok()?;
            let is_outside = !own.starts_with(&root);
            let mut parts = ["HEAD", "objects", "refs"].iter();
            let is_repository = own.parent()? == common.join("worktrees")
                && parts.all(|part| common.join(part).exists());
            (is_named && is_free && is_outside && is_repository).then_some(common)
        };
        if let Some(common) = found() {
            // Without it only git fails.
            let _ = self.places.cover(&common, Purpose::Data);
        }
    }
}
