//! A home of its own, and the command line in it.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(home.path("home")).unwrap();
        home
    }

    /// A home with this as the user's own configuration.
    pub(crate) fn with(config: &str) -> Self {
        let home = Self::new();
        home.configure(config);
        home
    }

    pub(crate) fn configure(&self, config: &str) {
        fs::create_dir_all(self.path("config/sluice")).unwrap();
        fs::write(self.path("config/sluice/sluice.toml"), config).unwrap();
    }

    /// A place beside `home`, `data`, `config` and `state`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// `sluice` with these arguments. All that is the user's is here.
    pub(crate) fn sluice(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command
            .args(arguments)
            .current_dir(self.path("home"))
            .env("HOME", self.path("home"))
            .env("XDG_DATA_HOME", self.path("data"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env_remove("SLUICE_CONFIG");
        command
    }

    /// The same with this on standard input.
    pub(crate) fn pipe(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        let mut command = self.sluice(arguments);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        // It may have ended already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        said(&child.wait_with_output().unwrap())
    }

    /// Exit code, standard output and standard error.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        self.pipe(arguments, "")
    }
}

/// Exit code, standard output and standard error.
pub(crate) fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let code = output.status.code().unwrap();
    (code, text(&output.stdout), text(&output.stderr))
}
