//! The only way out of a spoke: listeners inside its network, relayed to configured places.
//!
//! The sandbox gives the hub a listening socket that lives in the spoke's own network namespace.
//! Whatever connects there is joined with a connection that the hub makes to the configured
//! destination. The spoke cannot choose where a connection goes: it chooses a port, the user's
//! configuration chooses the destination, and the monitor decides on every connection. Nor can
//! whoever answers for the destination's name: the connection goes to a public address, or to one
//! that the configuration names.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use hub::trace::Event;
use ifc::{Connection, Decision, History, Label, Monitor, Permit, Policy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::public_address::is_public;

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

/// Who decides on the connections of a session's spokes.
#[derive(Clone)]
pub struct Gate {
    /// The session's monitor.
    pub monitor: Monitor,
    /// Its policy.
    pub policy: Arc<dyn Policy>,
}

impl Gate {
    /// The right to open one connection for an app. Whatever the app was given may flow there, and
    /// nobody keeps count of that, so the connection has the label of everything.
    ///
    /// # Errors
    /// Why not.
    fn permit(&self, app: &str, egress: &Egress) -> Result<Permit<Connection>, String> {
        let connection = Connection {
            app: app.to_owned(),
            host: egress.host.clone(),
            port: egress.port,
            label: Label::top(),
        };
        let history = History::default();
        match self.monitor.decide(&*self.policy, &history, connection) {
            Decision::Allow(permit) => Ok(permit),
            Decision::Deny(denial) => Err(denial.to_string()),
            // A connection comes while no question can be shown.
            Decision::Ask(question) => Err(format!("the rule {} asks", question.rule().name)),
        }
    }
}

/// Connections of one spoke at a time; a mail app needs one.
const CONNECTIONS: usize = 16;
/// How long a destination may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long one connection may live. A spoke ends with its session; this bounds a forgotten one.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(600);

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
        // A listener that nobody configured leads nowhere: it is dropped, and refuses.
        let Some(egress) = egress.iter().find(|egress| egress.listen == port) else {
            continue;
        };
        let listener = StdListener::from(listener);
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
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

/// One relayed port of one app.
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
        let mut connections = JoinSet::new();
        loop {
            let Ok((inside, _)) = listener.accept().await else {
                // The spoke's network is gone, or the hub has no descriptors left: either way closed.
                return;
            };
            while connections.try_join_next().is_some() {}
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                self.report("refused: too many connections".to_owned());
                continue;
            };
            let relay = self.clone();
            connections.spawn(async move {
                let outcome = match relay.gate.permit(&relay.app, &relay.egress) {
                    Ok(permit) => join(inside, permit, &relay.egress.addresses).await,
                    Err(reason) => format!("refused: {reason}"),
                };
                relay.report(outcome);
                drop(place);
            });
        }
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

/// Joins the spoke's end with a fresh connection; says what became of it.
async fn join(mut inside: TcpStream, permit: Permit<Connection>, named: &[IpAddr]) -> String {
    let Connection { host, port, .. } = permit.spend();
    let connecting = connect(&host, port, named);
    let mut outside = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Err(_) => return format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()),
        Ok(Err(refusal)) => return refusal,
        Ok(Ok(outside)) => outside,
    };
    let relayed = tokio::io::copy_bidirectional(&mut inside, &mut outside);
    match tokio::time::timeout(CONNECTION_LIFETIME, relayed).await {
        Err(_) => format!("cut off after {} s", CONNECTION_LIFETIME.as_secs()),
        Ok(Err(error)) => format!("broken: {error}"),
        Ok(Ok((sent, received))) => format!("{sent} bytes sent, {received} received"),
    }
}

