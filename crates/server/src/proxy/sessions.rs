//! The sessions of the proxy: what was granted, refused and done in each conversation.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hub::state::SessionDoc;
use ifc::state::MonitorState;
use ifc::{Lattice, Monitor, Receipt, ReceiptId};

use super::kept::Kept;
use super::transcript::Digest;
use crate::asked::Questions;
use crate::locks::lock;
use crate::state::{Beside, SharedSession};

/// Conversations with a session of their own. Above that, sessions in which no request was answered and none is under way
/// are forgotten first, so that a flood needs keys which the upstream accepts; then those without a name; then those of the
/// client with the most sessions.
const CONVERSATIONS: usize = 1_000;

/// Calls of one session that wait for their results; as many as a ledger holds. Beyond it a call stays
/// unknown in the ledger, which costs a word in a question.
const WAITING: usize = 4_096;

/// How long a question waits for a client that is gone. Agents repeat a broken request within seconds, and the model then
/// takes its time once more.
const ORPHANED: Duration = Duration::from_secs(60);

/// How long a conversation without a name is known by its beginning. A client repeats a request within minutes; one that
/// begins alike later is taken for another conversation, and what an old one has done stands in its messages.
const UNNAMED_AGE: Duration = Duration::from_secs(15 * 60);

/// The sessions of the conversations of all clients: of those that they have named by their names, and of the others by
/// how they begin, so that a repeated request does not repeat an irreversible call.
pub(super) struct Sessions {
    kept: Mutex<Kept<Session>>,
    /// A random number, by which this process tells its sessions from those of others.
    seed: u64,
    /// Whether sessions outlive this process.
    are_stored: bool,
}

/// One session: a handle, shared by all requests of its conversation.
#[derive(Clone)]
pub(super) struct Session {
    monitor: Monitor,
    /// Whether the client has named it: only then can a yes be for the session, because conversations that begin alike
    /// share one without a name.
    pub(super) is_named: bool,
    /// The questions of its requests, and of all others of its client: their number is limited, and a client names as many
    /// conversations as it likes.
    pub(super) questions: Arc<Questions>,
    released: Arc<Mutex<Option<Released>>>,
    /// The calls that the client executes, by the name that it knows each under.
    waiting: Arc<Mutex<HashMap<String, Receipt>>>,
    confirmed: Arc<AtomicBool>,
    pub(super) shared: SharedSession,
}

/// The newest answer with calls of a gateway: the digest of its request, and the names of the calls.
struct Released {
    request: Digest,
    names: Vec<String>,
}

impl Sessions {
    pub(super) fn new(seed: u64, are_stored: bool) -> Self {
        let kept = Mutex::new(Kept::new());
        Self {
            kept,
            seed,
            are_stored,
        }
    }

    /// The session of the conversation with this digest, which belongs to this tenant.
    pub(super) fn of(
        &self,
        tenant: Digest,
        conversation: Digest,
        is_named: bool,
        lattice: &Lattice,
    ) -> Session {
        let now = Instant::now();
        let mut kept = lock(&self.kept);
        if let Some(session) = kept.touch(&conversation, age(is_named), now) {
            return session.clone();
        }
        let questions = kept.any_of(&tenant).map_or_else(
            || Arc::new(Questions::orphaned_for(ORPHANED)),
            |own| Arc::clone(&own.questions),
        );
        kept.shrink(CONVERSATIONS - 1, usize::MAX, |session| {
            (session.is_idle_stranger(), !session.is_named)
        });
        let number = match self.are_stored {
            true => leading(&conversation),
            false => kept.uses(),
        };
        // Of a session that was forgotten and is made again, the calls have other names.
        let seed = self.seed.wrapping_add(kept.uses());
        let session = Session::new(is_named, questions, lattice, number, seed);
        kept.insert(conversation, tenant, session.clone(), 1, now);
        session
    }
}

impl Session {
    fn new(
        is_named: bool,
        questions: Arc<Questions>,
        lattice: &Lattice,
        number: u64,
        seed: u64,
    ) -> Self {
        let monitor = Monitor::new().with_seed(seed);
        let monitor = match is_named {
            // Labels outlive a session that is forgotten.
            true => monitor.with_trust_in(lattice, number),
            false => monitor,
        };
        Self {
            shared: SharedSession::new(monitor.clone()),
            monitor,
            is_named,
            questions,
            released: Arc::default(),
            waiting: Arc::default(),
            confirmed: Arc::default(),
        }
    }

