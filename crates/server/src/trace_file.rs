//! The trace on disk: one JSON line a record, written before anything else happens.

use std::collections::{HashMap, VecDeque};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hub::trace::{Event, Record, VERSION};

/// A session's trace, open for appending. It holds the user's data: directory and file are
/// readable by their owner only.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    file: File,
    sequence: u64,
    rotation: Option<Rotating>,
}

/// When a trace continues in another file, and how many files are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes of one file. A single larger record gets a file of its own.
    pub bytes: u64,
    /// Files that are kept. The oldest is removed for one more.
    pub files: usize,
    /// How long files of the folder are kept that are no more written to, those of other traces included.
    pub keep: Duration,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            // Still opens in an editor.
            bytes: 64 << 20,
            // Two gigabytes at most.
            files: 32,
            keep: KEEP,
        }
    }
}

/// How long traces are kept: an incident is looked into within weeks.
const KEEP: Duration = Duration::from_secs(30 * 24 * 3600);

/// Removes the traces of this folder that were last written longer ago than `keep`, but none that is open for writing.
/// Returns how many were removed.
///
/// # Errors
/// The folder cannot be read, or a file cannot be removed.
pub fn remove_old_traces(directory: &Path, keep: Duration) -> io::Result<usize> {
    let mut count = 0;
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let is_trace = path.extension().is_some_and(|it| it == "jsonl");
        // One that another program has removed meanwhile is gone, as it should be.
        let Some(file) = is_trace.then(|| File::open(&path).ok()).flatten() else {
            continue;
        };
        let written = file.metadata()?.modified()?;
        let is_old = written.elapsed().is_ok_and(|age| age > keep);
        if is_old && file.try_lock().is_ok() {
            std::fs::remove_file(&path)?;
            count += 1;
        }
    }
    Ok(count)
}

#[derive(Debug)]
struct Rotating {
    rotation: Rotation,
    directory: PathBuf,
    session: String,
    /// Of the file that is written to.
    bytes: u64,
    number: u32,
    /// The files before it, oldest first.
    before: VecDeque<PathBuf>,
    /// What each file begins with: the first event of all.
    opening: Option<Event>,
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
    /// Creates `directory/session.jsonl`, which must not exist. Traces of the folder that are older than 30 days are removed.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(directory: &Path, session: &str) -> Result<Self, TraceError> {
        Self::create_beside(directory, session, KEEP)
    }

    /// Creates the file after the removal of old ones.
    fn create_beside(directory: &Path, session: &str, keep: Duration) -> Result<Self, TraceError> {
        if let Err(error) = remove_old_traces(directory, keep) {
            tracing::warn!(%error, "old traces cannot be removed");
        }
        let path = directory.join(format!("{session}.jsonl"));
        match open(directory, &path) {
            Ok(file) => Ok(Self {
                path,
                file,
                sequence: 0,
                rotation: None,
            }),
            Err(source) => Err(TraceError::File { path, source }),
        }
    }

    /// As [`TraceFile::create`], and goes on in `session_000002.jsonl` and so on. Each file begins with
    /// the trace's first event; the numbers of records run through.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn rotating(
        directory: &Path,
        session: &str,
        rotation: Rotation,
    ) -> Result<Self, TraceError> {
        let mut trace = Self::create_beside(directory, session, rotation.keep)?;
        trace.rotation = Some(Rotating {
            rotation,
            directory: directory.to_owned(),
            session: session.to_owned(),
            bytes: 0,
            number: 1,
            before: VecDeque::new(),
            opening: None,
        });
        Ok(trace)
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
        if let Some(opening) = self.due()? {
            self.write(None, opening)?;
        }
        if let Some(rotating) = &mut self.rotation {
            rotating.opening.get_or_insert_with(|| event.clone());
        }
        self.write(conversation, event)
    }

    fn write(&mut self, conversation: Option<&str>, event: Event) -> Result<Record, TraceError> {
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
            file.write_all(&line)?;
            Ok(line.len())
        };
        match write(&mut self.file) {
            Ok(bytes) => {
                if let Some(rotating) = &mut self.rotation {
                    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                    rotating.bytes = rotating.bytes.saturating_add(bytes);
                }
                Ok(record)
            }
            Err(source) => Err(TraceError::File {
                path: self.path.clone(),
                source,
            }),
        }
    }

    /// Begins the next file if it is time for one, and says what it begins with.
    fn due(&mut self) -> Result<Option<Event>, TraceError> {
        let Some(rotating) = &mut self.rotation else {
            return Ok(None);
        };
        let Rotation { bytes, files, .. } = rotating.rotation;
        if rotating.bytes < bytes {
            return Ok(None);
        }
        rotating.number += 1;
        // In the order of names each stands behind the one before it.
        let name = format!("{}_{:06}.jsonl", rotating.session, rotating.number);
        let path = rotating.directory.join(name);
        let file = open(&rotating.directory, &path);
        let failed = |path: PathBuf| move |source| TraceError::File { path, source };
        self.file = file.map_err(failed(path.clone()))?;
        rotating
            .before
            .push_back(std::mem::replace(&mut self.path, path));
        rotating.bytes = 0;
        while rotating.before.len() >= files.max(1) {
            let Some(oldest) = rotating.before.pop_front() else {
                break;
            };
            // It may have been moved away.
            match std::fs::remove_file(&oldest) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(oldest)(error));
                }
                _ => {}
            }
        }
        Ok(rotating.opening.clone())
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

