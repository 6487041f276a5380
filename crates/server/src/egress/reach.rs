//! What one spoke was given since it started, and the connections that are open with no more.
//!
//! An app may send all that it was given, by any connection that is open. So a connection has the
//! label of all of it, and one that was opened with less is cut where it would not be opened any more:
//! before the app gets the rest.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ifc::{Answer, Connection, Decision, Denial, History, Label, Permit, Question, Sink};
use names::DomainName;
use tokio::sync::watch;

use super::gate::Gate;
use crate::locks::lock;

/// The label of everything that a spoke was given, and its open connections.
pub(crate) struct Reach {
    app: String,
    gate: Gate,
    state: Mutex<State>,
    /// Calls that run. The user can be asked only while there is one.
    calls: AtomicUsize,
}

pub(crate) struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct State {
    given: Label,
    open: HashMap<u64, Open>,
    last: u64,
}

/// A connection that is open, or about to be.
struct Open {
    connection: Connection,
    cut: watch::Sender<bool>,
}

/// What becomes of a connection that an app asks for.
pub(crate) enum Access {
    /// It may be opened, and stays open as long as the lease is not cut.
    Open(Permit<Connection>, Lease),
    Ask(Question<Connection>),
    Denied(Denial),
}

/// The place of an open connection. Dropping it says that the connection is closed.
pub(crate) struct Lease {
    reach: Arc<Reach>,
    id: u64,
    cut: watch::Receiver<bool>,
}

impl Reach {
    /// The reach of a spoke that has had this from its start on.
    pub(crate) fn new(app: &str, gate: Gate, holds: Label) -> Self {
        let state = State {
            given: holds,
            open: HashMap::new(),
            last: 0,
        };
        Self {
            app: app.to_owned(),
            gate,
            state: Mutex::new(state),
            calls: AtomicUsize::new(0),
        }
    }

    /// A call of the app runs until this is dropped.
    pub(crate) fn running(&self) -> Running<'_> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Running(&self.calls)
    }

    /// The user can be asked as long as the spoke runs: nothing says what its program works on.
    pub(crate) fn ask_at_any_time(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn is_called(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > 0
    }

    pub(super) fn app(&self) -> &str {
        &self.app
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The app is about to be given something of this label. Cuts each connection that it must not be sent by: when
    /// this returns, nothing that an app sends from then on gets through one of them.
    pub(crate) fn give(&self, label: &Label) {
        let mut state = self.state();
        let given = state.given.join(label);
        // Every open connection was decided with at least this.
        if given == state.given {
            return;
        }
        state.given = given.clone();
        let Gate {
            monitor, policy, ..
        } = &self.gate;
        state.open.retain(|_, open| {
            let connection = Connection {
                label: given.clone(),
                ..open.connection.clone()
            };
            // No permit is made for a connection that is open already, and the user is not asked about it: it stays or it is
            // cut.
            let stays = monitor.would_allow(&**policy, &History::default(), &connection);
            if !stays {
                open.cut.send_replace(true);
            }
            stays
        });
    }

    /// Whether there is a rule for connections to this name, on one of these ports, without regard to what the app was given.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn knows(&self, name: &DomainName, ports: &[u16]) -> Result<(), String> {
        let mut refusal = "no port leads anywhere".to_owned();
        for port in ports {
            // As if nothing had been given, so that whether a name resolves tells nothing about what was.
            let connection = self.connection(name, *port, Label::bottom());
            match self.gate.policy.rule(&Sink::Connection(&connection)) {
                Ok(_) => return Ok(()),
                Err(error) => refusal = error.0,
            }
        }
        Err(refusal)
    }

    /// Decides on a connection with all that the app was given so far.
    pub(crate) fn open(self: &Arc<Self>, name: &DomainName, port: u16) -> Access {
        // What is given meanwhile waits, so that no connection is open with less than it was decided with.
        let mut state = self.state();
        let connection = self.connection(name, port, state.given.clone());
        let Gate {
            monitor, policy, ..
        } = &self.gate;
        match monitor.decide(&**policy, &History::default(), connection) {
            Decision::Allow(permit) => {
                let lease = self.lease(&mut state, permit.flow());
                Access::Open(permit, lease)
            }
            Decision::Ask(question) => Access::Ask(question),
            Decision::Deny(denial) => Access::Denied(denial),
        }
    }

    /// Does what the user answered. Trusted: the answer must be the user's.
    ///
    /// # Errors
    /// Why the connection is not opened.
    pub(crate) fn settle_tcb(
        self: &Arc<Self>,
        question: Question<Connection>,
        answer: Answer,
    ) -> Result<(Permit<Connection>, Lease), String> {
        let mut state = self.state();
        let settled = self.gate.monitor.settle_tcb(question, answer);
        let permit = settled.map_err(|denial| denial.to_string())?;
        // The user has seen what it had then.
        if !state.given.flows_to(&permit.flow().label) {
            return Err("the app was given more while the question waited".to_owned());
        }
        let lease = self.lease(&mut state, permit.flow());
        Ok((permit, lease))
    }

    fn lease(self: &Arc<Self>, state: &mut State, connection: &Connection) -> Lease {
        let (cut, is_cut) = watch::channel(false);
        state.last += 1;
        let open = Open {
            connection: connection.clone(),
            cut,
        };
        state.open.insert(state.last, open);
        Lease {
            reach: Arc::clone(self),
            id: state.last,
            cut: is_cut,
        }
    }

    fn connection(&self, name: &DomainName, port: u16, label: Label) -> Connection {
        Connection {
            app: self.app.clone(),
            host: name.as_str().to_owned(),
            port,
            domain: Some(name.registrable().to_owned()),
            label,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is whole before anything could panic.
        lock(&self.state)
    }
}

impl Lease {
    pub(super) fn is_cut(&self) -> bool {
        // Without its sender the place is taken away, which only happens after a cut.
        *self.cut.borrow() || self.cut.has_changed().is_err()
    }

    /// Resolves when nothing more may be sent.
    pub(super) async fn cut(&self) {
        let mut cut = self.cut.clone();
        // An error says that the sender is gone: after a cut.
        let _ = cut.wait_for(|cut| *cut).await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.reach.state().open.remove(&self.id);
    }
}