    pub(super) fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// The session as one turn has it: without a name, the turns share nothing but what they have done.
    pub(super) fn of_turn(&self) -> Self {
        let mut session = self.clone();
        if !self.is_named {
            session.monitor = Monitor::new().with_ledger_of(&self.monitor);
        }
        session
    }

    pub(super) fn confirm(&self) {
        self.confirmed.store(true, Ordering::Relaxed);
    }

    /// Whether none was, and none is under way.
    fn is_idle_stranger(&self) -> bool {
        let is_idle = Arc::strong_count(&self.confirmed) == 1;
        is_idle && !self.confirmed.load(Ordering::Relaxed)
    }

    /// The client is about to get a call under this name, and executes it.
    pub(super) fn hands_over(&self, name: &str, receipt: Receipt) {
        let mut waiting = self.waiting();
        if waiting.len() < WAITING {
            waiting.insert(name.to_owned(), receipt);
        }
    }

    /// The answer to the request with this digest leaves permits for the calls of these names.
    pub(super) fn releases(&self, request: Digest, names: Vec<String>) {
        *lock(&self.released) = Some(Released { request, names });
    }

    /// The calls of the newest answer that must not run any more: all, if this request had it before or the user has spoken
    /// since; otherwise those that `answered` names.
    pub(super) fn released(
        &self,
        request: &Digest,
        user_speaks: bool,
        answered: &HashSet<&str>,
    ) -> Vec<String> {
        let mut released = lock(&self.released);
        if let Some(own) = released.take_if(|own| own.request == *request || user_speaks) {
            return own.names;
        }
        let names = released.iter().flat_map(|own| &own.names);
        let names = names.filter(|name| answered.contains(name.as_str()));
        names.cloned().collect()
    }

    /// The client brought the results of the calls that it knows under these names, each with whether it is an error.
    pub(super) fn returned<'a>(&self, results: impl IntoIterator<Item = (&'a str, bool)>) {
        let mut waiting = self.waiting();
        for (name, is_error) in results {
            let Some(receipt) = waiting.remove(name) else {
                continue;
            };
            // Another replica or the gateway may have sent it.
            receipt.sent();
            match is_error {
                false => receipt.answered(),
                true => receipt.failed(),
            }
        }
    }

    /// The permits of these calls were taken back from where they were left.
    pub(super) fn withdrawn(&self, names: &[String]) {
        let mut waiting = self.waiting();
        for name in names {
            if let Some(receipt) = waiting.remove(name) {
                receipt.withdrawn_tcb();
            }
        }
    }

    /// The client does not get the calls of these names after all.
    pub(super) fn takes_back<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut waiting = self.waiting();
        names.into_iter().for_each(|name| _ = waiting.remove(name));
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Receipt>> {
        lock(&self.waiting)
    }
}

impl Beside for Session {
    fn document(&self, monitor: MonitorState) -> SessionDoc {
        let calls = monitor.ledger.calls.iter().map(|call| call.id);
        let counted = monitor.ledger.counted.iter().map(|call| call.id);
        // No decision depends on a call that is not in the ledger.
        let entered: BTreeSet<ReceiptId> = calls.chain(counted).collect();
        let waiting = self.waiting();
        let waiting = waiting.iter().map(|(name, it)| (name.clone(), it.id()));
        let waiting = waiting.filter(|(_, id)| entered.contains(id)).collect();
        let released = lock(&self.released);
        let released = released.as_ref();
        SessionDoc {
            at: 0,
            monitor,
            waiting,
            released: released.map(|it| (it.request, it.names.clone())),
        }
    }

    fn age(&self) -> Duration {
        age(self.is_named)
    }

    fn absorb(&self, document: SessionDoc) {
        let mut waiting = self.waiting();
        // Those whose results came are marked as answered again, since a client sends all results with each request.
        for (name, id) in document.waiting {
            if let Some(receipt) = self.monitor.receipt(id) {
                waiting.entry(name).or_insert(receipt);
            }
        }
        drop(waiting);
        if let Some((request, names)) = document.released {
            *lock(&self.released) = Some(Released { request, names });
        }
    }
}

/// How long a conversation is known that has no new request.
fn age(is_named: bool) -> Duration {
    match is_named {
        true => Duration::MAX,
        false => UNNAMED_AGE,
    }
}

