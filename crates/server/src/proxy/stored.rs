//! What the proxy keeps in the store that it shares with other replicas.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hub::recognise::{KnownTexts, Learned};
use hub::state::{permit_key, write_permit};
use ifc::{Labeled, Permit};
use store::{Commit, Document, LeftPermit, Time};

use super::behind::Behind;
use super::memory::Taken;
use super::records::Record;
use super::sessions::Session;
use super::shared::Shared;
use super::transcript::{Chain, Digest, hash};
use crate::api::error::ApiError;
use crate::state::{Log, StateHandle, Unwritten, now, refused};

/// What a request has learnt of texts is written after this time, if its answer has not been. The request may wait for its
/// user, or be given up.
const SOON: Duration = Duration::from_millis(250);
/// How long a permit waits for the gateway.
const REDEEMABLE_MS: i64 = 600_000;

/// What is remembered of an answer.
pub(super) struct Answer {
    tenant: Digest,
    records: Vec<Record>,
}

impl Answer {
    /// `dropped` are words that a stream has shown before it was clear that they are not taken; `said` is all of it, where it
    /// makes no calls.
    pub(super) fn new(
        secret: &Digest,
        chain: &Chain,
        taken: Taken,
        dropped: Labeled,
        said: Option<&str>,
    ) -> Self {
        let tenant = chain.tenant();
        let all = Chain::new(secret, &tenant, None);
        let said = said.filter(|said| !said.trim().is_empty());
        let said = said.map(|said| (all.said(said), taken.label().join(&dropped.label())));
        let passed = taken.passed().into_iter();
        let passed = passed.map(|(text, label)| (all.passed(&text), label));
        // What its words, and the texts that its calls pass on, are known by.
        let words = said.into_iter().chain(passed);
        let words = words.map(|(words, label)| Record::Words(words, label));
        let is_labelled = dropped.regions().len() > 0;
        let dropped = Record::Learned(Learned::Text {
            place: None,
            text: dropped,
            inside: false,
        });
        let dropped = Some(dropped).filter(|_| is_labelled);
        let answer = Record::Answer(chain.digest(), taken);
        Self {
            records: words.chain(dropped).chain([answer]).collect(),
            tenant,
        }
    }
}

/// The conversation of a request in the store.
#[derive(Clone)]
pub(super) struct Stored {
    log: Arc<Log>,
    key: Digest,
    pub(super) document: Option<Document>,
}

/// A call of an answer, and the permit by which the client gets it.
pub(super) struct Release {
    /// The name that the client knows it under.
    pub(super) name: String,
    pub(super) permit: Permit,
    /// The gateway that it is made at, if it is not the client's own.
    pub(super) at_gateway: bool,
}

/// Permits on their way to the store. Where nothing is known of that, those for the gateway count as left there.
pub(super) struct Leaving(pub(super) Vec<Release>);

impl Drop for Leaving {
    fn drop(&mut self) {
        for Release {
            permit, at_gateway, ..
        } in self.0.drain(..)
        {
            if at_gateway {
                permit.leave();
            }
        }
    }
}

/// News of texts, which go back to the journal unless they were written.
struct Pending<'a> {
    texts: KnownTexts<'a>,
    news: Vec<Learned>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let news = std::mem::take(&mut self.news);
        if !news.is_empty() {
            self.texts.put_back(news);
        }
    }
}

impl Shared {
    /// Brings what is known of a tenant up to date, and reads the document of the conversation. `None` without a store.
    pub(super) async fn load(
        &self,
        tenant: Digest,
        key: Digest,
    ) -> Result<Option<Stored>, ApiError> {
        let Some(state) = &self.state else {
            return Ok(None);
        };
        let log = state.log(tenant, || Some(self.texts.tenant(tenant).hold()));
        let apply = |record: &str| {
            self.take_over(tenant, Record::read(record, &self.parts.lattice)?);
            Ok(())
        };
        let document = state.load(&log, Some(&key), apply).await?;
        Ok(Some(Stored { log, key, document }))
    }

