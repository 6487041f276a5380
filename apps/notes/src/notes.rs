//! What the tools do, without MCP.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use app_support::folder::{Content, Folder, FolderError};
use app_support::text;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

const EXTENSION: &str = ".md";
/// Most notes: bounds the time of a search.
const MAX_NOTES: usize = 5_000;
/// Longest note. Longer ones are skipped.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_WRITTEN_BYTES: usize = 100_000;
/// How much of a note is returned: about 2,000 tokens, which leaves a small model room to work.
const MAX_READ_CHARS: usize = 8_000;
const MAX_NAME_CHARS: usize = 100;
const MAX_LISTED: usize = 100;
const MAX_QUERY_CHARS: usize = 200;

/// The user's notes: a folder of Markdown files.
#[derive(Debug)]
pub(crate) struct Notes {
    /// Calls take turns, so that none writes over what another has just written.
    folder: Mutex<Folder>,
}

/// A line of a listing. The order of the fields is the order in the JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    /// The name, without its extension.
    pub(crate) name: String,
    /// RFC 3339, UTC.
    pub(crate) modified: String,
    pub(crate) bytes: usize,
}

/// The result of `list_notes` and `search_notes`: an object, so that rules address `$.notes[*].name`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Listing {
    /// The last changed first.
    pub(crate) notes: Vec<Summary>,
    /// How many there are, shown or not.
    pub(crate) total: usize,
    /// How many files could not be read.
    pub(crate) skipped: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Note {
    pub(crate) name: String,
    pub(crate) modified: String,
    pub(crate) text: String,
    /// Present, and true, when the note is longer than what is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) truncated: bool,
}

/// A failed tool call. The messages say what to do next, and never repeat a name or a text: label rules see results,
/// and an error must not be a way around them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotesError {
    #[error(
        "name must have 1 to {0} characters: letters, digits, spaces and -_.,()+&' with a letter or digit first; no folders"
    )]
    BadName(usize),
    #[error("there is no note of this name: call list_notes for the names")]
    Unknown,
    /// A text that is too long or has control characters.
    #[error("text must have 1 to {0} bytes without control characters")]
    BadText(usize),
    #[error("text must have 1 to {0} characters")]
    BadQuery(usize),
    #[error(transparent)]
    Folder(FolderError),
}

impl From<FolderError> for NotesError {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::NotFound => NotesError::Unknown,
            other => NotesError::Folder(other),
        }
    }
}

impl Notes {
    /// Reads the variable `NOTES` (a folder) through `var`. An empty value counts as unset.
    pub(crate) fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Notes, String> {
        let path = var("NOTES")
            .filter(|value| !value.is_empty())
            .ok_or("NOTES is not set: give the path of a folder of .md files")?;
        let folder = Folder::open(Path::new(&path))
            .map_err(|error| format!("NOTES is {path:?}, which cannot be opened: {error}"))?;
        Ok(Notes {
            folder: Mutex::new(folder),
        })
    }

    /// All notes, the last changed first.
    pub(crate) fn list(&self) -> Result<Listing, NotesError> {
        self.listing(|_, _| true)
    }

    /// The notes that have every word of `text` in name or text.
    pub(crate) fn search(&self, text: &str) -> Result<Listing, NotesError> {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        if words.is_empty() || text.chars().count() > MAX_QUERY_CHARS {
            return Err(NotesError::BadQuery(MAX_QUERY_CHARS));
        }
        self.listing(|name, text| {
            let all = format!("{name}\n{text}").to_lowercase();
            words.iter().all(|word| all.contains(word.as_str()))
        })
    }

    pub(crate) fn read(&self, name: &str) -> Result<Note, NotesError> {
        let content = self.folder().read(&file_name(name)?, MAX_BYTES)?;
        let (text, truncated) = text::lines(&content.text, MAX_READ_CHARS);
        Ok(Note {
            name: name.to_owned(),
            modified: modified(&content),
            text,
            truncated,
        })
    }

