//! The configuration files of MCP clients: where they are, which servers they have, changes that keep every other byte, and
//! undoing them. No terminal, and nothing about Sluice's own configuration.

mod catalog;
mod entry;
mod file;
mod journal;
mod text;
mod undo;

pub use catalog::{CLIENTS, Client, ClientFile, Machine, Opened, Scope, Servers, find};
pub use entry::{Gateway, gateway, gateway_apps, is_ours, wrapped};
pub use file::Snapshot;
pub use journal::{FileChange, Journal, Kind, Record, SettingsChange};
pub use text::{Change, Edited, Format};
pub use undo::Undone;

use std::fmt;

/// Why a file is left alone. No word of the file is quoted: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    line: Option<usize>,
    message: String,
    /// Whether another program wrote the file meanwhile, so that another attempt can succeed.
    pub is_race: bool,
}

impl Problem {
    fn at(line: usize, message: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            ..Self::new(message)
        }
    }

    fn new(message: impl Into<String>) -> Self {
        Self {
            line: None,
            message: message.into(),
            is_race: false,
        }
    }

    fn race() -> Self {
        Self {
            is_race: true,
            ..Self::new("another program keeps changing the file; close it and try again")
        }
    }

    fn unknown_form(place: &[String]) -> Self {
        let place = place.join(".");
        Self::new(format!(
            "'{place}' is written in a form that Sluice does not change; change it by hand"
        ))
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests;
