//! Taking entries out to make room for new ones.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, Row, params};

use super::super::room::{Room, added};
use super::super::rules::size;
use super::{Draft, Failed, Namespace, SqliteMemory, Stop, Stored, delete};

/// What is derived from an entry.
const DERIVED: &str = "SELECT derived FROM source WHERE source = ?1";

impl SqliteMemory {
    /// Makes room for new entries of a namespace, label by label. Returns how many entries went.
    pub(super) fn make_room(
        &self,
        connection: &Connection,
        namespace: &Namespace,
        number: i64,
        all: &[(&Draft, Stored)],
    ) -> Result<usize, Failed> {
        let mut gone = 0;
        for (label, added) in added(all) {
            let there = connection
                .prepare_cached(
                    "SELECT count(*), coalesce(sum(bytes), 0) FROM memory
                     WHERE namespace = ?1 AND label = ?2",
                )?
                .query_row(params![number, label], room)?;
            let staying = self.limits.staying(namespace, there, added);
            if let Some(staying) = staying.map_err(Stop::Refused)? {
                gone += Self::evict(connection, number, label, there, staying)?;
            }
        }
        Ok(gone)
    }

    /// Removes the oldest entries of one label, and what was derived from them, until no more than
    /// `staying` is left.
    fn evict(
        connection: &Connection,
        namespace: i64,
        label: &str,
        mut there: Room,
        staying: Room,
    ) -> Result<usize, Failed> {
        let mut own: BTreeMap<i64, usize> = connection
            .prepare_cached(
                "SELECT sequence, bytes FROM memory
                 WHERE namespace = ?1 AND label = ?2 ORDER BY sequence",
            )?
            .query_map(params![namespace, label], |row| {
                Ok((row.get(0)?, size(row.get(1)?)))
            })?
            .collect::<Result<_, _>>()?;
        let mut gone = BTreeSet::new();
        let mut derived = connection.prepare_cached(DERIVED)?;
        while !there.fits(staying)
            && let Some((oldest, _)) = own.first_key_value()
        {
            let mut open = vec![*oldest];
            while let Some(member) = open.pop() {
                // What is gone already took along what was derived from it. The oldest entries of a memory have most of
                // it in common: to follow each of them to the end again would take as long as their number squared.
                if !gone.insert(member) {
                    continue;
                }
                if let Some(bytes) = own.remove(&member) {
                    there.take(Room::of_one(bytes));
                }
                let next = derived.query_map([member], |row| row.get(0))?;
                open.extend(next.collect::<Result<Vec<i64>, _>>()?);
            }
        }
        delete(connection, &gone)?;
        Ok(gone.len())
    }
}

/// A row of a count and a sum of bytes.
fn room(row: &Row<'_>) -> rusqlite::Result<Room> {
    Ok(Room {
        entries: size(row.get(0)?),
        bytes: size(row.get(1)?),
    })
}

#[cfg(test)]
mod tests {
    use ifc::{Label, Lattice};
    use rusqlite::StatementStatus;

    use super::super::super::{Content, Limits, Memory};
    use super::*;
    use crate::{EntryId, Time};

    /// However much of it the oldest entries have in common, it is not gone through once for each of them.
    #[test]
    fn making_room_follows_each_entry_once() {
        const ENTRIES: u8 = 64;
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits {
            entries: usize::from(ENTRIES),
            ..Limits::default()
        };
        let path = folder.path().join("store/memory.db");
        let lattice = Lattice::four_point();
        let untrusted = lattice.label("untrusted").unwrap();
        let memory = SqliteMemory::open(&path, lattice, limits).unwrap();
        let draft = |number: u8, label: &Label, sources: &[u8]| Draft {
            id: EntryId::from_bytes([number; 16]),
            content: Content::Summary {
                text: "x".to_owned(),
            },
            label: label.clone(),
            sources: (sources.iter())
                .map(|source| EntryId::from_bytes([*source; 16]))
                .collect(),
            origin: String::new(),
            time: Time::from_millis(0),
        };
        let own: Vec<Draft> = (0..ENTRIES)
            .map(|number| draft(number, &Label::bottom(), &[]))
            .collect();
        // One that is derived from the oldest, and as many as there is room for from that one.
        let first = draft(100, &untrusted, &[0, 1, 2, 3]);
        let rest = (101..100 + ENTRIES).map(|number| draft(number, &untrusted, &[100]));
        let derived: Vec<Draft> = std::iter::once(first).chain(rest).collect();
        for drafts in [own, derived] {
            memory.append(&Namespace::Hub, &drafts).unwrap();
        }
        let gone = memory.append(&Namespace::Hub, &[draft(200, &Label::bottom(), &[])]);
        let gone = gone.unwrap().count;
        assert_eq!(gone, 4 + usize::from(ENTRIES));
        let followed = memory.database.with(|connection| -> Result<_, Failed> {
            let statement = connection.prepare_cached(DERIVED)?;
            Ok(statement.get_status(StatementStatus::Run))
        });
        let followed: Result<i32, super::super::MemoryError> = followed;
        assert_eq!(usize::try_from(followed.unwrap()), Ok(gone));
    }
}
