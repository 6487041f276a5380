//! The log of a service, on standard error.

use std::io::{IsTerminal, stderr};

use anyhow::{Context, Result, anyhow};
use config::LogForm;
use tracing_subscriber::EnvFilter;

use crate::terminal;

/// The variable that says what is logged, such as `debug` or `warn,server=info`.
const FILTER: &str = "SLUICE_LOG";

/// Begins to log what `tracing` is told.
pub(crate) fn start(form: LogForm) -> Result<()> {
    let filter = match std::env::var(FILTER).ok().filter(|it| !it.is_empty()) {
        Some(filter) => EnvFilter::try_new(filter).with_context(|| {
            format!("{FILTER} is no filter; write one such as info,server=debug")
        })?,
        // What libraries say at this level is of no use to an operator.
        None => EnvFilter::new("warn,sluice=info,server=info,store=info"),
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter);
    let lines = lines.with_writer(stderr).with_ansi(stderr().is_terminal());
    let begun = match form {
        LogForm::Text => lines.with_target(false).try_init(),
        LogForm::Json => lines.json().flatten_event(true).try_init(),
    };
    begun.map_err(|error| anyhow!("the log does not start: {error}"))?;
    if form == LogForm::Json {
        terminal::say_to_log();
    }
    Ok(())
}
