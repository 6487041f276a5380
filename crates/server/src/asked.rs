//! Questions to the user that outlive the request or call that caused them: a client that waits no longer sends it again, and
//! meets the same question, or the answer that came meanwhile.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ifc::Answer;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::desk::Answered;
use crate::locks::lock;

/// Questions of one client that wait at once. No user reads more. The oldest one that its client has left makes room.
const MAX_ASKED: usize = 64;

/// What a client is told whose question waits on.
const LEFT: &str =
    "a question about it still waits for an answer; send the same request or call again";

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AskOutcome {
    Answer(Answered),
    /// The answer was for one call, and an equal one has used it.
    UsedUp,
    /// No answer came, and why.
    Unanswered(String),
    /// The question waits on, and who asks again meets it; why no answer is waited for.
    Left(String),
}

/// Questions by what they are about.
#[derive(Default)]
pub(crate) struct Questions {
    all: Arc<Mutex<BTreeMap<String, Arc<Asked>>>>,
    /// How long a question stays without anybody who waits for its answer; `None` is until it is answered.
    orphaned: Option<Duration>,
}

/// A question that waits, or its answer.
struct Asked {
    outcome: watch::Sender<Option<AskOutcome>>,
    since: Instant,
    is_used: AtomicBool,
    waiting: AtomicUsize,
    task: AbortHandle,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Questions {
    /// Questions that are taken back when no request has waited for their answer for this long.
    pub(crate) fn orphaned_for(time: Duration) -> Self {
        Self {
            orphaned: Some(time),
            ..Self::default()
        }
    }

    /// Takes all questions back.
    pub(crate) fn clear(&self) {
        lock(&self.all).clear();
    }

    /// Puts a question to the user, or waits with others for the answer to the same question. `timeout` is how long an
    /// answer may take, and how long at least it then waits for its request.
    pub(crate) async fn ask<F>(
        &self,
        key: String,
        timeout: Duration,
        put: impl FnOnce() -> F,
    ) -> AskOutcome
    where
        F: Future<Output = AskOutcome> + Send + 'static,
    {
        let waiter = {
            let mut all = lock(&self.all);
            all.retain(|_, asked| {
                let is_void = match &*asked.outcome.borrow() {
                    Some(AskOutcome::Unanswered(_) | AskOutcome::Left(_)) => true,
                    // The store has it, for this process and others.
                    Some(AskOutcome::Answer(answered)) => {
                        answered.is_for_all() && asked.waiting.load(Ordering::Acquire) == 0
                    }
                    _ => false,
                };
                !is_void && asked.since.elapsed() < timeout.saturating_mul(2)
            });
            let known = all.get(&key).map(Arc::clone);
            let asked = match known {
                Some(asked) => asked,
                None if all.len() >= MAX_ASKED && !make_room(&mut all) => {
                    return AskOutcome::Unanswered(
                        "too many questions wait for the user".to_owned(),
                    );
                }
                None => {
                    let (outcome, _) = watch::channel(None);
                    let (put, sender) = (put(), outcome.clone());
                    let task = tokio::spawn(async move {
                        sender.send_replace(Some(put.await));
                    });
                    let asked = Arc::new(Asked {
                        outcome,
                        since: Instant::now(),
                        is_used: AtomicBool::new(false),
                        waiting: AtomicUsize::new(0),
                        task: task.abort_handle(),
                    });
                    all.insert(key.clone(), Arc::clone(&asked));
                    asked
                }
            };
            // Before another one makes room.
            Waiter::new(self, key, asked)
        };
        let asked = &waiter.asked;
        let mut waiting = asked.outcome.subscribe();
        // The sender is in `asked`, so there is no error.
        let outcome = waiting.wait_for(Option::is_some).await;
        let outcome = outcome.ok().and_then(|outcome| outcome.clone());
        let outcome = outcome
            .unwrap_or_else(|| AskOutcome::Unanswered("the question was taken back".to_owned()));
        take_back(&self.all, &waiter.key, asked);
        let AskOutcome::Answer(answered) = outcome else {
            return outcome;
        };
        if answered.is_left() {
            return AskOutcome::Left(LEFT.to_owned());
        }
        let is_free = match answered.claim().await {
            Some(Ok(is_free)) => is_free,
            Some(Err(error)) => return AskOutcome::Unanswered(error.to_string()),
            None => {
                let was_used = asked.is_used.swap(true, Ordering::AcqRel);
                !was_used || !matches!(answered.answer, Answer::Once | Answer::Each)
            }
        };
        match is_free {
            true => AskOutcome::Answer(answered),
            false => AskOutcome::UsedUp,
        }
    }
}

/// Removes a question, unless another one has its place.
fn take_back(all: &Mutex<BTreeMap<String, Arc<Asked>>>, key: &str, asked: &Arc<Asked>) {
    let mut all = lock(all);
    if all.get(key).is_some_and(|known| Arc::ptr_eq(known, asked)) {
        all.remove(key);
    }
}

/// Takes back the oldest question for whose answer no request waits. False if there is none.
fn make_room(all: &mut BTreeMap<String, Arc<Asked>>) -> bool {
    let left = all
        .iter()
        .filter(|(_, asked)| asked.waiting.load(Ordering::Acquire) == 0);
    let oldest = left.min_by_key(|(_, asked)| (asked.outcome.borrow().is_some(), asked.since));
    let key = oldest.map(|(key, _)| key.clone());
    let removed = key.and_then(|key| all.remove(&key));
    removed.map(|asked| asked.task.abort()).is_some()
}

/// Waits for the answer to a question. If the last one gives up, the question stays for a while.
struct Waiter<'a> {
    questions: &'a Questions,
    key: String,
    asked: Arc<Asked>,
}

