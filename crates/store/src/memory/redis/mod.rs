//! Memory in a Redis server (as in SecGPT appendix B), with the same promises as in a file.
//!
//! Several keys change together: what an operation has read is watched (`WATCH`), and its writes are
//! one `MULTI`, which the server drops if any of it has changed since. Then it is done again.

mod error;
mod keys;
mod listener;
mod raw;
mod room;
mod server;

use std::collections::{BTreeMap, BTreeSet};

use ifc::{Label, Lattice};
use redis::{Connection, cmd, pipe};

use super::indexes::{Held, Indexes};
use super::rules::{contains, count};
use super::stored::{self, Stored};
use super::{
    Draft, Entry, Family, Forgotten, Found, Limits, Memory, MemoryError, Namespace, Page, Query,
    Removed,
};
use crate::names::Names;
use crate::{EntryId, Name, Time};
pub use error::RedisError;
use keys::Keys;
use raw::{Failed, Raw, done, ids, namespaces, raw, raws, state, watch, write_entry};
use server::{Server, Stop};

/// Raised by one for each change of what is written.
const VERSION: u32 = 1;

/// How often an operation is done again because of others. Theirs succeed meanwhile.
const ATTEMPTS: u32 = 100;

/// Entries that are read at once.
const CHUNK: usize = 256;

/// Memory in a Redis server on this machine that loses nothing (`appendfsync always`). Whoever may
/// connect to the server can read it: give it a Unix socket or a password.
pub struct RedisMemory {
    server: Server,
    keys: Keys,
    names: Names,
    limits: Limits,
    indexes: Indexes,
}

impl RedisMemory {
    /// Connects to the server at `unix:///PATH` or `redis://127.0.0.1:PORT`. Memories of other spaces in
    /// it are not seen. Labels are read and written in `lattice`.
    ///
    /// # Errors
    /// It is on another machine, its settings would let it lose or keep what they must not, another
    /// version wrote what is there, or the space's name has a colon.
    pub fn open(
        address: &str,
        space: &Name,
        lattice: Lattice,
        limits: Limits,
    ) -> Result<Self, MemoryError> {
        // It parts names in keys.
        if space.as_str().contains(':') {
            return Err(RedisError::BadSpace(space.to_string()).into());
        }
        let keys = Keys::new(space);
        let server = Server::open(address)?;
        // Set if it is not there, and then read: whoever comes first writes it, and all see the same.
        let found: String = server.with(|connection| -> Result<_, Stop<RedisError>> {
            let known = VERSION.to_string();
            cmd("SETNX")
                .arg(keys.version())
                .arg(known)
                .exec(connection)?;
            Ok(cmd("GET").arg(keys.version()).query(connection)?)
        })?;
        if found != VERSION.to_string() {
            let known = VERSION;
            return Err(RedisError::Version { found, known }.into());
        }
        let memory = Self {
            server,
            keys,
            names: Names::new(lattice),
            limits,
            indexes: Indexes::default(),
        };
        if memory.has_remains()? {
            // That it cannot go yet is no reason to refuse the memory, in which the user may have more to forget.
            drop(memory.erase());
        }
        Ok(memory)
    }

    /// Whether something was deleted, before a crash perhaps, and is still in the server's file.
    fn has_remains(&self) -> Result<bool, MemoryError> {
        self.server.with(|connection| -> Result<_, Failed> {
            let [deletions, erased]: [Option<i64>; 2] = cmd("HMGET")
                .arg(self.keys.erasure())
                .arg(&["deletions", "erased"])
                .query(connection)?;
            Ok(deletions > erased)
        })
    }

    /// Does `attempt` until what it watched has not changed while it worked.
    fn again<T>(
        &self,
        subject: &str,
        mut attempt: impl FnMut(&mut Connection) -> Result<Option<T>, Failed>,
    ) -> Result<T, MemoryError> {
        self.server.with(|connection| {
            for _ in 0..ATTEMPTS {
                if let Some(result) = attempt(connection)? {
                    return Ok(result);
                }
            }
            Err(Stop::Refused(MemoryError::Unsteady(subject.to_owned())))
        })
    }

    /// The label of an entry: ⊤ if it cannot be read.
    fn label(&self, raw: &Raw) -> Label {
        match &raw.stored {
            Some(stored) => stored::label(&stored.label, &self.names).label,
            None => Label::top(),
        }
    }

