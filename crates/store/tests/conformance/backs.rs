//! The back ends that the suite runs against, each in a folder of its own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ifc::Lattice;
use store::{EntryId, Limits, Memory, Name, RedisMemory, SqliteMemory};
use tempfile::TempDir;

/// A place for one memory.
pub(crate) trait Back: Sized {
    fn new() -> Self;

    /// Opens the memory, once more if it is open already.
    fn open(&self, lattice: Lattice, limits: Limits) -> Box<dyn Memory>;

    /// The folder that everything is written below.
    fn folder(&self) -> &Path;

    /// Makes an entry one that cannot be read, as a fault of the disk or another program may.
    fn damage(&self, id: EntryId, damage: Damage);
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Damage {
    /// It is of no kind that there is.
    Kind,
    /// Its text is not UTF-8.
    Text,
}

pub(crate) struct Sqlite {
    folder: TempDir,
}

impl Back for Sqlite {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn open(&self, lattice: Lattice, limits: Limits) -> Box<dyn Memory> {
        // A folder that it makes itself, for its owner alone.
        let path = self.folder.path().join("store/memory.db");
        Box::new(SqliteMemory::open(&path, lattice, limits).unwrap())
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn damage(&self, id: EntryId, damage: Damage) {
        let set = match damage {
            Damage::Kind => "kind = 'poem'",
            Damage::Text => "text = CAST(x'ff' AS TEXT)",
        };
        let file = rusqlite::Connection::open(self.folder.path().join("store/memory.db")).unwrap();
        let update = format!(
            "PRAGMA ignore_check_constraints = true; UPDATE memory SET {set} WHERE id = x'{id}'"
        );
        file.execute_batch(&update).unwrap();
    }
}

/// Where in the server the memories of these tests are.
pub(crate) fn space() -> Name {
    Name::new("tests").unwrap()
}

/// A server of its own, on a Unix socket.
pub(crate) struct Redis {
    folder: TempDir,
    server: Option<Child>,
}

impl Redis {
    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A server of another user, in a folder of that user.
    pub(crate) fn of_user(uid: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut redis = Self {
            folder,
            server: None,
        };
        redis.start_as(Some(uid), &[]);
        redis
    }

    /// Starts the server with these further arguments, and waits for it.
    pub(crate) fn start(&mut self, more: &[&str]) {
        self.start_as(None, more);
    }

    /// As [`Redis::start`], as another user.
    pub(crate) fn start_as(&mut self, uid: Option<u32>, more: &[&str]) {
        let _ = fs::remove_file(self.socket());
        let mut command = Command::new("redis-server");
        if let Some(uid) = uid {
            hand_over(self.folder.path(), uid);
            command.uid(uid).gid(uid);
        }
        command.args(["--port", "0", "--unixsocketperm", "700", "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        // It looks ten times as often whether its file has been written anew.
        command.args(["--hz", "100"]);
        // So that text can be looked for in its files.
        command.args(["--rdbcompression", "no"]);
        command.arg("--unixsocket").arg(self.socket());
        command.arg("--dir").arg(self.folder.path()).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let Ok(server) = command.spawn() else {
            panic!(
                "redis-server is missing, and memories in Redis cannot be tested without it: `apt-get install redis-server`, or `cargo xtask test`, which does"
            );
        };
        self.server = Some(server);
        let started = Instant::now();
        // It listens before it has read its file.
        while !self.socket().exists() || self.command(&["PING"]).trim() != "PONG" {
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "redis-server does not start"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the server like a crash does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Lets `redis-cli` do something, as a user may.
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        let output = command
            .arg("-s")
            .arg(self.socket())
            .args(arguments)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }
}

/// Makes a folder and all in it another user's.
fn hand_over(folder: &Path, uid: u32) {
    std::os::unix::fs::chown(folder, Some(uid), Some(uid)).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => hand_over(&path, uid),
            false => std::os::unix::fs::chown(&path, Some(uid), Some(uid)).unwrap(),
        }
    }
}

impl Back for Redis {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let mut redis = Self {
            folder,
            server: None,
        };
        redis.start(&[]);
        redis
    }

    fn open(&self, lattice: Lattice, limits: Limits) -> Box<dyn Memory> {
        Box::new(RedisMemory::open(&self.address(), &space(), lattice, limits).unwrap())
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn damage(&self, id: EntryId, damage: Damage) {
        let key = format!("sluice:memory:{}:entry:{id}", space());
        let data = self.command(&["HGET", &key, "data"]);
        let mut data: Vec<u8> = data.trim_end().into();
        let (old, new): (&[u8], &[u8]) = match damage {
            Damage::Kind => (b"\"user\"", b"\"poem\""),
            Damage::Text => (b"word", b"w\xffrd"),
        };
        let at = data.windows(old.len()).position(|part| part == old);
        let at = at.unwrap();
        data.splice(at..at + old.len(), new.iter().copied());
        let mut command = Command::new("redis-cli");
        command.arg("-s").arg(self.socket()).arg("HSET");
        command.arg(&key).arg("data").arg(OsStr::from_bytes(&data));
        assert!(command.output().unwrap().status.success());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
