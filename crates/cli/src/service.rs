//! A running service that commands of this user can use in the place of fronts of their own.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, bail};
use config::ServiceSettings;
use serde::{Deserialize, Serialize};

use crate::paths;
use crate::private_file::PrivateFile;

/// The variables with the address of a service, and with the token of the agent.
const SERVICE: &str = "SLUICE_SERVICE";
const TOKEN: &str = "SLUICE_TOKEN";

/// A service, and the token by which it admits this user's agents.
pub(crate) struct Known {
    /// `http://HOST:PORT`.
    pub(crate) url: String,
    pub(crate) token: String,
}

/// What the service of this user on this machine says of itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Running {
    url: String,
    pid: u32,
    token: String,
}

/// The service that `$SLUICE_SERVICE` or `[service] url` names.
///
/// # Errors
/// There is one, and no token for it.
pub(crate) fn named(settings: &ServiceSettings) -> Result<Option<Known>> {
    let variable = |name| {
        std::env::var(name)
            .ok()
            .filter(|it: &String| !it.is_empty())
    };
    let Some(url) = variable(SERVICE).or_else(|| settings.url.clone()) else {
        return Ok(None);
    };
    if !url.starts_with("http://") && !url.starts_with("https://") {
        bail!("{SERVICE} is not the address of a service; write http://HOST:PORT");
    }
    let missing = || {
        format!(
            "the service {url} needs a token; set {TOKEN} to one of `sluice token new NAME --role agent`"
        )
    };
    let token = variable(TOKEN).with_context(missing)?;
    let url = url.trim_end_matches('/').to_owned();
    Ok(Some(Known { url, token }))
}

/// The same, or else the one that this user runs on this machine.
pub(crate) fn find(settings: &ServiceSettings) -> Result<Option<Known>> {
    if let Some(known) = named(settings)? {
        return Ok(Some(known));
    }
    let Running { url, pid, token } = file()?.read().unwrap_or_default();
    // The note of a process that was killed stays.
    let is_alive = pid != 0 && is_sluice(pid);
    Ok(is_alive.then_some(Known { url, token }))
}

/// Whether this process is one of this program. Another one may have its number since.
fn is_sluice(pid: u32) -> bool {
    let of = |place: &Path| {
        std::fs::read_link(place)
            .ok()?
            .file_name()
            .map(ToOwned::to_owned)
    };
    let own = of(Path::new("/proc/self/exe"));
    own.is_some() && of(Path::new(&format!("/proc/{pid}/exe"))) == own
}

/// Notes that this process is a service, for other commands of this user, until it is dropped.
pub(crate) struct Registration(PrivateFile);

impl Drop for Registration {
    fn drop(&mut self) {
        let note = |it: &mut Running| {
            if it.pid == std::process::id() {
                *it = Running::default();
            }
        };
        // What stays names a process that is gone.
        let _ = self.0.change(note);
    }
}

/// Notes where this service is, and the token for the agents of this machine.
///
/// # Errors
/// Another service is noted, and runs.
pub(crate) fn register(address: SocketAddr, token: String) -> Result<Registration> {
    let mut at = address;
    if at.ip().is_unspecified() {
        at.set_ip([127, 0, 0, 1].into());
    }
    let own = Running {
        url: format!("http://{at}"),
        pid: std::process::id(),
        token,
    };
    let file = file()?;
    let mut other = None;
    file.change(
        |it: &mut Running| match it.pid != 0 && it.pid != own.pid && is_sluice(it.pid) {
            true => other = Some(it.clone()),
            false => *it = own,
        },
    )?;
    if let Some(Running { url, pid, .. }) = other {
        bail!("they find that at {url}, which runs as process {pid}");
    }
    Ok(Registration(file))
}

fn file() -> Result<PrivateFile> {
    Ok(PrivateFile::new(
        paths::state()?.join("service"),
        "running.json",
    ))
}
