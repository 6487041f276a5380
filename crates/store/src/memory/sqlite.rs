//! Memory in a SQLite file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ifc::{Label, Lattice};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::search::View;
use super::{
    Content, Draft, Entry, Family, Forgotten, Found, Limits, Memory, MemoryError, Namespace, Query,
    Speaker,
};
use crate::database::{Database, Schema, Stop, rows};
use crate::names::{Names, ReadLabel};
use crate::{EntryId, Time};

/// Sequence numbers order the entries. They are never reused, and never shown, since they tell how many entries there are.
/// `forgotten` counts how often a namespace lost entries.
///
/// Version 1 had namespaces `app:NAMES` without the identities of the apps. Their entries move to the hub's namespace.
const SCHEMA: Schema = Schema {
    application: 0x534c_4d45,
    version: 2,
    create: include_str!("../../migrations/sqlite/2_memory.sql"),
    upgrade: include_str!("../../migrations/sqlite/2_memory_upgrade.sql"),
};

/// The columns of an entry.
const COLUMNS: &str =
    "memory.id, sequence, name, kind, label, entity, attribute, text, origin, time";
const ENTRIES: &str = "memory JOIN namespace ON namespace.id = memory.namespace";

/// Most indexes that are kept for later searches. With [`Limits::bytes`] this bounds their memory.
const MAX_VIEWS: usize = 32;

/// One sixteenth of a label's room is freed at once, since each removal invalidates indexes.
const PARTS: usize = 16;

const USER: &str = "user";
const SYSTEM: &str = "system";
const SUMMARY: &str = "summary";
const FACT: &str = "fact";

type Failed = Stop<MemoryError>;

/// Memory in a file that only its owner can read. Several processes may have it open.
///
/// A removed entry is overwritten in the file (`secure_delete`), and the write-ahead log is emptied. [`Memory::forget`] also
/// rewrites the file, which removes copies that SQLite left when it moved rows between pages; [`Memory::append`] and
/// [`Memory::expire`] may leave such copies until the next `forget`. While another program reads an older state of the file,
/// the log keeps the text ([`Forgotten::erased`]) until the next removal or start.
pub struct SqliteMemory {
    database: Database,
    names: Names,
    limits: Limits,
    /// The newest last.
    views: Mutex<Vec<View>>,
}

impl SqliteMemory {
    /// Opens the file, or creates it. Labels are read and written in `lattice`.
    ///
    /// # Errors
    /// Other users could read the file, or it is no memory of this version.
    pub fn open(path: &Path, lattice: Lattice, limits: Limits) -> Result<Self, MemoryError> {
        Ok(Self {
            database: Database::open(path, &SCHEMA)?,
            names: Names::new(lattice),
            limits,
            views: Mutex::default(),
        })
    }

    /// Reads a stored label: ⊤ if it cannot be read.
    fn read_label(&self, written: &str) -> ReadLabel {
        match serde_json::from_str::<Vec<String>>(written) {
            Ok(names) => self.names.label(&names),
            Err(_) => ReadLabel {
                label: Label::top(),
                unknown: vec![written.to_owned()],
            },
        }
    }

    /// The label of a row of [`COLUMNS`].
    fn label(&self, row: &Row<'_>) -> Result<Label, Failed> {
        Ok(self.read_label(&written(row, 4)?).label)
    }

