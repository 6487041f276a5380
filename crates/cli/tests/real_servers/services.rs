//! Services of Debian that some servers are for: PostgreSQL and Redis, each on a port of loopback.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longest that a service takes to listen.
const PATIENCE: Duration = Duration::from_secs(60);
/// A database with one table, in the folder `$1` and at the port `$2`.
const POSTGRES: &str = r#"set -e
PATH="$(echo /usr/lib/postgresql/*/bin | tr ' ' ':'):$PATH"
initdb -D "$1/data" -U heron -A trust
echo "CREATE TABLE birds (name text); INSERT INTO birds VALUES ('grey heron');" | postgres --single -j -D "$1/data" postgres
exec postgres -D "$1/data" -p "$2" -k "" -c listen_addresses=127.0.0.1"#;
const REDIS: &str = r#"exec redis-server --dir "$1" --port "$2" --bind 127.0.0.1 --save "" --enable-debug-command no"#;
/// The user that Debian's package of PostgreSQL brings: the database does not run as root.
const USER: &str = "postgres";

pub(crate) struct Services {
    postgres: Service,
    redis: Service,
}

struct Service {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Services {
    pub(crate) fn start() -> Self {
        let services = Self {
            postgres: Service::start(POSTGRES),
            redis: Service::start(REDIS),
        };
        let mut redis = TcpStream::connect(("127.0.0.1", services.redis.port)).unwrap();
        std::io::Write::write_all(&mut redis, b"SET bird heron\r\n").unwrap();
        services
    }

    /// With the places of the services for words in capital letters.
    pub(crate) fn placed(&self, text: &str) -> String {
        let at = |service: &Service| format!("127.0.0.1:{}", service.port);
        text.replace("POSTGRES", &at(&self.postgres))
            .replace("REDIS", &at(&self.redis))
            .replace("CHROMIUM", "/usr/bin/chromium")
    }
}

impl Service {
    /// Runs a script, and waits until it listens.
    fn start(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let is_root = Path::new("/proc/self").metadata().unwrap().uid() == 0;
        let mut command = Command::new(if is_root { "setpriv" } else { "sh" });
        if is_root {
            let mut chown = Command::new("chown");
            assert!(
                chown
                    .arg(USER)
                    .arg(folder.path())
                    .status()
                    .unwrap()
                    .success()
            );
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "sh"]);
        }
        command
            .args(["-c", script, "sh"])
            .arg(folder.path())
            .arg(port.to_string());
        command
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = child.try_wait().unwrap();
            assert!(
                ended.is_none() && begun.elapsed() < PATIENCE,
                "does not listen: {script}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Self {
            child,
            port,
            _folder: folder,
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // A signal that PostgreSQL passes on to its processes.
        let _ = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status();
        let _ = self.child.wait();
    }
}