    fn entry(&self, raw: Raw) -> Result<Entry, Failed> {
        let Raw { id, sources, .. } = raw;
        let (Some(stored), Some(namespace)) = (raw.stored, raw.namespace) else {
            let reason = "its fields are damaged".to_owned();
            return Err(Stop::Refused(MemoryError::Unreadable { id, reason }));
        };
        let entry = stored.entry(id, &namespace, sources, &self.names);
        entry.map_err(Stop::Refused)
    }

    fn try_append(
        &self,
        connection: &mut Connection,
        namespace: &Namespace,
        drafts: &[Draft],
    ) -> Result<Option<usize>, Failed> {
        let refuse = |error| Err(Stop::Refused(error));
        // What is watched from here on is so until `EXEC`; after a refusal `Server::with` ends it.
        watch(connection, [self.keys.state(namespace)])?;
        let mut state = state(connection, &self.keys, namespace)?;
        // Taken after the state is watched: whoever takes a higher number for this namespace and is
        // done first makes this attempt fail, so that numbers appear in their order.
        let added = count(drafts.len());
        let last: i64 = cmd("INCRBY")
            .arg(self.keys.sequence())
            .arg(added)
            .query(connection)?;
        state.last = last.saturating_sub(added);
        let mut written = pipe();
        written.atomic();
        let mut known: BTreeMap<EntryId, Raw> = BTreeMap::new();
        let all = Stored::all(drafts, &self.names, |source| -> Result<_, Failed> {
            watch(connection, [self.keys.entry(source)])?;
            let Some(found) = raw(connection, &self.keys, source)? else {
                return Ok(None);
            };
            let label = found.stored.as_ref().map(|stored| stored.label.clone());
            known.insert(source, found);
            Ok(label)
        })?;
        let all: Vec<(&Draft, Stored)> = drafts.iter().zip(all).collect();
        // In this state: whoever adds or forgets here changes it.
        let gone = self.make_room(connection, namespace, &all)?;
        self.write_removal(connection, &mut written, &gone)?;
        written
            .cmd("SADD")
            .arg(self.keys.namespaces())
            .arg(namespace.key());
        // Labels of what is written here, as they will be read.
        let mut earlier: BTreeMap<EntryId, Label> = BTreeMap::new();
        for (draft, stored) in &all {
            watch(connection, [self.keys.entry(draft.id)])?;
            if earlier.contains_key(&draft.id) || raw(connection, &self.keys, draft.id)?.is_some() {
                return refuse(MemoryError::Taken(draft.id));
            }
            let mut seen = BTreeSet::new();
            let sources = draft.sources.iter().copied();
            let sources: Vec<EntryId> = sources.filter(|source| seen.insert(*source)).collect();
            for source in &sources {
                let label = match earlier.get(source) {
                    Some(label) => label.clone(),
                    None => match known.get(source) {
                        Some(raw) if !gone.contains_key(source) => self.label(raw),
                        _ => return refuse(MemoryError::Missing(*source)),
                    },
                };
                contains(draft, &label, &self.names).map_err(Stop::Refused)?;
                // With the entry in one `MULTI`: a derived entry that its source does not know would outlive it.
                let derived = self.keys.derived(*source);
                written.cmd("SADD").arg(derived).arg(draft.id.to_string());
            }
            let label = stored::label(&stored.label, &self.names).label;
            earlier.insert(draft.id, label);
            state.last += 1;
            write_entry(
                &mut written,
                &self.keys,
                namespace,
                draft,
                &sources,
                stored,
                state.last,
            )?;
        }
        let here = self.keys.state(namespace);
        written.cmd("HSET").arg(here).arg("last").arg(state.last);
        let done = done(connection, &written)?;
        Ok(done.map(|()| gone.len()))
    }

    /// The index of a namespace with what was added since, and how many entries it had forgotten.
    fn index(
        &self,
        connection: &mut Connection,
        namespace: &Namespace,
    ) -> Result<(Held, i64), Failed> {
        let before = state(connection, &self.keys, namespace)?;
        let mut held = self.indexes.take(namespace, before.forgotten);
        // In this order: an entry that is added meanwhile has a higher number, and comes next time.
        let ids: Vec<EntryId> = ids(cmd("ZRANGEBYSCORE")
            .arg(self.keys.order(namespace))
            .arg(format!("({}", held.last))
            .arg(before.last)
            .query(connection)?);
        for chunk in ids.chunks(CHUNK) {
            for raw in raws(connection, &self.keys, chunk)? {
                match &raw.stored {
                    Some(stored)
                        if raw.namespace.is_some()
                            && let Some(texts) = stored.texts() =>
                    {
                        held.index.add(raw.id, &self.label(&raw), texts);
                    }
                    _ => held.unreadable.push(raw.id),
                }
            }
        }
        held.last = before.last;
        Ok((held, before.forgotten))
    }