    /// Inserts an entry. Returns its sequence number and stored label.
    fn insert(
        &self,
        connection: &Connection,
        namespace: i64,
        draft: &Draft,
    ) -> Result<(i64, String), Failed> {
        // SQLite's error about `UNIQUE` would not name the entry.
        if place(connection, draft.id)?.is_some() {
            return Err(Stop::Refused(MemoryError::Taken(draft.id)));
        }
        let (mut sources, mut of_sources) = (Vec::new(), BTreeSet::new());
        for source in &draft.sources {
            let found = place(connection, *source)?;
            let (sequence, written) = found.ok_or(Stop::Refused(MemoryError::Missing(*source)))?;
            if sources.contains(&sequence) {
                continue;
            }
            let label = self.read_label(&written).label;
            // A derived text may contain everything of its sources.
            if !label.flows_to(&draft.label) {
                let missing = self.names.label_names(&label.beyond(&draft.label));
                let id = draft.id;
                return Err(Stop::Refused(MemoryError::LabelTooLow { id, missing }));
            }
            // An unreadable label has no names; it is ⊤, and so is the draft's.
            of_sources.extend(serde_json::from_str::<Vec<String>>(&written).unwrap_or_default());
            sources.push(sequence);
        }
        let label = self.names.derived_names(&draft.label, of_sources);
        let label = serde_json::Value::from(label).to_string();
        let (kind, entity, attribute, text) = columns(&draft.content);
        connection
            .prepare_cached(
                "INSERT INTO memory (id, namespace, kind, label, entity, attribute, text, origin, time, bytes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                draft.id.as_bytes(),
                namespace,
                kind,
                label,
                entity,
                attribute,
                text,
                draft.origin,
                draft.time.millis(),
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
        Ok((derived, label))
    }

    /// Removes the oldest entries of one label if it exceeds its room, with everything derived from them. `new` are the
    /// sequence numbers of the entries that need the room.
    fn make_room(
        &self,
        connection: &Connection,
        namespace: i64,
        label: &str,
        new: &BTreeSet<i64>,
    ) -> Result<BTreeSet<i64>, Failed> {
        let (entries, bytes): (i64, i64) = connection
            .prepare_cached(
                "SELECT count(*), coalesce(sum(bytes), 0) FROM memory WHERE namespace = ?1 AND label = ?2",
            )?
            .query_row(params![namespace, label], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (most_entries, most_bytes) = (count(self.limits.entries), count(self.limits.bytes));
        if entries <= most_entries && bytes <= most_bytes {
            return Ok(BTreeSet::new());
        }
        let parts = count(PARTS);
        let first_new = new.first().copied().unwrap_or(i64::MAX);
        let gone = family(
            connection,
            "sequence IN (
               SELECT sequence FROM (
                 SELECT sequence, row_number() OVER newest AS number, sum(bytes) OVER newest AS size
                 FROM memory WHERE namespace = ?1 AND label = ?2
                 WINDOW newest AS (ORDER BY sequence DESC)
               ) WHERE sequence < ?3 AND (number > ?4 OR size > ?5)
             )",
            params![
                namespace,
                label,
                first_new,
                most_entries - most_entries / parts,
                most_bytes - most_bytes / parts,
            ],
        )?;
        delete(connection, &gone)?;
        Ok(gone)
    }

    fn entry(&self, connection: &Connection, row: &Row<'_>) -> Result<Entry, Failed> {
        let id = EntryId::from_bytes(row.get(0)?);
        let unreadable = |reason: String| Stop::Refused(MemoryError::Unreadable { id, reason });
        let name: String = (row.get(2)).map_err(|error| unreadable(error.to_string()))?;
        let namespace = Namespace::from_key(&name)
            .map_err(|_| unreadable(format!("there is no namespace {name:?}")))?;
        let content = content(row).map_err(unreadable)?;
        let origin = (row.get(8)).map_err(|error| unreadable(error.to_string()))?;
        let time = (row.get(9)).map_err(|error| unreadable(error.to_string()))?;
        let ReadLabel { label, unknown } = self.read_label(&written(row, 4)?);
        let sources = connection
            .prepare_cached(
                "SELECT id FROM source JOIN memory ON sequence = source WHERE derived = ?1 ORDER BY position",
            )?
            .query_map([row.get::<_, i64>(1)?], |row| row.get(0).map(EntryId::from_bytes))?
            .collect::<Result<_, _>>()?;
        Ok(Entry {
            id,
            namespace,
            content,
            label,
            unknown,
            sources,
            origin,
            time: Time::from_millis(time),
        })
    }

    /// The entry that a condition names, if it flows to `at`.
    fn entry_at(
        &self,
        connection: &Connection,
        condition: &'static str,
        value: impl ToSql,
        at: &Label,
    ) -> Result<Option<Entry>, Failed> {
        let select = format!("SELECT {COLUMNS} FROM {ENTRIES} WHERE {condition}");
        let mut statement = connection.prepare_cached(&select)?;
        let mut rows = statement.query([value])?;
        match rows.next()? {
            Some(row) if self.label(row)?.flows_to(at) => self.entry(connection, row).map(Some),
            _ => Ok(None),
        }
    }

    /// The entries with these sequence numbers.
    fn entries(&self, connection: &Connection, all: &BTreeSet<i64>) -> Result<Family, Failed> {
        let select = format!("SELECT {COLUMNS} FROM {ENTRIES} WHERE sequence = ?1");
        let mut statement = connection.prepare_cached(&select)?;
        let mut family = Family::default();
        for sequence in all {
            let mut rows = statement.query([sequence])?;
            let Some(row) = rows.next()? else { continue };
            match self.entry(connection, row) {
                Ok(entry) => family.entries.push(entry),
                Err(Stop::Refused(_)) => {
                    (family.unreadable).push(EntryId::from_bytes(row.get(0)?));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(family)
    }

    /// The up-to-date index of a namespace for a reader. `None` if there is no such namespace.
    fn view(
        &self,
        connection: &Connection,
        namespace: &Namespace,
        at: &Label,
    ) -> Result<Option<View>, Failed> {
        let state: Option<(i64, i64)> = connection
            .prepare_cached("SELECT id, forgotten FROM namespace WHERE name = ?1")?
            .query_row([namespace.key()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((number, forgotten)) = state else {
            return Ok(None);
        };
        // Taken out of the list, so that an error drops an incomplete index.
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        let held = views
            .iter()
            .position(|view| view.namespace == number && view.at == *at);
        let held = held.map(|held| views.remove(held));
        drop(views);
        let mut view = match held {
            Some(view) if view.forgotten == forgotten => view,
            _ => View::new(number, at, forgotten)?,
        };
        let select = format!(
            "SELECT {COLUMNS} FROM {ENTRIES} WHERE memory.namespace = ?1 AND sequence > ?2 ORDER BY sequence"
        );
        let mut statement = connection.prepare_cached(&select)?;
        let mut rows = statement.query([number, view.last])?;
        view.begin()?;
        while let Some(row) = rows.next()? {
            view.last = row.get(1)?;
            let label = self.label(row)?;
            if label.flows_to(at)
                && let Ok(content) = content(row)
            {
                view.add(view.last, &label, &content)?;
            }
        }
        view.commit()?;
        Ok(Some(view))
    }

    /// Keeps an index for the next search.
    fn hold(&self, view: View) {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if views.len() == MAX_VIEWS {
            views.remove(0);
        }
        views.push(view);
    }

    /// After a removal: drops the indexes, which have the words, and empties the log.
    fn removed(&self, count: usize) -> usize {
        if count > 0 {
            self.drop_views();
            // A program that reads an older state delays this to the next removal or start.
            drop(self.database.checkpoint());
        }
        count
    }

    fn drop_views(&self) {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        views.clear();
    }
}

impl Memory for SqliteMemory {
    fn append(&self, namespace: &Namespace, drafts: &[Draft]) -> Result<usize, MemoryError> {
        self.limits.check(namespace, drafts)?;
        let gone = self.database.write(|connection| {
            let key = namespace.key();
            connection
                .prepare_cached("INSERT OR IGNORE INTO namespace (name) VALUES (?1)")?
                .execute([&key])?;
            let number: i64 = connection
                .prepare_cached("SELECT id FROM namespace WHERE name = ?1")?
                .query_row([key], |row| row.get(0))?;
            let (mut new, mut by_label) = (BTreeMap::new(), BTreeMap::<_, BTreeSet<_>>::new());
            for draft in drafts {
                let (sequence, label) = self.insert(connection, number, draft)?;
                new.insert(sequence, draft);
                by_label.entry(label).or_default().insert(sequence);
            }
            let mut gone = BTreeSet::new();
            for (label, new) in &by_label {
                gone.extend(self.make_room(connection, number, label, new)?);
            }
            // A new entry is removed only together with a source.
            let lost = new.iter().find(|(sequence, _)| gone.contains(sequence));
            for source in lost.map_or(&[][..], |(_, draft)| &draft.sources) {
                if place(connection, *source)?.is_none() {
                    return Err(Stop::Refused(MemoryError::Missing(*source)));
                }
            }
            Ok(gone.len())
        })?;
        Ok(self.removed(gone))
    }

    fn list(
        &self,
        namespace: &Namespace,
        most: usize,
        at: &Label,
    ) -> Result<Vec<Entry>, MemoryError> {
        self.database.read(|connection| {
            let select =
                format!("SELECT {COLUMNS} FROM {ENTRIES} WHERE name = ?1 ORDER BY sequence DESC");
            let mut statement = connection.prepare_cached(&select)?;
            let mut rows = statement.query([namespace.key()])?;
            let mut entries = Vec::new();
            while entries.len() < most
                && let Some(row) = rows.next()?
            {
                if !self.label(row)?.flows_to(at) {
                    continue;
                }
                match self.entry(connection, row) {
                    Ok(entry) => entries.push(entry),
                    Err(Stop::Refused(MemoryError::Unreadable { .. })) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(entries)
        })
    }

    fn show(&self, id: EntryId, at: &Label) -> Result<Option<Entry>, MemoryError> {
        self.database
            .read(|connection| self.entry_at(connection, "memory.id = ?1", id.as_bytes(), at))
    }

    fn search(
        &self,
        namespace: &Namespace,
        query: &Query,
        at: &Label,
        most: usize,
    ) -> Result<Vec<Found>, MemoryError> {
        self.database.read(|connection| {
            let Some(view) = self.view(connection, namespace, at)? else {
                return Ok(Vec::new());
            };
            let ranked = view.search(query, most)?;
            self.hold(view);
            let mut found = Vec::new();
            for (sequence, score) in ranked {
                // The stored label is checked again: the index only ranks.
                match self.entry_at(connection, "sequence = ?1", sequence, at) {
                    Ok(Some(entry)) => found.push(Found { entry, score }),
                    // Damaged since it was indexed.
                    Ok(None) | Err(Stop::Refused(MemoryError::Unreadable { .. })) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(found)
        })
    }

    fn labels(&self, namespace: &Namespace) -> Result<Vec<Label>, MemoryError> {
        self.database.read(|connection| {
            let select = "SELECT DISTINCT label FROM memory
                 WHERE namespace = (SELECT id FROM namespace WHERE name = ?1)";
            let mut labels: Vec<Label> = Vec::new();
            rows(connection, select, [namespace.key()], |row| {
                let label = self.read_label(&written(row, 0)?).label;
                if !labels.contains(&label) {
                    labels.push(label);
                }
                Ok(())
            })?;
            Ok(labels)
        })
    }

    fn unreadable(&self, namespace: &Namespace) -> Result<Vec<EntryId>, MemoryError> {
        self.database.read(|connection| {
            let select =
                format!("SELECT {COLUMNS} FROM {ENTRIES} WHERE name = ?1 ORDER BY sequence");
            let all = rows(connection, &select, [namespace.key()], |row| {
                match self.entry(connection, row) {
                    Ok(_) => Ok(None),
                    Err(Stop::Refused(_)) => Ok(Some(EntryId::from_bytes(row.get(0)?))),
                    Err(error) => Err(error),
                }
            })?;
            Ok(all.into_iter().flatten().collect())
        })
    }

    fn ids(&self, namespace: &Namespace) -> Result<Vec<EntryId>, MemoryError> {
        self.database.read(|connection| {
            let select =
                "SELECT id FROM memory WHERE namespace = (SELECT id FROM namespace WHERE name = ?1)
                     ORDER BY sequence";
            rows(connection, select, [namespace.key()], |row| {
                Ok(EntryId::from_bytes(row.get(0)?))
            })
        })
    }

    fn derived(&self, ids: &[EntryId]) -> Result<Family, MemoryError> {
        self.database.read(|connection| {
            let family = family(connection, LISTED, [list(ids)])?;
            self.entries(connection, &family)
        })
    }

    fn forget(&self, ids: &[EntryId]) -> Result<Forgotten, MemoryError> {
        let family = self.database.write(|connection| {
            let gone = family(connection, LISTED, [list(ids)])?;
            let family = self.entries(connection, &gone)?;
            delete(connection, &gone)?;
            Ok::<_, Failed>(family)
        })?;
        let mut erased = Ok(());
        if family.count() > 0 {
            self.drop_views();
            erased = self.database.vacuum().map_err(MemoryError::Database);
        }
        Ok(Forgotten { family, erased })
    }

    fn expire(&self, before: Time) -> Result<usize, MemoryError> {
        let gone = self.database.write(|connection| {
            let gone = family(connection, "time < ?1", [before.millis()])?;
            delete(connection, &gone)?;
            Ok::<_, Failed>(gone.len())
        })?;
        Ok(self.removed(gone))
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, MemoryError> {
        self.database.read(|connection| {
            let all = rows(connection, "SELECT name FROM namespace", [], |row| {
                // Entries of another name are unreadable.
                let name = row.get_ref(0)?.as_str().ok();
                Ok(name.and_then(|name| Namespace::from_key(name).ok()))
            })?;
            let mut known: Vec<Namespace> = all.into_iter().flatten().collect();
            known.sort_unstable();
            Ok(known)
        })
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The columns of a content: kind, entity, attribute, text.
fn columns(content: &Content) -> (&'static str, Option<&str>, Option<&str>, &str) {
    match content {
        Content::Interaction { speaker, text } => match speaker {
            Speaker::User => (USER, None, None, text),
            Speaker::System => (SYSTEM, None, None, text),
        },
        Content::Summary { text } => (SUMMARY, None, None, text),
        Content::Fact {
            entity,
            attribute,
            value,
        } => (FACT, Some(entity), Some(attribute), value),
    }
}

/// The content of a row of [`COLUMNS`], or why it has none.
fn content(row: &Row<'_>) -> Result<Content, String> {
    let said = |error: rusqlite::Error| error.to_string();
    let kind: String = row.get(3).map_err(said)?;
    let entity: Option<String> = row.get(5).map_err(said)?;
    let attribute: Option<String> = row.get(6).map_err(said)?;
    let text: String = row.get(7).map_err(said)?;
    Ok(match (kind.as_str(), entity, attribute) {
        (USER, None, None) => Content::Interaction {
            speaker: Speaker::User,
            text,
        },
        (SYSTEM, None, None) => Content::Interaction {
            speaker: Speaker::System,
            text,
        },
        (SUMMARY, None, None) => Content::Summary { text },
        (FACT, Some(entity), Some(attribute)) => Content::Fact {
            entity,
            attribute,
            value: text,
        },
        _ => return Err(format!("its kind is {kind:?}")),
    })
}

/// The sequence number and the stored label of an entry.
fn place(connection: &Connection, id: EntryId) -> Result<Option<(i64, String)>, Failed> {
    let mut statement =
        connection.prepare_cached("SELECT sequence, label FROM memory WHERE id = ?1")?;
    let found = statement.query_row([id.as_bytes()], |row| Ok((row.get(0)?, written(row, 1)?)));
    Ok(found.optional()?)
}

/// A stored label. Bytes that are not UTF-8 become a name that no lattice has, which is read as ⊤.
fn written(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    let bytes = row.get_ref(column)?.as_bytes()?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// The condition of [`family`] for the ids of [`list`], as one parameter: SQLite limits their number.
const LISTED: &str = "id IN (SELECT unhex(value) FROM json_each(?1))";

fn list(ids: &[EntryId]) -> String {
    serde_json::Value::from_iter(ids.iter().map(EntryId::to_string)).to_string()
}

/// The sequence numbers of the entries that fulfil a condition, and of everything derived from them.
fn family(
    connection: &Connection,
    condition: &'static str,
    values: impl rusqlite::Params,
) -> Result<BTreeSet<i64>, Failed> {
    // `UNION` keeps and follows each entry once.
    let family = connection
        .prepare_cached(&format!(
            "WITH RECURSIVE family (entry) AS (
               SELECT sequence FROM memory WHERE {condition}
               UNION SELECT derived FROM source JOIN family ON source.source = family.entry
             ) SELECT entry FROM family"
        ))?
        .query_map(values, |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(family)
}

/// Deletes entries from which no other entry was derived.
fn delete(connection: &Connection, gone: &BTreeSet<i64>) -> Result<(), Failed> {
    if gone.is_empty() {
        return Ok(());
    }
    let gone = serde_json::Value::from_iter(gone.iter().copied()).to_string();
    for sql in [
        "UPDATE namespace SET forgotten = forgotten + 1 WHERE id IN
           (SELECT namespace FROM memory WHERE sequence IN (SELECT value FROM json_each(?1)))",
        // References first, for the foreign key.
        "DELETE FROM source WHERE derived IN (SELECT value FROM json_each(?1))",
        "DELETE FROM memory WHERE sequence IN (SELECT value FROM json_each(?1))",
    ] {
        connection.prepare_cached(sql)?.execute([&gone])?;
    }
    Ok(())
}
