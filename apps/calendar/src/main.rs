//! `sluice-calendar`: serves the calendar app on standard input and output. Configured by the environment.

use std::env;
use std::process::ExitCode;

use sluice_calendar::{Calendar, CalendarServer};

fn main() -> ExitCode {
    let calendar = Calendar::from_vars(|name| env::var(name).ok());
    app_support::tools::serve("sluice-calendar", calendar.map(CalendarServer::new))
}
