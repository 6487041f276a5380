//! A mail app as an MCP server over stdio: it lists, reads, searches, sends and deletes the user's e-mail.
//!
//! It needs a Maildir and an SMTP server (`Config`), and nothing else: no home directory, no name service when the
//! server is given as an IP address, no certificate store. Everything in a mail was written by its sender, so
//! each result keeps apart what is constrained (ids, dates, plain addresses) and what is free text (names, subjects,
//! bodies, names of attachments); `sluice-app.toml` labels them so.
//!
//! ```text
//! list_emails   {limit?, folder?}      → {"emails":[{"id","from":{"name","address"},"date","subject","unread"}],"total"}
//! search_emails {query, limit?}        → the same
//! read_email    {id}                   → {"id","from":{"name","address"},"to":[],"date","subject","body","attachments"?,"truncated"?}
//! send_email    {to, subject, body}    → {"sent":true,"recipients"}
//! delete_email  {id}                   → {"deleted":true}
//! ```

mod config;
mod error;
mod html;
mod mailbox;
mod maildir;
mod message;
mod outbox;
pub mod sample;
mod server;

pub use message::MAX_BODY_CHARS;

/// The app's manifest: what a hub may believe about its results, and what its calls may do.
pub const MANIFEST: &str = include_str!("../sluice-app.toml");

/// Serves the app on standard input and output, configured by the environment.
pub fn run() -> std::process::ExitCode {
    let config = config::Config::from_vars(|name| std::env::var(name).ok());
    let server = config.map(|config| server::MailServer::new(mailbox::Mailbox::new(config)));
    app_support::tools::serve("sluice-mail", server)
}
