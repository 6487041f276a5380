//! All schedules of three requests of one conversation at two replicas that propose an equal irreversible call: a request, the
//! same once more from a client that waits no longer, and another one. A replica may crash between any two steps, and a
//! write may fail with or without having been written. In each case one call at most runs without a question.
//!
//! The steps between which others come are those that the product has: read, decide, make the document, write, act on what
//! came of it. States that were seen are not gone through again.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use hub::state::{Attempt, SessionDoc, Step, read_permit, write_permit};
use ifc::{
    Answer, Arguments, Call, Decision, History, Label, Lattice, Monitor, Permit, Question,
    ReceiptId,
};

use super::twins::Anything;

/// What is modelled, and what is wrong in it.
#[derive(Clone, Copy, Default)]
struct Model {
    /// Whether the call is made at another front, for which its permit is left.
    at_gateway: bool,
    /// The replicas of the three requests.
    at: [usize; 3],
    /// Whether the user says yes to what the third request asks.
    says_yes: bool,
    /// A document is written over any version.
    overwrites: bool,
    /// A request looks whether its calls are late before it makes the document.
    looks_before: bool,
    /// Permits that were left count as not run although the write may have been done.
    drops_left: bool,
    /// Permits that are gone count as taken back.
    takes_all: bool,
    /// What the version after it brought is not looked at.
    trusts_itself: bool,
}

/// The store: each of its operations is atomic.
#[derive(Default)]
struct Store {
    document: Option<(u64, String)>,
    /// Permits for the other front, by name, oldest first.
    permits: BTreeMap<String, String>,
}

/// The working copy of one process.
struct Replica {
    monitor: Monitor,
    base: u64,
    released: Option<([u8; 32], Vec<String>)>,
}

/// Where a request is.
enum At {
    Begin,
    /// It has read this.
    Loaded(Option<(u64, String)>),
    /// Its calls of before are taken back if these were.
    Withdrawn(Vec<String>),
    /// Nothing is to be done but to decide.
    Ready,
    /// The user is asked.
    Asks(Box<Question>),
    /// It has a permit.
    Decided(Permit, Attempt),
    /// It has looked, which is a mistake before it has the document.
    Looked(Permit, Attempt),
    /// It has the document, made from this version, and what it leaves for the other front.
    Made(Permit, Attempt, u64, String),
    /// This came of the write; `None` if nothing is known.
    Written(Permit, Attempt, Option<Result<u64, (u64, String)>>),
    End,
}

struct World {
    model: Model,
    store: Store,
    replicas: [Replica; 2],
    requests: [At; 3],
    /// Whether the permit of a request comes from an answer of the user.
    asked: [bool; 3],
    crashes: usize,
    failures: usize,
    /// The calls that ran, or that a client may make, without a question.
    runs: usize,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Go(usize),
    /// The write of this request fails, having been done or not.
    Fail(usize, bool),
    Crash(usize),
    /// The agent makes the call at the other front.
    Redeem,
}

fn lattice() -> Lattice {
    Lattice::four_point()
}

fn call() -> Call {
    Call {
        app: "bank".to_owned(),
        tool: "pay".to_owned(),
        arguments: Arguments::none(),
        label: Label::bottom(),
    }
}

/// The digest of a request: the second is the first once more.
fn request(number: usize) -> [u8; 32] {
    [u8::from(number == 2); 32]
}

impl Replica {
    fn new(seed: u64) -> Self {
        Self {
            monitor: Monitor::new().with_seed(seed),
            base: 0,
            released: None,
        }
    }

    fn absorb(&mut self, document: Option<&(u64, String)>) {
        let Some((version, body)) = document.filter(|(version, _)| *version > self.base) else {
            return;
        };
        let read = SessionDoc::read(body, &lattice()).unwrap();
        self.monitor.absorb_tcb(read.monitor);
        self.released = read.released;
        self.base = *version;
    }

    fn document(&self) -> SessionDoc {
        SessionDoc {
            at: 0,
            monitor: self.monitor.snapshot(),
            waiting: BTreeMap::new(),
            released: self.released.clone(),
        }
    }

