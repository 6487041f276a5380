//! The check of an audit log: every change of a stored byte, and every entry that is missing, is found.

use std::collections::BTreeMap;
use std::fmt;

use store::{AuditChain, AuditEntry, AuditError, AuditLog, Time};

use super::entry::{Entry, Head, Link, NONE, VERSION, hash};

/// Checks of a log that is being written while it is checked.
const ATTEMPTS: usize = 3;

/// Something in the log is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub chain: String,
    /// The entry, if it is one.
    pub entry: Option<u64>,
    /// What is wrong.
    pub kind: FaultKind,
}

/// What is wrong in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// The entry, or the one behind it, is not the one that was written.
    Changed,
    /// The entry has the place of this one.
    Moved(u64),
    /// Entries from the first number to the second are missing.
    Gap(u64, u64),
    /// Entries behind this one are missing: a head names more.
    Cut(u64),
    /// There are entries behind the end that the head names.
    Beyond(u64),
    /// The head is missing, or is not of the form in which it was written.
    Head,
    /// The head was changed: its signature is not right.
    Signature,
    /// The head is signed by this other key.
    Key(String),
    /// Another chain, or a head outside of the store, names another entry with this number.
    Fork,
    /// The chain is missing that another chain, or a head outside of the store, names.
    Missing,
    /// The row of the chain was changed.
    Row,
    /// A line of the heads outside of the store is not a head of this key.
    Witness,
}

