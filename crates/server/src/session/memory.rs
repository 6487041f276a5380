//! What a session recalls before a turn and keeps after it (SecGPT appendix C).
//!
//! `hub::memory` decides what may be recalled and which entries are sources of which; this module has namespaces, the
//! store and the clock. A store that fails ends no turn: nothing is recalled, or the user is told that the turn may
//! not be remembered.

use std::sync::Arc;
use std::time::SystemTime;

use hub::memory::{Archive, Memory, MemoryId};
use hub::trace::Event;
use hub::{Apps, TurnMachine};
use ifc::{Label, Labeled};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use store::{Content, Draft, Entry, EntryId, MemoryError, Namespace, Query, Speaker};
use tokio::sync::Notify;

use super::threads::{INTERRUPTED, Told};
use super::{Session, SessionError};
use crate::user::User;

impl Session {
    /// Tells the conversation what is remembered about a query.
    pub(super) async fn recall(
        &mut self,
        apps: &Apps,
        agent: &mut TurnMachine,
        query: &Labeled,
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<(), SessionError> {
        let Some(memory) = self.long_term() else {
            return Ok(());
        };
        let told = self.threads.of(apps);
        let (own, words, now) = (self.namespace(apps), query.clone(), told.clone());
        let search = move || {
            let archive = Readable::new(memory, &own?)?;
            let thread = now.now().clone();
            thread.recall(&archive, &words)
        };
        match self.threads.unless_slow(search, cancel).await {
            Ok(found) => {
                // Here, not in `search`: the conversation shows it only if it has waited.
                told.now().record_recalled(&found);
                agent.recall(&found);
                Ok(())
            }
            Err(reason) => {
                // The search consumed the only notice that `cancel` holds, and the user means the turn.
                if reason == INTERRUPTED {
                    cancel.notify_one();
                }
                self.memory_failed("nothing is recalled", &reason, user)
            }
        }
    }

    /// Keeps what the user asked, what the answer was, and the summaries that the turn needed, as far as the
    /// policy lets it be remembered. The query is kept whether there is an answer or not: that there is none may depend on what is above
    /// the query's label, and so would the memory.
    ///
    /// Returns the entry that the query is to be.
    pub(super) async fn remember(
        &mut self,
        apps: &Apps,
        agent: &mut TurnMachine,
        (query, answer): (&Labeled, Option<&Labeled>),
        user: &mut dyn User,
        cancel: &Notify,
    ) -> Result<Option<MemoryId>, SessionError> {
        let Some(memory) = self.long_term() else {
            return Ok(None);
        };
        let mut drafts = Vec::new();
        let mut said = None;
        let summaries = agent.take_summaries();
        let summaries = summaries.iter().map(|text| (Kept::Summary, text));
        let answer = answer.map(|answer| (Kept::Answer, answer));
        let all = std::iter::once((Kept::Query, query)).chain(summaries);
        for (kept, text) in all.chain(answer) {
            // The monitor's no is in the trace already. The others are kept or not by their own labels.
            match self.draft(agent, text, |text| kept.content(text)) {
                Ok(Some(draft)) => {
                    if let Kept::Query = kept {
                        said = Some(memory_id(&draft));
                    }
                    drafts.push((kept, draft));
                }
                Ok(None) => {}
                Err(reason) => {
                    self.not_kept(&reason, user)?;
                    return Ok(None);
                }
            }
        }
        // First the record, then the act.
        for event in agent.take_events() {
            self.record(event, user)?;
        }
        let own = self.namespace(apps);
        let told = self.threads.of(apps);
        let append = move || {
            let own = own?;
            // One by one: whether the query is kept does not depend on what becomes of the answer.
            let (mut gone, mut is_orphan) = (0, false);
            for (kept, draft) in drafts {
                match store_one(memory.as_ref(), &own, &told, kept, draft) {
                    Ok(more) => gone += more,
                    // The next one may follow from less.
                    Err(MemoryError::Missing(_)) => is_orphan = true,
                    Err(error) => return Err(error.to_string()),
                }
            }
            Ok((gone, is_orphan))
        };
        match self.threads.unless_slow(append, cancel).await {
            Ok((gone, is_orphan)) => {
                self.made_room(gone, user)?;
                if is_orphan {
                    self.memory_failed("the answer is not remembered", ORPHAN, user)?;
                }
            }
            Err(reason) => self.not_kept(&reason, user)?,
        }
        Ok(said)
    }

    /// A draft of a text, if the policy lets it be remembered. Its sources are known when the drafts before it are stored.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn draft(
        &self,
        agent: &mut TurnMachine,
        text: &Labeled,
        content: impl FnOnce(String) -> Content,
    ) -> Result<Option<Draft>, String> {
        let id = EntryId::random().map_err(|error| error.to_string())?;
        let permit = agent.remember(MemoryId(*id.as_bytes()), text);
        Ok(permit.map(|permit| {
            let text = permit.spend().text;
            Draft {
                id,
                // What the user vouches for in a session is in the next one what it always was.
                label: text.label().unendorsed(),
                content: content(text.reveal_tcb().to_owned()),
                sources: Vec::new(),
                origin: self.setup.name.clone(),
                time: SystemTime::now().into(),
            }
        }))
    }

