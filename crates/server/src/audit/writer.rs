//! The writer: one task, which commits in groups what all conversations note.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use store::{AuditBatch, AuditEntry, AuditLog, ChainId, StateError, Time};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::entry::{Entry, Head, Link, Note, VERSION, hash, json};
use super::keys::AuditKeys;

/// Entries of one commit. More wait for the next one, so that no request waits long for those of others.
const BATCH: usize = 256;
/// Entries that wait while the store fails. With more the log would have a gap, so nothing is done any more.
const MOST_WAITING: usize = 65_536;
/// A head is written outside of the store after so many entries, and after this time.
const WITNESS_ENTRIES: u64 = 1_000;
const WITNESS_TIME: Duration = Duration::from_secs(60);
/// Chains that the first entry of a chain names at most. Further ones are named by the next chain.
const MOST_LINKS: usize = 64;

/// How the audit log is written.
#[derive(Debug, Clone)]
pub struct AuditSetup {
    /// The file to which heads are appended. Without one they are in the program's log alone.
    pub heads: Option<PathBuf>,
    /// How long a chain is continued, so that old ones can be removed while the process runs.
    pub chain_time: Duration,
}

impl Default for AuditSetup {
    fn default() -> Self {
        Self {
            heads: None,
            chain_time: Duration::from_secs(24 * 3600),
        }
    }
}

/// The audit log of this process, open for notes.
pub struct Audit {
    log: Arc<dyn AuditLog>,
    keys: Arc<AuditKeys>,
    queue: mpsc::UnboundedSender<Item>,
}

#[derive(Debug)]
enum Item {
    Note(Time, Box<Note>),
    /// Answered when everything before it is written, or with the reason why it is not.
    Written(oneshot::Sender<Result<(), String>>),
    /// The last note, with its head: in one item, so that no commit is between them. Nothing is written after it.
    Close(Time, Box<Note>, oneshot::Sender<Result<(), String>>),
}

impl Audit {
    /// Begins a chain in this log. It must be called within a tokio runtime. Nothing is written before the first note.
    pub fn open(log: Arc<dyn AuditLog>, keys: Arc<AuditKeys>, setup: AuditSetup) -> Arc<Self> {
        let (queue, items) = mpsc::unbounded_channel();
        let writer = Writer {
            log: Arc::clone(&log),
            keys: Arc::clone(&keys),
            setup,
            chain: None,
            waiting: VecDeque::new(),
            pending: None,
            is_lossy: false,
            closing: false,
            witnessed: (0, Instant::now()),
            owed: None,
        };
        tokio::spawn(writer.run(items));
        Arc::new(Self { log, keys, queue })
    }

    /// Its keys.
    pub fn keys(&self) -> &AuditKeys {
        &self.keys
    }

    /// Takes a note. What follows from it is done after [`Audit::written`].
    pub fn note(&self, note: Note) {
        // Without its writer nothing is ever written, which `written` says.
        let _ = self.queue.send(Item::Note(now(), Box::new(note)));
    }

    /// Waits until everything that was noted so far is in the store.
    ///
    /// # Errors
    /// It is not, and why. What was noted is kept and written later; what follows from it must not be done.
    pub async fn written(&self) -> Result<(), String> {
        self.reply(Item::Written).await
    }

