//! Answers the questions of a spoke for names. None of them leaves this process.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hub::trace::Event;
use names::dns::{Answer, MAX_QUERY, Query, Wanted};
use names::{DomainName, Table};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::accept::{RETRY, accept};
use super::reach::Reach;

/// Names whose denial is told for one spoke. Who asks for more has been told enough.
const MAX_DENIED: usize = 256;
/// Connections for questions at a time; programs that use TCP have one.
const CONNECTIONS: usize = 4;
/// How long such a connection may be open: a question is one packet.
const PATIENCE: Duration = Duration::from_secs(5);

/// The names of one spoke.
pub(super) struct Resolver {
    reach: Arc<Reach>,
    /// Ports on which names lead to the hub.
    ports: Vec<u16>,
    table: Mutex<Table>,
    denied: Mutex<BTreeSet<String>>,
    events: mpsc::Sender<Event>,
}

impl Resolver {
    pub(super) fn new(reach: Arc<Reach>, ports: Vec<u16>, events: mpsc::Sender<Event>) -> Self {
        Self {
            reach,
            ports,
            table: Mutex::default(),
            denied: Mutex::default(),
            events,
        }
    }

    /// The name that an address stands for.
    pub(super) fn name(&self, address: Ipv4Addr) -> Option<DomainName> {
        self.table().name(address).cloned()
    }

    /// Answers by UDP until it is dropped.
    pub(super) async fn answer_packets(self: Arc<Self>, socket: UdpSocket) {
        // The kernel cuts what does not fit. With one byte more than is allowed, a cut packet is longer than a query
        // may be.
        let mut buffer = [0; MAX_QUERY + 1];
        loop {
            // An error is about an answer that nobody took.
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
                sleep(RETRY).await;
                continue;
            };
            if let Some(response) = self.respond(buffer.get(..length).unwrap_or_default()) {
                // Who does not take the answer asks again.
                let _ = socket.try_send_to(&response, from);
            }
        }
    }

    /// Answers by TCP until it is dropped.
    pub(super) async fn answer_streams(self: Arc<Self>, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut streams = JoinSet::new();
        loop {
            let stream = accept(&listener).await;
            while streams.try_join_next().is_some() {}
            if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                let resolver = Arc::clone(&self);
                streams.spawn(async move {
                    // Broken or silent, it is closed either way.
                    let _ = timeout(PATIENCE, resolver.answer_stream(stream)).await;
                    drop(place);
                });
            }
        }
    }

    async fn answer_stream(&self, mut stream: TcpStream) -> std::io::Result<()> {
        loop {
            let length = usize::from(stream.read_u16().await?);
            if length > MAX_QUERY {
                return Ok(());
            }
            let mut query = vec![0; length];
            stream.read_exact(&mut query).await?;
            let Some(response) = self.respond(&query) else {
                return Ok(());
            };
            let Ok(length) = u16::try_from(response.len()) else {
                return Ok(());
            };
            let mut answer = length.to_be_bytes().to_vec();
            answer.extend(response);
            stream.write_all(&answer).await?;
        }
    }

    /// The response to a query, if it is one.
    fn respond(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let query = Query::read(bytes)?;
        let answer = match (query.wanted(), query.name()) {
            (Wanted::Other, _) => Answer::Refused,
            (wanted, Some(name)) => self.answer(wanted, &name),
            (_, None) => {
                self.deny(query.text(), "it is no domain name of the internet");
                Answer::NoSuchName
            }
        };
        Some(query.response(answer))
    }

    fn answer(&self, wanted: Wanted, name: &DomainName) -> Answer {
        if let Err(reason) = self.reach.knows(name, &self.ports) {
            self.deny(name.as_str(), &reason);
            return Answer::NoSuchName;
        }
        // "Nothing of this kind", and not "no such name", after which a program would not ask for the other kind of
        // address.
        if wanted != Wanted::Address {
            return Answer::Nothing;
        }
        match self.table().address(name) {
            Some(address) => Answer::Address(address),
            None => {
                self.deny(name.as_str(), "the app has asked for too many names");
                Answer::Refused
            }
        }
    }

    /// Tells the user of a name, once.
    fn deny(&self, name: &str, reason: &str) {
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        if denied.len() >= MAX_DENIED || !denied.insert(name.to_owned()) {
            return;
        }
        // Whatever happens outside of turns has so much room in the record, and no more.
        let _ = self.events.try_send(Event::NameDenied {
            app: self.reach.app().to_owned(),
            name: name.to_owned().into(),
            reason: reason.to_owned().into(),
        });
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A name is entered whole, or its number is used by nobody.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
