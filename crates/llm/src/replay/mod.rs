//! Record and replay: the answers of one run, given again in another one.
//!
//! A record is a file of JSON lines, one per answered request. It names a request by its digest
//! and holds no prompt; the answers are in it, so only its owner may read it.

mod format;

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use hub::Completion;

use self::format::{Fingerprint, Line};
use crate::{
    Cleared,
    provider::{DeltaSink, Provider, ProviderError},
};

/// Bytes of a record that are read. Some ten thousand answers.
const RECORD_LIMIT: u64 = 256 << 20;

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file system refused.
    #[error("record {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A line is not one of a record.
    #[error("record {}, line {line}: {reason}; record the run again", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

/// A provider that writes down what another one answers.
pub struct Recorder {
    inner: Arc<dyn Provider>,
    file: Mutex<File>,
}

impl Recorder {
    /// Records the answers of `inner` to a new file, which only its owner may read.
    ///
    /// # Errors
    /// The file exists or cannot be made.
    pub fn create(inner: Arc<dyn Provider>, path: &Path) -> Result<Self, RecordError> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|source| RecordError::Io {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            inner,
            file: Mutex::new(file),
        })
    }
}

#[async_trait]
impl Provider for Recorder {
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// An answer that cannot be written down is an error: the record would have a hole.
    async fn complete(
        &self,
        request: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        let completion = self.inner.complete(request, sink).await?;
        let fingerprint = Fingerprint::of(request.request());
        let line = Line::new(fingerprint, self.name(), &completion);
        let mut bytes = serde_json::to_vec(&line).map_err(|error| self.unwritten(error))?;
        bytes.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&bytes)
            .map_err(|error| self.unwritten(error))?;
        Ok(completion)
    }
}

impl Recorder {
    fn unwritten(&self, error: impl std::fmt::Display) -> ProviderError {
        ProviderError::Model {
            provider: self.name().to_owned(),
            reason: format!("its answer cannot be recorded: {error}"),
        }
    }
}

/// A provider that answers from a record.
///
/// A request must be exactly one that was recorded. Each recorded answer is given once, so equal
/// requests get their answers in the recorded order; different ones may come in any order.
#[derive(Debug)]
pub struct Replay {
    name: String,
    lines: Vec<Line>,
    by_digest: HashMap<String, Vec<usize>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: Vec<bool>,
    step: usize,
}

impl Replay {
    /// Reads a record.
    ///
    /// # Errors
    /// The file cannot be read, or is not a record.
    pub fn open(name: &str, path: &Path) -> Result<Self, RecordError> {
        let failed = |source| RecordError::Io {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() > RECORD_LIMIT {
            return Err(failed(io::Error::other("larger than 256 MiB")));
        }
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(BufReader::new(file.take(RECORD_LIMIT)).lines()) {
            let parsed = Line::parse(&line.map_err(failed)?);
            lines.push(parsed.map_err(|reason| RecordError::Line {
                path: path.to_owned(),
                line: number,
                reason,
            })?);
        }
        let mut by_digest: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, line) in lines.iter().enumerate() {
            let digest = line.fingerprint.digest.clone();
            by_digest.entry(digest).or_default().push(at);
        }
        let used = vec![false; lines.len()];
        Ok(Self {
            name: name.to_owned(),
            lines,
            by_digest,
            state: Mutex::new(State { used, step: 0 }),
        })
    }

    /// How many recorded answers have not been asked for yet.
    pub fn unused(&self) -> usize {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.used.iter().filter(|used| !**used).count()
    }

    /// Takes the answer to one request out of the record.
    fn take(&self, asked: &Fingerprint) -> Result<&Line, ProviderError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.step += 1;
        let same = self.by_digest.get(&asked.digest).into_iter().flatten();
        for &at in same {
            if let (Some(used @ false), Some(line)) = (state.used.get_mut(at), self.lines.get(at)) {
                *used = true;
                return Ok(line);
            }
        }
        let first_unused = state.used.iter().position(|used| !used);
        let differs = match first_unused.and_then(|at| Some((at, self.lines.get(at)?))) {
            Some((at, line)) => format!(
                "{} differs from recorded step {}",
                line.fingerprint.first_difference(asked),
                at + 1
            ),
            None => format!("all {} recorded steps are used", self.lines.len()),
        };
        Err(ProviderError::NotRecorded {
            provider: self.name.clone(),
            step: state.step,
            differs,
        })
    }
}

#[async_trait]
impl Provider for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    async fn complete(
        &self,
        request: &Cleared<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, ProviderError> {
        let completion = self.take(&Fingerprint::of(request.request()))?.completion();
        if !completion.text.is_empty() {
            sink.text(&completion.text);
        }
        Ok(completion)
    }
}