    /// Takes the permits of these calls back from the store. Returns those that waited.
    pub(super) async fn withdraw(
        &self,
        stored: &Stored,
        names: &[String],
    ) -> Result<Vec<String>, ApiError> {
        match &self.state {
            Some(state) if !names.is_empty() => {
                let withdrawn = state.store.withdraw(&stored.log.tenant, names);
                withdrawn.await.map_err(refused)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Remembers how an answer came about, and knows its text again.
    pub(super) fn remember(&self, answer: Answer) {
        for record in answer.records {
            self.take_over(answer.tenant, record);
        }
    }

    /// Takes over a record, of this replica or another one.
    fn take_over(&self, tenant: Digest, record: Record) {
        let texts = self.texts.tenant(tenant);
        match record {
            Record::Answer(digest, taken) => {
                for text in taken.texts() {
                    texts.learn_own(None, &text);
                }
                // The upstream has answered: it takes the client's key, where it looks at keys at all.
                texts.confirm();
                self.memory.remember(digest, tenant, taken);
            }
            Record::Words(words, label) => self.memory.remember_words(words, tenant, &label),
            Record::Learned(news) => texts.apply(news),
            Record::Given(label, has_programs) => {
                if let Some(behind) = self.behind_of(&tenant) {
                    behind
                        .permits()
                        .give_all(&behind.session, &label, has_programs);
                }
            }
            Record::Result(name, result) => {
                if let Some(behind) = self.behind_of(&tenant) {
                    behind.permits().keep(name, result);
                }
            }
        }
    }

    /// Writes an answer and what its session is now. Only then its calls may leave.
    ///
    /// # Errors
    /// See [`Unwritten`].
    pub(super) async fn commit(
        &self,
        stored: &Stored,
        session: &Session,
        behind: Option<&Behind>,
        answer: &Answer,
        releases: &[Release],
    ) -> Result<(), Unwritten> {
        let Some(state) = &self.state else {
            return Ok(());
        };
        let mut pending = self.pending(answer.tenant);
        let mut commit = Commit::new(now());
        let lattice = &self.parts.lattice;
        let news = pending.news.iter().cloned().map(Record::Learned);
        let given = behind.and_then(|behind| behind.permits().news(&behind.session));
        let given = given.map(|(label, programs)| Record::Given(label, programs));
        let news = news.map(|record| record.write(lattice));
        let others = answer.records.iter().chain(&given);
        let others = others.map(|record| record.write(lattice));
        commit.records = news.chain(others).collect();
        let left = releases.iter().filter(|release| release.at_gateway);
        commit.permits = left.map(|release| self.left(release)).collect();
        let calls = releases.iter().map(|release| release.permit.receipt());
        let calls = calls.collect();
        let place = (state, &*stored.log);
        let shared = &session.shared;
        let committed = shared.commit(place, stored.key, commit, calls, session, lattice);
        committed.await?;
        pending.news.clear();
        if let Some(given) = given {
            self.take_over(answer.tenant, given);
        }
        Ok(())
    }

    /// Writes what was learnt of texts after a while, even if its request is given up.
    pub(super) fn write_soon(self: &Arc<Self>, stored: &Stored) {
        let log = &stored.log;
        if log.is_scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        let (shared, log) = (Arc::clone(self), Arc::clone(log));
        tokio::spawn(async move {
            tokio::time::sleep(SOON).await;
            log.is_scheduled.store(false, Ordering::Release);
            if let Some(state) = &shared.state {
                // What fails stays in the journal, for the next request.
                let _ = shared.write_news(state, &log).await;
            }
        });
    }

    async fn write_news(&self, state: &StateHandle, log: &Log) -> Result<(), ApiError> {
        let mut pending = self.pending(log.tenant);
        if pending.news.is_empty() {
            return Ok(());
        }
        let mut commit = Commit::new(now());
        let news = pending.news.iter().cloned().map(Record::Learned);
        let lattice = &self.parts.lattice;
        commit.records = news.map(|record| record.write(lattice)).collect();
        state.commit(log, commit).await?;
        pending.news.clear();
        Ok(())
    }

    /// A permit for the gateway.
    fn left(&self, Release { name, permit, .. }: &Release) -> LeftPermit {
        let call = permit.call();
        let key = permit_key(&call.app, &call.tool, &call.arguments);
        let until = now().millis().saturating_add(REDEEMABLE_MS);
        LeftPermit {
            name: name.clone(),
            key: hash(key.as_bytes()),
            body: write_permit(permit, &self.parts.lattice),
            until: Time::from_millis(until),
        }
    }

    fn pending(&self, tenant: Digest) -> Pending<'_> {
        let texts = self.texts.tenant(tenant);
        let news = texts.take_news();
        Pending { texts, news }
    }
}
