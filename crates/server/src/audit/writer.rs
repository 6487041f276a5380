//! The writer: one task, which commits in groups what all conversations note.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use store::{AuditBatch, AuditEntry, AuditError, AuditLog, ChainId, StateError, Time};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::entry::{Entry, Head, Link, NONE, Note, VERSION, hash, json};
use super::keys::AuditKeys;

/// Entries of one commit. More wait for the next one, so that no request waits long for those of others.
const BATCH: usize = 256;
/// Entries that wait while the store fails. With more the log would have a gap, so nothing is done any more.
const MOST_WAITING: usize = 65_536;
/// How long after a failure the next attempt is made: requests in between fail at once.
const PAUSE: Duration = Duration::from_millis(200);
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
    /// The last note. Nothing is written after it.
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
            failed: None,
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
        self.reply(|reply| Item::Close(now(), Box::new(note), reply))
            .await
    }

    /// Removes the entries of chains whose last entry is older than `before`. Their heads stay, signed as removed. Returns how
    /// many entries were removed.
    ///
    /// # Errors
    /// The store fails.
    pub async fn remove_before(&self, before: Time) -> Result<u64, AuditError> {
        let mut count = 0;
        for chain in self.log.chains().await? {
            // Only what we have signed: what was changed stays, so that `verify` finds it.
            let head = chain.head.as_deref().and_then(Head::read);
            let head = head.filter(|head| head.key == self.keys.public() && head.is_signed());
            let Some(head) = head.filter(|head| head.removed.is_none() && head.at < before) else {
                continue;
            };
            let first = self.log.entries(chain.chain, 0).await?;
            let first = first
                .first()
                .map(|it| serde_json::from_str::<Entry>(&it.text));
            let Some(Ok(first)) = first else { continue };
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

/// A chain as far as it is written, or would be with a batch.
#[derive(Debug, Clone)]
struct Chain {
    id: ChainId,
    head: Head,
}

struct Writer {
    log: Arc<dyn AuditLog>,
    keys: Arc<AuditKeys>,
    setup: AuditSetup,
    chain: Option<Chain>,
    waiting: VecDeque<(Time, Note)>,
    /// A batch that may be written or not: it is tried again as it is.
    pending: Option<(AuditBatch, Chain)>,
    failed: Option<(Instant, String)>,
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
                self.failed = None;
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
            let why = "the audit log has lost entries while its store failed; start again";
            return Err(why.to_owned());
        }
        if let Some((at, error)) = &self.failed
            && at.elapsed() < PAUSE
        {
            return Err(error.clone());
        }
        let result = self.write().await;
        self.failed = match &result {
            Ok(()) => None,
            Err(error) => Some((Instant::now(), error.clone())),
        };
        result
    }

    async fn write(&mut self) -> Result<(), String> {
        loop {
            self.witness()?;
            self.roll();
            if self.pending.is_none() && !self.waiting.is_empty() {
                let batch = self.batch().await.map_err(|error| error.to_string())?;
                self.pending = Some(batch);
            }
            let Some((batch, chain)) = &self.pending else {
                break;
            };
            let appended = self.log.append(batch).await;
            appended.map_err(|error| error.to_string())?;
            let (is_first, head) = (batch.base == 0, chain.head.clone());
            // A closed chain is not gone on with.
            self.chain = (!head.closed).then(|| chain.clone());
            self.pending = None;
            let (number, at) = self.witnessed;
            let is_due = head.number.saturating_sub(number) >= WITNESS_ENTRIES
                || at.elapsed() >= WITNESS_TIME;
            self.owed = (is_first || head.closed || is_due).then_some(head);
        }
        // The last head of a burst, when nothing follows.
        let (number, at) = self.witnessed;
        let head = self.chain.as_ref().map(|chain| &chain.head);
        let is_due = |head: &&Head| head.number > number && at.elapsed() >= WITNESS_TIME;
        self.owed = head.filter(is_due).cloned();
        self.witness()
    }

    /// Ends a chain that is old enough: what follows begins another one.
    fn roll(&mut self) {
        let Some(Chain { id, head }) = self.chain.as_ref().filter(|_| self.pending.is_none())
        else {
            return;
        };
        let (age, now) = (now().millis() - head.opened.millis(), now());
        if !self.closing && u128::try_from(age).unwrap_or(0) >= self.setup.chain_time.as_millis() {
            let note = Note::new("continued", "done");
            self.pending = Some(self.sealed(*id, Some(head), vec![(now, note)], true, Vec::new()));
        }
    }

    /// The next batch of what waits.
    async fn batch(&mut self) -> Result<(AuditBatch, Chain), AuditError> {
        let before = self.chain.clone();
        let mut links = Vec::new();
        let id = match &before {
            Some(chain) => chain.id,
            None => {
                let ends = self.log.unlinked(MOST_LINKS).await?;
                // One that cannot be read is for `verify`.
                let heads = ends
                    .iter()
                    .filter_map(|end| Head::read(end.head.as_deref()?));
                links = heads.filter_map(|head| head.link()).collect();
                let random = ChainId::random();
                random.map_err(|error| StateError::Failed(error.to_string()))?
            }
        };
        let count = self.waiting.len().min(BATCH);
        let closed = self.closing && count == self.waiting.len();
        let notes = self.waiting.drain(..count).collect();
        let head = before.as_ref().map(|chain| &chain.head);
        Ok(self.sealed(id, head, notes, closed, links))
    }

    fn sealed(
        &self,
        id: ChainId,
        before: Option<&Head>,
        notes: Vec<(Time, Note)>,
        closed: bool,
        links: Vec<(ChainId, Link)>,
    ) -> (AuditBatch, Chain) {
        let base = before.map_or(0, |head| head.number);
        let mut prev = before.map_or_else(|| NONE.to_owned(), |head| head.hash.clone());
        let (mut number, mut at) = (base, now());
        let mut opened = before.map(|head| head.opened);
        let mut after = links.iter().map(|(_, link)| link.clone()).collect();
        let mut entries = Vec::new();
        for (time, note) in notes {
            number += 1;
            at = time;
            opened.get_or_insert(time);
            let entry = Entry {
                version: VERSION,
                chain: id.to_string(),
                number,
                at,
                note,
                after: std::mem::take(&mut after),
                prev,
            };
            let text = json(&entry);
            prev = hash(&text);
            entries.push(AuditEntry { number, at, text });
        }
        let head = Head {
            version: VERSION,
            chain: id.to_string(),
            number,
            hash: prev,
            opened: opened.unwrap_or(at),
            at,
            closed,
            removed: None,
            after: Vec::new(),
            key: String::new(),
            signature: String::new(),
        };
        let head = head.signed(&self.keys);
        let batch = AuditBatch {
            chain: id,
            base,
            entries,
            head: json(&head),
            links: links
                .into_iter()
                .map(|(id, link)| (id, link.number))
                .collect(),
        };
        (batch, Chain { id, head })
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
        tracing::info!(target: "sluice::audit", head = line, "audit head");
        self.witnessed = match head.closed {
            true => (0, Instant::now()),
            false => (head.number, Instant::now()),
        };
        self.owed = None;
        Ok(())
    }
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).open(path)?;
    // In one write, so that lines of several processes do not mix.
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_data()
}

fn now() -> Time {
    SystemTime::now().into()
}
