//! A private PostgreSQL server for one test, from the programs of Debian's package `postgresql`.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::free_port;

/// The password of the server's user. Tests look for it in messages.
pub const PASSWORD: &str = "correct-horse-41";
/// How long a server may take to accept connections.
const START: Duration = Duration::from_secs(60);

/// Runs the server until a line on the input says how to stop it. If the test ends without one, even by SIGKILL, the server
/// is stopped at once and its folder removed.
const RUN: &str = r#"folder=$1; shift; "$@" & server=$!
if read -r how; then kill -"$how" $server; wait $server; else kill -QUIT $server; wait $server; rm -rf "$folder"; fi"#;

/// A server in a temporary folder, on a loopback port. Dropped, it is stopped and removed.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    folder: PathBuf,
    /// The user that it runs as, where this process is root: the server refuses that.
    user: Option<(u32, u32)>,
    port: u16,
    settings: Vec<String>,
    run: Mutex<Option<Child>>,
    databases: AtomicU32,
}

impl Postgres {
    /// A server that writes through to the disk, as in production. `None`, and a line that says so, where PostgreSQL is
    /// missing.
    pub fn start() -> Option<Self> {
        Self::with(&[])
    }

    /// A server that loses data when the machine fails, but not when a process is killed.
    pub fn fast() -> Option<Self> {
        Self::with(&["fsync=off", "full_page_writes=off"])
    }

    /// A server with these settings.
    pub fn with(settings: &[&str]) -> Option<Self> {
        Self::with_files(settings, &[])
    }

    /// A server that knows TLS for these names, and the certificate that clients have to trust.
    pub fn with_tls(names: &[&str]) -> Option<(Self, String)> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certified = rcgen::generate_simple_self_signed(names).unwrap();
        let (certificate, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
        let files = [("server.crt", &*certificate), ("server.key", &*key)];
        let server = Self::with_files(&["fsync=off", "ssl=on"], &files)?;
        Some((server, certificate))
    }

    /// A server with these settings, and files in its folder that it alone can read.
    fn with_files(settings: &[&str], files: &[(&str, &str)]) -> Option<Self> {
        let Some(bin) = programs() else {
            #[expect(clippy::print_stderr, reason = "the reader of the tests must see it")]
            {
                eprintln!("NOT RUN: there is no PostgreSQL; `cargo xtask setup` installs it");
            }
            return None;
        };
        let user = unprivileged();
        let folder = folder();
        if let Some((user, group)) = user {
            chown(&folder, Some(user), Some(group)).unwrap();
        }
        let settings = settings.iter().map(|it| (*it).to_owned()).collect();
        let server = Self {
            bin,
            folder,
            user,
            port: free_port(),
            settings,
            run: Mutex::new(None),
            databases: AtomicU32::new(0),
        };
        let password = server.folder.join("password");
        fs::write(&password, PASSWORD).unwrap();
        let mut make = server.program("initdb");
        make.arg("-D").arg(server.data()).arg("--pwfile");
        make.arg(&password)
            .args(["-U", "sluice", "--auth=scram-sha-256"])
            .args(["-E", "UTF8", "--locale=C", "--no-sync"]);
        done(make);
        for (name, text) in files {
            let path = server.data().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            if let Some((user, group)) = user {
                chown(&path, Some(user), Some(group)).unwrap();
            }
        }
        server.start_again();
        Some(server)
    }

    /// The URL of a new database.
    pub fn database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test{number}");
        let mut make = self.program("createdb");
        make.env("PGPASSWORD", PASSWORD)
            .args(["-h", "127.0.0.1", "-U", "sluice", "-p"])
            .args([&self.port.to_string(), &name]);
        done(make);
        format!(
            "postgres://sluice:{PASSWORD}@127.0.0.1:{}/{name}",
            self.port
        )
    }

    /// What a statement prints, of another program: columns with `|` between them.
    pub fn sql(&self, url: &str, statement: &str) -> String {
        let mut run = self.program("psql");
        run.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url, "-c"])
            .arg(statement);
        done(run)
    }

    /// The folder of the server, for files that a setting names.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Stops the server as an administrator does: connections are closed.
    pub fn stop(&self) {
        self.end("INT");
    }

    /// Stops the server as a failure of its machine does. It recovers with the next start.
    pub fn crash(&self) {
        self.end("QUIT");
    }

    /// Starts the server after [`Postgres::stop`] or [`Postgres::crash`], at the same port.
    pub fn start_again(&self) {
        let mut run = self.command("sh");
        run.args(["-c", RUN, "sh"]).arg(&self.folder);
        run.arg(self.bin.join("postgres")).arg("-D");
        run.arg(self.data()).args(["-h", "127.0.0.1", "-p"]);
        run.arg(self.port.to_string());
        for setting in ["unix_socket_directories="]
            .into_iter()
            .chain(self.settings.iter().map(String::as_str))
        {
            run.args(["-c", setting]);
        }
        let mut options = fs::File::options();
        let log = options.append(true).create(true);
        let log = log.open(self.folder.join("log")).unwrap();
        run.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run.spawn().unwrap());
        let begin = Instant::now();
        loop {
            let mut asks = self.program("pg_isready");
            asks.args(["-q", "-h", "127.0.0.1", "-p"])
                .arg(self.port.to_string());
            if asks.status().unwrap().success() {
                return;
            }
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(begin.elapsed() < START, "PostgreSQL does not start: {log}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn end(&self, signal: &str) {
        let run = self
            .run
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut run) = run else { return };
        let mut input = run.stdin.take().unwrap();
        writeln!(input, "{signal}").unwrap();
        run.wait().unwrap();
    }

    fn program(&self, name: &str) -> Command {
        let mut program = self.command(self.bin.join(name));
        program.stdin(Stdio::null());
        program
    }

    /// A program of the user that the server runs as.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        // The working folder may be closed to that user.
        command.current_dir("/").env("LC_ALL", "C");
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let run = self
            .run
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // Its input ends without a line.
        if let Some(mut run) = run {
            drop(run.stdin.take());
            drop(run.wait());
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// The folder of PostgreSQL's programs, of the newest version.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .flatten()
        .filter_map(|it| {
            let version = it.file_name().to_str()?.parse().ok()?;
            Some((version, it.path().join("bin")))
        })
        .collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all: Vec<PathBuf> = std::env::split_paths(&path).collect();
    all.extend(found.into_iter().rev().map(|(_, path)| path));
    let needed = ["initdb", "postgres", "createdb", "psql", "pg_isready"];
    let has_all = |bin: &PathBuf| needed.iter().all(|name| bin.join(name).is_file());
    all.into_iter().find(has_all)
}

/// Another user, where this process is root.
fn unprivileged() -> Option<(u32, u32)> {
    // Of the process: its files in /proc belong to its effective user.
    let own = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap());
    if own != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    ["postgres", "nobody"].iter().find_map(|name| {
        let mut lines = users.lines().map(|line| line.split(':'));
        let mut parts = lines
            .find(|parts| parts.clone().next() == Some(*name))?
            .skip(2);
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    })
}

/// A new folder that its owner alone can read.
fn folder() -> PathBuf {
    let mut bytes = [0; 8];
    fs::File::open("/dev/urandom")
        .unwrap()
        .read_exact(&mut bytes)
        .unwrap();
    let name = format!("sluice-postgres-{:016x}", u64::from_ne_bytes(bytes));
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    folder
}

/// The output of a program that must succeed.
fn done(mut command: Command) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}