impl FaultKind {
    /// A word for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Moved(_) => "moved",
            Self::Gap(..) => "gap",
            Self::Cut(_) => "cut",
            Self::Beyond(_) => "beyond",
            Self::Head => "head",
            Self::Signature => "signature",
            Self::Key(_) => "key",
            Self::Fork => "fork",
            Self::Missing => "missing",
            Self::Row => "row",
            Self::Witness => "witness",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chain {}", self.chain)?;
        if let Some(entry) = self.entry {
            write!(f, ", entry {entry}")?;
        }
        match &self.kind {
            FaultKind::Changed => f.write_str(
                ": it, or the name that the next entry or the head has of it, was changed",
            ),
            FaultKind::Moved(place) => write!(f, ": it stands in the place of entry {place}"),
            FaultKind::Gap(from, to) if from == to => write!(f, ": entry {from} is missing"),
            FaultKind::Gap(from, to) => write!(f, ": entries {from} to {to} are missing"),
            FaultKind::Cut(last) => {
                write!(f, ": the end was cut; a signed head names {last} entries")
            }
            FaultKind::Beyond(last) => write!(
                f,
                ": it was added behind entry {last}, the last one of the head"
            ),
            FaultKind::Head => f.write_str(": its head is missing or damaged"),
            FaultKind::Signature => f.write_str(": its head was changed; the signature is wrong"),
            FaultKind::Key(key) => write!(f, ": its head is signed by another key, {key}"),
            FaultKind::Fork => f.write_str(
                ": another entry had this number when it was witnessed; the chain was written anew",
            ),
            FaultKind::Missing => f.write_str(": the chain is missing, and was witnessed"),
            FaultKind::Row => f.write_str(": its row was changed"),
            FaultKind::Witness => f.write_str(
                ": the head outside of the store is damaged, or is signed by another key",
            ),
        }
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
    /// The last entry of each chain that has no closing head: its process is running, or ended without one.
    pub open: Vec<(String, u64, Time)>,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// Checks all chains of a log. Their heads have to be signed by one of these keys. `witnessed` are lines of heads that were
/// kept outside of the store, one each; without them a cut end of the newest chain, with its head put back, is not found.
///
/// The log may be written meanwhile.
///
/// # Errors
/// The store fails.
pub async fn verify(
    log: &dyn AuditLog,
    keys: &[String],
    witnessed: &[String],
) -> Result<Report, AuditError> {
    let mut attempt = 1;
    loop {
        let before = log.chains().await?;
        let report = check(log, &before, keys, witnessed).await?;
        // Chains that were removed or begun meanwhile look like faults.
        if report.faults.is_empty() || attempt == ATTEMPTS || log.chains().await? == before {
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
) -> Result<Report, AuditError> {
    let mut check = Check {
        keys,
        report: Report::default(),
        wanted: BTreeMap::new(),
        linked: BTreeMap::new(),
    };
    for line in witnessed {
        match Head::read(line).filter(|head| check.is_ours(head)) {
            Some(head) if head.removed.is_none() => {
                if let Some((_, link)) = head.link() {
                    check.want(link);
                }
                check.report.witnessed += 1;
            }
            Some(_) => {}
            None => check.fault("outside of the store", None, FaultKind::Witness),
        }
    }
    // First what the chains say of each other, so that each entry is read once.
    for chain in chains {
        let entries = log.entries(chain.chain, 0).await?;
        let first = entries.first().filter(|entry| entry.number == 1);
        let first = first.and_then(|first| serde_json::from_str::<Entry>(&first.text).ok());
        let head = || chain.head.as_deref().and_then(Head::read);
        let after = match first {
            Some(first) => first.after,
            None => head().map(|head| head.after).unwrap_or_default(),
        };
        for link in after {
            let end = check.linked.entry(link.chain.clone()).or_default();
            *end = link.number.max(*end);
            check.want(link);
        }
    }
    for chain in chains {
        check.chain(log, chain).await?;
    }
    for link in std::mem::take(&mut check.wanted).into_values().flatten() {
        check.fault(&link.chain, None, FaultKind::Missing);
    }
    Ok(check.report)
}

struct Check<'a> {
    keys: &'a [String],
    report: Report,
    /// What chains have to have, by chain.
    wanted: BTreeMap<String, Vec<Link>>,
    /// How far other chains name each.
    linked: BTreeMap<String, u64>,
}

impl Check<'_> {
    fn fault(&mut self, chain: &str, entry: Option<u64>, kind: FaultKind) {
        self.report.faults.push(Fault {
            chain: chain.to_owned(),
            entry,
            kind,
        });
    }

    fn is_ours(&self, head: &Head) -> bool {
        self.keys.contains(&head.key) && head.is_signed()
    }

    fn want(&mut self, link: Link) {
        self.wanted
            .entry(link.chain.clone())
            .or_default()
            .push(link);
    }

    /// The head of a row, if it is one that counts.
    fn head(&mut self, chain: &AuditChain) -> Option<Head> {
        let id = chain.chain.to_string();
        let Some(head) = chain.head.as_deref().and_then(Head::read) else {
            self.fault(&id, None, FaultKind::Head);
            return None;
        };
        let kind = match () {
            () if !self.keys.contains(&head.key) => FaultKind::Key(head.key.clone()),
            () if !head.is_signed() => FaultKind::Signature,
            () if head.version != VERSION || head.chain != id => FaultKind::Head,
            () if head.number != chain.number => FaultKind::Row,
            () => return Some(head),
        };
        self.fault(&id, None, kind);
        None
    }

    async fn chain(&mut self, log: &dyn AuditLog, row: &AuditChain) -> Result<(), AuditError> {
        let id = row.chain.to_string();
        let wanted = self.wanted.remove(&id).unwrap_or_default();
        if row.linked != self.linked.get(&id).copied().unwrap_or(0) {
            self.fault(&id, None, FaultKind::Row);
        }
        let mut place = Place::new(id.clone());
        let (mut row, mut head) = (row.clone(), self.head(row));
        loop {
            let entries = log.entries(row.chain, place.number).await?;
            if !entries.is_empty() {
                let faults = entries.iter().flat_map(|entry| place.next(entry, &wanted));
                let faults: Vec<Fault> = faults.collect();
                self.report.faults.extend(faults);
                continue;
            }
            // The entries are read to their end: only now the head can be compared with it.
            let now = log.chain(row.chain).await?;
            match now.filter(|now| now.number > place.number && now.number > row.number) {
                Some(now) => (head, row) = (self.head(&now), now),
                None => break,
            }
        }
        let Some(head) = head else { return Ok(()) };
        if head.removed.is_some() {
            self.removed(&head, &place, &wanted);
            return Ok(());
        }
        self.report.chains += 1;
        self.report.entries += place.count;
        match () {
            () if place.number < head.number => self.fault(&id, None, FaultKind::Cut(head.number)),
            () if place.number > head.number => {
                self.fault(&id, Some(place.number), FaultKind::Beyond(head.number));
            }
            () if place.hash.as_ref().is_some_and(|hash| *hash != head.hash) => {
                self.fault(&id, Some(place.number), FaultKind::Changed);
            }
            () if !head.closed => self.report.open.push((id.clone(), head.number, head.at)),
            () => {}
        }
        let past = wanted.iter().filter(|link| link.number > place.number);
        if let Some(number) = past.map(|link| link.number).max() {
            self.fault(&id, None, FaultKind::Cut(number));
        }
        Ok(())
    }

    /// A chain whose entries were removed for their age.
    fn removed(&mut self, head: &Head, place: &Place, wanted: &[Link]) {
        self.report.removed += 1;
        if place.count > 0 {
            self.fault(&head.chain, Some(place.number), FaultKind::Beyond(0));
        }
        for link in wanted {
            if link.number > head.number {
                self.fault(&head.chain, None, FaultKind::Cut(link.number));
            } else if link.number == head.number && link.hash != head.hash {
                self.fault(&head.chain, Some(link.number), FaultKind::Fork);
            }
        }
    }
}

/// The last entry that was read of a chain.
struct Place {
    chain: String,
    number: u64,
    /// The digest of the entry; `None` behind one that is not in its place.
    hash: Option<String>,
    count: u64,
}

impl Place {
    fn new(chain: String) -> Self {
        Self {
            chain,
            number: 0,
            hash: Some(NONE.to_owned()),
            count: 0,
        }
    }

    /// Reads the next entry, and says what is wrong with it.
    fn next(&mut self, stored: &AuditEntry, wanted: &[Link]) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut fault = |entry, kind| {
            faults.push(Fault {
                chain: self.chain.clone(),
                entry,
                kind,
            });
        };
        let number = stored.number;
        let own = hash(&stored.text);
        let follows = self.number.checked_add(1) == Some(number);
        if !follows {
            let missing = self.number.saturating_add(1);
            fault(None, FaultKind::Gap(missing, number.saturating_sub(1)));
        }
        let read = serde_json::from_str::<Entry>(&stored.text).ok();
        let read = read.filter(|entry| entry.version == VERSION && entry.chain == self.chain);
        let before = self.hash.take().filter(|_| follows);
        match read {
            Some(entry) if entry.number != number => {
                fault(Some(entry.number), FaultKind::Moved(number));
            }
            Some(entry) if entry.at == stored.at => {
                if before.is_some_and(|before| entry.prev != before) {
                    fault(Some(self.number.max(1)), FaultKind::Changed);
                }
                self.hash = Some(own.clone());
            }
            _ => fault(Some(number), FaultKind::Changed),
        }
        let forked = |link: &Link| link.number == number && link.hash != own;
        if wanted.iter().any(forked) {
            fault(Some(number), FaultKind::Fork);
        }
        self.number = number;
        self.count += 1;
        faults
    }
}
