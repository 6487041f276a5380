//! What the two fronts of one agent share: permits that wait to be redeemed, results, and the label of all that it was given.
//!
//! The proxy sees an agent propose a call and decides on it with all that it knows of the conversation. The agent then makes
//! the call at the gateway, which knows less. The permit that the proxy leaves here lets exactly that call run. The gateway
//! keeps the labelled result under the call, since the agent may bring it to the proxy in another form. A call that comes
//! without a permit may depend on everything that either front has given the agent.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use ifc::{Arguments, Label, Labeled, Permit};

/// How long a permit waits. An agent makes its calls at once, and asks its own user first at most.
pub const REDEEMABLE_FOR: Duration = Duration::from_secs(600);

/// Most permits that wait. A step has a few calls; beyond this the oldest are dropped, and their calls are decided on by the
/// gateway.
const MAX_PERMITS: usize = 1024;
/// Bytes of results that are kept, and of texts of a session that wait; each counts as `OVERHEAD` more. A forgotten result
/// has the most restrictive label of its call's results.
const MAX_BYTES: usize = 64 << 20;
const OVERHEAD: usize = 256;

/// What the fronts of agents share.
#[derive(Debug, Default)]
pub struct Permits {
    /// Oldest first.
    waiting: VecDeque<Waiting>,
    /// By the name of the call.
    results: HashMap<String, Redeemed>,
    /// The names of the calls with results, oldest first.
    order: VecDeque<String>,
    bytes: usize,
    /// By session.
    given: BTreeMap<String, Given>,
}

/// What the client of a session was given.
#[derive(Debug, Default)]
struct Given {
    label: Label,
    /// What the gateway has given it and the proxy does not know yet.
    texts: Vec<Labeled>,
    bytes: usize,
    /// The label of texts for which there was no room.
    lost: Label,
    /// Whether the client has started programs, which can do all that the client can.
    has_programs: bool,
    /// What of these two is known to other processes.
    shared: (Label, bool),
}

#[derive(Debug)]
struct Waiting {
    session: String,
    name: String,
    permit: Permit,
    until: Instant,
}

/// What a call returned that was made by a permit of another front.
#[derive(Debug, Clone)]
pub struct Redeemed {
    /// The text, labelled.
    pub text: Labeled,
    /// The label of all of it.
    pub label: Label,
}

impl Redeemed {
    /// What a client brings as this result: where the text of the result stands in it, it has the labels of that; the rest
    /// may be made from all of the result.
    #[must_use]
    pub fn brought(&self, text: &str) -> Labeled {
        let own = self.text.reveal_tcb();
        let rest =
            |part: Option<&str>| Labeled::label_tcb(part.unwrap_or_default(), self.label.clone());
        match text.find(own).filter(|_| !own.is_empty()) {
            Some(at) => {
                let after = rest(text.get(at + own.len()..));
                let parts = [rest(text.get(..at)), self.text.clone(), after];
                Labeled::concat(parts.iter().filter(|part| !part.is_empty())).merge()
            }
            None => rest(Some(text)),
        }
    }
}

impl Permits {
    /// A session whose client has two fronts. Each is told what the other has given the client.
    pub fn open(&mut self, session: &str) {
        self.given.entry(session.to_owned()).or_default();
    }

    /// The client of this session was given text of this label. Without [`Permits::open`] this has no effect.
    pub fn give(&mut self, session: &str, label: &Label) {
        if let Some(given) = self.given.get_mut(session) {
            given.label = given.label.join(label);
        }
    }

    /// The gateway gave the client of this session a text, which may come to the proxy in any place.
    pub fn say(&mut self, session: &str, text: Labeled) {
        self.give(session, &text.label());
        if let Some(given) = self.given.get_mut(session) {
            given.bytes += text.len() + OVERHEAD;
            match given.bytes > MAX_BYTES {
                true => given.lost = given.lost.join(&text.label()),
                false => given.texts.push(text),
            }
        }
    }

