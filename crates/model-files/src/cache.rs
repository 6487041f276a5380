//! The folder that holds model files.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use sha2::{Digest, Sha256};

use crate::table::Model;

/// Bytes read at once while hashing.
const BLOCK: usize = 1 << 20;

/// A folder of model files. Beside each lies a stamp (`FILE.sha256`): the hash that was found in
/// it, its size and its time of change, so that opening it need not read a gigabyte again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

/// Whether a model can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Not here.
    Missing,
    /// Here, with a valid stamp.
    Ready,
    /// Here, but changed since it was verified, or never verified.
    Unverified,
}

/// Why a model file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// No folder is known.
    #[error("there is no folder for models; set SLUICE_MODELS, or HOME to an absolute path")]
    NoFolder,
    /// The model is not in the cache.
    #[error("the model `{0}` is not here; run `sluice model pull {0}`")]
    Missing(&'static str),
    /// The file is another one than it should be.
    #[error(
        "{}: its SHA-256 is {found}, not {expected}; delete it and run `sluice model pull {name}`",
        path.display()
    )]
    Different {
        /// The model's name.
        name: &'static str,
        /// The file.
        path: PathBuf,
        /// The right hash.
        expected: &'static str,
        /// The hash, or the size, that was found.
        found: String,
    },
    /// The file system failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        #[source]
        error: io::Error,
    },
}

impl CacheError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, error }
    }
}

impl Cache {
    /// `$SLUICE_MODELS`, or `sluice/models` in the user's cache folder.
    ///
    /// # Errors
    /// None of the environment variables names a folder. `$HOME` counts only where it is an absolute path.
    pub fn of_user() -> Result<Self, CacheError> {
        let var = |name| {
            // An empty variable counts as none, or the cache would be the working folder.
            let value = std::env::var_os(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from)
        };
        let folder = var("SLUICE_MODELS")
            .or_else(|| {
                // The XDG rules: a relative path is to be ignored. So is a relative home: it would be the working folder,
                // which may be a stranger's.
                let absolute = |name| var(name).filter(|path| path.is_absolute());
                let base = absolute("XDG_CACHE_HOME");
                let base = base.or_else(|| Some(absolute("HOME")?.join(".cache")))?;
                Some(base.join("sluice").join("models"))
            })
            .ok_or(CacheError::NoFolder)?;
        Ok(Self::at(folder))
    }

    /// A cache in that folder; it need not exist yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a model's file is or would be.
    pub fn path(&self, model: &Model) -> PathBuf {
        self.folder.join(model.file)
    }

    /// The state of a model, without reading its file.
    pub fn presence(&self, model: &Model) -> Presence {
        let path = self.path(model);
        match fs::metadata(&path) {
            // Also where it cannot be looked at: `open` then says how to pull it, and the pull says what is
            // wrong.
            Err(_) => Presence::Missing,
            Ok(metadata) if self.stamp_holds(model, &metadata) => Presence::Ready,
            Ok(_) => Presence::Unverified,
        }
    }

    /// The path of a model's file, for use. Where its stamp does not hold, the file is hashed once.
    ///
    /// # Errors
    /// It is missing, or not the file that the table names.
    pub fn open(&self, model: &Model) -> Result<PathBuf, CacheError> {
        let path = self.path(model);
        match self.presence(model) {
            Presence::Ready => return Ok(path),
            Presence::Missing => return Err(CacheError::Missing(model.name)),
            // A file without a stamp is not refused: it may have been copied here, or a pull was cut off after its last
            // step.
            Presence::Unverified => {}
        }
        let different = |found: String| CacheError::Different {
            name: model.name,
            path: path.clone(),
            expected: model.sha256,
            found,
        };
        let file = File::open(&path).map_err(CacheError::io(&path))?;
        // Before it is read: a file that changes meanwhile has a later time than its stamp, and is hashed again.
        let before = file.metadata().map_err(CacheError::io(&path))?;
        // The size first, which costs nothing.
        let bytes = before.len();
        if bytes != model.size {
            let size = model.size;
            return Err(different(format!("unknown ({bytes} bytes, not {size})")));
        }
        let found = hash(file).map_err(CacheError::io(&path))?;
        if found != model.sha256 {
            return Err(different(found));
        }
        self.write_stamp(model, &before);
        Ok(path)
    }

    /// Writes the stamp of a file that was just hashed, where it can.
    pub(crate) fn stamp(&self, model: &Model) {
        if let Ok(metadata) = fs::metadata(self.path(model)) {
            self.write_stamp(model, &metadata);
        }
    }

    fn stamp_path(&self, model: &Model) -> PathBuf {
        self.folder.join(format!("{}.sha256", model.file))
    }

    fn write_stamp(&self, model: &Model, metadata: &fs::Metadata) {
        let path = self.stamp_path(model);
        // Beside it first: a reader must never see half a stamp.
        let fresh = path.with_extension("sha256.new");
        let written = fs::write(&fresh, stamp(model, metadata));
        // A stamp only saves time, and the file was hashed: it counts where the folder is read-only, or another
        // process has just put the same stamp there.
        let _ = written.and_then(|()| fs::rename(&fresh, &path));
    }

    fn stamp_holds(&self, model: &Model, metadata: &fs::Metadata) -> bool {
        // A stamp of another version of the table names another hash, and does not hold. Stamps guard against
        // damage and mix-ups; a writer to this folder can forge one.
        metadata.len() == model.size
            && fs::read_to_string(self.stamp_path(model))
                .is_ok_and(|text| text == stamp(model, metadata))
    }
}

/// What a stamp says. A file that changes gets another time, and is hashed again.
fn stamp(model: &Model, metadata: &fs::Metadata) -> String {
    let changed = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        // In nanoseconds: a file that is replaced within the same second must not keep its stamp.
        .map_or(0, |since| since.as_nanos());
    format!("{} {} {changed}\n", model.sha256, metadata.len())
}

fn hash(mut file: File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut block = vec![0; BLOCK];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hex(&hasher.finalize())),
            read => hasher.update(block.get(..read).unwrap_or_default()),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
