//! `sluice-mail`: serves the mail app on standard input and output.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluice_mail::run()
}