impl<'a> Waiter<'a> {
    fn new(questions: &'a Questions, key: String, asked: Arc<Asked>) -> Self {
        asked.waiting.fetch_add(1, Ordering::AcqRel);
        Self {
            questions,
            key,
            asked,
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let others = self.asked.waiting.fetch_sub(1, Ordering::AcqRel) - 1;
        let Some(time) = self.questions.orphaned.filter(|_| others == 0) else {
            return;
        };
        let (all, key) = (
            Arc::clone(&self.questions.all),
            std::mem::take(&mut self.key),
        );
        let asked = Arc::clone(&self.asked);
        if asked.outcome.borrow().is_none() {
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                let is_open = asked.outcome.borrow().is_none();
                if is_open && asked.waiting.load(Ordering::Acquire) == 0 {
                    take_back(&all, &key, &asked);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn a_question_stays_for_a_while_and_is_then_taken_back() {
        let (day, moment) = (Duration::from_secs(86_400), Duration::from_millis(50));
        for (questions, stays) in [
            (Questions::orphaned_for(moment), false),
            (Questions::default(), true),
        ] {
            let (gone, is_gone) = tokio::sync::oneshot::channel::<()>();
            let put = || async move {
                let _gone = gone;
                pending().await
            };
            let asked = questions.ask("it".to_owned(), day, put);
            assert!(tokio::time::timeout(moment / 5, asked).await.is_err());
            // The client that asks again waits for the same answer.
            let again = questions.ask("it".to_owned(), day, pending);
            assert!(tokio::time::timeout(moment / 5, again).await.is_err());
            let is_gone = tokio::time::timeout(moment * 10, is_gone).await;
            assert_eq!(is_gone.is_err(), stays);
        }
    }

    /// A client that asks without end and hangs up loses its own oldest questions. One that is waited for stays.
    #[tokio::test]
    async fn a_question_that_its_client_has_left_makes_room() {
        let (questions, day) = (Arc::new(Questions::default()), Duration::from_secs(86_400));
        let ask = |key: usize| questions.ask(key.to_string(), day, pending);
        let mut waited = Box::pin(ask(0));
        let moment = Duration::from_millis(1);
        let left = async |key| assert!(tokio::time::timeout(moment, ask(key)).await.is_err());
        assert!(tokio::time::timeout(moment, &mut waited).await.is_err());
        for key in 1..=MAX_ASKED {
            left(key).await;
        }
        let known = || lock(&questions.all).keys().cloned().collect::<Vec<_>>();
        assert_eq!(known().len(), MAX_ASKED);
        assert!(known().contains(&"0".to_owned()) && !known().contains(&"1".to_owned()));
        for key in 1..MAX_ASKED {
            let questions = Arc::clone(&questions);
            tokio::spawn(async move { questions.ask(key.to_string(), day, pending).await });
        }
        tokio::time::sleep(moment * 50).await;
        assert!(matches!(ask(1_000).await, AskOutcome::Unanswered(_)));
    }

    /// The client may be slow to ask again. An answer of long ago is not the answer to what it asks now.
    #[tokio::test]
    async fn an_answer_waits_for_its_request_as_long_as_its_question_could() {
        let timeout = Duration::from_millis(400);
        for (pause, meets) in [(450, true), (900, false)] {
            let questions = Questions::default();
            let answer = Answered::here(Answer::Once, None, "page");
            let put = || async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                AskOutcome::Answer(answer)
            };
            let asked = questions.ask("it".to_owned(), timeout, put);
            // Given up before the answer is there.
            assert!(tokio::time::timeout(Duration::ZERO, asked).await.is_err());
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let other = || async { AskOutcome::Unanswered("asked again".to_owned()) };
            let outcome = questions.ask("it".to_owned(), timeout, other).await;
            assert_eq!(matches!(outcome, AskOutcome::Answer(_)), meets, "{pause}");
        }
    }
}
