//! What lies in a Redis database: reading it, and the commands that write it.

use std::collections::HashMap;

use redis::{Connection, Pipeline, cmd, pipe};

use super::super::rules::count;
use super::super::stored::Stored;
use super::super::{Draft, MemoryError, Namespace};
use super::keys::Keys;
use super::server::Stop;
use crate::EntryId;

pub(super) type Failed = Stop<MemoryError>;

/// The fields of an entry's hash.
pub(super) struct Raw {
    pub(super) id: EntryId,
    pub(super) namespace: Option<Namespace>,
    pub(super) sequence: i64,
    pub(super) bytes: i64,
    pub(super) sources: Vec<EntryId>,
    /// None if it cannot be read.
    pub(super) stored: Option<Stored>,
}

/// What is known of a namespace.
#[derive(Default)]
pub(super) struct State {
    pub(super) last: i64,
    pub(super) forgotten: i64,
}

pub(super) fn watch<const N: usize>(
    connection: &mut Connection,
    keys: [String; N],
) -> Result<(), Failed> {
    Ok(cmd("WATCH").arg(&keys[..]).exec(connection)?)
}

/// Does what was prepared, all or nothing. None if something watched has changed.
pub(super) fn done(connection: &mut Connection, written: &Pipeline) -> Result<Option<()>, Failed> {
    let result: Option<Vec<redis::Value>> = written.query(connection)?;
    Ok(result.map(|_| ()))
}

pub(super) fn state(
    connection: &mut Connection,
    keys: &Keys,
    namespace: &Namespace,
) -> Result<State, Failed> {
    let found: [Option<i64>; 2] = cmd("HMGET")
        .arg(keys.state(namespace))
        .arg(&["last", "forgotten"])
        .query(connection)?;
    let [last, forgotten] = found.map(Option::unwrap_or_default);
    Ok(State { last, forgotten })
}

/// An entry; none if there is none.
pub(super) fn raw(
    connection: &mut Connection,
    keys: &Keys,
    id: EntryId,
) -> Result<Option<Raw>, Failed> {
    let fields = cmd("HGETALL").arg(keys.entry(id)).query(connection)?;
    Ok(parse(id, fields))
}

/// Several entries, in that order. One that is not there is one that cannot be read.
pub(super) fn raws(
    connection: &mut Connection,
    keys: &Keys,
    ids: &[EntryId],
) -> Result<Vec<Raw>, Failed> {
    let mut read = pipe();
    for id in ids {
        read.cmd("HGETALL").arg(keys.entry(*id));
    }
    let found: Vec<HashMap<String, Vec<u8>>> = read.query(connection)?;
    let each = ids.iter().zip(found);
    Ok(each
        .map(|(id, fields)| parse(*id, fields).unwrap_or_else(|| Raw::damaged(*id)))
        .collect())
}

impl Raw {
    pub(super) fn damaged(id: EntryId) -> Self {
        Self {
            id,
            namespace: None,
            sequence: 0,
            bytes: 0,
            sources: Vec::new(),
            stored: None,
        }
    }
}

/// Whatever cannot be read is left out, and makes the entry one that cannot be.
fn parse(id: EntryId, fields: HashMap<String, Vec<u8>>) -> Option<Raw> {
    if fields.is_empty() {
        return None;
    }
    let text = |name: &str| std::str::from_utf8(fields.get(name)?).ok();
    let number = |name: &str| text(name)?.parse::<i64>().ok();
    let sources = text("sources").map(|list| list.split_whitespace().map(str::parse).collect());
    let sources: Option<Result<Vec<EntryId>, _>> = sources;
    let stored = fields.get("data");
    Some(Raw {
        id,
        namespace: text("namespace").and_then(|key| Namespace::from_key(key).ok()),
        sequence: number("sequence").unwrap_or_default(),
        bytes: number("bytes").unwrap_or_default(),
        // Without its sources it would be trusted for what it is not.
        stored: match &sources {
            Some(Ok(_)) => stored.and_then(|data| serde_json::from_slice(data).ok()),
            _ => None,
        },
        sources: sources.and_then(Result::ok).unwrap_or_default(),
    })
}

pub(super) fn write_entry(
    written: &mut Pipeline,
    keys: &Keys,
    namespace: &Namespace,
    draft: &Draft,
    sources: &[EntryId],
    stored: &Stored,
    sequence: i64,
) -> Result<(), Failed> {
    let data = serde_json::to_string(stored).map_err(|error| {
        Stop::Refused(MemoryError::Unreadable {
            id: draft.id,
            reason: error.to_string(),
        })
    })?;
    let sources: Vec<String> = sources.iter().map(EntryId::to_string).collect();
    written.cmd("HSET").arg(keys.entry(draft.id));
    written.arg("namespace").arg(namespace.key());
    written.arg("sequence").arg(sequence);
    written.arg("bytes").arg(count(draft.bytes()));
    written.arg("sources").arg(sources.join(" "));
    written.arg("data").arg(data);
    let (order, labelled) = (
        keys.order(namespace),
        keys.labelled(namespace, &stored.label),
    );
    for list in [order, labelled] {
        let id = draft.id.to_string();
        written.cmd("ZADD").arg(list).arg(sequence).arg(id);
    }
    let bytes = keys.bytes(namespace);
    written.cmd("HINCRBY").arg(bytes).arg(&stored.label);
    written.arg(count(draft.bytes()));
    Ok(())
}

/// What is no id was not written by us.
pub(super) fn ids(found: Vec<String>) -> Vec<EntryId> {
    found.iter().filter_map(|id| id.parse().ok()).collect()
}

/// Every namespace that ever had an entry.
pub(super) fn namespaces(
    connection: &mut Connection,
    keys: &Keys,
) -> Result<Vec<Namespace>, Failed> {
    let names: Vec<String> = cmd("SMEMBERS").arg(keys.namespaces()).query(connection)?;
    let known = names.iter().map(|key| Namespace::from_key(key));
    Ok(known.filter_map(Result::ok).collect())
}