    /// A private session neither reads nor writes what lasts.
    pub(super) fn long_term(&self) -> Option<Arc<dyn store::Memory>> {
        let memory = self.setup.memory.as_ref();
        memory.filter(|_| !self.setup.private).map(Arc::clone)
    }

    /// Where a conversation keeps its memories: in the namespace of its apps together, or in the hub's.
    pub(super) fn namespace(&self, apps: &Apps) -> Result<Namespace, String> {
        let names = apps.names();
        if names.is_empty() {
            return Ok(Namespace::Hub);
        }
        let own = names.into_iter().map(|name| {
            let mut apps = self.setup.apps.iter();
            let app = apps.find(|app| app.spoke.app == name);
            let app = app.ok_or_else(|| format!("there is no app {name}"))?;
            let name = store::Name::new(name).map_err(|error| error.to_string())?;
            Ok((name, app.origin))
        });
        own.collect::<Result<_, String>>().map(Namespace::Apps)
    }

    pub(super) fn made_room(
        &mut self,
        count: usize,
        user: &mut dyn User,
    ) -> Result<(), SessionError> {
        if count > 0 {
            self.record(Event::MadeRoom { count }, user)?;
        }
        Ok(())
    }

    pub(super) fn not_kept(
        &mut self,
        reason: &str,
        user: &mut dyn User,
    ) -> Result<(), SessionError> {
        self.memory_failed("this turn may not be remembered", reason, user)
    }

    pub(super) fn memory_failed(
        &mut self,
        what: &str,
        reason: &str,
        user: &mut dyn User,
    ) -> Result<(), SessionError> {
        let reason = format!("{what}: {reason}").into();
        Ok(self.record(Event::MemoryFailed { reason }, user)?)
    }
}

#[derive(Clone, Copy)]
enum Kept {
    Query,
    Summary,
    Answer,
}

impl Kept {
    fn content(self, text: String) -> Content {
        let speaker = match self {
            Self::Query => Speaker::User,
            Self::Answer => Speaker::System,
            Self::Summary => return Content::Summary { text },
        };
        Content::Interaction { speaker, text }
    }
}

/// Why what follows from an entry that is gone is not kept: it would outlive it.
const ORPHAN: &str = "it follows from a forgotten entry, or from one that would make room for it; \
    a new session is remembered";

pub(super) fn reason(error: &MemoryError) -> String {
    match error {
        MemoryError::Missing(_) => ORPHAN.to_owned(),
        other => other.to_string(),
    }
}

