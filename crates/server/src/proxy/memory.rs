//! What really happened in the conversations that clients hold.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hub::Refinement;
use ifc::{Approval, Author, Call, CallId, History, Label, Labeled, Message, PastCall};

use super::transcript::{Chain, Digest, canonical};

/// Bounds of what a proxy remembers. What is forgotten gets the most restrictive label, so a
/// tight bound costs questions, not security.
///
/// Where it becomes too much, the client that has most gives way, with what it used least recently:
/// nobody can make the proxy forget what belongs to quieter clients. Clients are told apart by their
/// token, or by their key where there are no tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Bytes of text.
    pub bytes: usize,
    /// Answers.
    pub entries: usize,
    /// How long an answer is remembered after it was last used.
    pub age: Duration,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            // A long agent run is below a megabyte: some hundred of them at once.
            bytes: 256 << 20,
            // As many as a hundred such runs have steps, with room.
            entries: 100_000,
            // A conversation that was left in the evening goes on in the morning.
            age: Duration::from_secs(24 * 3600),
        }
    }
}

/// The steps behind one message that a client was sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Taken {
    pub(super) steps: Vec<Step>,
    /// What was refused on the way; nobody is asked about it again in this turn.
    pub(super) refused: Vec<Call>,
}

/// One message of the history that the client does not hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// What the model said, as it came.
    Said {
        label: Label,
        /// Whether labels of what it was made from have fallen since, so that nobody knows any more what
        /// that was.
        fixed: bool,
        text: Labeled,
        calls: Vec<RememberedCall>,
    },
    /// What the hub answered to a refused call, which is the `call`-th of all these steps.
    Note {
        label: Label,
        call: usize,
        text: String,
    },
    /// What an earlier step was made from turned out to be less.
    Refined(Refinement),
}

/// A call, refused or not.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RememberedCall {
    pub(super) tool: String,
    pub(super) arguments: Labeled,
    /// The id under which the client knows it; refused ones it does not know.
    pub(super) client: Option<String>,
    /// The id that the upstream gave it.
    pub(super) upstream: Option<String>,
    /// What the user's yes to it endorsed.
    pub(super) approval: Option<Arc<Approval>>,
}

/// The ids that an upstream gave to the calls of one turn.
#[derive(Debug, Default)]
pub(super) struct UpstreamIds {
    /// Of the completion under way, by position.
    newest: Vec<Option<String>>,
    /// Tool, canonical arguments and id of each call.
    all: Vec<(String, String, String)>,
}

impl UpstreamIds {
    /// Another completion begins.
    pub(super) fn begin(&mut self) {
        self.newest.clear();
    }

    pub(super) fn learn(&mut self, position: usize, id: &str) {
        if self.newest.len() <= position {
            self.newest.resize(position + 1, None);
        }
        if let Some(slot) = self.newest.get_mut(position) {
            *slot = Some(id.to_owned());
        }
    }

    /// The completion had these calls, by tool and arguments.
    pub(super) fn end<'a>(&mut self, calls: impl Iterator<Item = (&'a str, &'a str)>) {
        let with_ids = calls.zip(self.newest.drain(..));
        self.all
            .extend(with_ids.filter_map(|((tool, arguments), id)| {
                Some((tool.to_owned(), canonical(arguments), id?))
            }));
    }

    /// The id of a call that the machine took. Of two equal ones each has its own.
    pub(super) fn of(&mut self, tool: &str, arguments: &str) -> Option<String> {
        if self.all.is_empty() {
            return None;
        }
        let arguments = canonical(arguments);
        let mut all = self.all.iter();
        let at = all.position(|(known, with, _)| known == tool && *with == arguments)?;
        Some(self.all.remove(at).2)
    }
}

/// What is remembered of one message.
#[derive(Debug, Clone)]
pub(super) enum Recalled {
    /// What happened.
    Exactly(Arc<Taken>),
    /// The same words came about in several ways: only the words are sure, under the join of all
    /// labels.
    Ambiguous(Label),
    /// Nothing.
    Nothing,
}

