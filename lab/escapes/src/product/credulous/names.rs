//! A hub that answers for names as the product's does, and lacks one check of what comes then.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use names::dns::{Answer, MAX_QUERY, Query, Wanted};
use names::first_bytes::{MOST, Verdict, look};
use names::{DomainName, Pattern, Table};
use sandbox::Spec;

use super::super::world::Names;
use crate::Error;
use crate::attempt::{Ground, Seen};
use crate::by_name::PERMITTED;
use crate::hub::of_an_app;
use crate::job::Job;
use crate::weaker_hub::Lacking;

/// How long either end of a connection may be silent.
const PATIENCE: Duration = Duration::from_secs(2);

/// What all its threads know.
struct Hub {
    names: Arc<Names>,
    permitted: Pattern,
    table: Mutex<Table>,
    lacking: Lacking,
}

/// Has the app make its attempts, with such a hub around it.
pub(in crate::product) fn by_name(
    job: &Job,
    spec: &Spec,
    ground: &Ground,
    names: &Arc<Names>,
    lacking: Lacking,
) -> Result<Vec<Seen>, Error> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut sandboxed = sandbox::spawn(spec, &job.spoke, OwnedFd::from(theirs))?;
    let sockets = sandboxed.take_names().ok_or("the spoke has no names")?;
    let hub = Arc::new(Hub {
        names: Arc::clone(names),
        permitted: Pattern::new(PERMITTED).map_err(|error| error.to_string())?,
        table: Mutex::default(),
        lacking,
    });
    let queries = UdpSocket::from(sockets.queries);
    // Threads wait on these sockets, in whatever mode they come.
    queries.set_nonblocking(false)?;
    let answering = Arc::clone(&hub);
    std::thread::spawn(move || answering.answer(&queries));
    for (port, listener) in sockets.listeners {
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(false)?;
        let accepting = Arc::clone(&hub);
        std::thread::spawn(move || accepting.accept(&listener, port));
    }
    of_an_app(&ours, ground)
}

impl Hub {
    fn answer(&self, queries: &UdpSocket) {
        let mut bytes = [0; MAX_QUERY + 1];
        while let Ok((length, from)) = queries.recv_from(&mut bytes) {
            let query = Query::read(bytes.get(..length).unwrap_or_default());
            let Some(query) = query else { continue };
            let name = query.name().filter(|name| self.permitted.covers(name));
            let answer = match (query.wanted(), name) {
                (Wanted::Address, Some(name)) => {
                    let address = self
                        .table
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .address(&name);
                    address.map_or(Answer::Refused, Answer::Address)
                }
                (Wanted::AddressV6, Some(_)) => Answer::Nothing,
                (Wanted::Other, _) => Answer::Refused,
                (_, None) => Answer::NoSuchName,
            };
            let _ = queries.send_to(&query.response(answer), from);
        }
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener, port: u16) {
        for stream in listener.incoming().flatten() {
            let hub = Arc::clone(self);
            // Whatever goes wrong with one connection ends it.
            std::thread::spawn(move || hub.pass(stream, port));
        }
    }

    fn pass(&self, mut inside: TcpStream, port: u16) -> io::Result<()> {
        inside.set_read_timeout(Some(PATIENCE))?;
        let name = self.name(&inside).ok_or(io::ErrorKind::NotFound)?;
        let mut first = Vec::new();
        let mut portion = vec![0; MOST];
        loop {
            let length = inside.read(&mut portion)?;
            first.extend(portion.iter().take(length));
            if self.lacking == Lacking::FirstBytes {
                break;
            }
            match look(&name, port, &first) {
                Verdict::Fits => break,
                Verdict::More if length > 0 => {}
                _ => return Ok(()),
            }
        }
        let at = self.names.look_up(name.as_str())?.into_iter().next();
        let mut outside = TcpStream::connect(at.ok_or(io::ErrorKind::NotFound)?)?;
        outside.set_read_timeout(Some(PATIENCE))?;
        outside.write_all(&first)?;
        outside.shutdown(Shutdown::Write)?;
        io::copy(&mut outside, &mut inside).map(drop)
    }

    /// The name that is connected to.
    fn name(&self, inside: &TcpStream) -> Option<DomainName> {
        let address = match inside.local_addr().ok()? {
            SocketAddr::V4(address) => *address.ip(),
            SocketAddr::V6(address) => match IpAddr::V6(*address.ip()).to_canonical() {
                IpAddr::V4(address) => address,
                // No name has this address.
                IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
            },
        };
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        match table.name(address) {
            Some(name) => Some(name.clone()),
            None if self.lacking == Lacking::Table => DomainName::new(PERMITTED).ok(),
            None => None,
        }
    }
}
