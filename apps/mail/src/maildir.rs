//! The Maildir: finding, reading and deleting mail files.
//!
//! Layout: `cur/`, `new/` and `tmp/`, and Maildir++ folders beside them (`.Sent/cur` …). A mail is unread while it is
//! in `new/`, or without the flag `S` in `cur/`. Reading here moves nothing and sets no flag: a read must not be a
//! write, and the user's own mail reader keeps its idea of what is new. `tmp/` is never read: a file there is still
//! being delivered.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use app_support::tools;
use sha2::{Digest, Sha256};

use crate::error::MailError;
use crate::message::{self, Depth, Parsed};

pub(crate) const INBOX: &str = "INBOX";
/// Most mails of a folder that are looked at, the youngest files first: bounds the time of a listing.
const MAX_MAILS: usize = 5_000;
const MAX_FOLDERS: usize = 100;
/// How much of a file is read for its header.
const MAX_HEADER_BYTES: u64 = 64 * 1024;
/// How much of a file is read for its body; the text of a mail comes before its attachments.
const MAX_MAIL_BYTES: u64 = 1024 * 1024;
/// How far a `Date` header may lie after the delivery. A mail dated later is sorted by its delivery: its sender
/// would otherwise make it the newest for ever.
const MAX_CLOCK_SKEW: i64 = 24 * 60 * 60;

/// The directory that holds the mail.
#[derive(Clone, Debug)]
pub(crate) struct Maildir {
    root: PathBuf,
}

/// A mail file that exists, or did a moment ago.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) unread: bool,
    path: PathBuf,
    /// When the file was delivered, in seconds since 1970.
    pub(crate) delivered: i64,
}

impl Maildir {
    /// Opens a Maildir; `Err` names the directory that is missing.
    pub(crate) fn open(root: &Path) -> Result<Maildir, PathBuf> {
        for part in ["cur", "new", "tmp"] {
            let directory = root.join(part);
            if !directory.is_dir() {
                return Err(directory);
            }
        }
        Ok(Maildir {
            root: root.to_owned(),
        })
    }

    /// The mails of a folder, the youngest files first, at most [`MAX_MAILS`].
    pub(crate) fn entries(&self, folder: &str) -> Result<Vec<Entry>, MailError> {
        let folders = self.folders()?;
        // The exact name first, since two folders may differ in case only.
        let Some((name, path)) = folders.get_key_value(folder).or_else(|| {
            folders
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(folder))
        }) else {
            return Err(MailError::UnknownFolder(
                folders.into_keys().collect::<Vec<_>>().join(", "),
            ));
        };
        read_folder(name, path)
    }

    /// The mails of all folders, the youngest files first, at most [`MAX_MAILS`].
    pub(crate) fn all_entries(&self) -> Result<Vec<Entry>, MailError> {
        let mut all = Vec::new();
        for (name, path) in self.folders()? {
            all.extend(read_folder(&name, &path)?);
        }
        youngest_first(&mut all);
        Ok(all)
    }

    /// The mail with this id, in any folder. An id is only ever compared, so it cannot name a path.
    pub(crate) fn find(&self, id: &str) -> Result<Entry, MailError> {
        if !tools::is_id(id) {
            return Err(MailError::BadId);
        }
        let mut found = None;
        for (name, path) in self.folders()? {
            for entry in files(&name, &path)?
                .into_iter()
                .filter(|entry| entry.id == id)
            {
                if found.replace(entry).is_some() {
                    return Err(MailError::AmbiguousId);
                }
            }
        }
        found.ok_or(MailError::UnknownId)
    }

    /// Folder names and their directories: the inbox and every Maildir++ folder that is a real directory.
    fn folders(&self) -> Result<BTreeMap<String, PathBuf>, MailError> {
        let mut folders = BTreeMap::from([(INBOX.to_owned(), self.root.clone())]);
        for entry in fs::read_dir(&self.root).map_err(MailError::io("listed"))? {
            let entry = entry.map_err(MailError::io("listed"))?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let Some(name) = name.strip_prefix('.').filter(|name| is_folder_name(name)) else {
                continue;
            };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && folders.len() < MAX_FOLDERS {
                folders.insert(name.to_owned(), entry.path());
            }
        }
        Ok(folders)
    }
}

