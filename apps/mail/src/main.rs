//! `sluice-mail`: serves the mail app on standard input and output. Configured by the environment.

use std::process::ExitCode;

use sluice_mail::{Config, MailServer, Mailbox};

fn main() -> ExitCode {
    let config = Config::from_env().map_err(|errors| errors.to_string());
    let server = config.map(|config| MailServer::new(Mailbox::new(config)));
    app_support::tools::serve("sluice-mail", server)
}
