//! The desk of one front: its open questions, and the watch for their answers.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use hub::state::hex;
use ifc::Answer;
use sha2::{Digest, Sha256};
use store::{DeskError, KeptAnswer, KeptQuestion, NewQuestion, QuestionId, QuestionKey, Time};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, oneshot};
use tokio::time::{sleep, timeout};

use super::approver::{Answered, Approver, KeptAt, Other, QuestionOrigin};
use crate::QuestionView;
use crate::consult::random;
use crate::limits::Limits;
use crate::locks::lock;

/// How often answers of other processes are looked for. A user does not notice it.
const POLL: Duration = Duration::from_millis(100);
/// What waits at once of one front, by count and by 128 KiB. It is far under what the store takes of all fronts together, so
/// that a client which fills it leaves room to the others.
const ROOM: usize = 128;
const UNIT: usize = 128 << 10;
/// What of it one agent of a tenant takes at most, so that it leaves room to the others.
const SHARE: u32 = 32;
/// How often this process says that it still asks. The store waits for more than three of them.
const BEAT: Duration = Duration::from_secs(3);
/// How long another process has to say that it asks a question too, before one that gives it up takes it back.
const OTHERS: Duration = Duration::from_secs(7);

/// What a front's desk is made of.
#[derive(Clone)]
pub struct DeskSetup {
    /// Which front: `proxy`, `gateway`, `guard`, `run` …
    pub front: String,
    /// The id of its trace; empty if it keeps none.
    pub session: String,
    /// The user of its sessions, if known.
    pub asker: Option<String>,
    /// How long a question waits.
    pub timeout: Duration,
    /// Whether a question outlives this process: the one that takes its place, or another replica, names requests alike.
    pub outlives: bool,
    /// Until when "always" holds, in words.
    pub keep_for: String,
    /// Who is told that something waits.
    pub notice: Option<Arc<dyn Notice>>,
    /// How many questions tenants may ask. One that is asked again counts once.
    pub limits: Limits,
    /// Takes a line for the user: the store has failed.
    pub report: fn(&str),
}

/// Is told that something waits. It decides nothing.
pub trait Notice: Send + Sync {
    /// So many questions of this front wait, and this one is new. Must return quickly.
    fn waits(&self, waiting: usize, question: &KeptQuestion);
}

/// The desk of one front. No answer in time is no.
pub struct Desk {
    pub(super) store: Arc<store::Desk>,
    pub(super) token: String,
    setup: DeskSetup,
    open: Mutex<Open>,
    room: Semaphore,
    me: Weak<Self>,
}

#[derive(Default)]
struct Open {
    is_closed: bool,
    is_watched: bool,
    /// Whether one was added since the last look at the store.
    is_new: bool,
    waiting: BTreeMap<QuestionId, Place>,
    /// What is left of the share of each agent, by tenant and name.
    shares: BTreeMap<Agent, Arc<Semaphore>>,
}

type Agent = (Option<String>, Option<String>);

/// Those of this front who wait for one answer.
struct Place {
    is_keyed: bool,
    waiters: Vec<oneshot::Sender<Settled>>,
}

/// What became of a question in the store.
#[derive(Clone)]
pub(super) enum Settled {
    Answer(KeptAnswer),
    /// No answer came.
    Nothing,
    /// It waits on.
    Left,
}

/// A token that cannot be guessed.
///
/// # Errors
/// The system has no randomness.
pub fn fresh_token() -> Result<String, String> {
    Ok(hex(&random()?))
}

pub(super) fn now() -> Time {
    SystemTime::now().into()
}

