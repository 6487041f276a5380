//! Memory in a Redis server (as in SecGPT appendix B), with the same promises as in a file.
//!
//! Several keys change together: what an operation has read is watched (`WATCH`), and its writes are
//! one `MULTI`, which the server drops if any of it has changed since. Then it is done again.

mod keys;
mod raw;
mod server;

use std::collections::{BTreeMap, BTreeSet};

use ifc::{Label, Lattice};
use redis::{Connection, Pipeline, cmd, pipe};

use super::indexes::{Held, Indexes};
use super::rules::{contains, count, size};
use super::stored::{self, Stored};
use super::{Draft, Entry, Forgotten, Found, Limits, Memory, MemoryError, Namespace, Page, Query};
use crate::EntryId;
use crate::names::Names;
use raw::{Failed, Raw, done, ids, namespaces, raw, raws, state, watch, write_entry};
pub use server::RedisError;
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
    names: Names,
    limits: Limits,
    indexes: Indexes,
}

impl RedisMemory {
    /// Connects to the server at `unix:///PATH` or `redis://127.0.0.1:PORT`. Labels are read and
    /// written in `lattice`.
    ///
    /// # Errors
    /// It is on another machine, its settings would let it lose or keep what they must not, or
    /// another version wrote what is there.
    pub fn open(address: &str, lattice: Lattice, limits: Limits) -> Result<Self, MemoryError> {
        let server = Server::open(address)?;
        let found: String = server.with(|connection| -> Result<_, Stop<RedisError>> {
            let known = VERSION.to_string();
            cmd("SETNX")
                .arg(keys::VERSION)
                .arg(known)
                .exec(connection)?;
            Ok(cmd("GET").arg(keys::VERSION).query(connection)?)
        })?;
        if found != VERSION.to_string() {
            let known = VERSION;
            return Err(RedisError::Version { found, known }.into());
        }
        Ok(Self {
            server,
            names: Names::new(lattice),
            limits,
            indexes: Indexes::default(),
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
    ) -> Result<Option<()>, Failed> {
        let refuse = |error| Err(Stop::Refused(error));
        watch(connection, [keys::state(namespace)])?;
        let mut state = state(connection, namespace)?;
        // Taken after the state is watched: whoever takes a higher number for this namespace and is
        // done first makes this attempt fail, so that numbers appear in their order.
        let added = count(drafts.len());
        let last: i64 = cmd("INCRBY")
            .arg(keys::SEQUENCE)
            .arg(added)
            .query(connection)?;
        state.last = last.saturating_sub(added);
        let mut written = pipe();
        written.atomic();
        written
            .cmd("SADD")
            .arg(keys::NAMESPACES)
            .arg(namespace.key());
        // Labels of what is written here, as they will be read.
        let mut earlier: BTreeMap<EntryId, Label> = BTreeMap::new();
        for draft in drafts {
            watch(connection, [keys::entry(draft.id)])?;
            if earlier.contains_key(&draft.id) || raw(connection, draft.id)?.is_some() {
                return refuse(MemoryError::Taken(draft.id));
            }
            let mut seen = BTreeSet::new();
            let sources = draft.sources.iter().copied();
            let sources: Vec<EntryId> = sources.filter(|source| seen.insert(*source)).collect();
            for source in &sources {
                let label = match earlier.get(source) {
                    Some(label) => label.clone(),
                    None => {
                        watch(connection, [keys::entry(*source)])?;
                        match raw(connection, *source)? {
                            Some(raw) => self.label(&raw),
                            None => return refuse(MemoryError::Missing(*source)),
                        }
                    }
                };
                contains(draft, &label, &self.names).map_err(Stop::Refused)?;
                let derived = keys::derived(*source);
                written.cmd("SADD").arg(derived).arg(draft.id.to_string());
            }
            let stored = Stored::new(draft, &self.names);
            let label = stored::label(&stored.label, &self.names).label;
            earlier.insert(draft.id, label);
            state.last += 1;
            state.entries += 1;
            state.bytes += count(draft.bytes());
            write_entry(
                &mut written,
                namespace,
                draft,
                &sources,
                &stored,
                state.last,
            )?;
        }
        let room = self
            .limits
            .room(namespace, size(state.entries), size(state.bytes));
        room.map_err(Stop::Refused)?;
        let number = |written: &mut Pipeline, name: &str, value: i64| {
            written
                .cmd("HSET")
                .arg(keys::state(namespace))
                .arg(name)
                .arg(value);
        };
        number(&mut written, "entries", state.entries);
        number(&mut written, "bytes", state.bytes);
        number(&mut written, "last", state.last);
        done(connection, &written)
    }

    /// The index of a namespace with what was added since, and how many entries it had forgotten.
    fn index(
        &self,
        connection: &mut Connection,
        namespace: &Namespace,
    ) -> Result<(Held, i64), Failed> {
        let before = state(connection, namespace)?;
        let mut held = self.indexes.take(namespace, before.forgotten);
        // In this order: an entry that is added meanwhile has a higher number, and comes next time.
        let ids: Vec<EntryId> = ids(cmd("ZRANGEBYSCORE")
            .arg(keys::order(namespace))
            .arg(format!("({}", held.last))
            .arg(before.last)
            .query(connection)?);
        for chunk in ids.chunks(CHUNK) {
            for raw in raws(connection, chunk)? {
                let label = self.label(&raw);
                let texts = raw.stored.as_ref().map_or([""; 3], Stored::texts);
                held.index.add(raw.id, &label, texts);
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
            entries.extend(raws(connection, chunk)?);
        }
        if state(connection, namespace)?.forgotten != forgotten {
            return Ok(None);
        }
        self.indexes.put(namespace, held);
        let entries = ranked.into_iter().zip(entries).map(|((_, score), raw)| {
            let entry = self.entry(raw)?;
            Ok(Found { entry, score })
        });
        entries.collect::<Result<_, _>>().map(Some)
    }

    /// None if something was forgotten meanwhile.
    fn found_labels(
        &self,
        connection: &mut Connection,
        namespace: &Namespace,
    ) -> Result<Option<Vec<Label>>, Failed> {
        let (held, forgotten) = self.index(connection, namespace)?;
        if state(connection, namespace)?.forgotten != forgotten {
            return Ok(None);
        }
        let labels = held.index.labels();
        self.indexes.put(namespace, held);
        Ok(Some(labels))
    }

    /// An entry and everything that was derived from it. All of it is watched.
    fn family(connection: &mut Connection, id: EntryId) -> Result<BTreeMap<EntryId, Raw>, Failed> {
        let mut family: BTreeMap<EntryId, Raw> = BTreeMap::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if family.contains_key(&id) {
                continue;
            }
            watch(connection, [keys::entry(id), keys::derived(id)])?;
            let found = match raw(connection, id)? {
                Some(raw) => raw,
                None if listed(connection, id)? => Raw::damaged(id),
                None => continue,
            };
            family.insert(id, found);
            let derived = cmd("SMEMBERS").arg(keys::derived(id)).query(connection)?;
            open.extend(ids(derived));
        }
        Ok(family)
    }

    fn try_list(
        &self,
        connection: &mut Connection,
        namespace: &Namespace,
        page: &Page,
        at: &Label,
    ) -> Result<Option<Vec<Entry>>, Failed> {
        let before = state(connection, namespace)?;
        let mut newest = format!("{}", before.last);
        if let Some(id) = page.before {
            let seen = raw(connection, id)?.filter(|raw| self.label(raw).flows_to(at));
            let seen = seen.ok_or(Stop::Refused(MemoryError::Missing(id)))?;
            newest = format!("({}", seen.sequence);
        }
        let ids: Vec<EntryId> = ids(cmd("ZREVRANGEBYSCORE")
            .arg(keys::order(namespace))
            .arg(newest)
            .arg("-inf")
            .query(connection)?);
        let mut entries = Vec::new();
        for chunk in ids.chunks(CHUNK) {
            for raw in raws(connection, chunk)? {
                if entries.len() == page.most {
                    break;
                }
                if !self.label(&raw).flows_to(at) {
                    continue;
                }
                // It may be forgotten at this moment: then what follows is done again.
                match self.entry(raw) {
                    Ok(entry) => {
                        if page.kind.is_none_or(|kind| kind == entry.content.kind()) {
                            entries.push(entry);
                        }
                    }
                    Err(error) => {
                        let now = state(connection, namespace)?;
                        match now.forgotten == before.forgotten {
                            true => return Err(error),
                            false => return Ok(None),
                        }
                    }
                }
            }
        }
        let now = state(connection, namespace)?;
        Ok((now.forgotten == before.forgotten).then_some(entries))
    }

    fn try_forget(
        &self,
        connection: &mut Connection,
        id: EntryId,
    ) -> Result<Option<Forgotten>, Failed> {
        let gone = Self::family(connection, id)?;
        if gone.is_empty() {
            cmd("UNWATCH").exec(connection)?;
            return Ok(Some(Forgotten::default()));
        }
        let mut written = pipe();
        written.atomic();
        for (id, raw) in &gone {
            let (entry, derived) = (keys::entry(*id), keys::derived(*id));
            written.cmd("DEL").arg(entry).arg(derived);
            let sources = raw.sources.iter();
            for source in sources.filter(|source| !gone.contains_key(source)) {
                let derived = keys::derived(*source);
                written.cmd("SREM").arg(derived).arg(id.to_string());
            }
            // An entry that does not say whose it is is taken out wherever it may be listed.
            let (places, entries) = match &raw.namespace {
                Some(namespace) => (vec![namespace.clone()], 1),
                None => (namespaces(connection)?, 0),
            };
            for namespace in places {
                let (order, state) = (keys::order(&namespace), keys::state(&namespace));
                written.cmd("ZREM").arg(order).arg(id.to_string());
                let changes = [
                    ("entries", -entries),
                    ("bytes", -raw.bytes),
                    ("forgotten", 1),
                ];
                for (name, change) in changes {
                    written.cmd("HINCRBY").arg(&state).arg(name).arg(change);
                }
            }
        }
        if done(connection, &written)?.is_none() {
            return Ok(None);
        }
        let mut gone: Vec<Raw> = gone.into_values().collect();
        gone.sort_by_key(|raw| raw.sequence);
        let mut forgotten = Forgotten::default();
        for raw in gone {
            let id = raw.id;
            match self.entry(raw) {
                Ok(entry) => forgotten.entries.push(entry),
                Err(_) => forgotten.unreadable.push(id),
            }
        }
        Ok(Some(forgotten))
    }
}

impl Memory for RedisMemory {
    fn append(&self, namespace: &Namespace, drafts: &[Draft]) -> Result<(), MemoryError> {
        self.limits.check(drafts)?;
        if drafts.is_empty() {
            return Ok(());
        }
        self.again(&namespace.key(), |connection| {
            self.try_append(connection, namespace, drafts)
        })
    }

    fn list(
        &self,
        namespace: &Namespace,
        page: &Page,
        at: &Label,
    ) -> Result<Vec<Entry>, MemoryError> {
        self.again(&namespace.key(), |connection| {
            self.try_list(connection, namespace, page, at)
        })
    }

    fn show(&self, id: EntryId, at: &Label) -> Result<Option<Entry>, MemoryError> {
        self.server.with(|connection| match raw(connection, id)? {
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
        self.again(&namespace.key(), |connection| {
            self.found(connection, namespace, query, at, most)
        })
    }

    fn labels(&self, namespace: &Namespace) -> Result<Vec<Label>, MemoryError> {
        self.again(&namespace.key(), |connection| {
            self.found_labels(connection, namespace)
        })
    }

    fn derived(&self, id: EntryId) -> Result<Vec<Entry>, MemoryError> {
        self.server.with(|connection| {
            let family = Self::family(connection, id);
            cmd("UNWATCH").exec(connection)?;
            let mut family: Vec<Raw> = family?.into_values().collect();
            family.sort_by_key(|raw| raw.sequence);
            family.into_iter().map(|raw| self.entry(raw)).collect()
        })
    }

    fn forget(&self, id: EntryId) -> Result<Forgotten, MemoryError> {
        let mut forgotten = self.again(&id.to_string(), |connection| {
            self.try_forget(connection, id)
        })?;
        self.indexes.clear();
        // It is forgotten by now, whatever becomes of the server's file.
        forgotten.erased = self.erase().unwrap_or(false);
        Ok(forgotten)
    }

    fn erase(&self) -> Result<bool, MemoryError> {
        Ok(self.server.erase()?)
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, MemoryError> {
        self.server.with(|connection| {
            let mut known = namespaces(connection)?;
            known.sort_unstable();
            Ok(known)
        })
    }
}

/// Whether a namespace lists an entry, there or not.
fn listed(connection: &mut Connection, id: EntryId) -> Result<bool, Failed> {
    for namespace in namespaces(connection)? {
        let order = keys::order(&namespace);
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
