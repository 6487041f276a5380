//! A running service that commands of this user can use in the place of fronts of their own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::ServiceSettings;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use serde::{Deserialize, Serialize};

use crate::paths;
use crate::private_file::PrivateFile;

/// The variables with the address of a service, and with the token of the agent.
const SERVICE: &str = "SLUICE_SERVICE";
const TOKEN: &str = "SLUICE_TOKEN";
/// How long a service may take to say whether it is ready.
const PATIENCE: Duration = Duration::from_secs(10);

/// A service, and the token by which it admits this user's agents.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Known {
    /// `http://HOST:PORT`.
    pub(crate) url: String,
    pub(crate) token: String,
    /// The file of its configuration, if it is on this machine.
    pub(crate) file: Option<PathBuf>,
}

impl Known {
    /// A client that goes to no other place. A service of this machine or network is not reached by a proxy.
    pub(crate) fn client() -> Result<Client> {
        llm::set_up_tls();
        let client = Client::builder().redirect(Policy::none()).no_proxy();
        Ok(client.build()?)
    }

    /// Whether it has a proxy, beside the gateway.
    ///
    /// # Errors
    /// It does not answer, is not ready, or does not admit the token.
    pub(crate) async fn has_proxy(&self) -> Result<bool> {
        let (client, url) = (Self::client()?, &self.url);
        let get = async |path: &str| {
            let asked = client.get(format!("{url}{path}")).bearer_auth(&self.token);
            let answer = asked.timeout(PATIENCE).send().await;
            let answer = answer.map_err(reqwest::Error::without_url);
            answer.with_context(|| {
                format!("nothing answers at {url}; is `sluice serve` running there?")
            })
        };
        let ready = get("/readyz").await?;
        if !ready.status().is_success() {
            let why = ready.text().await.unwrap_or_default();
            bail!("the service at {url} is not ready: {}", why.trim());
        }
        // Neither path takes a GET, and both look at the token first.
        let admitted = get(server::gateway::PATH).await?.status();
        if admitted == StatusCode::UNAUTHORIZED || admitted == StatusCode::FORBIDDEN {
            bail!(
                "the service at {url} does not admit the token of {TOKEN}; make one there with `sluice token new NAME --role agent`"
            );
        }
        Ok(get("/v1/chat/completions").await?.status() != StatusCode::NOT_FOUND)
    }
}

/// What the service of this user on this machine says of itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Running {
    pid: u32,
    service: Known,
}

/// The service that `$SLUICE_SERVICE` or `[service] url` names.
///
/// # Errors
/// There is one, and no token for it.
pub(crate) fn named(settings: &ServiceSettings) -> Result<Option<Known>> {
    let variable = |name| std::env::var(name).ok().filter(|it| !it.is_empty());
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
    Ok(Some(Known {
        url,
        token,
        file: None,
    }))
}

/// The same, or else the one that this user runs on this machine.
pub(crate) fn find(settings: &ServiceSettings) -> Result<Option<Known>> {
    if let Some(known) = named(settings)? {
        return Ok(Some(known));
    }
    let Running { pid, service } = file()?.read().unwrap_or_default();
    // The note of a process that was killed stays.
    Ok(is_sluice(pid).then_some(service))
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
pub(crate) fn register(
    address: SocketAddr,
    token: String,
    config: PathBuf,
) -> Result<Registration> {
    let mut at = address;
    if at.ip().is_unspecified() {
        at.set_ip([127, 0, 0, 1].into());
    }
    let own = Running {
        pid: std::process::id(),
        service: Known {
            url: format!("http://{at}"),
            token,
            file: Some(config),
        },
    };
    let file = file()?;
    let mut other = None;
    file.change(
        |it: &mut Running| match it.pid != own.pid && is_sluice(it.pid) {
            true => other = Some(it.clone()),
            false => *it = own,
        },
    )?;
    if let Some(Running { pid, service }) = other {
        let url = service.url;
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
