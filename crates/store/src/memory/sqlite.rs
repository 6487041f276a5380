//! Memory in a SQLite file.

mod room;

use std::collections::BTreeSet;
use std::path::Path;

use ifc::{Label, Lattice};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::indexes::{Held, Indexes};
use super::rules::{contains, count};
use super::stored::{self, Stored};
use super::{
    Draft, Entry, Family, Forgotten, Found, Kind, Limits, Memory, MemoryError, Namespace, Page,
    Query, Removed,
};
use crate::database::{self, Database, Schema, Stop};
use crate::names::Names;
use crate::{EntryId, Time};

/// Sequence numbers give the order of entries. They are never used again, and never shown: they
/// would tell how many entries there are.
///
/// `entries` and `bytes` of a namespace are what earlier programs of this version counted there, and write still where they
/// have the same file open. Nothing reads them: room is counted for each label.
const SCHEMA: Schema = Schema {
    application: 0x534c_4d45,
    version: 1,
    sql: "
CREATE TABLE namespace (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  entries INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0,
  forgotten INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE memory (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  namespace INTEGER NOT NULL REFERENCES namespace (id),
  kind TEXT NOT NULL CHECK (kind IN ('user', 'system', 'summary', 'fact')),
  label TEXT NOT NULL,
  entity TEXT CHECK ((entity IS NOT NULL) = (kind = 'fact')),
  attribute TEXT CHECK ((attribute IS NOT NULL) = (kind = 'fact')),
  text TEXT NOT NULL,
  origin TEXT NOT NULL,
  time INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX memory_of_namespace ON memory (namespace, sequence);
CREATE TABLE source (
  derived INTEGER NOT NULL REFERENCES memory (sequence),
  position INTEGER NOT NULL,
  source INTEGER NOT NULL REFERENCES memory (sequence),
  PRIMARY KEY (derived, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX source_of ON source (source);
",
};

/// What finds the entries of one label, oldest first, and those of a time. Earlier programs of this
/// version made no such indexes.
const INDEXES: &str = "
CREATE INDEX IF NOT EXISTS memory_of_label ON memory (namespace, label, sequence, bytes);
CREATE INDEX IF NOT EXISTS memory_of_time ON memory (time);
";

/// The columns of [`Stored`], after id, sequence and the namespace's name.
const COLUMNS: &str =
    "memory.id, sequence, name, kind, label, entity, attribute, text, origin, time";
const ENTRIES: &str = "memory JOIN namespace ON namespace.id = memory.namespace";

type Failed = Stop<MemoryError>;

/// Memory in a file that its owner alone can read. Several processes may have it open.
pub struct SqliteMemory {
    database: Database,
    names: Names,
    limits: Limits,
    indexes: Indexes,
}

impl SqliteMemory {
    /// Opens the file, or creates it. Labels are read and written in `lattice`.
    ///
    /// # Errors
    /// Others than its owner could read it, or it is no memory of this version.
    pub fn open(path: &Path, lattice: Lattice, limits: Limits) -> Result<Self, MemoryError> {
        let database = Database::open(path, &SCHEMA)?;
        database
            .write(|connection| -> Result<(), Failed> { Ok(connection.execute_batch(INDEXES)?) })?;
        Ok(Self {
            database,
            names: Names::new(lattice),
            limits,
            indexes: Indexes::default(),
        })
    }

    fn insert(
        &self,
        connection: &Connection,
        namespace: i64,
        draft: &Draft,
        stored: &Stored,
    ) -> Result<(), Failed> {
        // Asked before the insertion, whose `UNIQUE` would say it in SQLite's words only.
        if place(connection, draft.id)?.is_some() {
            return Err(Stop::Refused(MemoryError::Taken(draft.id)));
        }
        let mut sources = Vec::new();
        let mut seen = BTreeSet::new();
        for source in draft.sources.iter().filter(|source| seen.insert(**source)) {
            let Some((sequence, label)) = place(connection, *source)? else {
                return Err(Stop::Refused(MemoryError::Missing(*source)));
            };
            let label = stored::label(&label, &self.names).label;
            contains(draft, &label, &self.names).map_err(Stop::Refused)?;
            sources.push(sequence);
        }
        connection
            .prepare_cached(
                "INSERT INTO memory (id, namespace, kind, label, entity, attribute, text, origin, time, bytes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                draft.id.as_bytes(),
                namespace,
                stored.kind,
                stored.label,
                stored.entity,
                stored.attribute,
                stored.text,
                stored.origin,
                stored.time,
                count(draft.bytes()),
            ])?;
        let derived = connection.last_insert_rowid();
        for (position, source) in sources.iter().enumerate() {
            connection
                .prepare_cached(
                    "INSERT INTO source (derived, position, source) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![derived, count(position), source])?;
        }
        Ok(())
    }

    /// The entry of a row of [`COLUMNS`].
    fn entry(&self, connection: &Connection, row: &Row<'_>) -> Result<Entry, Failed> {
        let id = EntryId::from_bytes(row.get(0)?);
        // A column of a wrong type makes this entry unreadable. As SQLite's own error it would stand for the
        // whole file.
        let unreadable = |error: rusqlite::Error| {
            let reason = error.to_string();
            Stop::Refused(MemoryError::Unreadable { id, reason })
        };
        let name: String = row.get(2).map_err(unreadable)?;
        let stored = stored_at(row, 3).map_err(unreadable)?;
        let namespace = namespace(id, &name)?;
        let sources = connection
            .prepare_cached(
                "SELECT id FROM source JOIN memory ON sequence = source WHERE derived = ?1 ORDER BY position",
            )?
            .query_map([row.get::<_, i64>(1)?], |row| row.get(0).map(EntryId::from_bytes))?
            .collect::<Result<_, _>>()?;
        let entry = stored.entry(id, &namespace, sources, &self.names);
        entry.map_err(Stop::Refused)
    }

    /// The label of a row of [`COLUMNS`].
    fn label(&self, row: &Row<'_>) -> Result<Label, Failed> {
        Ok(stored::label(&written(row, 4)?, &self.names).label)
    }

    fn entry_at(
        &self,
        connection: &Connection,
        id: EntryId,
        at: &Label,
    ) -> Result<Option<Entry>, Failed> {
        let select = format!("SELECT {COLUMNS} FROM {ENTRIES} WHERE memory.id = ?1");
        let mut statement = connection.prepare_cached(&select)?;
        let mut rows = statement.query([id.as_bytes()])?;
        match rows.next()? {
            Some(row) if self.label(row)?.flows_to(at) => self.entry(connection, row).map(Some),
            _ => Ok(None),
        }
    }

    /// Takes what was added since into the index of a namespace, and asks it. None if there is no such
    /// namespace.
    fn ask<T>(
        &self,
        connection: &Connection,
        namespace: &Namespace,
        question: impl FnOnce(&Held) -> T,
    ) -> Result<Option<T>, Failed> {
        let state: Option<(i64, i64)> = connection
            .prepare_cached("SELECT id, forgotten FROM namespace WHERE name = ?1")?
            .query_row([namespace.key()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((number, forgotten)) = state else {
            return Ok(None);
        };
        let mut held = self.indexes.take(namespace, forgotten);
        let mut statement = connection.prepare_cached(
            "SELECT id, sequence, kind, label, entity, attribute, text, origin, time
             FROM memory WHERE namespace = ?1 AND sequence > ?2 ORDER BY sequence",
        )?;
        let mut rows = statement.query([number, held.last])?;
        while let Some(row) = rows.next()? {
            let id = EntryId::from_bytes(row.get(0)?);
            match stored_at(row, 2) {
                Ok(ref stored) if let Some(texts) = stored.texts() => {
                    let label = stored::label(&stored.label, &self.names).label;
                    held.index.add(id, &label, texts);
                }
                // A column that is no text, or an entry that makes no sense.
                Ok(_) | Err(_) => held.unreadable.push(id),
            }
            held.last = row.get(1)?;
        }
        let answer = question(&held);
        self.indexes.put(namespace, held);
        Ok(Some(answer))
    }

    /// After entries have gone: their words are in indexes, and their text in the file.
    fn forgot(&self, count: usize) -> Removed {
        self.indexes.forgot(count, || self.erase())
    }

    /// Ranks, and reads the best.
    fn found(
        &self,
        connection: &Connection,
        namespace: &Namespace,
        query: &Query,
        at: &Label,
        most: usize,
    ) -> Result<Vec<Found>, Failed> {
        let ranked = self.ask(connection, namespace, |held| {
            held.index.search(query, at, most)
        })?;
        let mut found = Vec::new();
        for (id, score) in ranked.unwrap_or_default() {
            // One state of the file: what is in the index is there.
            // The label is looked at once more, as it is in the file: the index only ranks.
            match self.entry_at(connection, id, at) {
                Ok(Some(entry)) => found.push(Found { entry, score }),
                // Damaged since it came into the index.
                Ok(None) | Err(Stop::Refused(MemoryError::Unreadable { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// The sequence numbers of the entries that a condition is true of, and of everything that was derived
    /// from one of them.
    fn family(
        connection: &Connection,
        condition: &'static str,
        value: impl ToSql,
    ) -> Result<BTreeSet<i64>, Failed> {
        // `UNION` keeps each entry once: what is derived in several ways is not followed as often.
        let family = connection
            .prepare_cached(&format!(
                "WITH RECURSIVE family (entry) AS (
                   SELECT sequence FROM memory WHERE {condition}
                   UNION SELECT derived FROM source JOIN family ON source.source = family.entry
                 ) SELECT entry FROM family"
            ))?
            .query_map([value], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        Ok(family)
    }

    /// The entries with these sequence numbers.
    fn read(&self, connection: &Connection, sequences: &BTreeSet<i64>) -> Result<Family, Failed> {
        let select = format!("SELECT {COLUMNS} FROM {ENTRIES} WHERE sequence = ?1");
        let mut statement = connection.prepare_cached(&select)?;
        let mut family = Family::default();
        for sequence in sequences {
            let mut rows = statement.query([sequence])?;
            if let Some(row) = rows.next()? {
                match self.entry(connection, row) {
                    Ok(entry) => family.entries.push(entry),
                    Err(Stop::Refused(_)) => {
                        family.unreadable.push(EntryId::from_bytes(row.get(0)?));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(family)
    }
}

/// The condition of [`SqliteMemory::family`] for the ids of [`list`]. They are one parameter together, since SQLite
/// bounds how many a statement may have.
const LISTED: &str = "id IN (SELECT unhex(value) FROM json_each(?1))";

fn list(ids: &[EntryId]) -> String {
    let ids = ids.iter().map(EntryId::to_string);
    serde_json::Value::from_iter(ids).to_string()
}

impl Memory for SqliteMemory {
    fn append(&self, namespace: &Namespace, drafts: &[Draft]) -> Result<Removed, MemoryError> {
        self.limits.check(drafts)?;
        if drafts.is_empty() {
            return Ok(Removed::none());
        }
        let gone = self.database.write(|connection| {
            let key = namespace.key();
            connection
                .prepare_cached("INSERT OR IGNORE INTO namespace (name) VALUES (?1)")?
                .execute([&key])?;
            let number: i64 = connection
                .prepare_cached("SELECT id FROM namespace WHERE name = ?1")?
                .query_row([key], |row| row.get(0))?;
            let all = Stored::all(drafts, &self.names, |source| -> Result<_, Failed> {
                Ok(place(connection, source)?.map(|(_, label)| label))
            })?;
            let all: Vec<(&Draft, Stored)> = drafts.iter().zip(all).collect();
            let gone = self.make_room(connection, namespace, number, &all)?;
            // After room was made: an entry whose source had to go for it is refused, since that is missing
            // now.
            for (draft, stored) in &all {
                self.insert(connection, number, draft, stored)?;
            }
            Ok(gone)
        })?;
        Ok(self.forgot(gone))
    }

    fn list(
        &self,
        namespace: &Namespace,
        page: &Page,
        at: &Label,
    ) -> Result<Vec<Entry>, MemoryError> {
        self.database.read(|connection| {
            let mut before = i64::MAX;
            if let Some(id) = page.before {
                // To a reader an entry that it may not see is missing: another error would tell that it exists.
                let seen = place(connection, id)?
                    .filter(|(_, label)| stored::label(label, &self.names).label.flows_to(at));
                before = seen.ok_or(Stop::Refused(MemoryError::Missing(id)))?.0;
            }
            let select = format!(
                "SELECT {COLUMNS} FROM {ENTRIES} WHERE name = ?1 AND sequence < ?2 ORDER BY sequence DESC"
            );
            let mut statement = connection.prepare_cached(&select)?;
            let mut rows = statement.query(params![namespace.key(), before])?;
            let mut entries = Vec::new();
            while entries.len() < page.most
                && let Some(row) = rows.next()?
            {
                // What the reader may not see is not even read.
                if !self.label(row)?.flows_to(at) {
                    continue;
                }
                match self.entry(connection, row) {
                    Ok(entry) => {
                        if page.kind.is_none_or(|kind: Kind| kind == entry.content.kind()) {
                            entries.push(entry);
                        }
                    }
                    Err(Stop::Refused(MemoryError::Unreadable { .. })) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(entries)
        })
    }

    fn show(&self, id: EntryId, at: &Label) -> Result<Option<Entry>, MemoryError> {
        self.database
            .read(|connection| self.entry_at(connection, id, at))
    }

    fn search(
        &self,
        namespace: &Namespace,
        query: &Query,
        at: &Label,
        most: usize,
    ) -> Result<Vec<Found>, MemoryError> {
        self.database
            .read(|connection| self.found(connection, namespace, query, at, most))
    }

    fn labels(&self, namespace: &Namespace) -> Result<Vec<Label>, MemoryError> {
        self.database.read(|connection| {
            let labels = self.ask(connection, namespace, |held| held.index.labels())?;
            Ok(labels.unwrap_or_default())
        })
    }

    fn unreadable(&self, namespace: &Namespace) -> Result<Vec<EntryId>, MemoryError> {
        self.database.read(|connection| {
            let ids = self.ask(connection, namespace, |held| held.unreadable.clone())?;
            Ok(ids.unwrap_or_default())
        })
    }

    fn ids(&self, namespace: &Namespace) -> Result<Vec<EntryId>, MemoryError> {
        self.database.read(|connection| {
            let ids = connection
                .prepare_cached(
                    "SELECT id FROM memory WHERE namespace = (SELECT id FROM namespace WHERE name = ?1)
                     ORDER BY sequence",
                )?
                .query_map([namespace.key()], |row| row.get(0).map(EntryId::from_bytes))?
                .collect::<Result<_, _>>()?;
            Ok(ids)
        })
    }

    fn derived(&self, ids: &[EntryId]) -> Result<Family, MemoryError> {
        self.database.read(|connection| {
            let family = Self::family(connection, LISTED, list(ids))?;
            self.read(connection, &family)
        })
    }

    fn forget(&self, ids: &[EntryId]) -> Result<Forgotten, MemoryError> {
        let family = self.database.write(|connection| {
            let gone = Self::family(connection, LISTED, list(ids))?;
            let family = self.read(connection, &gone)?;
            delete(connection, &gone)?;
            Ok::<_, Failed>(family)
        })?;
        let erased = self.forgot(family.count()).erased;
        Ok(Forgotten { family, erased })
    }

    fn expire(&self, before: Time) -> Result<Removed, MemoryError> {
        let count = self.database.write(|connection| {
            let gone = Self::family(connection, "time < ?1", before.millis())?;
            delete(connection, &gone)?;
            Ok::<_, Failed>(gone.len())
        })?;
        Ok(self.forgot(count))
    }

    fn hand_over(&self, from: &Namespace, to: &Namespace) -> Result<usize, MemoryError> {
        self.database.write(|connection| {
            let (from, to) = (from.key(), to.key());
            let both = params![from, to];
            connection.execute("INSERT OR IGNORE INTO namespace (name) VALUES (?2)", both)?;
            let count = connection.execute(
                "UPDATE memory SET namespace = (SELECT id FROM namespace WHERE name = ?2)
                 WHERE namespace = (SELECT id FROM namespace WHERE name = ?1)",
                both,
            )?;
            // Indexes of both are made anew: what comes in is older than what one has, and what goes is in the other.
            connection.execute(
                "UPDATE namespace SET forgotten = forgotten + 1 WHERE name IN (?1, ?2)",
                both,
            )?;
            Ok(count)
        })
    }

    fn erase(&self) -> Result<(), MemoryError> {
        Ok(self.database.erase()?)
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, MemoryError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT name FROM namespace")?;
            let mut rows = statement.query([])?;
            let mut known = Vec::new();
            while let Some(row) = rows.next()? {
                // A name that is none was not written by us, and has no entries that can be read.
                let name = row.get_ref(0)?.as_str().ok();
                known.extend(name.and_then(|name| Namespace::from_key(name).ok()));
            }
            known.sort_unstable();
            Ok(known)
        })
    }
}

/// The sequence number and the label, as it is written, of an entry.
fn place(connection: &Connection, id: EntryId) -> Result<Option<(i64, String)>, Failed> {
    let mut statement =
        connection.prepare_cached("SELECT sequence, label FROM memory WHERE id = ?1")?;
    let found = statement.query_row([id.as_bytes()], |row| Ok((row.get(0)?, written(row, 1)?)));
    Ok(found.optional()?)
}

/// A label, as it is written. Bytes that are no text make it one that nobody knows, which is read as ⊤.
fn written(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    let bytes = row.get_ref(column)?.as_bytes()?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// What a row has in these columns: kind, label, entity, attribute, text, origin, time.
fn stored_at(row: &Row<'_>, first: usize) -> rusqlite::Result<Stored> {
    Ok(Stored {
        kind: row.get(first)?,
        label: written(row, first + 1)?,
        entity: row.get(first + 2)?,
        attribute: row.get(first + 3)?,
        text: row.get(first + 4)?,
        origin: row.get(first + 5)?,
        time: row.get(first + 6)?,
    })
}

fn namespace(id: EntryId, name: &str) -> Result<Namespace, Failed> {
    Namespace::from_key(name).map_err(|_| {
        let reason = format!("there is no namespace {name:?}");
        Stop::Refused(MemoryError::Unreadable { id, reason })
    })
}

/// Deletes entries, of which none that stays was derived.
fn delete(connection: &Connection, gone: &BTreeSet<i64>) -> Result<(), Failed> {
    if !gone.is_empty() {
        database::deleted(connection)?;
    }
    // All references first: a foreign key refuses to delete what another entry still names as its source.
    for sequence in gone {
        connection
            .prepare_cached("DELETE FROM source WHERE derived = ?1")?
            .execute([sequence])?;
    }
    for sequence in gone {
        connection
            .prepare_cached(
                // Before the entry is deleted, which says whose it was.
                "UPDATE namespace SET forgotten = forgotten + 1
                 FROM memory WHERE sequence = ?1 AND namespace.id = memory.namespace",
            )?
            .execute([sequence])?;
        connection
            .prepare_cached("DELETE FROM memory WHERE sequence = ?1")?
            .execute([sequence])?;
    }
    Ok(())
}