impl Taken {
    /// What a turn appended to the first `from` messages of its history. `clients` are the ids of
    /// the calls that were handed over, `upstream` those that the model's server gave.
    pub(super) fn of(
        history: &History,
        from: usize,
        refinements: &[Refinement],
        clients: &HashMap<CallId, String>,
        upstream: &mut UpstreamIds,
        refused: Vec<Call>,
    ) -> Self {
        let mut order: Vec<CallId> = Vec::new();
        let mut steps = Vec::new();
        let mut refinements = refinements.iter().cloned().peekable();
        for (at, (label, message)) in history.messages().enumerate().skip(from) {
            while let Some(refinement) = refinements.next_if(|next| next.after <= at) {
                steps.push(Step::Refined(refinement));
            }
            match message {
                Message::Assistant { calls, .. } => {
                    order.extend(calls.iter().map(|call| call.id));
                    let mut came = history.as_they_came(at).into_iter();
                    let text = came.next().unwrap_or_else(|| Labeled::trusted_tcb(""));
                    let past_calls = calls.iter().zip(came).map(|(call, arguments)| {
                        let upstream = upstream_id(upstream, label, call);
                        RememberedCall {
                            tool: call.tool.clone(),
                            arguments,
                            client: clients.get(&call.id).cloned(),
                            upstream,
                            approval: call.approval.clone(),
                        }
                    });
                    steps.push(Step::Said {
                        label: label.clone(),
                        fixed: refinements.peek().is_some(),
                        text,
                        calls: past_calls.collect(),
                    });
                }
                Message::Result {
                    call,
                    content,
                    author: Author::Hub,
                    ..
                } => {
                    if let Some(call) = order.iter().position(|id| id == call) {
                        steps.push(Step::Note {
                            label: label.clone(),
                            call,
                            text: content.reveal_tcb().to_owned(),
                        });
                    }
                }
                // The client's messages are all before `from`, and the proxy remembers nothing itself.
                Message::System(_)
                | Message::User(_)
                | Message::Memory(_)
                | Message::Result { .. } => {}
            }
        }
        steps.extend(refinements.map(Step::Refined));
        Self { steps, refused }
    }

    /// The join of everything: what may have influenced the words that the client got.
    pub(super) fn label(&self) -> Label {
        let labels = self.steps.iter().map(|step| match step {
            Step::Said {
                label, text, calls, ..
            } => {
                let calls = calls.iter().map(|call| call.arguments.label());
                calls.fold(label.join(&text.label()), |joined, one| joined.join(&one))
            }
            Step::Note { label, .. } => label.clone(),
            Step::Refined(_) => Label::bottom(),
        });
        labels.fold(Label::bottom(), |joined, label| joined.join(&label))
    }

    /// What the model said: texts and arguments, each as labelled as its step.
    pub(super) fn texts(&self) -> impl Iterator<Item = Labeled> {
        let steps = self.steps.iter().filter_map(|step| match step {
            Step::Said {
                label, text, calls, ..
            } => Some((label, text, calls)),
            Step::Note { .. } | Step::Refined(_) => None,
        });
        steps.flat_map(|(label, text, calls)| {
            let arguments = calls.iter().map(|call| &call.arguments);
            let all = std::iter::once(text).chain(arguments);
            all.map(|text| text.clone().restrict(label))
        })
    }

