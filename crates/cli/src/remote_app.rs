//! What runs in the spoke of a remote server's app, and its settings.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use config::{App, Mount, Piece, Remote, Start};
use ifc::Label;
use policy::Place;
use remote::{Settings, VARIABLE};

use crate::secrets::{Secrets, Value};
use crate::{paths, shell};

/// Where the program is seen in the sandbox.
const PROGRAM: &str = "/sluice-remote";
/// Where certificates of the configuration are.
const CA_FILE: &str = "/sluice-remote-ca.pem";

/// How it is started: our own program, and nothing of the user's. An error is a line that says what to do.
pub(crate) fn start(app: &App, remote: &Remote, file: &Path) -> Result<Start, String> {
    // A missing secret is an error of this app alone, before anything starts.
    headers(app, remote).map_err(|error| format!("{error:#}"))?;
    let place = app.server.clone().unwrap_or_else(|| Place {
        file: file.to_owned(),
        line: 1,
    });
    let mount = |source: PathBuf, target: &str, execute| Mount {
        source,
        target: target.into(),
        write: false,
        size: None,
        execute,
        label: Label::bottom(),
        place: place.clone(),
    };
    let program = paths::binary("sluice-remote").map_err(|error| error.to_string())?;
    let certificates = remote.ca_file.clone();
    let certificates = certificates.map(|file| mount(file, CA_FILE, false));
    Ok(Start {
        command: vec![PROGRAM.to_owned()],
        env: BTreeMap::new(),
        mounts: std::iter::once(mount(program, PROGRAM, true))
            .chain(certificates)
            .collect(),
        reviewed: None,
    })
}

/// The settings without a login.
pub(crate) fn settings(app: &App, remote: &Remote) -> Result<Settings> {
    let headers = headers(app, remote)?.into_iter();
    Ok(Settings {
        app: app.name.clone(),
        url: remote.url.to_string(),
        headers: headers
            .map(|(name, value)| (name, value.reveal().to_owned()))
            .collect(),
        ca_file: remote.ca_file.as_ref().map(|_| CA_FILE.into()),
        tokens: None,
        step: None,
    })
}

/// The environment variable that carries the settings. It holds secrets.
pub(crate) fn variable(settings: &Settings) -> Result<(String, String)> {
    Ok((VARIABLE.to_owned(), serde_json::to_string(settings)?))
}

/// The headers, put together.
fn headers(app: &App, remote: &Remote) -> Result<BTreeMap<String, Value>> {
    let origin = remote.url.origin();
    let mut headers = BTreeMap::new();
    for (name, header) in &remote.headers {
        let mut text = String::new();
        for piece in header.pieces() {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                // A secret for another origin is refused.
                Piece::Secret(secret) => {
                    text.push_str(Secrets::of_user()?.value(secret, &origin)?.reveal());
                }
                Piece::Variable(variable, default) => {
                    let value = env::var(variable).ok().or_else(|| default.clone());
                    text += &value
                        .with_context(|| format!("the header {name} {piece} and start again"))?;
                }
                Piece::Foreign(what) => bail!(
                    "the header {name} uses ${{{what}}}, which only another program can fill in; add it with \
                     `sluice app add {} --url {} --header '{name}: secret:NAME'`",
                    app.name,
                    shell::word(remote.url.as_str())
                ),
            }
        }
        // A variable may have a line break, which would begin another header.
        let value = Value::new(text).with_context(|| format!("the header {name}"))?;
        headers.insert(name.clone(), value);
    }
    Ok(headers)
}
