//! The only ways out of a spoke: listeners inside its network, on which the hub accepts.
//!
//! The sandbox gives the hub listening sockets that live in the spoke's own network namespace; there is no route out of
//! it. A *relay* is a port for which the user's configuration chooses the destination. A *name* is what the app chooses
//! itself: the hub answers its questions for names with addresses that stand for them, and so knows the name that a
//! connection is for. The monitor decides on every connection. The owner of a destination's name
//! cannot choose where it leads: the connection goes to a public address, or to one that the configuration names.

mod accepting;
mod door;
mod gate;
mod passage;
mod reach;
mod resolver;
mod tokens;

use std::io;
use std::net::{IpAddr, TcpListener as StdListener, UdpSocket as StdUdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use hub::trace::Event;
use ifc::{Connection, Decision, History, Label, Permit};
use names::Pattern;
use sandbox::NameSockets;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use self::accepting::accept_all;
pub use self::door::AskedConnection;
use self::door::Door;
pub use self::gate::{Gate, Resolve, SystemResolver};
use self::passage::Passage;
pub(crate) use self::reach::Reach;
use self::resolver::Resolver;
pub use self::tokens::{TokenPort, Tokens};

/// One relayed port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// The port on the spoke's own 127.0.0.1.
    pub listen: u16,
    /// The host that the hub connects to: a name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Addresses that it may connect to although they are not public. A `host` that is an address
    /// itself needs no other mention.
    pub addresses: Vec<IpAddr>,
}

/// What an app may reach by name, beside what the policy says of it.
#[derive(Debug, Clone)]
pub struct Domains {
    /// Addresses that names may stand for although they are not public.
    pub addresses: Vec<(Pattern, Vec<IpAddr>)>,
    /// The label of what the app has from its start on, as files that are mounted for it.
    pub holds: Label,
}

impl Default for Domains {
    /// Public addresses only, for an app that has nothing of the user's.
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            holds: Label::bottom(),
        }
    }
}

/// Connections of one spoke at a time; a mail app needs one, and an agent with others below it some dozens.
const CONNECTIONS: usize = 64;
/// How long a connection may be silent, which bounds a forgotten one: as long as a call may take by any configuration,
/// since a server may say nothing until it answers. A stream of events lasts as long as its session.
const SILENCE: Duration = Duration::from_secs(3600);

/// Relays every listener until the returned set is dropped. Outcomes go to `events`.
pub(crate) fn relay(
    app: &str,
    listeners: Vec<(u16, OwnedFd)>,
    egress: &[Egress],
    gate: &Gate,
    events: &mpsc::Sender<Event>,
) -> io::Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    for (port, listener) in listeners {
        // A listener that is not configured is dropped, and refuses.
        let Some(egress) = egress.iter().find(|egress| egress.listen == port) else {
            continue;
        };
        let listener = listening(listener)?;
        let relay = Relay {
            app: app.to_owned(),
            egress: egress.clone(),
            gate: gate.clone(),
            events: events.clone(),
        };
        tasks.spawn(relay.accept(listener));
    }
    Ok(tasks)
}

/// Answers a spoke's questions for tokens until the returned set is dropped, on that of its listeners which is for them.
pub(crate) fn open_tokens(
    port: Option<&TokenPort>,
    listeners: &mut Vec<(u16, OwnedFd)>,
) -> io::Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    if let Some(TokenPort { port, tokens }) = port
        && let Some(at) = listeners.iter().position(|(own, _)| own == port)
    {
        // Out of the list, since every listener that is left in it becomes a relay.
        let listener = listening(listeners.swap_remove(at).1)?;
        tasks.spawn(tokens::answer(listener, Arc::clone(tokens)));
    }
    Ok(tasks)
}

/// Lets a spoke reach names until the returned set is dropped. What the user is asked about goes to `questions`.
pub(crate) fn open_names(
    sockets: NameSockets,
    reach: &Arc<Reach>,
    domains: &Domains,
    questions: mpsc::Sender<AskedConnection>,
    events: &mpsc::Sender<Event>,
) -> io::Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    let ports = sockets.listeners.iter().map(|(port, _)| *port).collect();
    let resolver = Resolver::new(Arc::clone(reach), ports, events.clone());
    let resolver = Arc::new(resolver);
    let queries = StdUdpSocket::from(sockets.queries);
    queries.set_nonblocking(true)?;
    let queries = UdpSocket::from_std(queries)?;
    tasks.spawn(Arc::clone(&resolver).answer_packets(queries));
    let door = Door {
        reach: Arc::clone(reach),
        resolver,
        addresses: domains.addresses.clone().into(),
        questions,
        patience: door::QUESTION,
        events: events.clone(),
    };
    // One count for all ports, so that an app with more ports has no more connections.
    let places = door::places();
    for (port, listener) in sockets.listeners {
        let (door, places) = (door.clone(), Arc::clone(&places));
        tasks.spawn(door.accept(listening(listener)?, port, places));
    }
    Ok(tasks)
}