impl Desk {
    /// A desk that asks in this store.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new(store: Arc<store::Desk>, setup: DeskSetup) -> Result<Arc<Self>, String> {
        let token = fresh_token()?;
        Ok(Arc::new_cyclic(|me| Self {
            store,
            token,
            setup,
            open: Mutex::default(),
            room: Semaphore::new(ROOM),
            me: me.clone(),
        }))
    }

    /// What a program on this machine must send as `Authorization: Bearer TOKEN` to see and answer the questions of this
    /// front.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// How long a question waits.
    pub fn timeout(&self) -> Duration {
        self.setup.timeout
    }

    /// Closes the desk. Open and later questions are answered with no; those that outlive this process stay in the store.
    pub async fn close(&self) {
        self.lock().is_closed = true;
        self.give_up().await;
    }

    /// Ends the wait for all open questions.
    async fn give_up(&self) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for (id, Place { is_keyed, waiters }) in waiting {
            let settled = match is_keyed {
                true => Settled::Left,
                false => Settled::Nothing,
            };
            for waiter in waiters {
                let _ = waiter.send(settled.clone());
            }
            if !is_keyed {
                // At once, since the process may be about to end. What fails here ends with this process's silence about it.
                let _ = self.store.withdraw(id, None).await;
            }
        }
    }

    /// Puts a question to the desk and waits for its answer.
    ///
    /// # Errors
    /// The store fails, or takes no more questions. No one was asked.
    pub async fn put(
        &self,
        origin: &QuestionOrigin,
        question: &QuestionView,
    ) -> Result<Answered, DeskError> {
        match self.open(origin, question).await? {
            Some(waiting) => self.wait(waiting, question, pending()).await,
            None => Ok(self.unasked(origin)),
        }
    }

    /// What becomes of a question that cannot be asked now.
    fn unasked(&self, origin: &QuestionOrigin) -> Answered {
        match self.setup.outlives && origin.key.is_some() {
            true => Answered::LEFT,
            false => Answered::NOT,
        }
    }

    /// Puts a question to the desk. `None`: the desk is closed.
    async fn open(
        &self,
        origin: &QuestionOrigin,
        question: &QuestionView,
    ) -> Result<Option<Waiting<'_>>, DeskError> {
        if self.lock().is_closed {
            return Ok(None);
        }
        let now = now();
        let new = self.question(origin, question, now);
        let size = u32::try_from(1 + new.shown.len() / UNIT).unwrap_or(u32::MAX);
        let agent = question.asker.clone().or_else(|| origin.agent.clone());
        let share = self.share((origin.tenant.clone(), agent), size)?;
        let Ok(room) = self.room.try_acquire_many(size) else {
            return Err(DeskError::TooMany);
        };
        let (desk, store, is_keyed) = (self.me.clone(), Arc::clone(&self.store), new.key.is_some());
        let (limits, tenant) = (self.setup.limits.clone(), new.tenant.clone());
        // In a task of its own, so that the row of one whose asking ends meanwhile does not stay.
        let put = tokio::spawn(async move {
            let may_ask = move || limits.may_ask(tenant.as_deref());
            let asked = store.ask_if(&new, now, may_ask).await?;
            let gone = Gone {
                store,
                desk,
                id: asked.id,
                is_keyed,
                is_settled: false,
            };
            Ok((gone, asked, new))
        });
        let put = put.await;
        let put = put.unwrap_or_else(|error| Err(DeskError::System(std::io::Error::other(error))));
        let (gone, asked, new) = put?;
        let (sender, answer) = oneshot::channel();
        let Some(waiting) = self.register(&gone, sender) else {
            return Ok(None);
        };
        if let Some(notice) = self.setup.notice.as_ref().filter(|_| asked.is_new) {
            let question = KeptQuestion {
                id: asked.id,
                asked: now,
                alive: now,
                question: new,
                answer: None,
            };
            notice.waits(waiting, &question);
        }
        let left = asked.expires.millis().saturating_sub(now.millis());
        let patience = Duration::from_millis(u64::try_from(left).unwrap_or_default());
        Ok(Some(Waiting {
            gone,
            answer,
            // An answer that came while no process asked is there at once, also where the question has expired meanwhile.
            patience: patience.max(POLL * 10),
            room: (share, room),
        }))
    }

    /// Takes from the share of an agent, if it is known who asks. A question may be longer than that.
    fn share(&self, agent: Agent, size: u32) -> Result<Option<OwnedSemaphorePermit>, DeskError> {
        if agent == (None, None) {
            return Ok(None);
        }
        let mut open = self.lock();
        // Those of which nothing is taken.
        open.shares.retain(|_, share| Arc::strong_count(share) > 1);
        let share = open.shares.entry(agent);
        let share = share.or_insert_with(|| Arc::new(Semaphore::new(SHARE as usize)));
        let taken = Arc::clone(share).try_acquire_many_owned(size.min(SHARE));
        taken.map(Some).map_err(|_| DeskError::TooMany)
    }

    /// Waits for the answer to a question. `other` is one that is given here, which counts if it is the first.
    async fn wait(
        &self,
        waiting: Waiting<'_>,
        question: &QuestionView,
        other: impl Future<Output = Answered>,
    ) -> Result<Answered, DeskError> {
        let Waiting {
            mut gone,
            answer,
            patience,
            room: _room,
        } = waiting;
        let id = gone.id;
        let settled = tokio::select! {
            biased;
            answer = timeout(patience, answer) => match answer {
                Ok(Ok(settled)) => settled,
                Ok(Err(_)) => Settled::Nothing,
                // One that came since the last look counts. From now on the store takes none.
                Err(_) => self.answer(id).await?,
            },
            Answered { answer, by, .. } = other => match by {
                None => Settled::Nothing,
                Some(by) => {
                    let at = now();
                    // The machine may have slept, and this process still asks.
                    self.store.still_asks(&[id], at).await?;
                    match self.store.answer(id, answer.name(), &by, at).await {
                        Ok(()) | Err(DeskError::Answered(_)) => self.answer(id).await?,
                        Err(error) => return Err(error),
                    }
                }
            },
        };
        let kept = match settled {
            Settled::Answer(kept) => kept,
            Settled::Nothing => return Ok(Answered::NOT),
            Settled::Left => {
                gone.is_settled = true;
                return Ok(Answered::LEFT);
            }
        };
        gone.is_settled = true;
        let mut choices = question.choices.iter().copied();
        let answer = choices.find(|choice| choice.name() == kept.answer);
        Ok(Answered {
            answer: answer.unwrap_or(Answer::No),
            by: Some(kept.by),
            kept: Some(KeptAt {
                store: Arc::clone(&self.store),
                id,
                is_keyed: gone.is_keyed,
            }),
            is_left: false,
        })
    }

    /// The answer to a question, if there is one.
    pub(super) async fn answer(&self, id: QuestionId) -> Result<Settled, DeskError> {
        let mut questions = self.store.read(&[id]).await?;
        let answer = questions.all.pop().and_then(|kept| kept.answer);
        Ok(answer.map_or(Settled::Nothing, Settled::Answer))
    }

    /// As [`Approver::ask`], with another way to answer, such as the terminal that asks. What is answered there goes through
    /// the store too: an earlier answer counts in its place. Where the store takes no question, only the other way is left.
    pub async fn beside(
        &self,
        origin: &QuestionOrigin,
        question: &QuestionView,
        other: impl Future<Output = Answered>,
    ) -> Answered {
        let answered = match self.open(origin, question).await {
            Ok(Some(waiting)) => self.wait(waiting, question, other).await,
            Ok(None) => return self.unasked(origin),
            Err(error) => {
                (self.setup.report)(&format!("note: it can be answered here only: {error}"));
                let answered = timeout(self.setup.timeout, other).await;
                return answered.unwrap_or(Answered::NOT);
            }
        };
        answered.unwrap_or_else(|error| self.failed(origin, &error))
    }

    fn question(
        &self,
        origin: &QuestionOrigin,
        question: &QuestionView,
        asked: Time,
    ) -> NewQuestion {
        let names = question
            .choices
            .iter()
            .map(|choice| choice.name().to_owned());
        let timeout = i64::try_from(self.setup.timeout.as_millis()).unwrap_or(i64::MAX);
        let shown = question.shown(&self.setup.keep_for);
        // An answer may allow the other calls of the step, so who may not see their apps may not see the question.
        let mut apps = vec![question.app.as_str()];
        for call in &question.waiting {
            if !apps.contains(&call.app.as_str()) {
                apps.push(&call.app);
            }
        }
        // Where a header names users, one that it does not name stays unknown.
        let own = || Some(origin.agent.clone().unwrap_or(self.setup.asker.clone()?));
        let mut new = NewQuestion {
            front: self.setup.front.clone(),
            session: self.setup.session.clone(),
            conversation: origin.conversation.clone(),
            tenant: origin.tenant.clone(),
            asker: question.asker.clone().or_else(own),
            app: apps.join(", "),
            tool: question.tool.clone(),
            effect: question.effect.to_owned(),
            choices: names.collect(),
            approvers: question.approvers.clone(),
            // It has strings, numbers and lists only, so it can be written.
            shown: serde_json::to_string(&shown).unwrap_or_default(),
            expires: Time::from_millis(asked.millis().saturating_add(timeout)),
            key: None,
        };
        let key = origin.key.filter(|_| self.setup.outlives);
        new.key = key.map(|request| key_of(&request, &new));
        new
    }

    /// Adds a question, and watches for answers. Returns how many wait; `None` if the desk is closed.
    fn register(&self, gone: &Gone, answer: oneshot::Sender<Settled>) -> Option<usize> {
        let mut open = self.lock();
        if open.is_closed {
            return None;
        }
        let place = open.waiting.entry(gone.id).or_insert_with(|| Place {
            is_keyed: gone.is_keyed,
            waiters: Vec::new(),
        });
        place.waiters.push(answer);
        open.is_new = true;
        if !std::mem::replace(&mut open.is_watched, true) {
            tokio::spawn(watch(self.me.clone()));
        }
        Some(open.waiting.len())
    }

    /// Whether this front waits for the answer.
    pub(super) fn waits_for(&self, id: QuestionId) -> bool {
        self.lock().waiting.contains_key(&id)
    }

    /// Tells those who wait for it what became of a question.
    pub(super) fn settle(&self, id: QuestionId, settled: &Settled) {
        let place = self.lock().waiting.remove(&id);
        for waiter in place.into_iter().flat_map(|place| place.waiters) {
            // The one who asked may have gone meanwhile.
            let _ = waiter.send(settled.clone());
        }
    }

    /// The questions that wait, and whether one of them is new. `None`: nothing waits, and the watch ends.
    fn watched(&self) -> Option<(Vec<QuestionId>, bool)> {
        let mut open = self.lock();
        open.is_watched = !open.waiting.is_empty();
        let is_new = std::mem::take(&mut open.is_new);
        let ids = open.waiting.keys().copied().collect();
        open.is_watched.then_some((ids, is_new))
    }

    /// Settles the questions that are answered or gone, unless nothing has changed since this version. Returns the version.
    async fn look(
        &self,
        ids: &[QuestionId],
        beats: bool,
        seen: Option<i64>,
    ) -> Result<i64, DeskError> {
        if beats {
            self.store.still_asks(ids, now()).await?;
        }
        let version = self.store.version().await?;
        if seen == Some(version) {
            return Ok(version);
        }
        let questions = self.store.read(ids).await?;
        for id in &questions.unreadable {
            (self.setup.report)(&format!(
                "note: the question {id} is denied: it cannot be read"
            ));
        }
        let all = questions.all.into_iter();
        let mut all: BTreeMap<_, _> = all.map(|kept| (kept.id, kept.answer)).collect();
        for id in ids {
            match all.remove(id) {
                Some(None) => {}
                Some(Some(answer)) => self.settle(*id, &Settled::Answer(answer)),
                None => self.settle(*id, &Settled::Nothing),
            }
        }
        Ok(version)
    }

    /// What becomes of a question for which the store has failed.
    fn failed(&self, origin: &QuestionOrigin, error: &DeskError) -> Answered {
        let answered = match error {
            DeskError::Postgres(_) | DeskError::Database(_) => self.unasked(origin),
            // It is in the audit log, and a client may repeat it without end.
            DeskError::OverBudget(_) => return Answered::over_budget(),
            _ => Answered::NOT,
        };
        let what = match answered.is_left() {
            true => "has to be asked again",
            false => "is denied",
        };
        (self.setup.report)(&format!("note: a question {what}: {error}"));
        answered
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        lock(&self.open)
    }
}

