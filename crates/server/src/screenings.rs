//! Screenings that compute wait here for their turn: few at a time, and fair between clients.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

/// Screenings that compute at once. Each holds the keys and values of a whole history (46 KB a
/// token for the shipped model, so up to some hundred megabytes), and each can use all cores: more
/// at once would need more memory and be done no sooner. Two, so that a short history need not
/// wait until a long one is done.
const AT_ONCE: usize = 2;

/// Whoever has screenings to do, for fair turns: a session of the hub's own, or a client of the
/// proxy. A digest, because what tells clients apart is their token or key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId([u8; 32]);

impl ClientId {
    /// The client that is known by this name.
    pub fn from_name(name: &str) -> Self {
        Self(Sha256::digest(name).into())
    }

    /// The client whose name has this digest.
    pub fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }
}

/// The queue of screenings that compute.
///
/// At most a fixed number run at once. Clients get their turns round-robin: a client with a
/// thousand screenings in the queue delays another client's first one by as much as a client with
/// one. A screening that nobody waits for any more leaves the queue.
pub struct Screenings {
    state: Arc<Mutex<State>>,
}

struct State {
    /// Turns that are not taken. Above zero only while nobody waits.
    free: usize,
    /// Clients with somebody waiting, the next one first. Each is in it once.
    order: VecDeque<ClientId>,
    /// Who waits, by client; never an empty queue.
    waiting: HashMap<ClientId, VecDeque<Waiter>>,
    /// Numbers the waiters.
    last: u64,
}

struct Waiter {
    number: u64,
    call: oneshot::Sender<Turn>,
}

/// The right to compute. Dropping it gives the turn to the next one.
pub(crate) struct Turn {
    state: Arc<Mutex<State>>,
}

/// A place in the queue. Dropping it leaves the queue.
struct Place {
    state: Arc<Mutex<State>>,
    client: ClientId,
    number: u64,
}

impl Screenings {
    /// A queue of which at most `at_once` run, at least one.
    pub fn new(at_once: usize) -> Self {
        let state = State {
            free: at_once.max(1),
            order: VecDeque::new(),
            waiting: HashMap::new(),
            last: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Waits for a turn. Dropping the future leaves the queue.
    pub(crate) async fn turn(&self, client: ClientId) -> Turn {
        let (called, _place) = {
            let mut state = lock(&self.state);
            if state.free > 0 {
                state.free -= 1;
                return Turn {
                    state: Arc::clone(&self.state),
                };
            }
            let (call, called) = oneshot::channel();
            let number = state.enter(client, call);
            let place = Place {
                state: Arc::clone(&self.state),
                client,
                number,
            };
            (called, place)
        };
        match called.await {
            Ok(turn) => turn,
            // A waiter is dropped by its own `Place` only, which lives as long as this future.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Default for Screenings {
    fn default() -> Self {
        Self::new(AT_ONCE)
    }
}

impl fmt::Debug for Screenings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        let waiting: usize = state.waiting.values().map(VecDeque::len).sum();
        f.debug_struct("Screenings")
            .field("free", &state.free)
            .field("waiting", &waiting)
            .finish()
    }
}

impl State {
    /// Puts a waiter at the end of its client's queue. A client that had nobody waiting is called
    /// after all others.
    fn enter(&mut self, client: ClientId, call: oneshot::Sender<Turn>) -> u64 {
        self.last += 1;
        let number = self.last;
        let queue = self.waiting.entry(client).or_default();
        // A client has one place in the order, however many of its own wait: it gains no turns by asking more often.
        if queue.is_empty() {
            self.order.push_back(client);
        }
        queue.push_back(Waiter { number, call });
        number
    }

    /// Whose turn it is. Its client goes to the end of the order if it has more.
    fn next(&mut self) -> Option<Waiter> {
        let client = self.order.pop_front()?;
        let queue = self.waiting.get_mut(&client)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.order.push_back(client);
        }
        next
    }

    fn leave(&mut self, client: ClientId, number: u64) {
        let Some(queue) = self.waiting.get_mut(&client) else {
            return;
        };
        queue.retain(|waiter| waiter.number != number);
        if queue.is_empty() {
            self.waiting.remove(&client);
            self.order.retain(|other| *other != client);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut state = lock(&self.state);
            let next = state.next();
            if next.is_none() {
                state.free += 1;
            }
            next
        };
        if let Some(waiter) = next {
            let state = Arc::clone(&self.state);
            // Whoever left between the two locks has dropped its end: the turn comes back in the
            // error, and dropping that gives it to the one after. The lock is not held here.
            let _ = waiter.call.send(Turn { state });
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.state).leave(self.client, self.number);
    }
}

/// No code that holds the lock can panic half way through a change.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Turn> + 'a>>;