    fn bytes(&self) -> usize {
        let steps = self.steps.iter().map(|step| match step {
            Step::Said { text, calls, .. } => {
                let calls = calls.iter();
                let calls = calls.map(|call| {
                    let id = call.upstream.as_ref().map_or(0, String::len);
                    let approval = call.approval.as_ref().map_or(0, |own| own.bytes());
                    call.tool.len() + call.arguments.len() + id + approval + OVERHEAD
                });
                text.len() + calls.sum::<usize>()
            }
            Step::Note { text, .. } => text.len(),
            Step::Refined(_) => 0,
        });
        let refused = self.refused.iter();
        let refused = refused.map(|call| call.tool.len() + call.arguments.len());
        let beside = refused.sum::<usize>();
        steps.map(|bytes| bytes + OVERHEAD).sum::<usize>() + beside + OVERHEAD
    }
}

/// The id that the upstream gave a call, unless a part of the call was made above its step: then the id
/// comes from there too.
fn upstream_id(upstream: &mut UpstreamIds, label: &Label, call: &PastCall) -> Option<String> {
    let id = upstream.of(&call.tool, call.arguments.reveal_tcb());
    id.filter(|_| call.arguments.label().flows_to(label))
}

/// About what an entry, a step or a call takes beside its text.
const OVERHEAD: usize = 256;

/// Remembers answers by the digest of the conversation that ends in them.
pub(super) struct Memory {
    limits: MemoryLimits,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    entries: HashMap<Digest, Entry>,
    /// Least recently used first.
    order: BTreeMap<u64, Digest>,
    tenants: HashMap<Digest, Tenant>,
    /// The tenants by their bytes; the one that has most is the last.
    sizes: BTreeSet<(usize, Digest)>,
    bytes: usize,
    tick: u64,
}

/// What belongs to one client.
#[derive(Default)]
struct Tenant {
    /// Of its entries, least recently used first.
    ticks: BTreeSet<u64>,
    bytes: usize,
}

struct Entry {
    recalled: Recalled,
    tenant: Digest,
    bytes: usize,
    tick: u64,
    used: Instant,
}

impl Memory {
    pub(super) fn new(limits: MemoryLimits) -> Self {
        let kept = Mutex::default();
        Self { limits, kept }
    }

    pub(super) fn recall(&self, digest: &Digest) -> Recalled {
        self.recall_at(digest, Instant::now())
    }

    fn recall_at(&self, digest: &Digest, now: Instant) -> Recalled {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.forget_old(now, self.limits.age);
        kept.touch(digest, now)
            .map_or(Recalled::Nothing, |entry| entry.recalled.clone())
    }

    /// Remembers how a message came about. Two ways make it ambiguous.
    pub(super) fn remember(&self, chain: &Chain, taken: Taken) {
        self.remember_at(chain.tenant(), chain.digest(), taken, Instant::now());
    }

    fn remember_at(&self, tenant: Digest, digest: Digest, taken: Taken, now: Instant) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.forget_old(now, self.limits.age);
        match kept.touch(&digest, now) {
            Some(entry) => {
                let label = match &entry.recalled {
                    // The same again, as by a retry, says nothing new.
                    Recalled::Exactly(known) if **known == taken => return,
                    Recalled::Exactly(known) => known.label(),
                    Recalled::Ambiguous(label) => label.clone(),
                    Recalled::Nothing => Label::top(),
                };
                // A client that sends these words back cannot say which of the two ways it means.
                entry.recalled = Recalled::Ambiguous(label.join(&taken.label()));
            }
            None => kept.insert(tenant, digest, taken, now),
        }
        while kept.entries.len() > self.limits.entries || kept.bytes > self.limits.bytes {
            // From whoever has most: a client that fills the memory forgets its own conversations and nobody else's.
            if !kept.forget_of_largest() {
                break;
            }
        }
    }
}

impl Kept {
    fn insert(&mut self, tenant: Digest, digest: Digest, taken: Taken, now: Instant) {
        self.tick += 1;
        let entry = Entry {
            bytes: taken.bytes(),
            recalled: Recalled::Exactly(Arc::new(taken)),
            tenant,
            tick: self.tick,
            used: now,
        };
        let (bytes, tick) = (entry.bytes, entry.tick);
        self.bytes += bytes;
        self.order.insert(tick, digest);
        self.entries.insert(digest, entry);
        self.change(tenant, |tenant| {
            tenant.ticks.insert(tick);
            tenant.bytes += bytes;
        });
    }