    /// Writes the last note, and the head that closes the chain.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn close(&self, note: Note) -> Result<(), String> {
        let last = |reply| Item::Close(now(), Box::new(note), reply);
        self.reply(last).await
    }

    /// Removes the entries of chains whose last entry is older than `before`. Their heads stay, signed as removed. Returns how
    /// many entries were removed.
    ///
    /// # Errors
    /// The store fails.
    pub async fn remove_before(&self, before: Time) -> Result<u64, StateError> {
        let mut count = 0;
        for chain in self.log.chains(None).await? {
            // Only what we have signed: what was changed stays, so that `verify` finds it.
            let head = chain.head.as_deref().and_then(Head::read);
            let head = head.filter(|head| head.key == self.keys.public() && head.is_signed());
            let Some(head) = head.filter(|head| head.removed.is_none() && head.at < before) else {
                continue;
            };
            let entries = self.log.entries(chain.chain, 0).await?;
            let Some(first) = entries.first().and_then(Entry::read) else {
                continue;
            };
            let removed = Head {
                removed: Some(now()),
                after: first.after,
                ..head
            };
            let head = json(&removed.signed(&self.keys));
            if self.log.remove(chain.chain, chain.number, &head).await? {
                count += chain.number;
            }
        }
        Ok(count)
    }

    async fn reply(
        &self,
        item: impl FnOnce(oneshot::Sender<Result<(), String>>) -> Item,
    ) -> Result<(), String> {
        let (reply, written) = oneshot::channel();
        let ended = || Err("the audit log is not written any more".to_owned());
        match self.queue.send(item(reply)) {
            Ok(()) => written.await.unwrap_or_else(|_| ended()),
            Err(_) => ended(),
        }
    }
}

struct Writer {
    log: Arc<dyn AuditLog>,
    keys: Arc<AuditKeys>,
    setup: AuditSetup,
    /// The chain that is open, and its end.
    chain: Option<(ChainId, Head)>,
    waiting: VecDeque<(Time, Note)>,
    /// A batch that may be written or not: it is tried again as it is.
    pending: Option<(AuditBatch, Head)>,
    is_lossy: bool,
    closing: bool,
    /// The number of the last head outside of the store, and when.
    witnessed: (u64, Instant),
    /// A head that has to be written outside of the store before anything else.
    owed: Option<Head>,
}

impl Writer {
    async fn run(mut self, mut items: mpsc::UnboundedReceiver<Item>) {
        let mut taken = Vec::new();
        loop {
            let received = timeout(WITNESS_TIME, items.recv_many(&mut taken, BATCH)).await;
            if received == Ok(0) {
                // Its owner is gone. What it noted last is written if the store can.
                drop(self.flush().await);
                return;
            }
            let mut replies = Vec::new();
            for item in taken.drain(..) {
                match item {
                    _ if self.closing => {}
                    Item::Note(at, note) => self.take(at, *note),
                    Item::Written(reply) => replies.push(reply),
                    Item::Close(at, note, reply) => {
                        self.take(at, *note);
                        self.closing = true;
                        replies.push(reply);
                    }
                }
            }
            // The last head of a burst, when nothing follows.
            if let Some((_, head)) = self.chain.as_ref().filter(|(_, head)| self.is_due(head)) {
                self.owed.get_or_insert_with(|| head.clone());
            }
            let result = self.flush().await;
            if let Err(error) = &result {
                tracing::error!(target: "sluice::audit", error, "the audit log cannot be written");
            }
            for reply in replies {
                // A request that was given up waits no more.
                let _ = reply.send(result.clone());
            }
            if self.closing && result.is_ok() {
                return;
            }
        }
    }

    fn take(&mut self, at: Time, note: Note) {
        match self.waiting.len() < MOST_WAITING {
            true => self.waiting.push_back((at, note)),
            false => self.is_lossy = true,
        }
    }

    /// Writes everything that waits.
    async fn flush(&mut self) -> Result<(), String> {
        if self.is_lossy {
            return Err(
                "the audit log has lost entries while its store failed; start again".into(),
            );
        }
        let failed = |error: StateError| format!("the audit log cannot be written: {error}");
        loop {
            self.witness()?;
            if self.pending.is_none() {
                self.pending = self.next().await.map_err(failed)?;
            }
            let Some((batch, head)) = &self.pending else {
                return Ok(());
            };
            self.log.append(batch).await.map_err(failed)?;
            let is_due = batch.base == 0 || head.closed || self.is_due(head);
            self.owed = is_due.then(|| head.clone());
            // A closed chain is not gone on with.
            self.chain = (!head.closed).then(|| (batch.chain, head.clone()));
            self.pending = None;
        }
    }

