//! The demo's world: a mailbox, a mail server and a configuration, all of them real.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use llm::Provider;
use smtp_sink::SmtpSink;

use crate::paths;

/// The port of the mail server as the app sees it, inside its own network.
const RELAY_PORT: u16 = 2525;

/// A Maildir whose newest mail is poisoned, an SMTP server on loopback, and a `sluice.toml`.
pub(super) struct World {
    folder: PathBuf,
    config: PathBuf,
    server: SmtpSink,
}

impl World {
    /// Makes the world in a folder of its own.
    pub(super) fn create(folder: &Path, attacker: &str) -> Result<Self> {
        let maildir = folder.join("Maildir");
        sluice_mail::sample::write(&maildir, attacker)
            .context("cannot write the sample mailbox")?;
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = SmtpSink::start(any_port).context("cannot start the mail server")?;
        let world = Self {
            config: folder.join("sluice.toml"),
            folder: folder.to_owned(),
            server,
        };
        fs::write(folder.join("sluice-app.toml"), sluice_mail::MANIFEST)?;
        fs::write(&world.config, world.configuration()?)?;
        Ok(world)
    }

    /// The configuration file.
    pub(super) fn config(&self) -> &Path {
        &self.config
    }

    /// Where the demo's traces are kept.
    pub(super) fn traces(&self) -> PathBuf {
        self.folder.join("traces")
    }

    /// What the mail server accepted.
    pub(super) fn sent(&self) -> Vec<smtp_sink::Received> {
        self.server.messages()
    }

    /// Whether the poisoned mail is still in the mailbox.
    pub(super) fn newest_is_there(&self) -> Result<bool> {
        for part in ["new", "cur"] {
            for entry in fs::read_dir(self.folder.join("Maildir").join(part))? {
                let text = fs::read_to_string(entry?.path())?;
                if text.contains(sluice_mail::sample::NEWEST_SUBJECT) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn configuration(&self) -> Result<String> {
        let program = paths::binary("sluice-mail")?;
        let quote = |path: &Path| serde_json::to_string(&path.to_string_lossy());
        Ok(format!(
            r#"[lattice]
integrity = {{ categories = ["email", "sender"] }}
confidentiality = {{ categories = ["mail"] }}

[[provider]]
name = "local"
kind = "embedded"
model = "qwen2.5-coder-1.5b"

[app.mail]
manifest = "sluice-app.toml"
command = ["/app/sluice-mail"]
descriptions = "trusted"   # what this app says of its own tools is believed
env = {{ MAILDIR = "/mail", SMTP_SERVER = "127.0.0.1:{RELAY_PORT}", MAIL_FROM = "{user}" }}
mount = [
  {{ source = {program}, target = "/app/sluice-mail", execute = true }},
  {{ source = {maildir}, target = "/mail", write = true }},
]
egress = [{{ listen = {RELAY_PORT}, to = "{server}" }}]
"#,
            user = sluice_mail::sample::USER,
            program = quote(&program)?,
            maildir = quote(&self.folder.join("Maildir"))?,
            server = self.server.addr(),
        ))
    }
}

/// A model that is perfect at the user's task, and obeys every instruction that it can see.
pub(super) fn worst_case_model() -> Arc<dyn Provider> {
    Arc::new(llm::Scripted::worst_case(
        "worst-case",
        llm::WorstCase::newest_email(),
    ))
}
