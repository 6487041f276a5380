//! The check of an audit log: every change of a stored byte, and every entry that is missing, is found.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use store::{AuditChain, AuditEntry, AuditLog, StateError, Time};

use super::entry::{Entry, Head, Link, NONE, VERSION, hash};

/// Checks of a log that is being written while it is checked.
const ATTEMPTS: usize = 3;

/// Something in the log is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Where.
    pub chain: String,
    /// The entry, if it is one.
    pub entry: Option<u64>,
    /// A word for programs: `changed`, `moved`, `gap`, `cut`, `beyond`, `head`, `signature`, `key`, `fork`, `missing`, `row`, `witness`.
    pub kind: &'static str,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chain {}", self.chain)?;
        if let Some(entry) = self.entry {
            write!(f, ", entry {entry}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// What a check has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Chains with entries.
    pub chains: usize,
    /// Their entries.
    pub entries: u64,
    /// Chains whose entries were removed because of their age.
    pub removed: usize,
    /// Heads outside of the store that were compared.
    pub witnessed: usize,
    /// Heads outside of the store that are of chains of other stores.
    pub others: usize,
    /// The end of each chain that has no closing head: its process is running, or ended without one.
    pub open: Vec<(Link, Time)>,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

impl Report {
    fn fault(&mut self, chain: &str, entry: Option<u64>, kind: &'static str, reason: &str) {
        self.faults.push(Fault {
            chain: chain.to_owned(),
            entry,
            kind,
            reason: reason.to_owned(),
        });
    }
}

/// Checks all chains of a log. Their heads have to be signed by one of these keys. `witnessed` are lines of heads that were
/// kept outside of the store, one each; without them a cut end of the newest chain, with its head put back, is not found. Heads
/// of chains that are in another store are not compared.
///
/// The log may be written meanwhile.
///
/// # Errors
/// The store fails.
pub async fn verify(
    log: &dyn AuditLog,
    keys: &[String],
    witnessed: &[String],
) -> Result<Report, StateError> {
    let mut attempt = 1;
    loop {
        let before = log.chains(None).await?;
        let report = check(log, &before, keys, witnessed).await?;
        // Chains that were removed meanwhile look like faults.
        if report.faults.is_empty() || attempt == ATTEMPTS || log.chains(None).await? == before {
            return Ok(report);
        }
        attempt += 1;
    }
}

async fn check(
    log: &dyn AuditLog,
    chains: &[AuditChain],
    keys: &[String],
    witnessed: &[String],
) -> Result<Report, StateError> {
    let mut report = Report::default();
    // What chains have to have, by chain.
    let mut wanted: BTreeMap<String, Vec<Link>> = BTreeMap::new();
    let own = log.store();
    let is_here = |chain: &String| chains.iter().any(|row| row.chain.to_string() == *chain);
    for line in witnessed {
        match Head::read(line).filter(|head| keys.contains(&head.key) && head.is_signed()) {
            // An imported chain keeps the name of the store that it began in.
            Some(Head { end, store, .. })
                if store.as_ref().is_some_and(|it| *it != own) && !is_here(&end.chain) =>
            {
                report.others += 1;
            }
            Some(Head { end, .. }) => {
                report.witnessed += 1;
                wanted.entry(end.chain.clone()).or_default().push(end);
            }
            None => {
                let why = "a head outside of the store is damaged, or is signed by another key";
                report.fault("unknown", None, "witness", why);
            }
        }
    }
    // First what the chains say of each other, so that each entry is read once: how far each is named.
    let mut linked: BTreeMap<String, u64> = BTreeMap::new();
    for chain in chains {
        let entries = log.entries(chain.chain, 0).await?;
        let first = entries.first().filter(|first| first.number == 1);
        let after = first.and_then(Entry::read).map(|first| first.after);
        let head = || chain.head.as_deref().and_then(Head::read);
        let after = after.or_else(|| head().map(|head| head.after));
        for link in after.unwrap_or_default() {
            let end = linked.entry(link.chain.clone()).or_default();
            *end = link.number.max(*end);
            wanted.entry(link.chain.clone()).or_default().push(link);
        }
    }
    for row in chains {
        let id = row.chain.to_string();
        let wanted = wanted.remove(&id).unwrap_or_default();
        if row.linked != linked.get(&id).copied().unwrap_or(0) {
            let why = "another chain names another end of it, or is gone";
            report.fault(&id, None, "row", why);
        }
        check_chain(log, row, keys, &wanted, &mut report).await?;
    }
    for chain in wanted.into_keys() {
        let why = "the chain is missing; a head outside of the store, or another chain, names it";
        report.fault(&chain, None, "missing", why);
    }
    Ok(report)
}

async fn check_chain(
    log: &dyn AuditLog,
    row: &AuditChain,
    keys: &[String],
    wanted: &[Link],
    report: &mut Report,
) -> Result<(), StateError> {
    let id = row.chain.to_string();
    let head = row.head.as_deref().and_then(Head::read);
    let wrong = match &head {
        Some(head) if !keys.contains(&head.key) => Some((
            "key",
            format!("its head is signed by another key, {}", head.key),
        )),
        Some(head) if !head.is_signed() => Some(("signature", "its head was changed".to_owned())),
        Some(Head { end, version, .. })
            if *version == VERSION && end.chain == id && end.number == row.number =>
        {
            None
        }
        _ => Some(("head", "its head is missing or damaged".to_owned())),
    };
    if let Some((kind, why)) = &wrong {
        report.fault(&id, None, kind, why);
    }
    let head = head.filter(|_| wrong.is_none());
    let mut place = Place {
        number: 0,
        hash: Some(NONE.to_owned()),
    };
    let end = head.as_ref().map_or(u64::MAX, |head| head.end.number);
    let (mut count, mut beyond) = (0, None);
    loop {
        let before = place.number;
        for entry in log.entries(row.chain, before).await? {
            if entry.number > end {
                beyond = beyond.or(Some(entry.number));
                continue;
            }
            place.next(&id, &entry, wanted, report);
            count += 1;
        }
        if place.number == before {
            break;
        }
    }
    let Some(head) = head else { return Ok(()) };
    let last = head.end.number;
    let past = wanted.iter().map(|link| link.number).max();
    if let Some(past) = past.filter(|past| *past > last) {
        let why = format!("its end was cut behind entry {last}: it had {past} entries");
        report.fault(&id, None, "cut", &why);
    }
    if beyond.is_some() {
        // It may be written meanwhile.
        let now = log.chains(None).await?;
        let goes_on = |now: &AuditChain| now.chain == row.chain && now.number > last;
        if !now.iter().any(goes_on) {
            let why = format!("it was added behind entry {last}, the last one of the head");
            report.fault(&id, beyond, "beyond", &why);
        }
    }
    if head.removed.is_some() {
        report.removed += 1;
        if count > 0 {
            let why = "the entries of the chain were removed";
            report.fault(&id, Some(place.number), "beyond", why);
        }
        compare(&head.end, wanted, report);
        return Ok(());
    }
    report.chains += 1;
    report.entries += count;
    if place.number < last {
        let why = format!(
            "its end was cut behind entry {}: it has {last} entries",
            place.number
        );
        report.fault(&id, None, "cut", &why);
    } else if place.hash.is_some_and(|hash| hash != head.end.hash) {
        let why = "it is not the entry that the head names";
        report.fault(&id, Some(last), "changed", why);
    } else if !head.closed {
        report.open.push((head.end, head.at));
    }
    Ok(())
}

/// The last entry that was read of a chain.
struct Place {
    number: u64,
    /// The digest of the entry; `None` behind one that is not in its place.
    hash: Option<String>,
}

impl Place {
    /// Reads the next entry, and reports what is wrong with it.
    fn next(&mut self, chain: &str, stored: &AuditEntry, wanted: &[Link], report: &mut Report) {
        let (number, own) = (stored.number, hash(&stored.text));
        let next = self.number.saturating_add(1);
        let before = self.hash.take().filter(|_| number == next);
        if number != next {
            let why = format!("entries {next} to {} are missing", number.saturating_sub(1));
            report.fault(chain, None, "gap", &why);
        }
        let read = Entry::read(stored);
        let read = read.filter(|entry| entry.version == VERSION && entry.chain == chain);
        match read {
            Some(entry) if entry.number != number => {
                let why = format!("it stands in the place of entry {number}");
                report.fault(chain, Some(entry.number), "moved", &why);
            }
            Some(entry) if entry.at == stored.at => {
                if before.is_some_and(|before| entry.prev != before) {
                    let why = "it is not the entry that the next one names";
                    report.fault(chain, Some(self.number.max(1)), "changed", why);
                }
                self.hash = Some(own.clone());
            }
            _ => {
                let why = "it is not as it was written";
                report.fault(chain, Some(number), "changed", why);
            }
        }
        let own = Link {
            chain: chain.to_owned(),
            number,
            hash: own,
        };
        compare(&own, wanted, report);
        self.number = number;
    }
}

/// Compares an entry with what others have seen of it.
fn compare(own: &Link, wanted: &[Link], report: &mut Report) {
    let is_other = |link: &Link| link.number == own.number && link.hash != own.hash;
    if wanted.iter().any(is_other) {
        let why = "another entry with this number was witnessed: the chain was written anew";
        report.fault(&own.chain, Some(own.number), "fork", why);
    }
}
