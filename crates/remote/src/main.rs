//! `sluice-remote`: started by a spoke, never by hand.

use std::io::Write;
use std::process::ExitCode;

use remote::{Settings, VARIABLE};

fn main() -> ExitCode {
    let settings = std::env::var(VARIABLE).ok();
    let settings: Option<Settings> = settings.and_then(|text| serde_json::from_str(&text).ok());
    let Some(settings) = settings else {
        return failed("sluice-remote is started by sluice and takes no arguments");
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(remote::run(&settings));
            // Standard input is read by a thread that nothing ends.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(error.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => failed(&reason),
    }
}

fn failed(reason: &str) -> ExitCode {
    // The spoke quotes it; if nobody reads it, the exit code says it too.
    let _ = writeln!(std::io::stderr(), "{reason}");
    ExitCode::FAILURE
}
