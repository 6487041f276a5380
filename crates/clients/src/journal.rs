//! The record of every change, written before the change: what it takes to undo it. Its files are the user's alone, since
//! configurations hold secrets.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Change, ClientFile, Edited, Format, Opened, Problem};

/// The form of the records.
const VERSION: u32 = 1;
/// Attempts to write a file that another program writes too.
pub(crate) const ATTEMPTS: usize = 5;

/// The folder of the records. Only one program at a time has it open.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    _lock: File,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// The name of its file: records sort by time.
    pub id: String,
    /// The run of `sluice init` that made it.
    pub run: String,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// What was changed.
    pub kind: Kind,
}

/// What was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The file of a client.
    File(FileChange),
    /// Sluice's own configuration.
    Settings(SettingsChange),
}

/// The change of a client's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileChange {
    /// The client.
    pub client: String,
    /// The file, which may be a link.
    pub path: PathBuf,
    /// The SHA-256 of the content before; `None` if there was no file.
    pub before: Option<String>,
    /// The SHA-256 of the content after.
    pub after: String,
    /// The changed tables.
    pub tables: Vec<TableChange>,
    /// The apps that the file's entries need.
    pub apps: Vec<String>,
}

/// The change of one table of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableChange {
    /// The keys that lead to it.
    pub(crate) place: Vec<String>,
    /// The entries that were written.
    pub(crate) put: Vec<(String, Value)>,
    /// The text of the entries that were there before.
    pub(crate) taken: Vec<(String, String)>,
}

/// The change of Sluice's own configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsChange {
    /// The file.
    pub path: PathBuf,
    /// Whether there was a file before.
    pub existed: bool,
    /// The apps that were added, with the SHA-256 of their lines; `None` before they were added.
    pub apps: BTreeMap<String, Option<String>>,
}

impl Journal {
    /// Opens the records in this folder, and waits until no other program has them open.
    ///
    /// # Errors
    /// The folder cannot be created or locked.
    pub fn open(folder: &Path) -> Result<Self, Problem> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
        let lock = File::open(folder)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(std::io::Error::from)?;
        Ok(Self {
            folder: folder.to_owned(),
            _lock: lock,
        })
    }

    /// All changes that are not undone, oldest first.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn records(&self) -> Result<Vec<Record>, Problem> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|kind| kind != "json") {
                continue;
            }
            let wrong = || Problem::new(format!("the record {} is damaged", path.display()));
            let record: Record = serde_json::from_slice(&fs::read(&path)?).map_err(|_| wrong())?;
            if record.version != VERSION {
                return Err(wrong());
            }
            all.push(record);
        }
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(all)
    }

    /// The id of the next record, which also names a run that begins with it.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn next_id(&self) -> Result<String, Problem> {
        // Not by time: a clock may be set back.
        let last = self.records()?.pop();
        let last = last.map_or(0, |record| record.id.parse().unwrap_or(0_u64));
        Ok(format!("{:06}", last + 1))
    }

    /// Writes a record, before its change is made.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&self, run: &str, kind: Kind) -> Result<Record, Problem> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let at_ms = u64::try_from(now.as_millis()).unwrap_or_default();
        let record = Record {
            version: VERSION,
            id: self.next_id()?,
            run: run.to_owned(),
            at_ms,
            kind,
        };
        self.save(&record)?;
        Ok(record)
    }

    /// Writes a record in the place of the one with this name.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, record: &Record) -> Result<(), Problem> {
        let text = serde_json::to_vec(record).map_err(std::io::Error::other)?;
        self.write(&format!("{}.json", record.id), &text)
    }

    /// Deletes a record, and the old content that it names unless another record names it too.
    ///
    /// # Errors
    /// It cannot be deleted.
    pub fn remove(&self, record: &Record) -> Result<(), Problem> {
        fs::remove_file(self.folder.join(format!("{}.json", record.id)))?;
        let Kind::File(FileChange {
            before: Some(before),
            ..
        }) = &record.kind
        else {
            return Ok(());
        };
        let names_it = |other: &Record| matches!(&other.kind, Kind::File(file) if file.before.as_ref() == Some(before));
        match self.records()?.iter().any(names_it) {
            true => Ok(()),
            false => Ok(fs::remove_file(self.content(before))?),
        }
    }

    /// The file with this content.
    #[must_use]
    pub fn content(&self, hash: &str) -> PathBuf {
        self.folder.join(format!("{hash}.before"))
    }

    /// Changes a client's file as `plan` says; `None` if that is nothing. If another program writes the file meanwhile, it is
    /// read and planned again.
    ///
    /// # Errors
    /// The file cannot be read, changed or written.
    pub fn change(
        &self,
        run: &str,
        file: &ClientFile,
        apps: &[String],
        plan: &dyn Fn(&Opened) -> Vec<Change>,
    ) -> Result<Option<Edited>, Problem> {
        for _ in 0..ATTEMPTS {
            let opened = file.open()?;
            let changes = plan(&opened);
            let Some(edited) = opened.edit(&changes)? else {
                return Ok(None);
            };
            match self.write_change(run, &opened, &changes, &edited, apps) {
                Ok(()) => return Ok(Some(edited)),
                Err(problem) if problem.is_race => {}
                Err(problem) => return Err(problem),
            }
        }
        Err(Problem::race())
    }

    fn write_change(
        &self,
        run: &str,
        opened: &Opened,
        changes: &[Change],
        edited: &Edited,
        apps: &[String],
    ) -> Result<(), Problem> {
        let before = opened.snapshot.bytes.as_deref();
        if let Some(before) = before {
            self.write(&format!("{}.before", hash(before)), before)?;
        }
        let tables = changes.iter().zip(&edited.taken);
        let tables = tables.map(|(change, taken)| TableChange {
            place: change.place.clone(),
            put: change.put.clone(),
            taken: taken.clone(),
        });
        let record = self.add(
            run,
            Kind::File(FileChange {
                client: opened.file.client.id.to_owned(),
                path: opened.file.path.clone(),
                before: before.map(hash),
                after: hash(edited.text.as_bytes()),
                tables: tables.collect(),
                apps: apps.to_vec(),
            }),
        )?;
        let written = opened
            .snapshot
            .replace(Some(edited.text.as_bytes()), opened.file.client.locks());
        if written.is_err() {
            self.remove(&record)?;
        }
        written
    }

    /// Writes a file of the folder in one step.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Problem> {
        let temporary = self.folder.join("new");
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, self.folder.join(name))?;
        Ok(File::open(&self.folder)?.sync_all()?)
    }
}

impl Record {
    /// The same record of another change.
    #[must_use]
    pub fn of(&self, kind: Kind) -> Self {
        Self {
            kind,
            ..self.clone()
        }
    }
}

impl Opened {
    /// The text after these changes; `None` if they change nothing.
    ///
    /// # Errors
    /// The file has a form that cannot be changed, or must not be written.
    pub fn edit(&self, changes: &[Change]) -> Result<Option<Edited>, Problem> {
        let format = self.file.client.format;
        let text = match (self.snapshot.text()?, format) {
            (Some(text), _) => text,
            (None, Format::StrictJson | Format::Json) => "{}\n",
            (None, Format::Toml | Format::Yaml) => "",
        };
        let edited = format.edit(text, changes)?;
        let is_same = self.snapshot.text()? == Some(&edited.text) || changes.is_empty();
        if !is_same {
            self.snapshot.check_writable()?;
        }
        Ok((!is_same).then_some(edited))
    }
}

/// The SHA-256 of a content.
pub(crate) fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