    /// The entry, which is now the most recently used one.
    fn touch(&mut self, digest: &Digest, now: Instant) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(digest)?;
        self.tick += 1;
        self.order.remove(&entry.tick);
        self.order.insert(self.tick, *digest);
        if let Some(tenant) = self.tenants.get_mut(&entry.tenant) {
            tenant.ticks.remove(&entry.tick);
            tenant.ticks.insert(self.tick);
        }
        (entry.tick, entry.used) = (self.tick, now);
        Some(entry)
    }

    fn forget_old(&mut self, now: Instant, age: Duration) {
        // In the order of their last use, so the first that is young enough ends the search.
        while let Some((tick, digest)) = self.order.first_key_value()
            && let Some(entry) = self.entries.get(digest)
            && now.saturating_duration_since(entry.used) > age
        {
            self.forget(*tick);
        }
    }

    /// Whether there was anything to forget.
    fn forget_of_largest(&mut self) -> bool {
        let largest = self.sizes.last().map(|(_, tenant)| tenant);
        let largest = largest.and_then(|tenant| self.tenants.get(tenant));
        match largest.and_then(|tenant| tenant.ticks.first()) {
            Some(tick) => self.forget(*tick),
            None => false,
        }
    }

    fn forget(&mut self, tick: u64) -> bool {
        let digest = self.order.remove(&tick);
        let Some(entry) = digest.and_then(|digest| self.entries.remove(&digest)) else {
            return false;
        };
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        self.change(entry.tenant, |tenant| {
            tenant.ticks.remove(&tick);
            tenant.bytes = tenant.bytes.saturating_sub(entry.bytes);
        });
        true
    }

    /// Changes what a tenant has, and its place among the others.
    fn change(&mut self, name: Digest, change: impl FnOnce(&mut Tenant)) {
        let tenant = self.tenants.entry(name).or_default();
        self.sizes.remove(&(tenant.bytes, name));
        change(tenant);
        if tenant.ticks.is_empty() {
            self.tenants.remove(&name);
        } else {
            self.sizes.insert((tenant.bytes, name));
        }
    }
}

#[cfg(test)]
mod tests {
    use ifc::{Dimension, Lattice};

    use super::*;

    fn said(text: &str, label: Label) -> Taken {
        Taken {
            steps: vec![Step::Said {
                label: label.clone(),
                fixed: false,
                text: Labeled::label_tcb(text, label),
                calls: Vec::new(),
            }],
            refused: Vec::new(),
        }
    }

    const ONE: Digest = [1; 32];
    const OTHER: Digest = [2; 32];

    fn known(memory: &Memory, digest: Digest, now: Instant) -> bool {
        matches!(memory.recall_at(&digest, now), Recalled::Exactly(_))
    }

    #[test]
    fn two_ways_to_the_same_words_are_ambiguous_for_ever() {
        let (memory, now) = (Memory::new(MemoryLimits::default()), Instant::now());
        let lattice = Lattice::four_point();
        let low = lattice.whole(Dimension::Integrity);
        let high = lattice.whole(Dimension::Confidentiality);
        memory.remember_at(ONE, [1; 32], said("x", low.clone()), now);
        memory.remember_at(ONE, [1; 32], said("x", low.clone()), now);
        assert!(matches!(memory.recall(&[1; 32]), Recalled::Exactly(_)));
        memory.remember_at(ONE, [1; 32], said("x", high.clone()), now);
        memory.remember_at(ONE, [1; 32], said("x", low.clone()), now);
        let Recalled::Ambiguous(label) = memory.recall(&[1; 32]) else {
            panic!("not ambiguous");
        };
        assert_eq!(label, low.join(&high));
        assert!(matches!(memory.recall(&[2; 32]), Recalled::Nothing));
    }