/// Resolves the destination once and connects to what was resolved: a second look at the name could
/// give another address than the one that was judged.
async fn connect(host: &str, port: u16, named: &[IpAddr]) -> Result<TcpStream, String> {
    let no_connection = |error: io::Error| format!("no connection: {error}");
    let resolved = tokio::net::lookup_host((without_brackets(host), port)).await;
    let resolved: Vec<SocketAddr> = resolved.map_err(no_connection)?.collect();
    let (allowed, refused): (Vec<SocketAddr>, Vec<SocketAddr>) = resolved
        .into_iter()
        .partition(|at| may_connect(host, named, at.ip()));
    match (allowed.as_slice(), refused.first()) {
        ([], None) => Err("no connection: the name has no address".to_owned()),
        ([], Some(at)) => Err(format!(
            "refused: {ip} is not public; if you mean it, write addresses = [\"{ip}\"]",
            ip = at.ip()
        )),
        (allowed, _) => TcpStream::connect(allowed).await.map_err(no_connection),
    }
}

/// Public addresses, and those that the configuration names.
fn may_connect(host: &str, named: &[IpAddr], address: IpAddr) -> bool {
    let written: Option<IpAddr> = without_brackets(host).parse().ok();
    is_public(address) || written == Some(address) || named.contains(&address)
}

/// The configuration writes an IPv6 address in brackets.
fn without_brackets(host: &str) -> &str {
    let inside = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inside.unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use ifc::{Call, Effect, Exceeded, Labeled, PolicyError, Rule, Sink};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A name that leads to this machine, as a rebound name of a stranger's would.
    #[tokio::test]
    async fn a_name_does_not_lead_to_this_machine_unless_its_address_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let named = |address: &str| vec![address.parse().unwrap()];
        let refusal = connect("localhost", port, &[]).await.unwrap_err();
        assert!(refusal.starts_with("refused: "), "{refusal}");
        assert!(refusal.contains("is not public"), "{refusal}");
        // Another address that is named does not help.
        let other = connect("localhost", port, &named("10.0.0.1")).await;
        assert!(other.is_err());
        connect("localhost", port, &named("127.0.0.1"))
            .await
            .unwrap();
        connect("127.0.0.1", port, &[]).await.unwrap();
    }

    #[test]
    fn an_address_in_the_destination_names_itself_alone() {
        let check = |expected: bool, host: &str, address: &str| {
            let found = may_connect(host, &[], address.parse().unwrap());
            assert_eq!(found, expected, "{host} at {address}");
        };
        check(true, "169.254.169.254", "169.254.169.254");
        check(false, "169.254.169.253", "169.254.169.254");
        check(false, "keys.example", "169.254.169.254");
        check(true, "[::1]", "::1");
        check(true, "mail.example", "1.1.1.1");
    }

    /// Allows connections to one port, up to this label.
    struct OnePort(u16, Label);

    impl Policy for OnePort {
        fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
            match sink {
                Sink::Connection(connection) if connection.port == self.0 => Ok(Rule {
                    limit: self.1.clone(),
                    exceeded: Exceeded::Deny,
                    arguments: std::collections::BTreeMap::new(),
                    effect: Effect::Write,
                    name: "app.egress".to_owned(),
                    always_ask: false,
                }),
                _ => Err(PolicyError("no rule".to_owned())),
            }
        }

        fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
            Labeled::unknown(result)
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
            gate: Gate {
                monitor: Monitor::new(),
                policy: Arc::new(policy(port)),
            },
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
        let (got, outcome) = said(|port| OnePort(port, Label::top())).await;
        assert_eq!(
            (&*got, &*outcome),
            ("heard hello", "5 bytes sent, 11 received")
        );
        let (got, outcome) = said(|port| OnePort(port.wrapping_add(1), Label::top())).await;
        assert_eq!(got, "");
        assert!(outcome.starts_with("refused: denied: no rule"), "{outcome}");
        // Nobody keeps count of what an app was given: it may be everything.
        let (got, outcome) = said(|port| OnePort(port, Label::bottom())).await;
        assert_eq!(got, "");
        assert!(outcome.contains("app.egress"), "{outcome}");
    }
}