/// A number that is as hard to guess as the digest.
fn leading(digest: &Digest) -> u64 {
    let leading = digest.first_chunk().copied();
    u64::from_be_bytes(leading.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: usize) -> Digest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        digest
    }

    /// Whether the session is the one that was marked.
    fn is_marked(session: &Session) -> bool {
        !session.waiting().is_empty()
    }

    fn mark(session: &Session) {
        mark_as(session, "call");
    }

    fn mark_as(session: &Session, name: &str) {
        use ifc::{Arguments, Call, Decision, History, Label};
        let call = Call {
            app: "app".to_owned(),
            tool: name.to_owned(),
            arguments: Arguments::none(),
            label: Label::bottom(),
        };
        let decision = session
            .monitor()
            .decide(&Anything, &History::default(), call);
        let Decision::Allow(permit) = decision else {
            panic!("nothing stands in its way")
        };
        session.hands_over(name, permit.receipt());
    }

    struct Anything;

    impl ifc::Policy for Anything {
        fn rule(&self, _: &ifc::Sink<'_>) -> Result<ifc::Rule, ifc::PolicyError> {
            let (effect, limit) = (ifc::Effect::Irreversible, ifc::Label::top());
            Ok(ifc::Rule::asking("anything", effect, limit))
        }

        fn label_result(&self, _: &ifc::Call, result: String, _: bool) -> ifc::Labeled {
            ifc::Labeled::unknown(result)
        }
    }

    #[test]
    fn questions_are_counted_by_client_and_not_by_conversation() {
        let (sessions, lattice) = (Sessions::new(1, false), Lattice::four_point());
        let of = |tenant, number| sessions.of(digest(tenant), digest(number), true, &lattice);
        let first = of(1, 10);
        assert!(Arc::ptr_eq(&first.questions, &of(1, 11).questions));
        assert!(!Arc::ptr_eq(&first.questions, &of(2, 12).questions));
    }

    #[test]
    fn clients_that_were_never_answered_forget_nothing_of_one_that_was() {
        let sessions = Sessions::new(1, false);
        let lattice = Lattice::four_point();
        let client = digest(1);
        for number in 0..3 {
            let session = sessions.of(client, digest(number), true, &lattice);
            mark(&session);
            session.confirm();
        }
        // Nothing was answered in this one yet.
        let under_way = sessions.of(client, digest(3), true, &lattice);
        mark(&under_way);
        for number in 4..3 * CONVERSATIONS {
            sessions.of(digest(number), digest(number), true, &lattice);
        }
        for number in 0..4 {
            let session = sessions.of(client, digest(number), true, &lattice);
            assert!(is_marked(&session), "{number}");
        }
    }

    #[tokio::test]
    async fn an_unnamed_conversation_is_stored_as_long_as_it_is_kept() {
        use crate::state::{StateHandle, now};
        let (sessions, lattice) = (Sessions::new(1, true), Lattice::four_point());
        let age = u64::try_from(UNNAMED_AGE.as_millis()).unwrap();
        let minute = 60_000;
        for (number, is_named, ago, is_known) in [
            (1, false, age - minute, true),
            (2, false, age + minute, false),
            (3, true, age + minute, true),
        ] {
            let state = StateHandle::new(store::Store::in_memory().unwrap().state());
            let log = state.log(digest(1), || None);
            let of =
                |sessions: &Sessions| sessions.of(digest(1), digest(number), is_named, &lattice);
            let first = of(&sessions);
            mark(&first);
            let mut document = first.document(first.monitor.snapshot());
            document.at = now().millis().unsigned_abs() - ago;
            let write = |base, body| store::Commit {
                session: Some(store::SessionWrite {
                    key: digest(number),
                    base,
                    body,
                }),
                ..store::Commit::new(now())
            };
            let old = write(0, document.write(&lattice));
            state.commit(&log, old).await.unwrap();
            let load = async |session: &Session| {
                let loaded = state.load(&log, Some(&digest(number)), |_| Ok(())).await;
                let document = loaded.unwrap();
                let absorbed = session.shared.absorb(document.as_ref(), session, &lattice);
                absorbed.unwrap();
            };
            let later = of(&Sessions::new(100, true));
            load(&later).await;
            assert_eq!(is_marked(&later), is_known, "{number}");
            // What it does now is written in the place of what does not count, and does.
            mark_as(&later, "another");
            let (place, commit) = ((&state, &*log), store::Commit::new(now()));
            let shared = &later.shared;
            let written =
                shared.commit(place, digest(number), commit, Vec::new(), &later, &lattice);
            written.await.unwrap();
            let last = of(&Sessions::new(200, true));
            load(&last).await;
            let expected = 1 + usize::from(is_known);
            assert_eq!(last.waiting().len(), expected, "{number}");
        }
    }
}