    #[test]
    fn the_least_recently_used_is_forgotten_first() {
        let limits = MemoryLimits {
            entries: 3,
            ..MemoryLimits::default()
        };
        let memory = Memory::new(limits);
        let now = Instant::now();
        for number in 0..3 {
            memory.remember_at(ONE, [number; 32], said("x", Label::bottom()), now);
        }
        assert!(known(&memory, [0; 32], now));
        memory.remember_at(ONE, [3; 32], said("x", Label::bottom()), now);
        let left: Vec<bool> = (0..4).map(|n| known(&memory, [n; 32], now)).collect();
        assert_eq!(left, [true, false, true, true]);
    }

    #[test]
    fn bytes_and_age_are_bounded() {
        let limits = MemoryLimits {
            bytes: 10_000,
            age: Duration::from_secs(10),
            ..MemoryLimits::default()
        };
        let memory = Memory::new(limits);
        let now = Instant::now();
        for number in 0..100 {
            let text = "x".repeat(1000);
            memory.remember_at(ONE, [number; 32], said(&text, Label::bottom()), now);
        }
        let kept = memory.kept.lock().unwrap();
        assert!(kept.bytes <= 10_000 && !kept.entries.is_empty());
        assert_eq!(kept.entries.len(), kept.order.len());
        drop(kept);
        // One that is larger than everything is not kept at all.
        let huge = "x".repeat(20_000);
        memory.remember_at(ONE, [200; 32], said(&huge, Label::bottom()), now);
        assert!(!known(&memory, [200; 32], now));
        memory.remember_at(ONE, [201; 32], said("x", Label::bottom()), now);
        assert!(known(&memory, [201; 32], now + Duration::from_secs(10)));
        assert!(!known(&memory, [201; 32], now + Duration::from_secs(21)));
        let kept = memory.kept.lock().unwrap();
        assert_eq!(kept.bytes, 0);
        assert!(kept.tenants.is_empty() && kept.sizes.is_empty() && kept.order.is_empty());
    }

    #[test]
    fn a_client_that_says_much_forgets_its_own_and_nobody_elses() {
        let limits = MemoryLimits {
            entries: 10,
            bytes: 20_000,
            ..MemoryLimits::default()
        };
        let memory = Memory::new(limits);
        let now = Instant::now();
        let known = |digest: u8| known(&memory, [digest; 32], now);
        memory.remember_at(OTHER, [0; 32], said("x", Label::bottom()), now);
        memory.remember_at(OTHER, [1; 32], said("x", Label::bottom()), now);
        // Many answers, and large ones, of which one is larger than everything.
        for digest in 10..100 {
            memory.remember_at(ONE, [digest; 32], said("x", Label::bottom()), now);
        }
        assert!(known(0) && known(1));
        assert_eq!((10..100).filter(|digest| known(*digest)).count(), 8);
        for (digest, size) in (100..120).zip((1_000..).step_by(1_500)) {
            let text = "x".repeat(size);
            memory.remember_at(ONE, [digest; 32], said(&text, Label::bottom()), now);
        }
        assert!(known(0) && known(1));
        // The other one can take as much as the first has.
        for digest in 120..140 {
            memory.remember_at(OTHER, [digest; 32], said("x", Label::bottom()), now);
        }
        assert!((120..140).filter(|digest| known(*digest)).count() >= 5);
        let kept = memory.kept.lock().unwrap();
        let sum =
            |tenants: &HashMap<Digest, Tenant>| tenants.values().map(|t| t.bytes).sum::<usize>();
        assert_eq!(sum(&kept.tenants), kept.bytes);
        assert_eq!(kept.sizes.len(), kept.tenants.len());
        let ticks = kept.tenants.values().map(|tenant| tenant.ticks.len());
        assert_eq!(ticks.sum::<usize>(), kept.entries.len());
    }
}
