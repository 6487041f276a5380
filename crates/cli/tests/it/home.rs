//! A home of its own, and the command line in it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(home.path("home")).unwrap();
        home
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
}
