//! `sluice-notes`: serves the notes app on standard input and output. Configured by the environment.

use std::env;
use std::process::ExitCode;

use sluice_notes::{Notes, NotesServer};

fn main() -> ExitCode {
    let notes = Notes::from_vars(|name| env::var(name).ok());
    app_support::tools::serve("sluice-notes", notes.map(NotesServer::new))
}