    /// What the gateway gave since the last time, and the label of texts for which there was no room.
    pub fn heard(&mut self, session: &str) -> (Vec<Labeled>, Label) {
        let Some(given) = self.given.get_mut(session) else {
            return (Vec::new(), Label::bottom());
        };
        given.bytes = 0;
        (
            std::mem::take(&mut given.texts),
            std::mem::take(&mut given.lost),
        )
    }

    /// The label of everything that the client of this session was given.
    #[must_use]
    pub fn given(&self, session: &str) -> Label {
        let given = self.given.get(session);
        given.map_or(Label::bottom(), |given| given.label.clone())
    }

    /// The client of this session has started a program, or let the user start one.
    pub fn starts_program(&mut self, session: &str) {
        if let Some(given) = self.given.get_mut(session) {
            given.has_programs = true;
        }
    }

    /// What the client of this session was given and whether it has started programs, if other processes do not know it yet.
    #[must_use]
    pub fn news(&self, session: &str) -> Option<(Label, bool)> {
        let given = self.given.get(session)?;
        let (label, programs) = &given.shared;
        let is_known = given.label.flows_to(label) && given.has_programs <= *programs;
        (!is_known).then(|| (given.label.clone(), given.has_programs))
    }

    /// Other processes know this of the client of this session.
    pub fn give_all(&mut self, session: &str, label: &Label, has_programs: bool) {
        let given = self.given.entry(session.to_owned()).or_default();
        let (known, programs) = &mut given.shared;
        *known = known.join(label);
        *programs |= has_programs;
        given.label = given.label.join(label);
        given.has_programs |= has_programs;
    }

    /// What may be behind a call of this session, no matter what the conversation shows of its origin: a program of the client's
    /// can make up a conversation from all that the client was given.
    #[must_use]
    pub fn behind(&self, session: &str) -> Label {
        let given = self.given.get(session).filter(|given| given.has_programs);
        given.map_or(Label::bottom(), |given| given.label.clone())
    }

    /// Leaves a permit for the client of this session. It is for its call alone: this app, this tool, these arguments.
    /// `name` names the call, and is used once.
    pub fn leave(&mut self, session: &str, name: &str, permit: Permit, now: Instant) {
        self.expire(now);
        if self.waiting.len() >= MAX_PERMITS {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting {
            session: session.to_owned(),
            name: name.to_owned(),
            permit,
            until: now + REDEEMABLE_FOR,
        });
    }

    /// Takes the oldest permit for this call and the name of the call, if one waits. It is gone then, so a second equal call
    /// needs another. Arguments are compared by value: clients write numbers anew.
    pub fn redeem(
        &mut self,
        session: &str,
        app: &str,
        tool: &str,
        arguments: &Arguments,
        now: Instant,
    ) -> Option<(String, Permit)> {
        self.expire(now);
        let value = arguments.by_value([].iter());
        let at = self.waiting.iter().position(|waiting| {
            let call = waiting.permit.call();
            waiting.session == session
                && (call.app.as_str(), call.tool.as_str()) == (app, tool)
                && call.arguments.by_value([].iter()) == value
        });
        // Its model has not made this call.
        if at.is_none() {
            self.starts_program(session);
        }
        let waiting = self.waiting.remove(at?)?;
        Some((waiting.name, waiting.permit))
    }

    /// Takes back the permits of the calls with such names. A permit that waits says that its call has not run.
    pub fn withdraw(&mut self, is_void: impl Fn(&str) -> bool) {
        self.waiting.retain(|waiting| !is_void(&waiting.name));
    }

    /// Keeps what the call of this name returned.
    pub fn keep(&mut self, name: String, result: Redeemed) {
        self.bytes += result.text.len() + OVERHEAD;
        self.order.push_back(name.clone());
        self.results.insert(name, result);
        while self.bytes > MAX_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            let gone = self.results.remove(&oldest);
            self.bytes -= gone.map_or(0, |gone| gone.text.len() + OVERHEAD);
        }
    }

    /// What the call of this name returned.
    #[must_use]
    pub fn result(&self, name: &str) -> Option<&Redeemed> {
        self.results.get(name)
    }

    fn expire(&mut self, now: Instant) {
        self.waiting.retain(|waiting| waiting.until > now);
    }
}
