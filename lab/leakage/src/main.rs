//! `sluice-leakage-app DOMAIN`: serves one of the benchmark's apps on standard input and output.

use std::env;
use std::process::ExitCode;

use leakage::{AppServer, Domain};

fn main() -> ExitCode {
    let name = env::args().nth(1).unwrap_or_default();
    let domain = Domain::find(&name).map_err(|error| error.to_string());
    let server = domain.map(|domain| AppServer::new(domain.app));
    app_support::tools::serve("sluice-leakage-app", server)
}
