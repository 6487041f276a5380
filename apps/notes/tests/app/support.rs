//! A running app: a real child process over a temporary folder.

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;

use tempfile::TempDir;
use tokio::process::Command;

use crate::client::Client;

pub(crate) struct App {
    client: Client,
    home: TempDir,
}

impl App {
    /// Starts the app over these files.
    pub(crate) async fn with(files: &[(&str, &str)]) -> App {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("notes");
        fs::create_dir(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-notes"));
        command.env_clear().env("NOTES", &folder);
        let client = Client::start(command).await;
        App { client, home }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().join("notes")
    }

    pub(crate) async fn stop(self) {
        self.client.stop().await;
    }
}

impl Deref for App {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