/// Stores one text of a turn and notes that it is there. Returns how many entries made room for it.
fn store_one(
    memory: &dyn store::Memory,
    own: &Namespace,
    told: &Told,
    kept: Kept,
    mut draft: Draft,
) -> Result<usize, MemoryError> {
    let (id, label) = (memory_id(&draft), draft.label.clone());
    let sources = match kept {
        Kept::Query => Vec::new(),
        Kept::Summary | Kept::Answer => told.now().visible_at(&label),
    };
    draft.sources = sources.iter().copied().map(entry_id).collect();
    let gone = memory.append(own, &[draft])?;
    // At once, also if the turn no longer waits: later texts may follow from it.
    told.now().record_entry(id, &label, sources);
    Ok(gone)
}

/// Whether a conversation that keeps its memories in `own` may read a namespace: everything in it is of its
/// apps. A conversation without an app is the hub's own, and answers the user alone.
fn may_read(own: &Namespace, namespace: &Namespace) -> bool {
    match own {
        Namespace::Hub => true,
        Namespace::Apps(own) => namespace.is_of(own),
    }
}

/// The namespaces that one conversation may read.
struct Readable {
    memory: Arc<dyn store::Memory>,
    namespaces: Vec<Namespace>,
    zone: TimeZone,
}

impl Readable {
    fn new(memory: Arc<dyn store::Memory>, own: &Namespace) -> Result<Self, String> {
        let all = memory.namespaces().map_err(|error| error.to_string())?;
        let readable = all.into_iter().filter(|each| may_read(own, each));
        Ok(Self {
            namespaces: readable.collect(),
            memory,
            zone: TimeZone::system(),
        })
    }

    fn memory(&self, entry: Entry) -> Memory {
        let (by, text) = match entry.content {
            Content::Interaction { speaker, text } => match speaker {
                Speaker::User => ("the user said", text),
                Speaker::System => ("the assistant said", text),
            },
            Content::Summary { text } => ("in short", text),
            Content::Fact {
                entity,
                attribute,
                value,
            } => ("noted", format!("{entity}, {attribute}: {value}")),
        };
        let day = match Timestamp::from_millisecond(entry.time.millis()) {
            Ok(time) => time.to_zoned(self.zone.clone()).date().to_string(),
            Err(_) => "some day".to_owned(),
        };
        let with = match entry.namespace.names().as_slice() {
            [] => String::new(),
            names => format!(", with {}", names.join(" and ")),
        };
        Memory {
            id: MemoryId(*entry.id.as_bytes()),
            label: entry.label,
            time: entry.time.millis(),
            origin: format!("{day}{with}, {by}"),
            text,
        }
    }
}

impl Archive for Readable {
    fn labels(&self) -> Result<Vec<Label>, String> {
        let mut labels: Vec<Label> = Vec::new();
        for namespace in &self.namespaces {
            let own = self.memory.labels(namespace);
            for label in own.map_err(|error| error.to_string())? {
                if !labels.contains(&label) {
                    labels.push(label);
                }
            }
        }
        Ok(labels)
    }

    fn search(&self, words: &str, at: &Label, most: usize) -> Result<Vec<(Memory, f64)>, String> {
        let query = Query::new(words);
        let mut found = Vec::new();
        for namespace in &self.namespaces {
            let own = self.memory.search(namespace, &query, at, most);
            found.extend(own.map_err(|error| error.to_string())?);
        }
        // Scores of several namespaces are only roughly comparable; each is a function of what flows to
        // `at` all the same. Equal ones stay in the order of namespaces.
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(most);
        let found = found.into_iter();
        Ok(found
            .map(|found| (self.memory(found.entry), found.score))
            .collect())
    }
}

pub(super) fn entry_id(id: MemoryId) -> EntryId {
    EntryId::from_bytes(id.0)
}

pub(super) fn memory_id(draft: &Draft) -> MemoryId {
    MemoryId(*draft.id.as_bytes())
}
