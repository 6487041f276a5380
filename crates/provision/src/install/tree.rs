//! An installed tree: sealed when it is complete, and identified by a hash of its contents.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

/// Most files and folders of a tree. A browser's package has thousands, `node_modules` tens of thousands.
const MAX_ENTRIES: usize = 200_000;
const MAX_BYTES: u64 = 2 << 30;
/// Deepest nesting of folders.
const MAX_DEPTH: usize = 64;

/// Why a tree cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// It cannot be read or changed.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A link leads out of it.
    #[error("the package has a link '{link}' that leads out of it, to '{target}'", link = link.display(), target = target.display())]
    Outside {
        /// The link, from the tree.
        link: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// It holds something that is no file, folder or link.
    #[error("the package has '{}', which is no file, folder or link", .0.display())]
    Special(PathBuf),
    /// It is larger than this limit.
    #[error("the package is too large: more than {0}")]
    TooLarge(String),
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> TreeError {
    let path = path.to_owned();
    move |source| TreeError::Io { path, source }
}

/// Checks a tree, removes every right to write and every set-user-id bit, and returns the hash.
pub(crate) fn seal(tree: &Path) -> Result<String, TreeError> {
    walk(tree, &mut |path, metadata| {
        if metadata.is_symlink() {
            return Ok(());
        }
        let runs = metadata.is_dir() || metadata.permissions().mode() & 0o111 != 0;
        let mode = if runs { 0o555 } else { 0o444 };
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(io_error(path))
    })?;
    digest(tree)
}

/// Makes any tree removable, a refused one too.
pub(crate) fn unseal(tree: &Path) -> Result<(), TreeError> {
    let mut open = vec![tree.to_owned()];
    while let Some(folder) = open.pop() {
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).map_err(io_error(&folder))?;
        for entry in fs::read_dir(&folder).map_err(io_error(&folder))? {
            let entry = entry.map_err(io_error(&folder))?;
            // The type of a link is that of the link.
            if entry.file_type().map_err(io_error(&folder))?.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(())
}

/// The hash of every name, kind, right to execute, link and content of a tree.
pub(crate) fn digest(tree: &Path) -> Result<String, TreeError> {
    let mut all = Sha256::new();
    walk(tree, &mut |path, metadata| {
        let name = path.strip_prefix(tree).unwrap_or(path);
        field(&mut all, name.as_os_str().as_bytes());
        if metadata.is_symlink() {
            let target = path.read_link().map_err(io_error(path))?;
            field(&mut all, b"link");
            field(&mut all, target.as_os_str().as_bytes());
        } else if metadata.is_dir() {
            field(&mut all, b"folder");
        } else {
            let executable = metadata.permissions().mode() & 0o111 != 0;
            field(&mut all, if executable { b"program" } else { b"file" });
            field(&mut all, &content(path).map_err(io_error(path))?);
        }
        Ok(())
    })?;
    let bytes = all.finalize();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// With its length before it, so that two different trees have two different texts.
fn field(all: &mut Sha256, bytes: &[u8]) {
    all.update((bytes.len() as u64).to_le_bytes());
    all.update(bytes);
}

fn content(path: &Path) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut file = File::open(path)?;
    let mut portion = vec![0; 1 << 16];
    while let count @ 1.. = file.read(&mut portion)? {
        hash.update(portion.get(..count).unwrap_or_default());
    }
    Ok(hash.finalize().into())
}

type Visit<'v> = dyn FnMut(&Path, &Metadata) -> Result<(), TreeError> + 'v;

/// Visits everything in a tree in a fixed order, the tree itself first. Links are not followed.
fn walk(tree: &Path, visit: &mut Visit<'_>) -> Result<(), TreeError> {
    enter(tree, tree, 0, &mut Budget::default(), visit)
}

#[derive(Default)]
struct Budget {
    entries: usize,
    bytes: u64,
}

fn enter(
    tree: &Path,
    path: &Path,
    depth: usize,
    budget: &mut Budget,
    visit: &mut Visit<'_>,
) -> Result<(), TreeError> {
    let metadata = path.symlink_metadata().map_err(io_error(path))?;
    let inside = path.strip_prefix(tree).unwrap_or(path);
    let too_large = |what: String| Err(TreeError::TooLarge(what));
    // Counted first, so that an endless tree is refused at its limit.
    budget.entries += 1;
    if metadata.is_file() {
        budget.bytes = budget.bytes.saturating_add(metadata.len());
    }
    if budget.entries > MAX_ENTRIES {
        return too_large(format!("{MAX_ENTRIES} files"));
    }
    if budget.bytes > MAX_BYTES {
        return too_large(format!("{} GiB", MAX_BYTES >> 30));
    }
    if depth > MAX_DEPTH {
        return too_large(format!("{MAX_DEPTH} folders in each other"));
    }
    if metadata.is_symlink() {
        let target = path.read_link().map_err(io_error(path))?;
        if !stays(inside, &target) {
            return Err(TreeError::Outside {
                link: inside.to_owned(),
                target,
            });
        }
    } else if !metadata.is_dir() && !metadata.is_file() {
        return Err(TreeError::Special(inside.to_owned()));
    }
    // The folder before its entries: sealing restores the right to read it.
    visit(path, &metadata)?;
    if metadata.is_dir() {
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(io_error(path))? {
            names.push(entry.map_err(io_error(path))?.file_name());
        }
        // The hash must not depend on the file system's order.
        names.sort();
        for name in names {
            enter(tree, &path.join(name), depth + 1, budget, visit)?;
        }
    }
    Ok(())
}

/// Whether a link at `inside` stays in the tree, by its text alone.
///
/// No folder on the way to `inside` is a link, so `..` at the beginning of a target leads up from there. After a name, `..` is
/// refused: the name may be a link that leads up, from where `..` could leave the tree. The rest of the target goes down, over
/// links that are checked where they are.
fn stays(inside: &Path, target: &Path) -> bool {
    let mut depth = inside.components().count().saturating_sub(1);
    let mut goes_down = false;
    for part in target.components() {
        match part {
            Component::Normal(_) => goes_down = true,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 && !goes_down => depth -= 1,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Whether a tree with these links, and a file in `a/b/c`, is one that can be kept.
    fn is_kept(links: &[(&str, &str)]) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::write(tree.join("a/b/c/file"), "").unwrap();
        for (link, target) in links {
            symlink(target, tree.join(link)).unwrap();
        }
        let sealed = seal(&tree);
        let leads_out = links.iter().any(|(link, _)| {
            let end = tree.join(link).canonicalize();
            end.is_ok_and(|end| !end.starts_with(tree.canonicalize().unwrap()))
        });
        unseal(&tree).unwrap();
        assert!(!(sealed.is_ok() && leads_out), "{links:?}");
        match sealed {
            Ok(_) => true,
            Err(TreeError::Outside { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_link_stays_in_the_tree() {
        assert!(is_kept(&[("a/link", "b/c/file")]));
        assert!(is_kept(&[("a/b/c/link", "../../../a/b")]));
        assert!(is_kept(&[("a/b/up", ".."), ("a/way", "b/up/b/c")]));
        for target in ["/etc/passwd", "..", "../x", "a/../../x"] {
            assert!(!is_kept(&[("link", target)]), "{target}");
        }
        assert!(!is_kept(&[("a/b/c/link", "../../../..")]));
    }

    /// Each of these goes down at least as often as up, and the first leads up by less than it has gone down.
    #[test]
    fn a_link_cannot_lead_out_over_another() {
        let up = ("a/b/c/up", "../../..");
        assert!(!is_kept(&[up, ("out", "a/b/c/up/../..")]));
        assert!(!is_kept(&[up, ("a/out", "b/c/up/..")]));
        assert!(!is_kept(&[up, ("here", "a/b/c/up"), ("out", "here/../..")]));
    }
}