    /// Whether so much was written since the last head outside of the store.
    fn is_due(&self, head: &Head) -> bool {
        let (number, at) = self.witnessed;
        let news = head.end.number.saturating_sub(number);
        news >= WITNESS_ENTRIES || news > 0 && at.elapsed() >= WITNESS_TIME
    }

    /// The next batch: the end of a chain that is old enough, or what waits.
    async fn next(&mut self) -> Result<Option<(AuditBatch, Head)>, StateError> {
        let most = i64::try_from(self.setup.chain_time.as_millis()).unwrap_or(i64::MAX);
        let age = |head: &Head| now().millis().saturating_sub(head.opened.millis());
        let is_old = self
            .chain
            .as_ref()
            .is_some_and(|(_, head)| age(head) >= most);
        let is_old = is_old && !self.closing;
        if is_old {
            let note = Note::new("continued", "done");
            self.waiting.push_front((now(), note));
        }
        let Some((first, _)) = self.waiting.front() else {
            return Ok(None);
        };
        let mut links = Vec::new();
        let (chain, head) = match &self.chain {
            Some(open) => open.clone(),
            None => {
                // One that cannot be read is for `verify`.
                let ends = self.log.chains(Some(MOST_LINKS)).await?.into_iter();
                let ends = ends.filter_map(|end| Some((end.chain, Head::read(&end.head?)?.end)));
                links.extend(ends);
                let id =
                    ChainId::random().map_err(|error| StateError::Failed(error.to_string()))?;
                (id, Head::begin(id, self.log.store(), *first))
            }
        };
        let count = if is_old {
            1
        } else {
            BATCH.min(self.waiting.len())
        };
        let notes = self.waiting.drain(..count).collect();
        let closed = is_old || self.closing && self.waiting.is_empty();
        Ok(Some(self.sealed(chain, head, notes, closed, links)))
    }

    /// The notes as entries behind this head.
    fn sealed(
        &self,
        chain: ChainId,
        mut head: Head,
        notes: Vec<(Time, Note)>,
        closed: bool,
        links: Vec<(ChainId, Link)>,
    ) -> (AuditBatch, Head) {
        let base = head.end.number;
        let mut after = links.iter().map(|(_, link)| link.clone()).collect();
        let mut entries = Vec::new();
        for (at, note) in notes {
            let number = head.end.number + 1;
            let entry = Entry {
                version: VERSION,
                chain: head.end.chain.clone(),
                number,
                at,
                note,
                after: std::mem::take(&mut after),
                prev: head.end.hash,
            };
            let text = json(&entry);
            (head.end.number, head.end.hash, head.at) = (number, hash(&text), at);
            entries.push(AuditEntry { number, at, text });
        }
        head.closed = closed;
        let head = head.signed(&self.keys);
        let links = links.into_iter().map(|(id, end)| (id, end.number));
        let batch = AuditBatch {
            chain,
            base,
            entries,
            head: json(&head),
            links: links.collect(),
        };
        (batch, head)
    }

    /// Writes the head outside of the store that is owed.
    fn witness(&mut self) -> Result<(), String> {
        let Some(head) = &self.owed else {
            return Ok(());
        };
        let line = json(head);
        if let Some(path) = &self.setup.heads {
            append(path, &line).map_err(|error| {
                let path = path.display();
                format!(
                    "the heads of the audit log cannot be written to {path}: {error}; check the path and the free space"
                )
            })?;
        }
        tracing::debug!(target: "sluice::audit", head = line, "audit head");
        let number = if head.closed { 0 } else { head.end.number };
        self.witnessed = (number, Instant::now());
        self.owed = None;
        Ok(())
    }
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    // A command may be the first that writes there: the rest of the state is in a database.
    if let Some(folder) = path.parent() {
        let mut made = std::fs::DirBuilder::new();
        made.recursive(true).mode(0o700).create(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).open(path)?;
    // In one write, so that lines of several processes do not mix.
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_data()
}

fn now() -> Time {
    SystemTime::now().into()
}
