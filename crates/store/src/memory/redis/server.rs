//! The connection to a Redis server, and what is demanded of it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::{Client, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, cmd};

use super::error::RedisError;
use super::listener::Listener;

/// How long the server may take for anything.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the rewriting of the server's file is looked at.
const PAUSE: Duration = Duration::from_millis(10);

/// Settings of the server without which it could lose what it has acknowledged, or keep what was
/// forgotten.
const SETTINGS: [(&str, &str); 4] = [
    ("appendonly", "yes"),
    // Each write is on disk before it is acknowledged.
    ("appendfsync", "always"),
    // Nothing is dropped to make room.
    ("maxmemory-policy", "noeviction"),
    // A snapshot would keep forgotten text until the next one.
    ("save", ""),
];

/// A server on this machine, for one operation at a time.
pub(super) struct Server {
    info: ConnectionInfo,
    /// None after a failure: the next operation connects again.
    connection: Mutex<Option<Connection>>,
}

/// Why an operation stopped.
pub(super) enum Stop<E> {
    Redis(redis::RedisError),
    Refused(E),
}

impl<E> From<redis::RedisError> for Stop<E> {
    fn from(error: redis::RedisError) -> Self {
        Self::Redis(error)
    }
}

impl Server {
    /// Connects, and checks the settings.
    pub(super) fn open(address: &str) -> Result<Self, RedisError> {
        let info = address.into_connection_info();
        let info = info.map_err(|_| RedisError::BadAddress)?;
        match info.addr() {
            ConnectionAddr::Unix(_) => {}
            ConnectionAddr::Tcp(host, _) if is_local(host) => {}
            ConnectionAddr::Tcp(host, _) => return Err(RedisError::Elsewhere(host.clone())),
            _ => return Err(RedisError::BadAddress),
        }
        let server = Self {
            info,
            connection: Mutex::default(),
        };
        let connection = server.connect()?;
        *server.slot() = Some(connection);
        Ok(server)
    }

    /// Does something with the connection. After a failure of the server it is closed, and with it
    /// everything that was begun on it.
    pub(super) fn with<T, E: From<RedisError>>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Stop<E>>,
    ) -> Result<T, E> {
        let mut slot = self.slot();
        // Taken out while it is used: after a failure or a panic nobody finds one in the middle of something.
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        match work(&mut connection) {
            Ok(result) => {
                *slot = Some(connection);
                Ok(result)
            }
            Err(Stop::Refused(error)) => {
                // What was watched is watched no more.
                if cmd("UNWATCH").exec(&mut connection).is_ok() {
                    *slot = Some(connection);
                }
                Err(error)
            }
            Err(Stop::Redis(error)) => Err(RedisError::Server(error).into()),
        }
    }

    /// Writes the server's file anew, without what was deleted.
    pub(super) fn erase(&self) -> Result<(), RedisError> {
        self.with(|connection| {
            let end = Instant::now() + PATIENCE;
            // One that began before the deletion is of no use.
            if !quiet(connection, end)? {
                return Err(Stop::Refused(RedisError::Slow));
            }
            cmd("BGREWRITEAOF").exec(connection)?;
            if !quiet(connection, end)? {
                return Err(Stop::Refused(RedisError::Slow));
            }
            let state = persistence(connection)?;
            match state.get("aof_last_bgrewrite_status").map(String::as_str) {
                Some("ok") => Ok(()),
                _ => Err(Stop::Refused(RedisError::NotRewritten)),
            }
        })
    }

    fn connect(&self) -> Result<Connection, RedisError> {
        // At each connection, and before a password is sent: somebody else may listen by now.
        let listener = match self.info.addr() {
            ConnectionAddr::Unix(path) => Some(Listener::at(path)?),
            _ => None,
        };
        let mut info = self.info.clone();
        if let Some(listener) = &listener {
            info = info.set_addr(ConnectionAddr::Unix(listener.path()));
        }
        let client = Client::open(info)?;
        let mut connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        // At each connection: the server may have been started again with other settings.
        for (name, wanted) in SETTINGS {
            let found: HashMap<String, String> =
                cmd("CONFIG").arg("GET").arg(name).query(&mut connection)?;
            let found = found.get(name).cloned().unwrap_or_default();
            if found != wanted {
                return Err(RedisError::Setting {
                    name,
                    found,
                    wanted,
                });
            }
        }
        Ok(connection)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Connection>> {
        // Whoever panicked had taken the connection out.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_local(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Waits until the server's file is not being rewritten. False if it takes too long.
fn quiet(connection: &mut Connection, end: Instant) -> redis::RedisResult<bool> {
    let running = ["aof_rewrite_in_progress", "aof_rewrite_scheduled"];
    loop {
        let state = persistence(connection)?;
        let idle = |name: &&str| state.get(*name).is_some_and(|value| value == "0");
        if running.iter().all(idle) {
            return Ok(true);
        }
        if Instant::now() >= end {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
}

fn persistence(connection: &mut Connection) -> redis::RedisResult<HashMap<String, String>> {
    let text: String = cmd("INFO").arg("persistence").query(connection)?;
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    Ok(pairs
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_other_machines_are_refused() {
        let refused = Server::open("redis://10.0.0.5:6379").err();
        assert!(matches!(refused, Some(RedisError::Elsewhere(host)) if host == "10.0.0.5"));
        for bad in ["", "rediss://127.0.0.1", "http://127.0.0.1"] {
            let refused = Server::open(bad).err();
            assert!(matches!(refused, Some(RedisError::BadAddress)), "{bad}");
        }
    }
}
