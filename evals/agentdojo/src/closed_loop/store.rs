//! Rows on disk: JSON lines that are only ever appended to.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{Cell, Detail};
use crate::report::Row;

const ROWS: &str = "rows.jsonl";
const DETAILS: &str = "details.jsonl";

/// An output folder.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    rows: File,
    details: File,
    done: HashSet<Key>,
    kept: Vec<Row>,
    kept_details: Vec<Detail>,
}

/// What makes a row the only one of its kind.
type Key = [String; 7];

/// Why rows cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}; correct or delete it and run again", path.display())]
pub struct StoreError {
    path: PathBuf,
    #[source]
    error: io::Error,
}

impl Store {
    /// Opens a folder, and reads what an earlier run left. Its last line may be torn, when the run
    /// was killed; it is cut off, and its task runs again. Tasks that ended in an error do, too.
    ///
    /// # Errors
    /// The folder cannot be used, or holds lines of another form.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| StoreError { path, error }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let (rows_path, details_path) = (folder.join(ROWS), folder.join(DETAILS));
        let mut kept: Vec<Row> = read(&rows_path).map_err(failed(&rows_path))?;
        let kept_details = read(&details_path).map_err(failed(&details_path))?;
        kept.retain(|row| row.error.is_none());
        Ok(Self {
            folder: folder.to_owned(),
            rows: append(&rows_path).map_err(failed(&rows_path))?,
            details: append(&details_path).map_err(failed(&details_path))?,
            done: kept.iter().map(key).collect(),
            kept,
            kept_details,
        })
    }

    /// Whether a task of a cell has its row.
    #[must_use]
    pub fn has(&self, cell: &Cell, user_task: &str, injection_task: Option<&str>) -> bool {
        let text = |text: &str| text.to_owned();
        self.done.contains(&[
            cell.defence.name(),
            cell.version.clone(),
            cell.suite.clone(),
            text(user_task),
            text(injection_task.unwrap_or_default()),
            cell.attack.clone().unwrap_or_default(),
            text(cell.user.name()),
        ])
    }

    /// Keeps a row and what is known beside it, each with one write.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn keep(&mut self, row: Row, detail: Detail) -> Result<(), StoreError> {
        // The detail first: a row that is there says that all of it is.
        let written = write(&mut self.details, &detail).and_then(|()| write(&mut self.rows, &row));
        written.map_err(|error| StoreError {
            path: self.folder.clone(),
            error,
        })?;
        self.done.insert(key(&row));
        self.kept.push(row);
        self.kept_details.push(detail);
        Ok(())
    }

    /// All rows, of earlier runs too.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.kept
    }

    /// What is known beside the rows.
    #[must_use]
    pub fn details(&self) -> &[Detail] {
        &self.kept_details
    }
}

fn key(row: &Row) -> Key {
    [
        row.defence.clone(),
        row.version.clone(),
        row.suite.clone(),
        row.user_task.clone(),
        row.injection_task.clone().unwrap_or_default(),
        row.attack.clone().unwrap_or_default(),
        row.user_model.clone(),
    ]
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    let mut text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    if whole < text.len() {
        text.truncate(whole);
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(u64::try_from(whole).map_err(io::Error::other)?)?;
    }
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().map_err(io::Error::other)
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write(file: &mut File, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)
}
