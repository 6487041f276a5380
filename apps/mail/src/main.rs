//! `sluice-mail`: serves the mail app on standard input and output. Configured by the environment.

use std::io::{self, Write};
use std::process::ExitCode;

use rmcp::ServiceExt;
use sluice_mail::{Config, MailServer, Mailbox};

/// Exit code for a wrong configuration.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let config = match Config::from_env() {
        Ok(config) => config,
        Err(errors) => return complain(&errors.to_string(), USAGE),
    };
    match serve(MailServer::new(Mailbox::new(config))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error.to_string(), 1),
    }
}

/// Threads for calls and for standard input and output, which the runtime reads and writes on such threads as well:
/// enough that a slow SMTP server does not stop a read, few enough for a sandbox.
const MAX_THREADS: usize = 8;

/// Serves until the client closes standard input.
fn serve(server: MailServer) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(MAX_THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let running = server.serve(rmcp::transport::stdio()).await?;
        running.waiting().await?;
        Ok(())
    })
}

fn complain(message: &str, code: u8) -> ExitCode {
    let mut stderr = io::stderr();
    for line in message.lines() {
        let _ = writeln!(stderr, "sluice-mail: {line}");
    }
    ExitCode::from(code)
}