#[async_trait]
impl Approver for Desk {
    async fn ask(&self, origin: &QuestionOrigin, question: &QuestionView) -> Answered {
        let answered = self.put(origin, question).await;
        answered.unwrap_or_else(|error| self.failed(origin, &error))
    }

    async fn ask_beside(
        &self,
        origin: &QuestionOrigin,
        question: &QuestionView,
        other: Other<'_>,
    ) -> Answered {
        self.beside(origin, question, other).await
    }
}

/// Looks for answers while something waits.
async fn watch(desk: Weak<Desk>) {
    let (mut seen, mut beat) = (None, Instant::now());
    loop {
        sleep(POLL).await;
        let Some(desk) = desk.upgrade() else { return };
        let Some((ids, is_new)) = desk.watched() else {
            return;
        };
        let beats = beat.elapsed() >= BEAT;
        if beats {
            beat = Instant::now();
        }
        match desk.look(&ids, beats, seen.filter(|_| !is_new)).await {
            Ok(version) => seen = Some(version),
            Err(error) => {
                (desk.setup.report)(&format!(
                    "note: the questions that wait are given up: {error}"
                ));
                desk.give_up().await;
            }
        }
    }
}

/// A question that waits, and its place among those of this front.
struct Waiting<'a> {
    gone: Gone,
    answer: oneshot::Receiver<Settled>,
    patience: Duration,
    room: (Option<OwnedSemaphorePermit>, SemaphorePermit<'a>),
}

