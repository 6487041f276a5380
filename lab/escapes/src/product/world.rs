//! The world as names lead to it: a host of it, a service that is inside, and a resolver that says what attackers want.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use server::Resolve;

use crate::by_name::{HOST, INSIDE, PUBLIC, REBOUND, rebound_name};

/// How long a host waits for whoever has connected.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where names lead.
pub(super) struct Names {
    host: SocketAddr,
    inside: u16,
    /// How often each name was looked up.
    looks: Mutex<HashMap<String, usize>>,
}

impl Names {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            host: listen((PUBLIC, 0), HOST)?,
            inside: listen(("::", 0), INSIDE)?.port(),
            looks: Mutex::default(),
        })
    }

    /// The addresses of a name, as the attacker's own name server gives them.
    pub(super) fn look_up(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        let rebound = REBOUND
            .iter()
            .find(|(label, ..)| rebound_name(label) == name);
        let Some((_, _, answers)) = rebound else {
            return Ok(vec![self.host]);
        };
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let look = looks.entry(name.to_owned()).or_default();
        let answer = answers.get(*look).or(answers.last());
        *look += 1;
        let address = |text: &&str| match *text {
            PUBLIC => Ok(self.host),
            text => {
                let address = text.parse::<IpAddr>().map_err(io::Error::other)?;
                Ok(SocketAddr::new(address, self.inside))
            }
        };
        answer
            .copied()
            .unwrap_or_default()
            .iter()
            .map(address)
            .collect()
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        self.look_up(host)
    }
}

/// Answers whoever has said something.
fn listen(at: (&str, u16), answer: &'static str) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(at)?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            std::thread::spawn(move || {
                let _ = stream.set_read_timeout(Some(PATIENCE));
                // Whoever breaks off is not answered.
                if let Ok(1..) = stream.read(&mut [0; 1024]) {
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
        }
    });
    Ok(address)
}
