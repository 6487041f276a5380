//! Recorded sessions, by name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hub::trace::Record;
use server::TraceFile;

use crate::paths;

/// The records of a session: its name, `latest`, or a file.
pub(crate) fn read(session: &str) -> Result<Vec<Record>> {
    Ok(TraceFile::read(&find(session)?)?)
}

/// The file of a session: its name, `latest`, or a file.
pub(crate) fn find(session: &str) -> Result<PathBuf> {
    if session == "latest" {
        return sessions()?
            .pop()
            .context("there are no sessions yet; start one with `sluice run \"…\"`");
    }
    let file = Path::new(session);
    if file.is_file() {
        return Ok(file.to_owned());
    }
    let by_session = paths::traces()?.join(format!("{session}.jsonl"));
    // A name has one component; a path with more is a file.
    if file.components().count() == 1 && by_session.is_file() {
        return Ok(by_session);
    }
    bail!("there is no session {session}; list them with `sluice trace list`")
}

/// Trace files, oldest first: names begin with the time.
pub(crate) fn sessions() -> Result<Vec<PathBuf>> {
    let directory = paths::traces()?;
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", directory.display()));
        }
    };
    let files = entries.map(|entry| Ok(entry?.path()));
    let mut files = files.collect::<Result<Vec<PathBuf>>>()?;
    files.retain(|path| path.extension().is_some_and(|it| it == "jsonl"));
    files.sort();
    Ok(files)
}