impl Entry {
    /// Reads and parses the mail. `None` when the file is gone: deleted or moved since it was listed.
    pub(crate) fn read(&self, depth: Depth) -> Result<Option<Parsed>, MailError> {
        let limit = match depth {
            Depth::Headers => MAX_HEADER_BYTES,
            Depth::Body(_) => MAX_MAIL_BYTES,
        };
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(MailError::io("read")(error)),
        };
        // Asked of the open file: the path may have another one by now.
        let longer = file.metadata().map_err(MailError::io("read"))?.len() > limit;
        let mut raw = Vec::new();
        file.take(limit)
            .read_to_end(&mut raw)
            .map_err(MailError::io("read"))?;
        let mut parsed = message::parse(&raw, depth);
        parsed.truncated |= longer;
        Ok(Some(parsed))
    }

    /// The time to sort by and to show: the `Date` header where it is plausible, else the delivery.
    pub(crate) fn date(&self, parsed: &Parsed) -> i64 {
        parsed
            .date
            .filter(|&date| date <= self.delivered.saturating_add(MAX_CLOCK_SKEW))
            .unwrap_or(self.delivered)
    }

    pub(crate) fn delete(&self) -> Result<(), MailError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(MailError::UnknownId),
            result => result.map_err(MailError::io("changed")),
        }
    }
}

fn read_folder(name: &str, path: &Path) -> Result<Vec<Entry>, MailError> {
    let mut entries = files(name, path)?;
    youngest_first(&mut entries);
    Ok(entries)
}

fn youngest_first(entries: &mut Vec<Entry>) {
    entries.sort_by(|a, b| (b.delivered, &b.id).cmp(&(a.delivered, &a.id)));
    entries.truncate(MAX_MAILS);
}

/// The mail files of one folder, in no order.
fn files(name: &str, path: &Path) -> Result<Vec<Entry>, MailError> {
    let mut entries = Vec::new();
    for (part, always_unread) in [("new", true), ("cur", false)] {
        let directory = match fs::read_dir(path.join(part)) {
            Ok(directory) => directory,
            // A directory `.Name` without mail in it is no folder of ours.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(MailError::io("listed")(error)),
        };
        for file in directory {
            let file = file.map_err(MailError::io("listed"))?;
            entries.extend(entry(name, &file, always_unread));
        }
    }
    Ok(entries)
}

/// `None` for what is no mail: dot files, directories, pipes, and links, which could lead out of the Maildir.
fn entry(folder: &str, file: &DirEntry, always_unread: bool) -> Option<Entry> {
    let name = file.file_name();
    let name = name.as_encoded_bytes();
    if name.starts_with(b".") || !file.file_type().is_ok_and(|kind| kind.is_file()) {
        return None;
    }
    let unique = name.split(|&byte| byte == b':').next().unwrap_or(name);
    let flags = name.get(unique.len()..).unwrap_or_default();
    // A file that vanished between the two calls has no time, and will be found gone when it is read.
    let delivered = file
        .metadata()
        .and_then(|data| data.modified())
        .ok()?
        .duration_since(UNIX_EPOCH)
        .ok()?
        .as_secs();
    Some(Entry {
        id: id(folder, unique),
        unread: always_unread || !flags.contains(&b'S'),
        path: file.path(),
        delivered: i64::try_from(delivered).ok()?,
    })
}

/// The token of a mail: it stays when the flags change or the file moves from `new` to `cur`.
fn id(folder: &str, unique: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(folder.as_bytes());
    // No folder name has a NUL, so that folder and name cannot be split in two ways.
    hash.update([0]);
    hash.update(unique);
    tools::id_of(&hash.finalize())
}

fn is_folder_name(name: &str) -> bool {
    name.split('.').all(|part| !part.is_empty())
        && name.len() <= 100
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_ &+,".contains(&byte))
}
