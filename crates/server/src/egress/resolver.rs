//! Answers the questions of a spoke for names. None of them leaves this process.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};

use hub::trace::Event;
use names::dns::{Answer, MAX_QUERY, Query, Wanted};
use names::{DomainName, Table};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::accepting::RETRY;
use super::reach::Reach;
use crate::locks::lock;

/// Names whose denial is told for one spoke. Who asks for more has been told enough.
const MAX_DENIED: usize = 256;

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

    pub(super) fn name(&self, address: Ipv4Addr) -> Option<DomainName> {
        self.table().name(address).cloned()
    }

    /// Answers until it is dropped. By UDP alone: no answer is too long for it.
    pub(super) async fn answer_packets(self: Arc<Self>, socket: UdpSocket) {
        // The kernel cuts what does not fit. With one byte more than is allowed, a cut packet is longer than a query
        // may be.
        let mut buffer = [0; MAX_QUERY + 1];
        loop {
            // An error is about an earlier answer that was not taken.
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
        let mut denied = lock(&self.denied);
        if denied.len() >= MAX_DENIED || !denied.insert(name.to_owned()) {
            return;
        }
        // Events outside of turns have a bounded queue; what does not fit is dropped.
        let _ = self.events.try_send(Event::NameDenied {
            app: self.reach.app().to_owned(),
            name: name.to_owned().into(),
            reason: reason.to_owned().into(),
        });
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A name is entered completely, or its number is not used.
        lock(&self.table)
    }
}
