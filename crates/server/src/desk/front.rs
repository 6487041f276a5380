//! The desk of one front: its open questions, and the watch for their answers.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use ifc::Answer;
use store::{DeskError, KeptAnswer, KeptQuestion, NewQuestion, QuestionId, Time};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::{sleep, timeout};

use super::approver::{Answered, Approver, Other};
use crate::QuestionView;
use crate::consult::random;

/// How often answers of other processes are looked for. A user does not notice it.
const POLL: Duration = Duration::from_millis(100);
/// What waits at once of one front, by count and by 128 KiB. It is far under what the store takes of all fronts together, so
/// that a client which fills it leaves room to the others.
const ROOM: usize = 128;
const UNIT: usize = 128 << 10;
/// How often this process says that it still asks. The store waits for more than three of them.
const BEAT: Duration = Duration::from_secs(3);

/// What a front's desk is made of.
pub struct DeskSetup {
    /// Which front: `proxy`, `gateway`, `guard`, `run` …
    pub front: String,
    /// The id of its trace; empty if it keeps none.
    pub session: String,
    /// The user of its sessions, if known.
    pub asker: Option<String>,
    /// How long a question waits.
    pub timeout: Duration,
    /// Until when "always" holds, in words.
    pub keep_for: String,
    /// Who is told that something waits.
    pub notice: Option<Arc<dyn Notice>>,
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
    waiting: BTreeMap<QuestionId, oneshot::Sender<Option<KeptAnswer>>>,
}