    fn decide(&self) -> Decision {
        self.monitor.decide(&Anything, &History::default(), call())
    }
}

/// The names that the permits of a request have in the store. They have the ids of their calls.
fn name(id: ReceiptId) -> String {
    format!("{}-{}", id.seed, id.number)
}

fn id(name: &str) -> ReceiptId {
    let (seed, number) = name.split_once('-').unwrap();
    ReceiptId {
        seed: seed.parse().unwrap(),
        number: number.parse().unwrap(),
    }
}

impl World {
    fn new(model: Model) -> Self {
        Self {
            model,
            store: Store::default(),
            replicas: [Replica::new(1), Replica::new(2)],
            requests: [At::Begin, At::Begin, At::Begin],
            asked: [false; 3],
            crashes: 0,
            failures: 0,
            runs: 0,
        }
    }

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (number, at) in self.requests.iter().enumerate() {
            if !matches!(at, At::End) {
                actions.push(Action::Go(number));
            }
            if self.failures == 0 && matches!(at, At::Made(..)) {
                actions.extend([true, false].map(|done| Action::Fail(number, done)));
            }
        }
        // Nothing is lost by a crash before or after all of it.
        let is_idle = actions.is_empty();
        if !self.store.permits.is_empty() {
            actions.push(Action::Redeem);
        }
        if self.crashes == 0 && !is_idle {
            actions.extend([0, 1].map(Action::Crash));
        }
        actions
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Go(number) => self.go(number),
            Action::Fail(number, is_done) => {
                self.failures += 1;
                let at = std::mem::replace(&mut self.requests[number], At::End);
                let At::Made(permit, attempt, base, body) = at else {
                    panic!("it does not write");
                };
                if is_done {
                    let _ = self.write(&permit, base, body);
                }
                self.requests[number] = At::Written(permit, attempt, None);
            }
            Action::Crash(replica) => {
                self.crashes += 1;
                self.replicas[replica] = Replica::new(3 + u64::try_from(replica).unwrap());
                for (number, at) in self.requests.iter_mut().enumerate() {
                    if self.model.at[number] == replica && !matches!(at, At::Begin) {
                        *at = At::End;
                    }
                }
            }
            Action::Redeem => {
                let (_, text) = self.store.permits.pop_first().unwrap();
                assert!(
                    read_permit(&text, &lattice())
                        .unwrap()
                        .spend()
                        .same(&call())
                );
                self.runs += 1;
            }
        }
        assert!(self.runs <= 1, "a call ran twice without a question");
    }

    fn go(&mut self, number: usize) {
        let replica = self.model.at[number];
        let at = std::mem::replace(&mut self.requests[number], At::End);
        self.requests[number] = match at {
            At::Begin => At::Loaded(self.store.document.clone()),
            At::Loaded(document) => {
                let own = &mut self.replicas[replica];
                own.absorb(document.as_ref());
                let mine = |(of, _): &mut ([u8; 32], _)| *of == request(number);
                match own.released.take_if(mine) {
                    Some((_, names)) => At::Withdrawn(names),
                    None => At::Ready,
                }
            }
            At::Withdrawn(names) => {
                let all = self.model.takes_all;
                let gone = names
                    .into_iter()
                    .filter(|name| self.store.permits.remove(name).is_some() || all);
                for name in gone {
                    let receipt = self.replicas[replica].monitor.receipt(id(&name));
                    receipt.unwrap().withdrawn_tcb();
                }
                At::Ready
            }
            At::Ready => match self.replicas[replica].decide() {
                Decision::Allow(permit) => self.begin(number, permit),
                Decision::Ask(question) if self.model.says_yes && number == 2 => {
                    At::Asks(Box::new(question))
                }
                Decision::Ask(_) => At::End,
                Decision::Deny(denial) => panic!("{denial}"),
            },
            At::Asks(question) => {
                self.asked[number] = true;
                let own = &self.replicas[replica].monitor;
                let permit = own.settle_tcb(*question, Answer::Once).unwrap();
                self.begin(number, permit)
            }
            At::Decided(permit, attempt) if !self.model.looks_before => {
                self.made(number, permit, attempt, true)
            }
            At::Decided(permit, mut attempt) => match attempt.poll() {
                Step::Write => At::Looked(permit, attempt),
                Step::Release | Step::GiveUp => At::End,
            },
            At::Looked(permit, attempt) => self.made(number, permit, attempt, false),
            At::Made(permit, attempt, base, body) => {
                let written = self.write(&permit, base, body);
                At::Written(permit, attempt, Some(written))
            }
            At::Written(permit, mut attempt, Some(Ok(version))) => {
                let own = &mut self.replicas[replica];
                own.base = own.base.max(version);
                attempt.handle_written();
                assert_eq!(attempt.poll(), Step::Release);
                match self.model.at_gateway && !self.asked[number] {
                    true => _ = permit.leave(),
                    // From here on the client may make the call, whether the answer reaches it or not.
                    false => {
                        permit.spend();
                        self.runs += usize::from(!self.asked[number]);
                    }
                }
                At::End
            }
            At::Written(permit, attempt, Some(Err(document))) => {
                self.replicas[replica].absorb(Some(&document));
                At::Decided(permit, attempt)
            }
            At::Written(permit, _, None) => {
                if self.model.at_gateway && !self.model.drops_left {
                    let _ = permit.leave();
                }
                At::End
            }
            At::End => panic!("it has ended"),
        };
    }

    fn begin(&mut self, number: usize, permit: Permit) -> At {
        if self.model.at_gateway && !self.asked[number] {
            let names = vec![name(permit.receipt().id())];
            self.replicas[self.model.at[number]].released = Some((request(number), names));
        }
        let calls = match self.model.trusts_itself {
            true => Vec::new(),
            false => vec![permit.receipt()],
        };
        At::Decided(permit, Attempt::new(calls))
    }

    /// The document is made, and only then the request looks whether its calls are late.
    fn made(&self, number: usize, permit: Permit, mut attempt: Attempt, looks: bool) -> At {
        let own = &self.replicas[self.model.at[number]];
        let (base, body) = (own.base, own.document().write(&lattice()));
        match looks && attempt.poll() != Step::Write {
            // The permit is dropped.
            true => At::End,
            false => At::Made(permit, attempt, base, body),
        }
    }

    /// One transaction: the document over its version, and the permits.
    fn write(&mut self, permit: &Permit, base: u64, body: String) -> Result<u64, (u64, String)> {
        let known = self.store.document.as_ref();
        let version = known.map_or(0, |(version, _)| *version);
        if version != base && !self.model.overwrites {
            return Err(known.unwrap().clone());
        }
        // What was written once is not lost.
        if let Some((_, old)) = known {
            let calls = |text: &str| {
                SessionDoc::read(text, &lattice())
                    .unwrap()
                    .monitor
                    .ledger
                    .calls
            };
            let new = calls(&body);
            for call in calls(old) {
                let same = new.iter().find(|it| it.id == call.id);
                assert!(
                    same.is_some_and(|it| it.state >= call.state),
                    "a call is lost"
                );
            }
        }
        let released = SessionDoc::read(&body, &lattice()).unwrap().released;
        let own = name(permit.receipt().id());
        if released.is_some_and(|(_, names)| names.contains(&own)) {
            self.store
                .permits
                .insert(own, write_permit(permit, &lattice()));
        }
        self.store.document = Some((version + 1, body));
        Ok(version + 1)
    }

    /// A request that comes last can go on, with a question at most.
    fn finish(&mut self) {
        let mut late = Replica::new(9);
        late.absorb(self.store.document.as_ref());
        let permit = match late.decide() {
            Decision::Allow(permit) => {
                assert_eq!(self.runs, 0, "a call that ran is not asked about");
                permit
            }
            Decision::Ask(question) => late.monitor.settle_tcb(question, Answer::Once).unwrap(),
            Decision::Deny(denial) => panic!("{denial}"),
        };
        let mut attempt = Attempt::new(vec![permit.receipt()]);
        let body = late.document().write(&lattice());
        assert_eq!(attempt.poll(), Step::Write);
        assert!(self.write(&permit, late.base, body).is_ok());
    }

    fn print(&self) -> u64 {
        let mut text = format!(
            "{:?} {:?} {} {} {} {:?}",
            self.store.document,
            self.store.permits,
            self.crashes,
            self.failures,
            self.runs,
            self.asked
        );
        for replica in &self.replicas {
            let document = replica.document().write(&lattice());
            let _ = write!(text, "|{} {document}", replica.base);
        }
        for at in &self.requests {
            let (kind, permit, rest) = match at {
                At::Begin => (0, None, String::new()),
                At::Loaded(document) => (1, None, format!("{document:?}")),
                At::Withdrawn(names) => (2, None, format!("{names:?}")),
                At::Ready => (3, None, String::new()),
                At::Asks(_) => (4, None, String::new()),
                At::Decided(permit, attempt) => (5, Some(permit), format!("{attempt:?}")),
                At::Looked(permit, attempt) => (6, Some(permit), format!("{attempt:?}")),
                At::Made(permit, attempt, base, body) => {
                    (7, Some(permit), format!("{attempt:?}{base}{body}"))
                }
                At::Written(permit, attempt, written) => {
                    (8, Some(permit), format!("{attempt:?}{written:?}"))
                }
                At::End => (9, None, String::new()),
            };
            let receipt = permit.map(Permit::receipt);
            let receipt = receipt.map(|it| (it.id(), it.state(), it.is_late()));
            let _ = write!(text, "|{kind} {receipt:?} {rest}");
        }
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        hasher.finish()
    }
}