/// Takes a question back that is given up.
struct Gone {
    store: Arc<store::Desk>,
    desk: Weak<Desk>,
    id: QuestionId,
    is_keyed: bool,
    is_settled: bool,
}

impl Drop for Gone {
    fn drop(&mut self) {
        let mut is_closed = false;
        if let Some(desk) = self.desk.upgrade() {
            let mut open = desk.lock();
            is_closed = open.is_closed;
            if let Some(place) = open.waiting.get_mut(&self.id) {
                // Its own receiver is closed by now.
                place.waiters.retain(|waiter| !waiter.is_closed());
                if !place.waiters.is_empty() {
                    return;
                }
                open.waiting.remove(&self.id);
            }
        }
        if self.is_settled || self.is_keyed && is_closed {
            return;
        }
        // What fails here ends with this process's silence about it, or when it expires.
        if let Ok(handle) = Handle::try_current() {
            handle.spawn(take_back(Arc::clone(&self.store), self.id, self.is_keyed));
        }
    }
}

/// Takes a question back, unless another process asks it too.
async fn take_back(store: Arc<store::Desk>, id: QuestionId, is_keyed: bool) {
    let mut alive = None;
    if is_keyed {
        let Ok(mut questions) = store.read(&[id]).await else {
            return;
        };
        let Some(kept) = questions.all.pop() else {
            return;
        };
        alive = Some(kept.alive);
        sleep(OTHERS).await;
    }
    let _ = store.withdraw(id, alive).await;
}

/// Names a question by the request that asks, by all that is shown of it, and by who may allow what. Sessions and clients have
/// other names in each process.
fn key_of(request: &QuestionKey, new: &NewQuestion) -> QuestionKey {
    let named = (&new.front, &new.tenant, &new.asker);
    let asked = (&new.choices, &new.approvers, &new.shown);
    let mut hash = Sha256::new_with_prefix(request);
    hash.update(format!("{:?}", (named, asked)));
    hash.finalize().into()
}
