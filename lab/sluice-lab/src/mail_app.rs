//! The mail app in a configuration: a mailbox, and a relay to a mail server of this machine.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use crate::sluice::binary;

/// Rules that label nothing and limit nothing.
pub(crate) const UNPROTECTED: &str = include_str!("demo/unprotected.toml");
/// The port of the mail server as the app sees it, inside its own network.
const RELAY_PORT: u16 = 2525;

/// `[app.mail]` with the manifest in this file beside the configuration.
pub(crate) fn table(manifest: &str, maildir: &Path, server: SocketAddr) -> Result<String> {
    Ok(format!(
        r#"
[app.mail]
manifest = "{manifest}"
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
        program = quoted(&binary("sluice-mail")?)?,
        maildir = quoted(maildir)?,
    ))
}

/// Whether a mail with this subject is in a mailbox.
pub(crate) fn is_there(maildir: &Path, subject: &str) -> Result<bool> {
    for part in ["new", "cur"] {
        for entry in fs::read_dir(maildir.join(part))? {
            if fs::read_to_string(entry?.path())?.contains(subject) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// A path as a string of TOML.
pub(crate) fn quoted(path: &Path) -> Result<String> {
    Ok(serde_json::to_string(&path.to_string_lossy())?)
}
