//! All rows of a store as lines of JSON, from one moment, to be put into another store of either kind.
//!
//! The first line names the form. Each further line is a row: `["record",…]` with the values of the table's columns, bytes in
//! hexadecimal digits. The last line has the number of rows and the SHA-256 of all lines before it, so a file that was cut or
//! changed is refused.

mod lines;
mod rows;

use std::io;

use crate::{DatabaseError, StateError};

pub(crate) use lines::{Reader, Writer};
pub(crate) use rows::{Backend, Files, counts, export, import};

/// Why rows cannot be exported or imported.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be read or written.
    #[error("the export cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// It is another file.
    #[error("this is no export of `sluice state export`, or one of a newer program")]
    Foreign,
    /// It has no last line.
    #[error("the export is incomplete: its last line is missing; nothing was imported")]
    Cut,
    /// The digest of its last line is of other rows.
    #[error("the export was changed: its digest is of other rows; nothing was imported")]
    Changed,
    /// A line cannot be read.
    #[error("line {0} of the export cannot be read: {1}; nothing was imported")]
    Line(u64, &'static str),
    /// The store has rows.
    #[error("the store has rows already ({0}); import into a new database or an empty folder")]
    NotEmpty(&'static str),
    /// The store failed.
    #[error(transparent)]
    State(#[from] StateError),
}

impl From<DatabaseError> for ArchiveError {
    fn from(error: DatabaseError) -> Self {
        Self::State(error.into())
    }
}

/// A table of both kinds of store.
#[derive(Debug)]
pub(crate) struct Table {
    name: &'static str,
    file: File,
    /// Rows are sorted by so many columns, so that equal stores have equal exports.
    key: usize,
    /// Each column with its type, as [`Kind`] reads it.
    columns: &'static str,
}

/// The SQLite file of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    State,
    Desk,
    Audit,
}

/// The type of a column. Each may be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    /// A number that the database chooses for a new row.
    Counter,
    Text,
    Bytes,
}

impl Table {
    fn columns(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        let columns = self.columns.split_whitespace();
        columns.map(|column| match column.split_once(':') {
            Some((name, "counter")) => (name, Kind::Counter),
            Some((name, "text")) => (name, Kind::Text),
            Some((name, "bytes")) => (name, Kind::Bytes),
            Some((name, _)) => (name, Kind::Number),
            None => (column, Kind::Number),
        })
    }

    /// The names of the columns with commas between them.
    fn names(&self) -> String {
        let names: Vec<&str> = self.columns().map(|(name, _)| name).collect();
        names.join(", ")
    }

    /// The statement that reads the rows in the order of their bytes; `collate` says so for text.
    fn select(&self, collate: &str) -> String {
        let key = self.columns().take(self.key);
        let key = key.map(|(name, kind)| match kind {
            Kind::Text => format!("{name}{collate}"),
            _ => name.to_owned(),
        });
        let (key, names) = (key.collect::<Vec<_>>().join(", "), self.names());
        format!("SELECT {names} FROM {} ORDER BY {key}", self.name)
    }
}

/// Every table, but `change` of the desk and `version`, which say nothing that another store could use. A test compares this
/// list with the tables of both kinds of store.
const TABLES: [Table; 9] = tables! {
    State "tenant" 1 "id:bytes head version",
    State "record" 2 "tenant:bytes number at body:text",
    State "session" 2 "tenant:bytes key:bytes version at body:text",
    State "permit" 1 "number:counter tenant:bytes name:text key:bytes until body:text",
    State "usage" 3 "tenant:text thing:text hour count",
    Desk "question" 1 "number:counter id:bytes key:bytes app:text effect:text tenant:text asked expires alive answered used answer:text question:text",
    Desk "token" 1 "name:text digest:bytes token:text last_used",
    Audit "audit_chain" 1 "chain:bytes number linked head:text",
    Audit "audit_entry" 2 "chain:bytes number at entry:text",
};

/// Tables, each as its file, its name, the length of its key, and its columns.
macro_rules! tables {
    ($($file:ident $name:literal $key:literal $columns:literal,)*) => {
        [$(Table { name: $name, file: File::$file, key: $key, columns: $columns }),*]
    };
}
use tables;