fn listening(listener: OwnedFd) -> io::Result<TcpListener> {
    let listener = StdListener::from(listener);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

#[derive(Clone)]
struct Relay {
    app: String,
    egress: Egress,
    gate: Gate,
    events: mpsc::Sender<Event>,
}

impl Relay {
    async fn accept(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let full = || self.report("refused: too many connections".to_owned());
        let join = |inside| {
            let relay = self.clone();
            Some(async move {
                let outcome = match relay.permit() {
                    Ok(permit) => relay.join(inside, permit).await,
                    Err(reason) => format!("refused: {reason}"),
                };
                relay.report(outcome);
            })
        };
        accept_all(listener, places, full, join).await;
    }

    /// The right to open one connection. All that the app was given may flow there: the configuration says so.
    ///
    /// # Errors
    /// Why not.
    fn permit(&self) -> Result<Permit<Connection>, String> {
        let connection = Connection {
            app: self.app.clone(),
            host: self.egress.host.clone(),
            port: self.egress.port,
            domain: None,
            // What the app was given is not counted here, so it may be anything.
            label: Label::top(),
        };
        let Gate {
            monitor, policy, ..
        } = &self.gate;
        match monitor.decide(&**policy, &History::default(), connection) {
            Decision::Allow(permit) => Ok(permit),
            Decision::Deny(denial) => Err(denial.to_string()),
            // A relay comes while no question can be shown.
            Decision::Ask(question) => Err(format!("the rule {} asks", question.rule().name)),
        }
    }

    /// Joins the spoke's end with a fresh connection; says what became of it.
    async fn join(&self, inside: TcpStream, permit: Permit<Connection>) -> String {
        let Connection { host, port, .. } = permit.spend();
        let addresses = &self.egress.addresses;
        let outside = match self.gate.connect(&host, port, addresses).await {
            Ok(outside) => outside,
            Err(refusal) => return refusal,
        };
        let passage = Passage {
            // It leads to one place that the user has named, so it is counted and not bounded.
            most: u64::MAX,
            silence: SILENCE,
            lifetime: Duration::MAX,
            first: Vec::new(),
            look_at: None,
            lease: None,
        };
        passage.run(inside, outside).await
    }

    fn report(&self, outcome: String) {
        // A spoke that connects faster than the hub writes loses entries, not the hub its memory.
        let _ = self.events.try_send(Event::Egress {
            app: self.app.clone(),
            to: format!("{}:{}", self.egress.host, self.egress.port),
            outcome: outcome.into(),
        });
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ifc::{Call, Effect, Exceeded, Labeled, Monitor, Policy, PolicyError, Rule, Sink};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Has this rule for connections to one port, and none for anything else.
    pub(super) struct OnePort(pub(super) u16, pub(super) Rule);

    impl Policy for OnePort {
        fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
            match sink {
                Sink::Connection(connection) if connection.port == self.0 => Ok(self.1.clone()),
                _ => Err(PolicyError("no rule".to_owned())),
            }
        }

        fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
            Labeled::unknown(result)
        }
    }

    /// A rule that refuses what is above this label.
    fn up_to(limit: Label) -> Rule {
        Rule {
            exceeded: Exceeded::Deny,
            ..Rule::asking("app.egress".to_owned(), Effect::Write, limit)
        }
    }

    /// What an app gets that connects and says "hello" under this policy, and what became of it.
    async fn said(policy: impl FnOnce(u16) -> OnePort) -> (String, String) {
        let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = outside.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = outside.accept().await.unwrap();
            let mut heard = [0; 5];
            stream.read_exact(&mut heard).await.unwrap();
            stream.write_all(b"heard ").await.unwrap();
            stream.write_all(&heard).await.unwrap();
        });
        let inside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut app = TcpStream::connect(inside.local_addr().unwrap())
            .await
            .unwrap();
        let (events, mut outcomes) = mpsc::channel(1);
        let relay = Relay {
            app: "app".to_owned(),
            egress: Egress {
                listen: 1,
                host: "127.0.0.1".to_owned(),
                port,
                addresses: Vec::new(),
            },
            gate: Gate::new(Monitor::new(), Arc::new(policy(port))),
            events,
        };
        let relay = tokio::spawn(relay.accept(inside));
        let mut got = String::new();
        // A connection that is refused may break while it is written to or read.
        let _ = app.write_all(b"hello").await;
        let _ = app.read_to_string(&mut got).await;
        drop(app);
        let Some(Event::Egress { outcome, .. }) = outcomes.recv().await else {
            panic!("nothing was reported");
        };
        relay.abort();
        (got, outcome.to_string())
    }

    #[tokio::test]
    async fn a_connection_is_opened_by_the_monitors_permit_only() {
        let (got, outcome) = said(|port| OnePort(port, up_to(Label::top()))).await;
        assert_eq!(
            (&*got, &*outcome),
            ("heard hello", "5 bytes sent, 11 received")
        );
        let (got, outcome) = said(|port| OnePort(port.wrapping_add(1), up_to(Label::top()))).await;
        assert_eq!(got, "");
        assert!(outcome.starts_with("refused: denied: no rule"), "{outcome}");
        // What the app was given is not counted: it may be everything.
        let (got, outcome) = said(|port| OnePort(port, up_to(Label::bottom()))).await;
        assert_eq!(got, "");
        assert!(outcome.contains("app.egress"), "{outcome}");
    }
}