/// A token that cannot be guessed.
///
/// # Errors
/// The system has no randomness.
pub fn fresh_token() -> Result<String, String> {
    let bytes = random::<32>()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(super) fn now() -> Time {
    SystemTime::now().into()
}

/// Runs an operation on the store, which waits for its disk.
pub(super) async fn blocking<T: Send + 'static>(
    store: &Arc<store::Desk>,
    work: impl FnOnce(&store::Desk) -> Result<T, DeskError> + Send + 'static,
) -> Result<T, DeskError> {
    let store = Arc::clone(store);
    let done = tokio::task::spawn_blocking(move || work(&store)).await;
    done.unwrap_or_else(|error| Err(DeskError::System(std::io::Error::other(error))))
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

    /// Closes the desk: open and later questions are answered with no.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.give_up();
    }

    /// Answers all open questions with no.
    fn give_up(&self) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for (id, sender) in waiting {
            let _ = sender.send(None);
            // At once, since the process may be about to end. What fails here ends with this process's silence about it.
            let _ = self.store.withdraw(id);
        }
    }

    /// Puts a question to the desk and waits for its answer.
    ///
    /// # Errors
    /// The store fails, or takes no more questions. No one was asked.
    pub async fn put(
        &self,
        conversation: &str,
        question: &QuestionView,
    ) -> Result<Answered, DeskError> {
        match self.open(conversation, question).await? {
            Some(waiting) => self.wait(waiting, question, pending()).await,
            None => Ok(Answered::NOT),
        }
    }

    /// Puts a question to the desk. `None`: the desk is closed.
    async fn open(
        &self,
        conversation: &str,
        question: &QuestionView,
    ) -> Result<Option<Waiting<'_>>, DeskError> {
        if self.lock().is_closed {
            return Ok(None);
        }
        let asked = now();
        let new = self.question(conversation, question, asked);
        let size = u32::try_from(1 + new.shown.len() / UNIT).unwrap_or(u32::MAX);
        let Ok(room) = self.room.try_acquire_many(size) else {
            return Err(DeskError::TooMany);
        };
        let notice = self
            .setup
            .notice
            .clone()
            .map(|notice| (notice, new.clone()));
        let (desk, store) = (self.me.clone(), Arc::clone(&self.store));
        // Made with the row, so that one whose asking ends meanwhile does not stay.
        let gone = blocking(&self.store, move |kept| {
            let id = kept.ask(&new, asked)?;
            let is_settled = false;
            Ok(Gone {
                store,
                desk,
                id,
                is_settled,
            })
        })
        .await?;
        let id = gone.id;
        let (sender, answer) = oneshot::channel();
        let Some(waiting) = self.register(id, sender) else {
            return Ok(None);
        };
        if let Some((notice, question)) = notice {
            let (alive, answer) = (asked, None);
            notice.waits(
                waiting,
                &KeptQuestion {
                    id,
                    asked,
                    alive,
                    question,
                    answer,
                },
            );
        }
        Ok(Some(Waiting { gone, answer, room }))
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
            room: _room,
        } = waiting;
        let id = gone.id;
        let kept = tokio::select! {
            biased;
            answer = timeout(self.setup.timeout, answer) => match answer {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => None,
                // One that came since the last look counts. From now on the store takes none.
                Err(_) => blocking(&self.store, move |store| store.take(id)).await?,
            },
            Answered { answer, by, .. } = other => match by {
                None => None,
                Some(by) => blocking(&self.store, move |store| {
                    let at = now();
                    // The machine may have slept, and this process still asks.
                    store.still_asks(&[id], at)?;
                    match store.answer(id, answer.name(), &by, at) {
                        Ok(()) | Err(DeskError::Answered(_)) => store.take(id),
                        Err(error) => Err(error),
                    }
                })
                .await?,
            },
        };
        gone.is_settled = kept.is_some();
        let choices = question.choices.iter();
        Ok(kept.map_or(Answered::NOT, |kept| {
            let answer = choices.copied().find(|choice| choice.name() == kept.answer);
            Answered {
                answer: answer.unwrap_or(Answer::No),
                by: Some(kept.by),
                is_kept: true,
            }
        }))
    }

    /// As [`Approver::ask`], with another way to answer, such as the terminal that asks. What is answered there goes through
    /// the store too: an earlier answer counts in its place. Where the store takes no question, only the other way is left.
    pub async fn beside(
        &self,
        conversation: &str,
        question: &QuestionView,
        other: impl Future<Output = Answered>,
    ) -> Answered {
        let answered = match self.open(conversation, question).await {
            Ok(Some(waiting)) => self.wait(waiting, question, other).await,
            Ok(None) => return Answered::NOT,
            Err(error) => {
                (self.setup.report)(&format!("note: it can be answered here only: {error}"));
                let answered = timeout(self.setup.timeout, other).await;
                return answered.unwrap_or(Answered::NOT);
            }
        };
        answered.unwrap_or_else(|error| {
            self.failed(&error);
            Answered::NOT
        })
    }

    fn question(&self, conversation: &str, question: &QuestionView, asked: Time) -> NewQuestion {
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
        NewQuestion {
            front: self.setup.front.clone(),
            session: self.setup.session.clone(),
            conversation: conversation.to_owned(),
            asker: question.asker.clone().or_else(|| self.setup.asker.clone()),
            app: apps.join(", "),
            tool: question.tool.clone(),
            effect: question.effect.to_owned(),
            choices: names.collect(),
            approvers: question.approvers.clone(),
            // It has strings, numbers and lists only, so it can be written.
            shown: serde_json::to_string(&shown).unwrap_or_default(),
            expires: Time::from_millis(asked.millis().saturating_add(timeout)),
        }
    }

    /// Adds a question, and watches for answers. Returns how many wait; `None` if the desk is closed.
    fn register(
        &self,
        id: QuestionId,
        answer: oneshot::Sender<Option<KeptAnswer>>,
    ) -> Option<usize> {
        let mut open = self.lock();
        if open.is_closed {
            return None;
        }
        open.waiting.insert(id, answer);
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

    /// Hands an answer of the store to the one who waits for it.
    pub(super) fn settle(&self, id: QuestionId, answer: Option<KeptAnswer>) {
        let waiting = self.lock().waiting.remove(&id);
        // The one who asked may have gone meanwhile.
        let _ = waiting.map(|waiting| waiting.send(answer));
    }

    /// The questions that wait, and whether one of them is new. `None`: nothing waits, and the watch ends.
    fn watched(&self) -> Option<(Vec<QuestionId>, bool)> {
        let mut open = self.lock();
        open.is_watched = !open.waiting.is_empty();
        let is_new = std::mem::take(&mut open.is_new);
        let ids = open.waiting.keys().copied().collect();
        open.is_watched.then_some((ids, is_new))
    }

    fn failed(&self, error: &DeskError) {
        (self.setup.report)(&format!("note: a question is denied: {error}"));
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Approver for Desk {
    async fn approve(&self, conversation: &str, question: &QuestionView) -> Answer {
        self.ask(conversation, question).await.answer
    }

    async fn ask(&self, conversation: &str, question: &QuestionView) -> Answered {
        let answered = self.put(conversation, question).await;
        answered.unwrap_or_else(|error| {
            self.failed(&error);
            Answered::NOT
        })
    }

    async fn ask_beside(
        &self,
        conversation: &str,
        question: &QuestionView,
        other: Other<'_>,
    ) -> Answered {
        self.beside(conversation, question, other).await
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
        let looked = blocking(&desk.store, move |store| {
            if beats {
                store.still_asks(&ids, now())?;
            }
            let version = store.version()?;
            let ids = if is_new || seen != Some(version) {
                ids
            } else {
                Vec::new()
            };
            let answers = ids.into_iter().map(|id| (id, store.take(id)));
            Ok((version, answers.collect::<Vec<_>>()))
        });
        let answers = match looked.await {
            Ok((version, answers)) => {
                seen = Some(version);
                answers
            }
            Err(error) => {
                desk.failed(&error);
                desk.give_up();
                continue;
            }
        };
        for (id, answer) in answers {
            match answer {
                Ok(None) => {}
                Ok(answer) => desk.settle(id, answer),
                Err(error) => {
                    desk.failed(&error);
                    desk.settle(id, None);
                }
            }
        }
    }
}

/// A question that waits, and its place among those of this front.
struct Waiting<'a> {
    gone: Gone,
    answer: oneshot::Receiver<Option<KeptAnswer>>,
    room: SemaphorePermit<'a>,
}

/// Takes a question back that is given up.
struct Gone {
    store: Arc<store::Desk>,
    desk: Weak<Desk>,
    id: QuestionId,
    is_settled: bool,
}

impl Drop for Gone {
    fn drop(&mut self) {
        if let Some(desk) = self.desk.upgrade() {
            desk.lock().waiting.remove(&self.id);
        }
        if self.is_settled {
            return;
        }
        let (store, id) = (Arc::clone(&self.store), self.id);
        // What fails here ends with this process's silence about it.
        let withdraw = move || drop(store.withdraw(id));
        match Handle::try_current() {
            Ok(handle) => drop(handle.spawn_blocking(withdraw)),
            Err(_) => withdraw(),
        }
    }
}
