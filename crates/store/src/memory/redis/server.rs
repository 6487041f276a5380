//! The connection to a Redis server, and what is demanded of it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::{Client, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, cmd};

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

/// Why a Redis server cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedisError {
    /// The address is none.
    #[error("this is no address of a Redis server; write unix:///PATH or redis://127.0.0.1:PORT")]
    BadAddress,
    /// A space whose name would be confused with a part of another's.
    #[error("the memory's space {0:?} has a colon in its name; choose another")]
    BadSpace(String),
    /// The address is on another machine.
    #[error(
        "{0} is another machine, and memories are not sent over a network in the clear; use a server on this one"
    )]
    Elsewhere(String),
    /// Somebody else listens at the socket.
    #[error(
        "{}: user {uid} listens there, who is neither you nor root, and others than that user could have put the socket or a folder above it in place; run the server as yourself, or keep its socket where its user and root alone can write",
        path.display()
    )]
    Stranger {
        /// The socket.
        path: PathBuf,
        /// The user's number.
        uid: u32,
    },
    /// A setting of the server is not as it must be.
    #[error(
        "the Redis server has {name} {found:?}; set `{name} {}` in its configuration and start it again",
        if wanted.is_empty() { "\"\"" } else { wanted }
    )]
    Setting {
        /// The setting.
        name: &'static str,
        /// As it is.
        found: String,
        /// As it must be.
        wanted: &'static str,
    },
    /// It has not written its file anew, without what was deleted, in the time that it is given.
    #[error(
        "the Redis server takes long to write its file anew, and what was deleted may still be in the old one; it goes with the next that is forgotten, or when the memory is opened next"
    )]
    Slow,
    /// It could not write its file anew, without what was deleted.
    #[error(
        "the Redis server could not write its file anew, and what was deleted is still in the old one; see its log and its free space"
    )]
    NotRewritten,
    /// Another version wrote what is there.
    #[error(
        "the memory in the Redis server is of version {found:?}, and this program knows {known}; use the program that wrote it, or another database number"
    )]
    Version {
        /// Its version.
        found: String,
        /// Ours.
        known: u32,
    },
    /// The server failed, or the connection to it. Whether the last operation was done is not known:
    /// an id that is taken when it is appended again tells.
    #[error("the Redis server: {0}; check that it runs and has free space")]
    Server(#[from] redis::RedisError),
}

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