    /// Asks for a turn and says whether it came at once.
    fn poll(waiting: &mut Waiting<'_>) -> Option<Turn> {
        match waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    /// Enters the queue, which must be full.
    fn enter<'a>(screenings: &'a Screenings, client: &str) -> Waiting<'a> {
        let mut waiting: Waiting<'a> = Box::pin(screenings.turn(ClientId::from_name(client)));
        assert!(poll(&mut waiting).is_none(), "{client} need not wait");
        waiting
    }

    /// Which of them has been called; exactly one.
    fn called(waiting: &mut Vec<(&'static str, Waiting<'_>)>) -> (&'static str, Turn) {
        let turns = waiting.iter_mut().map(|(_, waiting)| poll(waiting));
        let turns: Vec<Option<Turn>> = turns.collect();
        let at = turns.iter().position(Option::is_some).unwrap();
        assert_eq!(turns.iter().flatten().count(), 1);
        let turn = turns.into_iter().flatten().next().unwrap();
        let (name, _) = waiting.remove(at);
        (name, turn)
    }

    #[test]
    fn a_client_that_floods_leaves_every_second_turn_to_the_other() {
        let screenings = Screenings::new(1);
        let mut first: Waiting<'_> = Box::pin(screenings.turn(ClientId::from_name("flood")));
        let mut turn = poll(&mut first).unwrap();
        let mut waiting: Vec<_> = (0..100)
            .map(|_| ("flood", enter(&screenings, "flood")))
            .collect();
        waiting.extend((0..5).map(|_| ("quiet", enter(&screenings, "quiet"))));
        let mut order = Vec::new();
        for _ in 0..12 {
            drop(turn);
            let (name, next) = called(&mut waiting);
            (turn, order) = (next, [order, vec![name]].concat());
        }
        let expected = [["flood", "quiet"].repeat(5), vec!["flood", "flood"]].concat();
        assert_eq!(order, expected);
    }

    #[test]
    fn no_more_than_so_many_have_a_turn_and_none_is_lost() {
        let screenings = Screenings::new(3);
        let turn =
            |client| -> Waiting<'_> { Box::pin(screenings.turn(ClientId::from_name(client))) };
        let mut running: Vec<Turn> = ["a", "b", "a"]
            .into_iter()
            .map(|client| poll(&mut turn(client)).unwrap())
            .collect();
        let mut waiting: Vec<_> = ["a", "a", "b", "c", "c"]
            .map(|client| (client, enter(&screenings, client)))
            .into();
        while !waiting.is_empty() {
            running.pop();
            // Exactly one is called for each turn that was given back.
            running.push(called(&mut waiting).1);
        }
        drop(running);
        let state = lock(&screenings.state);
        assert_eq!(
            (state.free, state.order.len(), state.waiting.len()),
            (3, 0, 0)
        );
    }

    #[test]
    fn whoever_is_cancelled_leaves_the_queue_and_whoever_is_called_too_late_passes_the_turn_on() {
        let screenings = Screenings::new(1);
        let mut first: Waiting<'_> = Box::pin(screenings.turn(ClientId::from_name("a")));
        let turn = poll(&mut first).unwrap();
        let (left, kept) = (enter(&screenings, "a"), enter(&screenings, "a"));
        let alone = enter(&screenings, "b");
        drop(left);
        drop(alone);
        {
            let state = lock(&screenings.state);
            assert_eq!(state.order, [ClientId::from_name("a")]);
            assert_eq!(state.waiting.values().map(VecDeque::len).sum::<usize>(), 1);
        }
        let mut last = enter(&screenings, "c");
        // `kept` is called, and dropped before it looks: the turn must go on to `last`.
        drop(turn);
        drop(kept);
        assert!(poll(&mut last).is_some());
    }
}