    /// Ranks, and reads the best. None if something was forgotten meanwhile.
    fn found(
        &self,
        connection: &mut Connection,
        namespace: &Namespace,
        query: &Query,
        at: &Label,
        most: usize,
    ) -> Result<Option<Vec<Found>>, Failed> {
        let (held, forgotten) = self.index(connection, namespace)?;
        let ranked = held.index.search(query, at, most);
        let best: Vec<EntryId> = ranked.iter().map(|(id, _)| *id).collect();
        let mut entries = Vec::with_capacity(best.len());
        for chunk in best.chunks(CHUNK) {
            entries.extend(raws(connection, &self.keys, chunk)?);
        }
        // Reading is no transaction here, so what was forgotten between the ranking and the entries may be in one and not
        // in the other.
        if state(connection, &self.keys, namespace)?.forgotten != forgotten {
            return Ok(None);
        }
        self.indexes.put(namespace, held);
        let entries = ranked
            .into_iter()
            .zip(entries)
            .filter_map(|((_, score), raw)| {
                // One that cannot be read was damaged since it came into the index.
                let entry = self
                    .entry(raw)
                    .ok()
                    .filter(|entry| entry.label.flows_to(at))?;
                Some(Found { entry, score })
            });
        Ok(Some(entries.collect()))
    }

    /// Asks the index of a namespace. None if something was forgotten meanwhile.
    fn ask<T>(
        &self,
        connection: &mut Connection,
        namespace: &Namespace,
        question: impl FnOnce(&Held) -> T,
    ) -> Result<Option<T>, Failed> {
        let (held, forgotten) = self.index(connection, namespace)?;
        if state(connection, &self.keys, namespace)?.forgotten != forgotten {
            return Ok(None);
        }
        let answer = question(&held);
        self.indexes.put(namespace, held);
        Ok(Some(answer))
    }

    /// Entries and everything that was derived from them, but for what is known with everything that was derived from
    /// that. All of it is watched.
    fn family(
        &self,
        connection: &mut Connection,
        ids_of: &[EntryId],
        known: &BTreeMap<EntryId, Raw>,
    ) -> Result<BTreeMap<EntryId, Raw>, Failed> {
        let mut family: BTreeMap<EntryId, Raw> = BTreeMap::new();
        let mut open = ids_of.to_vec();
        while let Some(id) = open.pop() {
            if family.contains_key(&id) || known.contains_key(&id) {
                continue;
            }
            watch(connection, [self.keys.entry(id), self.keys.derived(id)])?;
            let found = match raw(connection, &self.keys, id)? {
                Some(raw) => raw,
                None if self.listed(connection, id)? => Raw::damaged(id),
                None => continue,
            };
            family.insert(id, found);
            let derived = cmd("SMEMBERS")
                .arg(self.keys.derived(id))
                .query(connection)?;
            open.extend(ids(derived));
        }
        Ok(family)
    }

