//! Undoing a change. A file that still has what was written gets its old bytes; in one that was changed since, only our
//! entries are taken out and the old ones put back.

use std::fs;

use serde_json::Value;

use crate::catalog::CLIENTS;
use crate::journal::{ATTEMPTS, FileChange, Journal, TableChange, hash};
use crate::text::{Format, Piece, at, table};
use crate::{Problem, Snapshot};

/// What undoing a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// The file has the bytes that it had before, or is gone if there was none.
    Restored,
    /// The file was as before already.
    Unchanged,
    /// The file was changed since, so only its entries were.
    Entries {
        /// Entries of ours that were changed since, and stay.
        kept: Vec<String>,
        /// Entries from before that were not put back, because there is another of that name or the table is gone.
        left: Vec<String>,
    },
}

impl Journal {
    /// Undoes the change of a file. `may_take` is asked about an entry of ours that was changed since.
    ///
    /// # Errors
    /// The file cannot be read or written, or does not have the form of its client's files any more.
    pub fn undo(
        &self,
        change: &FileChange,
        may_take: &dyn Fn(&str) -> bool,
    ) -> Result<Undone, Problem> {
        let client = CLIENTS.iter().find(|client| client.id == change.client);
        let client = client.ok_or_else(|| Problem::new("its client is not known"))?;
        for _ in 0..ATTEMPTS {
            let found = Snapshot::read(&change.path)?;
            let before = change.before.as_ref();
            let now = found.bytes.as_deref().map(hash);
            let (new, undone) = match &now {
                _ if now.as_ref() == before => return Ok(Undone::Unchanged),
                Some(now) if *now == change.after => (self.old(before)?, Undone::Restored),
                None => return Err(Problem::new("it was removed since")),
                Some(_) => {
                    let (text, undone) = entries(client.format, &found, change, may_take)?;
                    (Some(text.into_bytes()), undone)
                }
            };
            if new == found.bytes {
                return Ok(undone);
            }
            match found.replace(new.as_deref(), client.locks()) {
                Ok(()) => return Ok(undone),
                Err(problem) if problem.is_race => {}
                Err(problem) => return Err(problem),
            }
        }
        Err(Problem::race())
    }

    fn old(&self, before: Option<&String>) -> Result<Option<Vec<u8>>, Problem> {
        let Some(before) = before else {
            return Ok(None);
        };
        let bytes = fs::read(self.content(before))?;
        match hash(&bytes) == *before {
            true => Ok(Some(bytes)),
            false => Err(Problem::new("the record of its old content is damaged")),
        }
    }
}

fn entries(
    format: Format,
    found: &Snapshot,
    change: &FileChange,
    may_take: &dyn Fn(&str) -> bool,
) -> Result<(String, Undone), Problem> {
    let mut text = found.text()?.unwrap_or_default().to_owned();
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    for TableChange { place, put, taken } in change.tables.iter().rev() {
        let now = format.parse(&text)?;
        if !table(&now, place).is_some_and(Value::is_object) {
            left.extend(taken.iter().map(|(name, _)| name.clone()));
            continue;
        }
        let mut out = Vec::new();
        for (name, value) in put {
            match at(&now, place, name) {
                Some(now) if now == value || may_take(name) => out.push(name.clone()),
                Some(_) => kept.push(name.clone()),
                None => {}
            }
        }
        let mut back = Vec::new();
        for (name, own) in taken {
            match at(&now, place, name).is_none() || out.contains(name) {
                true => back.push((name.as_str(), Piece::Text(own))),
                false if kept.contains(name) => {}
                false => left.push(name.clone()),
            }
        }
        // An entry that is replaced keeps its place.
        out.retain(|name| back.iter().all(|(other, _)| other != name));
        text = format.splice(&text, place, &out, &back)?;
    }
    Ok((text, Undone::Entries { kept, left }))
}
