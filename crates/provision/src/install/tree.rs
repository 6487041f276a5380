//! An installed tree: sealed when it is whole, and known by a hash of all that is in it.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

/// Most files and folders of a tree. A browser's package has thousands, `node_modules` tens of thousands.
const MAX_ENTRIES: usize = 200_000;
/// Most bytes of a tree.
const MAX_BYTES: u64 = 2 << 30;
/// How deep folders may lie in each other.
const MAX_DEPTH: usize = 64;
/// Portion in which a file is read.
const PORTION: usize = 64 << 10;

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
    #[error("the package has '{path}', which is no file, folder or link", path = path.display())]
    Special {
        /// Its place in the tree.
        path: PathBuf,
    },
    /// It is too large.
    #[error("the package is too large: more than {what}")]
    TooLarge {
        /// Which limit.
        what: String,
    },
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> TreeError {
    let path = path.to_owned();
    move |source| TreeError::Io { path, source }
}

/// Refuses what does not belong into a tree, takes away every right to write and every set-user-id bit, and tells the
/// hash.
pub(crate) fn seal(tree: &Path) -> Result<String, TreeError> {
    walk(tree, &mut |path, metadata| {
        if metadata.is_symlink() {
            return Ok(());
        }
        let mode = if metadata.is_dir() || metadata.permissions().mode() & 0o111 != 0 {
            0o555
        } else {
            0o444
        };
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(io_error(path))
    })?;
    digest(tree)
}

/// Makes a tree one that can be removed.
pub(crate) fn unseal(tree: &Path) -> Result<(), TreeError> {
    walk(tree, &mut |path, metadata| match metadata.is_dir() {
        true => fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(io_error(path)),
        false => Ok(()),
    })
}

/// The hash of every name, kind, right to execute, link and content of a tree.
pub(crate) fn digest(tree: &Path) -> Result<String, TreeError> {
    let mut all = Sha256::new();
    let mut portion = vec![0; PORTION];
    walk(tree, &mut |path, metadata| {
        let name = path
            .strip_prefix(tree)
            .unwrap_or(path)
            .as_os_str()
            .as_bytes();
        field(&mut all, name);
        if metadata.is_symlink() {
            let target = path.read_link().map_err(io_error(path))?;
            field(&mut all, b"link");
            field(&mut all, target.as_os_str().as_bytes());
        } else if metadata.is_dir() {
            field(&mut all, b"folder");
        } else {
            let executable = metadata.permissions().mode() & 0o111 != 0;
            field(&mut all, if executable { b"program" } else { b"file" });
            field(
                &mut all,
                &content(path, &mut portion).map_err(io_error(path))?,
            );
        }
        Ok(())
    })?;
    Ok(all
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// With its length before it, so that two different trees have two different texts.
fn field(all: &mut Sha256, bytes: &[u8]) {
    all.update((bytes.len() as u64).to_le_bytes());
    all.update(bytes);
}

fn content(path: &Path, portion: &mut [u8]) -> io::Result<[u8; 32]> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    loop {
        let count = file.read(portion)?;
        if count == 0 {
            return Ok(hash.finalize().into());
        }
        hash.update(portion.get(..count).unwrap_or_default());
    }
}

type Visit<'v> = dyn FnMut(&Path, &Metadata) -> Result<(), TreeError> + 'v;

/// Visits everything in a tree, in one order, the tree itself included, and follows no link.
fn walk(tree: &Path, visit: &mut Visit<'_>) -> Result<(), TreeError> {
    let mut budget = Budget {
        entries: 0,
        bytes: 0,
    };
    enter(tree, tree, 0, &mut budget, visit)
}

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
    let too_large = |what: String| Err(TreeError::TooLarge { what });
    budget.entries += 1;
    budget.bytes = budget.bytes.saturating_add(if metadata.is_file() {
        metadata.len()
    } else {
        0
    });
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
        return Err(TreeError::Special {
            path: inside.to_owned(),
        });
    }
    visit(path, &metadata)?;
    if metadata.is_dir() {
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(io_error(path))? {
            names.push(entry.map_err(io_error(path))?.file_name());
        }
        names.sort();
        for name in names {
            enter(tree, &path.join(name), depth + 1, budget, visit)?;
        }
    }
    Ok(())
}

/// Whether a link at `inside` stays in the tree, by its text alone: what other links there make of it was looked at
/// where they are.
fn stays(inside: &Path, target: &Path) -> bool {
    let mut depth = inside.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            _ => return false,
        }
    }
    true
}
