//! What the service manager is told, at a socket of the test's.

use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use super::{PATIENCE, Service, config};
use crate::home::{Home, said};
use crate::proxy::Upstream;

/// The socket of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn new(home: &Home, name: &str) -> Self {
        let socket = UnixDatagram::bind(home.path(name)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn next(&self) -> String {
        let mut message = [0; 256];
        let length = self.0.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    }

    /// The next message that is no sign of life.
    fn next_change(&self) -> String {
        let begun = Instant::now();
        loop {
            let message = self.next();
            if message != "WATCHDOG=1\n" {
                return message;
            }
            assert!(begun.elapsed() < PATIENCE, "nothing has changed");
        }
    }
}

#[test]
fn the_service_manager_knows_when_it_serves_reloads_and_stops() {
    let upstream = Upstream::start();
    let home = Home::with(&config(&upstream, ""));
    let manager = Manager::new(&home, "notify");
    let mut command = Service::command(&home, &[]);
    command.env("NOTIFY_SOCKET", home.path("notify"));
    command.env("WATCHDOG_USEC", "200000");
    let mut service = Service::run(command);
    assert_eq!(manager.next_change(), "READY=1\n");
    assert_eq!(service.get("/readyz", &[]).unwrap().status, 200);
    while manager.next() != "WATCHDOG=1\n" {}
    service.signal("-HUP");
    let reloading = manager.next_change();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert_eq!(manager.next_change(), "READY=1\n");
    // One that cannot serve is never ready.
    let other = Home::with(&config(&upstream, ""));
    let none = Manager::new(&other, "notify");
    let mut command = other.sluice(&["serve", "--listen", &service.host]);
    command.env("NOTIFY_SOCKET", other.path("notify"));
    let (code, _, err) = said(&command.env("UPSTREAM_KEY", "sk-x").output().unwrap());
    assert!(code == 1 && err.contains("cannot listen"), "{err}");
    none.0.set_nonblocking(true).unwrap();
    assert!(none.0.recv(&mut [0; 256]).is_err());
    service.signal("-TERM");
    assert_eq!(manager.next_change(), "STOPPING=1\n");
    assert_eq!(service.end(), Some(0), "{}", service.err());
}