    /// A whole note: a new one, or in the place of the one of this name.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<Value, NotesError> {
        // Before the folder is locked and touched: a bad name or text changes nothing.
        let (file, text) = (file_name(name)?, checked(text)?);
        let folder = self.folder();
        // Created first: the file system decides whether there was a note, and not a look that may be out of date.
        let replaced = match folder.create(&file, text, MAX_BYTES) {
            Err(FolderError::Exists) => {
                folder.replace(&file, text, MAX_BYTES)?;
                true
            }
            created => {
                created?;
                false
            }
        };
        Ok(json!({ "written": true, "replaced": replaced }))
    }

    /// Text on a line of its own at the end of a note that exists.
    pub(crate) fn append(&self, name: &str, text: &str) -> Result<Value, NotesError> {
        let (file, text) = (file_name(name)?, checked(text)?);
        let folder = self.folder();
        let mut whole = folder.read(&file, MAX_BYTES)?.text;
        if !whole.is_empty() && !whole.ends_with('\n') {
            whole.push('\n');
        }
        whole.push_str(text);
        whole.push('\n');
        folder.replace(&file, &whole, MAX_BYTES)?;
        Ok(json!({ "appended": true }))
    }

    pub(crate) fn delete(&self, name: &str) -> Result<Value, NotesError> {
        self.folder().delete(&file_name(name)?)?;
        Ok(json!({ "deleted": true }))
    }

    fn listing(&self, wanted: impl Fn(&str, &str) -> bool) -> Result<Listing, NotesError> {
        let folder = self.folder();
        let names = folder.names(EXTENSION, MAX_NOTES)?;
        let (mut notes, mut skipped) = (Vec::new(), names.skipped);
        for file in &names.files {
            // A name that the other tools would refuse is of no use to the caller.
            let name = file.strip_suffix(EXTENSION).filter(|name| is_name(name));
            let content = match folder.read(file, MAX_BYTES) {
                // Deleted since it was listed.
                Err(FolderError::NotFound) => continue,
                Err(error @ FolderError::Io { .. }) => return Err(error.into()),
                other => other.ok(),
            };
            match name.zip(content) {
                // Without its text: thousands of them would fill the memory.
                Some((name, content)) if wanted(name, &content.text) => {
                    let summary = Summary {
                        name: name.to_owned(),
                        modified: modified(&content),
                        bytes: content.text.len(),
                    };
                    notes.push((content.modified, summary));
                }
                Some(_) => {}
                None => skipped += 1,
            }
        }
        notes.sort_by(|(a_time, a), (b_time, b)| {
            b_time.cmp(a_time).then_with(|| a.name.cmp(&b.name))
        });
        let total = notes.len();
        let shown = notes.into_iter().take(MAX_LISTED);
        Ok(Listing {
            notes: shown.map(|(_, summary)| summary).collect(),
            total,
            skipped,
        })
    }

    fn folder(&self) -> MutexGuard<'_, Folder> {
        // All state is on the disk, which a call that was cut short left whole.
        self.folder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_name(name: &str) -> Result<String, NotesError> {
    match is_name(name) {
        true => Ok(format!("{name}{EXTENSION}")),
        false => Err(NotesError::BadName(MAX_NAME_CHARS)),
    }
}

/// A name is a line without slashes, and nothing that a terminal or a shell takes for something else.
fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || " -_.,()+&'".contains(c);
    (1..=MAX_NAME_CHARS).contains(&name.chars().count())
        && name.starts_with(char::is_alphanumeric)
        && !name.ends_with(' ')
        && name.chars().all(allowed)
}

fn checked(text: &str) -> Result<&str, NotesError> {
    let hidden = |c: char| text::is_hidden(c) && c != '\n' && c != '\t';
    match (1..=MAX_WRITTEN_BYTES).contains(&text.len()) && !text.contains(hidden) {
        true => Ok(text),
        false => Err(NotesError::BadText(MAX_WRITTEN_BYTES)),
    }
}

fn modified(content: &Content) -> String {
    let at = Timestamp::from_second(content.modified).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
