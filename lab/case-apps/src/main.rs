//! `sluice-case-apps APP`: serves one of the laboratory's apps on standard input and output. `STATE` names its folder.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use case_apps::{App, CaseServer, State};

fn main() -> ExitCode {
    app_support::tools::serve("sluice-case-apps", server())
}

fn server() -> Result<CaseServer, String> {
    let name = env::args().nth(1).unwrap_or_default();
    let Some(app) = App::find(&name) else {
        let known: Vec<String> = App::all().into_iter().map(|app| app.name).collect();
        return Err(format!("name an app: {}", known.join(", ")));
    };
    let folder = env::var_os("STATE").map(PathBuf::from);
    let folder = folder.ok_or("set STATE to a folder that the app may write to")?;
    Ok(CaseServer::new(app, State::open(folder)?))
}