    /// Whether a namespace lists an entry, there or not.
    fn listed(&self, connection: &mut Connection, id: EntryId) -> Result<bool, Failed> {
        for namespace in namespaces(connection, &self.keys)? {
            let order = self.keys.order(&namespace);
            let place: Option<i64> = cmd("ZSCORE")
                .arg(order)
                .arg(id.to_string())
                .query(connection)?;
            if place.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// After entries have gone: their words are in indexes, and their text in the server's file.
    fn forgot(&self, count: usize) -> Removed {
        self.indexes.forgot(count, || self.erase())
    }

    fn try_list(
        &self,
        connection: &mut Connection,
        namespace: &Namespace,
        page: &Page,
        at: &Label,
    ) -> Result<Option<Vec<Entry>>, Failed> {
        let before = state(connection, &self.keys, namespace)?;
        let mut newest = format!("{}", before.last);
        if let Some(id) = page.before {
            let seen = raw(connection, &self.keys, id)?.filter(|raw| self.label(raw).flows_to(at));
            let seen = seen.ok_or(Stop::Refused(MemoryError::Missing(id)))?;
            newest = format!("({}", seen.sequence);
        }
        let ids: Vec<EntryId> = ids(cmd("ZREVRANGEBYSCORE")
            .arg(self.keys.order(namespace))
            .arg(newest)
            .arg("-inf")
            .query(connection)?);
        let mut entries = Vec::new();
        'page: for chunk in ids.chunks(CHUNK) {
            for raw in raws(connection, &self.keys, chunk)? {
                if entries.len() == page.most {
                    break 'page;
                }
                if !self.label(&raw).flows_to(at) {
                    continue;
                }
                // One that cannot be read is left out. It may be forgotten at this moment: then all of it is done again.
                if let Ok(entry) = self.entry(raw)
                    && page.kind.is_none_or(|kind| kind == entry.content.kind())
                {
                    entries.push(entry);
                }
            }
        }
        let now = state(connection, &self.keys, namespace)?;
        Ok((now.forgotten == before.forgotten).then_some(entries))
    }

    fn try_forget(
        &self,
        connection: &mut Connection,
        ids: &[EntryId],
    ) -> Result<Option<Family>, Failed> {
        let gone = self.family(connection, ids, &BTreeMap::new())?;
        if gone.is_empty() {
            cmd("UNWATCH").exec(connection)?;
            return Ok(Some(Family::default()));
        }
        let mut written = pipe();
        written.atomic();
        self.write_removal(connection, &mut written, &gone)?;
        let done = done(connection, &written)?;
        Ok(done.map(|()| self.read(gone)))
    }

    /// None if one of the namespaces has changed meanwhile.
    fn try_hand_over(
        &self,
        connection: &mut Connection,
        from: &Namespace,
        to: &Namespace,
    ) -> Result<Option<usize>, Failed> {
        // Whoever adds or forgets in one of them changes its state.
        watch(connection, [self.keys.state(from), self.keys.state(to)])?;
        let order = self.keys.order(from);
        let all: Vec<String> = cmd("ZRANGE").arg(&order).arg(0).arg(-1).query(connection)?;
        let all = ids(all);
        if all.is_empty() || from == to {
            cmd("UNWATCH").exec(connection)?;
            return Ok(Some(all.len()));
        }
        let mut written = pipe();
        written.atomic();
        for id in &all {
            written.cmd("HSET").arg(self.keys.entry(*id));
            written.arg("namespace").arg(to.key());
        }
        let mut lists = vec![(order, self.keys.order(to))];
        let labels: Vec<(String, i64)> = cmd("HGETALL")
            .arg(self.keys.bytes(from))
            .query(connection)?;
        for (label, bytes) in labels {
            let there = self.keys.bytes(to);
            written.cmd("HINCRBY").arg(there).arg(&label).arg(bytes);
            let [from, to] = [from, to].map(|namespace| self.keys.labelled(namespace, &label));
            lists.push((from, to));
        }
        for (from, to) in lists {
            // Sequence numbers are those of the whole space: all entries stay in their order.
            let union = written.cmd("ZUNIONSTORE").arg(&to).arg(2);
            union.arg(&to).arg(&from).arg("AGGREGATE").arg("MAX");
            written.cmd("DEL").arg(from);
        }
        written.cmd("DEL").arg(self.keys.bytes(from));
        written
            .cmd("SADD")
            .arg(self.keys.namespaces())
            .arg(to.key());
        let mut last = 0;
        for namespace in [from, to] {
            last = last.max(state(connection, &self.keys, namespace)?.last);
            // Indexes of both are made anew: what comes in is older than what one has, and what goes is in the other.
            let state = self.keys.state(namespace);
            written.cmd("HINCRBY").arg(state).arg("forgotten").arg(1);
        }
        let there = self.keys.state(to);
        written.cmd("HSET").arg(there).arg("last").arg(last);
        let done = done(connection, &written)?;
        Ok(done.map(|()| all.len()))
    }

    /// What can be read of entries, oldest first.
    fn read(&self, entries: BTreeMap<EntryId, Raw>) -> Family {
        let mut entries: Vec<Raw> = entries.into_values().collect();
        entries.sort_by_key(|raw| raw.sequence);
        let mut family = Family::default();
        for raw in entries {
            let id = raw.id;
            match self.entry(raw) {
                Ok(entry) => family.entries.push(entry),
                Err(_) => family.unreadable.push(id),
            }
        }
        family
    }
}

impl Memory for RedisMemory {
    fn append(&self, namespace: &Namespace, drafts: &[Draft]) -> Result<Removed, MemoryError> {
        self.limits.check(drafts)?;
        if drafts.is_empty() {
            return Ok(Removed::none());
        }
        let gone = self.again(&namespace.to_string(), |connection| {
            self.try_append(connection, namespace, drafts)
        })?;
        Ok(self.forgot(gone))
    }

