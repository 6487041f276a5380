//! `sluice` with the feature `redis`, at a real `redis-server`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use ifc::{Label, Lattice};
use store::{Content, Draft, EntryId, Limits, Memory, Name, Namespace, RedisMemory, Speaker, Time};
use tempfile::TempDir;

/// A server on a Unix socket in a folder of its own.
struct Server {
    folder: TempDir,
    process: Child,
}

impl Server {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--unixsocketperm", "700", "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        command
            .arg("--unixsocket")
            .arg(folder.path().join("socket"));
        command.arg("--dir").arg(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let Ok(process) = command.spawn() else {
            panic!("redis-server is missing: `apt-get install redis-server`");
        };
        let server = Self { folder, process };
        let started = Instant::now();
        while server.command(&["PING"]).trim() != "PONG" {
            assert!(started.elapsed() < Duration::from_secs(20), "no server");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn address(&self) -> String {
        format!("unix://{}", self.path("socket").display())
    }

    fn command(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        let output = command.arg("-s").arg(self.path("socket")).args(arguments);
        String::from_utf8(output.output().unwrap().stdout).unwrap()
    }

    /// A configuration with its memory in this server.
    fn config(&self, name: &str) -> PathBuf {
        let text = format!(
            "[screener]\nkind = \"naive\"\n\n[[provider]]\nname = \"p\"\nkind = \"openai\"\nmodel = \"m\"\n\
             base_url = \"http://127.0.0.1:1/v1\"\n\n[memory]\ndays = 30\nredis = \"{}\"\n",
            self.address()
        );
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    fn memory(&self, config: &Path, arguments: &[&str]) -> Output {
        let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
        sluice.arg("memory").args(arguments);
        sluice
            .arg("--config")
            .arg(config)
            .env("HOME", self.path("."));
        sluice.env("XDG_STATE_HOME", self.path("state"));
        sluice.output().unwrap()
    }

    fn list(&self, config: &Path) -> String {
        let output = self.memory(config, &["list"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The spaces in use.
    fn spaces(&self) -> Vec<String> {
        let keys = self.command(&["KEYS", "sluice:memory:*:version"]);
        let parts = keys.lines().filter_map(|key| key.split(':').nth(2));
        parts.map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn said(number: u8, text: &str, days_ago: i64, sources: Vec<EntryId>) -> Draft {
    let now = Time::from(SystemTime::now()).millis();
    Draft {
        id: EntryId::from_bytes([number; 16]),
        content: Content::Interaction {
            speaker: Speaker::User,
            text: text.to_owned(),
        },
        label: Label::bottom(),
        sources,
        origin: "chat".to_owned(),
        time: Time::from_millis(now - days_ago * 24 * 60 * 60 * 1000),
    }
}

#[test]
fn each_configuration_has_memories_of_its_own_in_the_server() {
    let server = Server::new();
    let (one, other) = (server.config("one.toml"), server.config("other.toml"));
    assert_eq!(server.list(&one), "");
    let spaces = server.spaces();
    let [space] = spaces.as_slice() else {
        panic!("{spaces:?}");
    };
    let space = Name::new(space.clone()).unwrap();
    let memory = RedisMemory::open(
        &server.address(),
        &space,
        Lattice::four_point(),
        Limits::default(),
    );
    let query = said(0xaa, "when is the delivery?", 0, Vec::new());
    let fact = Draft {
        content: Content::Fact {
            entity: "delivery".to_owned(),
            attribute: "day".to_owned(),
            value: "Friday".to_owned(),
        },
        ..said(0xbb, "", 0, vec![query.id])
    };
    let old = said(0xcc, "too old", 31, Vec::new());
    let memory = memory.unwrap();
    memory.append(&Namespace::Hub, &[query, fact, old]).unwrap();

    assert_eq!(server.list(&other), "");
    assert_eq!(server.spaces().len(), 2);
    let shown = server.list(&one);
    assert!(
        shown.contains("hub, fact  {trusted, public}  delivery, day: Friday"),
        "{shown}"
    );
    assert!(
        shown.contains("hub, user") && !shown.contains("too old"),
        "{shown}"
    );
    let forgotten = server.memory(&one, &["forget", "aaaa", "--yes"]);
    assert!(
        String::from_utf8(forgotten.stderr)
            .unwrap()
            .contains("2 forgotten")
    );
    assert_eq!(server.list(&one), "");
}