/// Goes through all schedules. Returns how many states there are and how many schedules ended.
fn explore(model: Model) -> (usize, usize) {
    let (mut seen, mut ended) = (HashSet::new(), 0);
    // The action that is taken at each step, by its number.
    let mut path: Vec<usize> = Vec::new();
    loop {
        let mut world = World::new(model);
        let mut widths = Vec::new();
        for step in 0.. {
            let actions = world.actions();
            if actions.is_empty() {
                world.finish();
                ended += 1;
                break;
            }
            if step == path.len() {
                if !seen.insert(world.print()) {
                    break;
                }
                path.push(0);
            }
            widths.push(actions.len());
            world.act(actions[path[step]]);
        }
        loop {
            let Some(last) = path.pop() else {
                return (seen.len(), ended);
            };
            if last + 1 < widths[path.len()] {
                path.push(last + 1);
                break;
            }
        }
    }
}

fn models() -> impl Iterator<Item = Model> {
    let places = [[0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]];
    places.into_iter().flat_map(|at| {
        [(false, false), (false, true), (true, false)].map(|(at_gateway, says_yes)| Model {
            at_gateway,
            at,
            says_yes,
            ..Model::default()
        })
    })
}

#[test]
fn an_irreversible_call_runs_once_without_a_question() {
    let mut all = 0;
    for model in models() {
        let (states, ended) = explore(model);
        assert!(
            states > 1_000 && ended > 10,
            "{states} states, {ended} ends"
        );
        all += states;
    }
    println!("{all} states");
}

/// Each rule of the protocol is needed: without it, some schedule is found in which the call runs twice or is lost.
#[test]
fn without_any_of_its_rules_the_protocol_fails() {
    let wrong: [fn(&mut Model); 5] = [
        |model| model.overwrites = true,
        |model| model.looks_before = true,
        |model| model.trusts_itself = true,
        |model| (model.at_gateway, model.drops_left) = (true, true),
        |model| (model.at_gateway, model.takes_all) = (true, true),
    ];
    for (number, wrong) in wrong.into_iter().enumerate() {
        let fails = models().any(|mut model| {
            wrong(&mut model);
            let failure = std::panic::catch_unwind(|| explore(model)).err();
            failure.is_some_and(|why| {
                let why = why.downcast_ref::<&str>().copied();
                let found = ["a call ran twice without a question", "a call is lost"];
                why.is_some_and(|why| found.contains(&why))
            })
        });
        assert!(fails, "nothing fails without rule {number}");
    }
}
