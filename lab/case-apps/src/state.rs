//! What an app remembers: files in a folder of its own, and every call that reached it.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const CALLS: &str = "calls.jsonl";

/// A call's arguments.
pub type Arguments = Map<String, Value>;

/// An app's folder.
#[derive(Debug)]
pub struct State {
    folder: PathBuf,
}

/// A call that reached an app, and what it answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logged {
    /// The tool.
    pub tool: String,
    /// The arguments as they arrived.
    pub arguments: Arguments,
    /// The result; an error is its text.
    pub result: Value,
}

impl State {
    /// The state in this folder.
    pub fn open(folder: PathBuf) -> Result<Self, String> {
        match folder.is_dir() {
            true => Ok(Self { folder }),
            false => Err(format!("STATE: {} is no folder", folder.display())),
        }
    }

    /// The calls that reached the app of this folder, oldest first; none if it was never called.
    pub fn calls(folder: &Path) -> Result<Vec<Logged>, String> {
        let path = folder.join(CALLS);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        };
        let logged = |line| serde_json::from_str(line).map_err(|error| format!("{error}: {line}"));
        text.lines().map(logged).collect()
    }

    pub(crate) fn log(&self, call: &Logged) -> Result<(), String> {
        let mut line = serde_json::to_string(call).map_err(|error| error.to_string())?;
        line.push('\n');
        let path = self.folder.join(CALLS);
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(path);
        // One write of a whole line: calls run side by side, and two writes could have another line between them.
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|error| format!("the call could not be kept: {error}"))
    }

    /// A file of the app's; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<String>, String> {
        match fs::read_to_string(self.folder.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("the app's state could not be read: {error}")),
        }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let written = fs::write(self.folder.join(name), text);
        written.map_err(|error| format!("the app's state could not be written: {error}"))
    }
}
