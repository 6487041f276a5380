//! A running app: a real child process, a temporary Maildir, and an SMTP server on loopback.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use smtp_sink::SmtpSink;
use tempfile::TempDir;
use tokio::process::Command;

use crate::client::Client;

pub(crate) const USER: &str = "anna.berg@example.org";

pub(crate) struct App {
    pub(crate) sink: SmtpSink,
    client: Client,
    home: TempDir,
}

impl App {
    /// Starts the app over the sample mails.
    pub(crate) async fn with_sample() -> App {
        App::start(
            |maildir| sluice_mail::sample::write(maildir, "drop@evil.example").unwrap(),
            &[],
        )
        .await
    }

    /// Starts the app over what `fill` puts into the Maildir.
    pub(crate) async fn start(fill: impl FnOnce(&Path), vars: &[(&str, &str)]) -> App {
        let home = tempfile::tempdir().unwrap();
        let maildir = home.path().join("mail");
        fill(&maildir);
        for part in ["cur", "new", "tmp"] {
            std::fs::create_dir_all(maildir.join(part)).unwrap();
        }
        let sink = SmtpSink::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-mail"));
        command
            .env_clear()
            .env("MAILDIR", &maildir)
            .env("SMTP_SERVER", sink.addr().to_string())
            .env("MAIL_FROM", USER);
        command.envs(vars.iter().copied());
        let client = Client::start(command).await;
        App { sink, client, home }
    }

    pub(crate) fn maildir(&self) -> PathBuf {
        self.home.path().join("mail")
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
