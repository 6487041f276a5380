//! The demo's world: a mailbox, a mail server and a configuration, all of them real.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use smtp_sink::SmtpSink;

use crate::mail_app::{self, UNPROTECTED};
use crate::sluice::Home;

/// Where the injection wants the confidential mail to go.
pub(super) const ATTACKER: &str = "collector@evil.example";

pub(super) const WORST_CASE: &str = "worst-case";

/// A Maildir whose newest mail is poisoned, an SMTP server on loopback, and a `sluice.toml`.
pub(super) struct World {
    folder: PathBuf,
    home: Home,
    server: SmtpSink,
}

/// Which model the agent has.
pub(super) enum Model {
    Embedded,
    /// The worst-case one, at this base URL.
    At(String),
}

/// By which rules the mail app is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    /// Its own manifest's.
    On,
    /// Rules that label nothing and limit nothing.
    Off,
}

impl World {
    /// Makes the world in a folder of its own.
    pub(super) fn create(
        folder: &Path,
        attacker: &str,
        model: &Model,
        protection: Protection,
    ) -> Result<Self> {
        let maildir = folder.join("Maildir");
        sluice_mail::sample::write(&maildir, attacker)
            .context("cannot write the sample mailbox")?;
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = SmtpSink::start(any_port).context("cannot start the mail server")?;
        let world = Self {
            home: Home::at(folder),
            folder: folder.to_owned(),
            server,
        };
        let manifest = match protection {
            Protection::On => sluice_mail::MANIFEST,
            Protection::Off => UNPROTECTED,
        };
        fs::write(folder.join("sluice-app.toml"), manifest)?;
        fs::write(&world.home.config, world.configuration(model, protection)?)?;
        Ok(world)
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    pub(super) fn sent(&self) -> Vec<smtp_sink::Received> {
        self.server.messages()
    }

    /// Whether the poisoned mail is still in the mailbox.
    pub(super) fn newest_is_there(&self) -> Result<bool> {
        let subject = sluice_mail::sample::NEWEST_SUBJECT;
        mail_app::is_there(&self.folder.join("Maildir"), subject)
    }

    fn configuration(&self, model: &Model, protection: Protection) -> Result<String> {
        let provider = match model {
            Model::Embedded => {
                "name = \"local\"\nkind = \"embedded\"\nmodel = \"qwen2.5-coder-1.5b\"".to_owned()
            }
            Model::At(url) => format!(
                "name = \"{WORST_CASE}\"\nkind = \"openai\"\nmodel = \"{WORST_CASE}\"\nbase_url = \"{url}\"\nclearance = \"any\""
            ),
        };
        // Where nothing is labelled, no screener has anything to do; this one needs no model.
        let screener = match protection {
            Protection::On => "",
            Protection::Off => "[screener]\nkind = \"naive\"\n",
        };
        let maildir = self.folder.join("Maildir");
        let mail = mail_app::table("sluice-app.toml", &maildir, self.server.addr())?;
        Ok(format!(
            r#"[lattice]
integrity = {{ categories = ["email", "sender"] }}
confidentiality = {{ categories = ["mail"] }}

[[provider]]
{provider}

{screener}{mail}"#
        ))
    }
}
