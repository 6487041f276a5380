//! `smtp-sink [ADDRESS]`: keeps listening on loopback and prints every message it accepts.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use smtp_sink::SmtpSink;

/// Where the server listens without an argument: the usual unprivileged SMTP port.
const DEFAULT_ADDRESS: &str = "127.0.0.1:2525";
/// How soon a message is printed after it arrived.
const POLL: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "smtp-sink: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let argument = std::env::args()
        .nth(1)
        .unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());
    let addr: SocketAddr = argument.parse().map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "usage: smtp-sink [ADDRESS:PORT], for example 127.0.0.1:2525",
        )
    })?;
    let sink = SmtpSink::start(addr)?;
    let mut out = io::stdout();
    writeln!(out, "listening on {}", sink.addr())?;
    loop {
        for message in sink.take() {
            writeln!(
                out,
                "from {} to {}\n{}",
                message.from,
                message.to.join(", "),
                message.data
            )?;
        }
        out.flush()?;
        std::thread::sleep(POLL);
    }
}
