//! Another spoke of the same hub, which waits to be reached by the one that makes the attempts.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use sandbox::{Sandboxed, Spec};

use crate::Error;

/// The entry of the environment of a spoke that is to wait.
pub(crate) const VARIABLE: &str = "SLUICE_ESCAPES_NEIGHBOUR";
/// Where it listens.
pub(crate) const PORT: u16 = 40_777;
pub(crate) const PATH: &str = "/tmp/sluice-escapes-neighbour";
pub(crate) const NAME: &str = "sluice-escapes-neighbour";

/// Starts it, and waits this long until it listens. It ends when it is dropped.
pub(crate) fn start(
    spec: &Spec,
    hostile: &Path,
    patience: Duration,
) -> Result<(Sandboxed, UnixStream), Error> {
    let (mut ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(patience))?;
    let spec = Spec {
        env: vec![(VARIABLE.to_owned(), "1".to_owned())],
        listen: Vec::new(),
        ..spec.clone()
    };
    let sandboxed = sandbox::spawn(&spec, hostile, OwnedFd::from(theirs))?;
    ours.read_exact(&mut [0])?;
    Ok((sandboxed, ours))
}

/// The process of it.
pub(crate) fn main(mut channel: UnixStream) -> Result<(), Error> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT));
    let path = UnixListener::bind(PATH);
    let name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(NAME)?);
    // A weaker sandbox may refuse some of them.
    let _ = port.map(|port| {
        std::thread::spawn(move || {
            for mut stream in port.incoming().flatten() {
                // An echo, as by the listeners of the host.
                let mut said = [0; 7];
                let _ = stream.read(&mut said).and_then(|_| stream.write_all(&said));
            }
        })
    });
    channel.write_all(b"\n")?;
    // Until the hub is gone. Connections wait in the sockets meanwhile.
    let _ = channel.read(&mut [0]);
    drop((path, name));
    Ok(())
}
