//! Taking entries out: for new ones, for their age, and because the user says so.

use std::collections::BTreeMap;

use redis::{Connection, Pipeline, cmd, pipe};

use super::super::room::{Room, added};
use super::super::rules::size;
use super::raw::{Failed, Raw, done, ids, namespaces, raws, watch};
use super::{CHUNK, Draft, Namespace, RedisMemory, Stop, Stored};
use crate::{EntryId, Time};

impl RedisMemory {
    /// What has to go for new entries of a namespace, label by label. All of it is watched.
    pub(super) fn make_room(
        &self,
        connection: &mut Connection,
        namespace: &Namespace,
        all: &[(&Draft, Stored)],
    ) -> Result<BTreeMap<EntryId, Raw>, Failed> {
        let mut gone = BTreeMap::new();
        for (label, added) in added(all) {
            let labelled = self.keys.labelled(namespace, label);
            let entries: i64 = cmd("ZCARD").arg(&labelled).query(connection)?;
            let bytes = self.keys.bytes(namespace);
            let bytes: Option<i64> = cmd("HGET").arg(bytes).arg(label).query(connection)?;
            let there = Room {
                entries: size(entries),
                bytes: size(bytes.unwrap_or_default()),
            };
            let staying = self.limits.staying(namespace, there, added);
            if let Some(staying) = staying.map_err(Stop::Refused)? {
                self.evict(connection, (namespace, label), there, staying, &mut gone)?;
            }
        }
        Ok(gone)
    }

    /// Adds the oldest entries of one label, and what was derived from them, until no more than `staying`
    /// is left.
    fn evict(
        &self,
        connection: &mut Connection,
        (namespace, label): (&Namespace, &str),
        mut there: Room,
        staying: Room,
        gone: &mut BTreeMap<EntryId, Raw>,
    ) -> Result<(), Failed> {
        let labelled = self.keys.labelled(namespace, label);
        let own: Vec<String> = cmd("ZRANGE")
            .arg(labelled)
            .arg(0)
            .arg(-1)
            .query(connection)?;
        let is_own = |raw: &Raw| {
            let stored = raw.stored.as_ref();
            raw.namespace.as_ref() == Some(namespace) && stored.is_some_and(|it| it.label == label)
        };
        // What another label's eviction takes along is gone already.
        let before: Vec<Room> = (gone.values().filter(|raw| is_own(raw)))
            .map(|raw| Room::of_one(size(raw.bytes)))
            .collect();
        before.into_iter().for_each(|room| there.take(room));
        for oldest in ids(own) {
            if there.fits(staying) {
                break;
            }
            if gone.contains_key(&oldest) {
                continue;
            }
            let mut family = self.family(connection, &[oldest], gone)?;
            for raw in family.values() {
                // A damaged one takes the place of one, whatever it says of itself.
                if raw.id == oldest || is_own(raw) {
                    there.take(Room::of_one(size(raw.bytes)));
                }
            }
            gone.append(&mut family);
        }
        Ok(())
    }

    /// Prepares to delete entries, of which none that stays was derived.
    pub(super) fn write_removal(
        &self,
        connection: &mut Connection,
        written: &mut Pipeline,
        gone: &BTreeMap<EntryId, Raw>,
    ) -> Result<(), Failed> {
        if !gone.is_empty() {
            // In the same `MULTI`: whoever opens the memory after a crash has the file written anew.
            let erasure = self.keys.erasure();
            written.cmd("HINCRBY").arg(erasure).arg("deletions").arg(1);
        }
        for (id, raw) in gone {
            let (entry, derived) = (self.keys.entry(*id), self.keys.derived(*id));
            written.cmd("DEL").arg(entry).arg(derived);
            let sources = raw.sources.iter();
            for source in sources.filter(|source| !gone.contains_key(source)) {
                let derived = self.keys.derived(*source);
                written.cmd("SREM").arg(derived).arg(id.to_string());
            }
            // An entry that does not say whose it is is taken out wherever it may be listed.
            let places = match &raw.namespace {
                Some(namespace) => vec![namespace.clone()],
                None => namespaces(connection, &self.keys)?,
            };
            for namespace in places {
                let bytes = self.keys.bytes(&namespace);
                // So is one that does not say its label; its bytes stay counted, which leaves less room.
                let labels: Vec<String> = match &raw.stored {
                    Some(stored) if raw.namespace.is_some() => {
                        written.cmd("HINCRBY").arg(&bytes);
                        written.arg(&stored.label).arg(-raw.bytes);
                        vec![stored.label.clone()]
                    }
                    _ => cmd("HKEYS").arg(&bytes).query(connection)?,
                };
                let lists = labels.iter();
                let lists = lists.map(|label| self.keys.labelled(&namespace, label));
                for list in lists.chain([self.keys.order(&namespace)]) {
                    written.cmd("ZREM").arg(list).arg(id.to_string());
                }
                let state = self.keys.state(&namespace);
                written.cmd("HINCRBY").arg(state).arg("forgotten").arg(1);
            }
        }
        Ok(())
    }

    /// Removes what is older than `before`, with what was derived from it. None if something of it has
    /// changed meanwhile.
    pub(super) fn try_expire(
        &self,
        connection: &mut Connection,
        before: Time,
    ) -> Result<Option<usize>, Failed> {
        let mut gone: BTreeMap<EntryId, Raw> = BTreeMap::new();
        for namespace in namespaces(connection, &self.keys)? {
            watch(connection, [self.keys.state(&namespace)])?;
            let order = self.keys.order(&namespace);
            let all: Vec<String> = cmd("ZRANGE").arg(order).arg(0).arg(-1).query(connection)?;
            // What does not say its time is older than what was added after it.
            let mut damaged = Vec::new();
            for chunk in ids(all).chunks(CHUNK) {
                for raw in raws(connection, &self.keys, chunk)? {
                    match &raw.stored {
                        None => damaged.push(raw.id),
                        Some(stored) if stored.time < before.millis() => {
                            damaged.push(raw.id);
                            gone.append(&mut self.family(connection, &damaged, &gone)?);
                            damaged.clear();
                        }
                        Some(_) => {}
                    }
                }
            }
        }
        if gone.is_empty() {
            cmd("UNWATCH").exec(connection)?;
            return Ok(Some(0));
        }
        let mut written = pipe();
        written.atomic();
        self.write_removal(connection, &mut written, &gone)?;
        let done = done(connection, &written)?;
        Ok(done.map(|()| gone.len()))
    }
}