    fn list(
        &self,
        namespace: &Namespace,
        page: &Page,
        at: &Label,
    ) -> Result<Vec<Entry>, MemoryError> {
        self.again(&namespace.to_string(), |connection| {
            self.try_list(connection, namespace, page, at)
        })
    }

    fn show(&self, id: EntryId, at: &Label) -> Result<Option<Entry>, MemoryError> {
        self.server
            .with(|connection| match raw(connection, &self.keys, id)? {
                Some(raw) if self.label(&raw).flows_to(at) => self.entry(raw).map(Some),
                _ => Ok(None),
            })
    }

    fn search(
        &self,
        namespace: &Namespace,
        query: &Query,
        at: &Label,
        most: usize,
    ) -> Result<Vec<Found>, MemoryError> {
        self.again(&namespace.to_string(), |connection| {
            self.found(connection, namespace, query, at, most)
        })
    }

    fn labels(&self, namespace: &Namespace) -> Result<Vec<Label>, MemoryError> {
        self.again(&namespace.to_string(), |connection| {
            self.ask(connection, namespace, |held| held.index.labels())
        })
    }

    fn unreadable(&self, namespace: &Namespace) -> Result<Vec<EntryId>, MemoryError> {
        self.again(&namespace.to_string(), |connection| {
            self.ask(connection, namespace, |held| held.unreadable.clone())
        })
    }

    fn ids(&self, namespace: &Namespace) -> Result<Vec<EntryId>, MemoryError> {
        self.server.with(|connection| {
            let order = self.keys.order(namespace);
            Ok(ids(cmd("ZRANGE")
                .arg(order)
                .arg(0)
                .arg(-1)
                .query(connection)?))
        })
    }

    fn derived(&self, ids: &[EntryId]) -> Result<Family, MemoryError> {
        self.server.with(|connection| {
            let family = self.family(connection, ids, &BTreeMap::new());
            cmd("UNWATCH").exec(connection)?;
            Ok(self.read(family?))
        })
    }

    fn forget(&self, ids: &[EntryId]) -> Result<Forgotten, MemoryError> {
        let family = self.again("these entries", |connection| {
            self.try_forget(connection, ids)
        })?;
        let erased = self.forgot(family.count()).erased;
        Ok(Forgotten { family, erased })
    }

    fn expire(&self, before: Time) -> Result<Removed, MemoryError> {
        let count = self.again("all", |connection| self.try_expire(connection, before))?;
        Ok(self.forgot(count))
    }

    fn hand_over(&self, from: &Namespace, to: &Namespace) -> Result<usize, MemoryError> {
        self.again(&from.to_string(), |connection| {
            self.try_hand_over(connection, from, to)
        })
    }

    fn erase(&self) -> Result<(), MemoryError> {
        // Before the file is written anew: what is deleted meanwhile may be in it.
        let deletions: i64 = self.server.with(|connection| -> Result<_, Failed> {
            let deletions: Option<i64> = cmd("HGET")
                .arg(self.keys.erasure())
                .arg("deletions")
                .query(connection)?;
            Ok(deletions.unwrap_or_default())
        })?;
        self.server.erase()?;
        self.server.with(|connection| -> Result<_, Failed> {
            let erasure = self.keys.erasure();
            // Another process may have noted a higher number meanwhile. Then the file is written anew once more
            // than needed.
            let mut noted = cmd("HSET");
            noted.arg(erasure).arg("erased").arg(deletions);
            Ok(noted.exec(connection)?)
        })
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, MemoryError> {
        self.server.with(|connection| {
            let mut known = namespaces(connection, &self.keys)?;
            known.sort_unstable();
            Ok(known)
        })
    }
}