/// Some of a trace's records.
#[derive(Debug, Default)]
pub struct TracePart {
    /// Each record with the number of its line, from 1, or why the line is no record.
    pub records: Vec<(usize, Result<Record, String>)>,
    /// Which page this is, from 0.
    pub page: usize,
    /// How many pages there are, at least 1.
    pub pages: usize,
    /// The time of the first record of the trace.
    pub start_ms: u64,
    /// The conversations of the trace in the order of their first records, at most [`TracePart::CONVERSATIONS`].
    pub conversations: Vec<String>,
}

impl TracePart {
    /// Conversations of one trace that can be told apart.
    pub const CONVERSATIONS: usize = 200;

    /// Reads one page of so many records, and without a number the last one. With `conversation`, only records of the
    /// conversation of that number count, and lines that are no records.
    ///
    /// A line that is no record costs that line. A last line without its end is still being written and is left out.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(
        path: &Path,
        page: Option<usize>,
        most: usize,
        conversation: Option<usize>,
    ) -> io::Result<Self> {
        /// What places a record, without its event.
        #[derive(serde::Deserialize)]
        struct Head {
            at_ms: u64,
            conversation: Option<String>,
        }
        let mut file = BufReader::new(File::open(path)?);
        let (mut part, mut start) = (Self::default(), None);
        let mut numbers = HashMap::new();
        // The number, place and length of each line that counts.
        let (mut lines, mut place) = (Vec::new(), 0);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let length = file.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            let head = serde_json::from_slice::<Head>(&line).ok();
            start = start.or(head.as_ref().map(|head| head.at_ms));
            let of = head.as_ref().and_then(|head| head.conversation.as_ref());
            if let Some(name) = of
                && numbers.len() < Self::CONVERSATIONS
                && !numbers.contains_key(name)
            {
                numbers.insert(name.clone(), numbers.len());
                part.conversations.push(name.clone());
            }
            let counts = match (conversation, &head) {
                (None, _) | (_, None) => true,
                (wanted, Some(_)) => of.and_then(|name| numbers.get(name)).copied() == wanted,
            };
            if counts {
                lines.push((number, place, length));
            }
            place += length as u64;
        }
        part.start_ms = start.unwrap_or_default();
        part.pages = lines.len().div_ceil(most.max(1)).max(1);
        part.page = page.unwrap_or(usize::MAX).min(part.pages - 1);
        for (number, place, length) in lines.into_iter().skip(part.page * most).take(most) {
            file.seek(SeekFrom::Start(place))?;
            line.resize(length, 0);
            file.read_exact(&mut line)?;
            let record = serde_json::from_slice(&line).map_err(|error| error.to_string());
            part.records.push((number, record));
        }
        Ok(part)
    }
}

