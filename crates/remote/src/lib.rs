//! The hub's client of a remote MCP server.
//!
//! It is a program of its own, `sluice-remote`, and runs in a spoke in the place of an app's program: it speaks MCP over
//! stdin and stdout with the spoke around it, and over HTTP with the server. So the limits of an app are those of a remote
//! server, TLS and HTTP of a stranger are read where there is nothing of the user's, and the only way out is the one of
//! every spoke: names by the hub's resolver, connections by the monitor's permit. TLS ends here. A header that holds a
//! secret is therefore in one spoke, and on the wire only inside of TLS to the host that it is for.
//!
//! `rmcp` implements the protocol. `http` is its HTTP client, and holds what it may not decide: the one host,
//! no redirects, the limits, the secrets, and the exact bytes of a call.

mod bridge;
mod challenge;
mod http;
mod login;
mod mask;
mod settings;
pub mod step;
mod tokens;
mod trouble;

pub use settings::{Settings, VARIABLE};

use std::io::Write;
use std::process::ExitCode;

use reqwest::StatusCode;

use self::bridge::Output;
use self::mask::Mask;
use self::trouble::Trouble;

/// The program `sluice-remote`. Its settings are in the environment variable [`VARIABLE`].
pub fn main() -> ExitCode {
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
            let result = runtime.block_on(run(&settings));
            // A blocking thread reads standard input and does not end by itself.
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
    // The exit code reports the failure too, so a failed write is ignored.
    let _ = writeln!(std::io::stderr(), "{reason}");
    ExitCode::FAILURE
}

/// Speaks for the client on stdin and stdout with the server of these settings, until stdin ends.
///
/// # Errors
/// One line for the user: why there is no more to be had from the server.
pub async fn run(settings: &Settings) -> Result<(), String> {
    let mask = Mask::default();
    let output = Output::new(mask.clone());
    let result = match &settings.step {
        // Its answers are secrets, and for the hub.
        Some(step) => login::serve(settings, step, &output).await,
        None => bridge::serve(settings, &mask, output).await,
    };
    result.map_err(|trouble| {
        let host = settings.url.split('?').next().unwrap_or_default();
        let app = &settings.app;
        let remedy = match trouble {
            Trouble::Login(_) => format!(
                "; log in with `sluice app login {app} --url {host}`, or give it a token with \
                 `sluice secret set NAME --for {host}` and \
                 headers = {{ Authorization = \"Bearer secret:NAME\" }} in [app.{app}]"
            ),
            Trouble::Status(StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) => {
                "; its address for streamable HTTP mostly ends in /mcp, and the older SSE transport \
                 is not supported"
                    .to_owned()
            }
            Trouble::Scope(_) => {
                format!("; `sluice app login {app} --url {host} --scope SCOPE` logs in for more")
            }
            _ => String::new(),
        };
        let text = format!("{host}: {trouble}{remedy}");
        mask.text(&text)
    })
}
