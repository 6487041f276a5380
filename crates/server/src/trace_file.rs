//! The trace on disk: one JSON line a record, written before anything else happens.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use hub::trace::{Event, Record, VERSION};

/// A session's trace, open for appending. It holds the user's data: directory and file are
/// readable by their owner only.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    file: File,
    sequence: u64,
}

/// Why a trace cannot be written or read. A session whose trace fails ends.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file or its directory.
    #[error("cannot use the trace file {path}: {source}; check the directory and the free space")]
    File {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A line is not a record.
    #[error("{path}, line {line}: not a trace record of version {VERSION}: {reason}")]
    Record {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// The parser's reason.
        reason: String,
    },
}

impl TraceFile {
    /// Creates `directory/session.jsonl`, which must not exist.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(directory: &Path, session: &str) -> Result<Self, TraceError> {
        let path = directory.join(format!("{session}.jsonl"));
        let open = || {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)?;
            OpenOptions::new()
                .append(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
        };
        match open() {
            Ok(file) => Ok(Self {
                path,
                file,
                sequence: 0,
            }),
            Err(source) => Err(TraceError::File { path, source }),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one event with the present time, in one write: a process that is killed leaves
    /// whole lines behind.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, event: Event) -> Result<Record, TraceError> {
        self.append_to(None, event)
    }

    /// As [`TraceFile::append`], in a trace of many conversations.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append_to(
        &mut self,
        conversation: Option<&str>,
        event: Event,
    ) -> Result<Record, TraceError> {
        self.sequence += 1;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let record = Record {
            version: VERSION,
            sequence: self.sequence,
            at_ms,
            conversation: conversation.map(str::to_owned),
            event,
        };
        let write = |file: &mut File| {
            let mut line = serde_json::to_vec(&record).map_err(io::Error::other)?;
            line.push(b'\n');
            file.write_all(&line)
        };
        match write(&mut self.file) {
            Ok(()) => Ok(record),
            Err(source) => Err(TraceError::File {
                path: self.path.clone(),
                source,
            }),
        }
    }

    /// Reads a whole trace. A last line without its end was cut by a crash and is left out.
    ///
    /// # Errors
    /// The file cannot be read, or a line is not a record.
    pub fn read(path: &Path) -> Result<Vec<Record>, TraceError> {
        let failed = |source| TraceError::File {
            path: path.to_owned(),
            source,
        };
        let mut lines = BufReader::new(File::open(path).map_err(failed)?);
        let mut records = Vec::new();
        let mut line = String::new();
        while lines.read_line(&mut line).map_err(failed)? > 0 && line.ends_with('\n') {
            let record = serde_json::from_str(&line).map_err(|error| TraceError::Record {
                path: path.to_owned(),
                line: records.len() + 1,
                reason: error.to_string(),
            })?;
            records.push(record);
            line.clear();
        }
        Ok(records)
    }
}