fn open(directory: &Path, path: &Path) -> io::Result<File> {
    DirBuilder::new()
        .recursive(true)
        // Records quote mails, answers and calls: only the user may read them.
        .mode(0o700)
        .create(directory)?;
    let file = OpenOptions::new()
        .append(true)
        // An existing trace is never continued: its last line may be cut, and records after it could not be read.
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    // For `remove_old_traces`. Where a file system has no locks, it removes nothing.
    drop(file.try_lock_shared());
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Event {
        Event::User {
            text: text.into(),
            label: Vec::new(),
            name: None,
        }
    }

    fn opening() -> Event {
        Event::SessionStarted {
            session: "proxy".to_owned(),
            mode: "rtbas".to_owned(),
            screener: "naive".to_owned(),
            private: false,
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let files = std::fs::read_dir(folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_trace_goes_on_in_files_of_its_own_and_loses_the_oldest() {
        let folder = tempfile::tempdir().unwrap();
        let rotation = Rotation {
            bytes: 1_000,
            files: 3,
            ..Rotation::default()
        };
        let mut trace = TraceFile::rotating(folder.path(), "s", rotation).unwrap();
        trace.append(opening()).unwrap();
        for number in 0..40 {
            trace
                .append_to(Some("c"), said(&format!("{number} {}", "x".repeat(200))))
                .unwrap();
        }
        let names = names(folder.path());
        assert_eq!(names.len(), 3, "{names:?}");
        let mut records = Vec::new();
        for name in &names {
            let path = folder.path().join(name);
            assert!(path.metadata().unwrap().len() < 1_400);
            let read = TraceFile::read(&path).unwrap();
            assert_eq!(read[0].event, opening());
            records.extend(read);
        }
        // The last ones, without a gap; the newest is where the trace says it is.
        let numbers: Vec<u64> = records.iter().map(|record| record.sequence).collect();
        assert!(
            numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
            "{numbers:?}"
        );
        let last = TraceFile::read(trace.path()).unwrap();
        assert_eq!(last.last(), records.last());
    }

    #[test]
    fn old_traces_are_removed_unless_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - KEEP - Duration::from_secs(60);
        let age = |name: &str| {
            let file = OpenOptions::new()
                .append(true)
                .open(folder.path().join(name));
            file.unwrap().set_modified(old).unwrap();
        };
        let open = TraceFile::create(folder.path(), "open").unwrap();
        drop(TraceFile::create(folder.path(), "old").unwrap());
        std::fs::write(folder.path().join("notes.txt"), "").unwrap();
        for name in ["open.jsonl", "old.jsonl", "notes.txt"] {
            age(name);
        }
        let rotation = Rotation::default();
        let new = TraceFile::rotating(folder.path(), "new", rotation).unwrap();
        assert_eq!(
            names(folder.path()),
            ["new.jsonl", "notes.txt", "open.jsonl"]
        );
        drop(open);
        assert_eq!(remove_old_traces(folder.path(), KEEP).unwrap(), 1);
        assert_eq!(names(folder.path()), ["new.jsonl", "notes.txt"]);
        drop(new);
        assert_eq!(
            remove_old_traces(&folder.path().join("none"), KEEP).unwrap(),
            0
        );
    }

    #[test]
    fn a_damaged_line_costs_that_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut trace = TraceFile::create(folder.path(), "s").unwrap();
        trace.append(opening()).unwrap();
        for number in 0..6 {
            let conversation = ["a", "b"][number % 2];
            trace
                .append_to(Some(conversation), said(&number.to_string()))
                .unwrap();
        }
        // A line of other bytes, and one that is still being written.
        trace
            .file
            .write_all(b"\xff{\"version\":2}\n{\"ver")
            .unwrap();
        let read = |page, most, conversation| {
            TracePart::read(trace.path(), page, most, conversation).unwrap()
        };
        let part = read(None, 3, None);
        let lines: Vec<_> = part
            .records
            .iter()
            .map(|(line, it)| (*line, it.is_ok()))
            .collect();
        assert_eq!(lines, [(7, true), (8, false)]);
        assert_eq!((part.page, part.pages), (2, 3));
        assert_eq!(part.conversations, ["a", "b"]);
        assert!(part.start_ms > 0);
        let first = read(Some(0), 3, None);
        assert_eq!(first.records[0].1.as_ref().unwrap().event, opening());
        let of_b: Vec<usize> = read(Some(0), 9, Some(1))
            .records
            .iter()
            .map(|it| it.0)
            .collect();
        assert_eq!(of_b, [3, 5, 7, 8]);
        // There is no such conversation, and no such page.
        assert_eq!(read(Some(7), 9, Some(2)).records.len(), 1);
    }
}
