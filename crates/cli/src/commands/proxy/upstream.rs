//! The API that the guard proxy forwards to, and what may be sent there.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use config::{Config, ProviderKind};
use ifc::{Dimension, Label};
use llm::{ApiKey, Dialect, Endpoint, HttpConfig, HttpProvider};

use crate::compose;
use crate::provider::{dialect, endpoint, key_of};

/// The upstream's name in traces and errors.
const NAME: &str = "upstream";

/// The longest pause of the upstream: without streaming it sends nothing until it is done.
const READ_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
pub(crate) struct UpstreamArgs {
    /// The API to forward to: the name of a configured provider of any kind, or the address of an
    /// OpenAI-compatible API that ends in `/v1`.
    #[arg(long, value_name = "NAME|URL")]
    upstream: String,
    /// The variable with the upstream's key [default: the configured provider's, or else the agents' own
    /// keys].
    #[arg(long, value_name = "VARIABLE")]
    upstream_key_env: Option<String>,
    /// The taints that may be sent to the upstream, separated by commas, or `any` [default: the
    /// configured provider's clearance; an upstream that is not configured needs this option].
    #[arg(long, value_name = "TAINTS", value_delimiter = ',')]
    clearance: Option<Vec<String>>,
}

impl UpstreamArgs {
    /// A configured provider.
    pub(crate) fn named(name: &str) -> Self {
        Self {
            upstream: name.to_owned(),
            upstream_key_env: None,
            clearance: None,
        }
    }

    /// As the user named it.
    pub(super) fn name(&self) -> &str {
        &self.upstream
    }
}

/// An upstream with its clearance. Without a clearance it is not used.
pub(crate) struct Upstream {
    pub(crate) provider: Arc<HttpProvider>,
    pub(crate) clearance: Label,
}

impl Upstream {
    /// The upstream of the command line: a configured provider, or an address with `--clearance`.
    pub(crate) fn of(args: &UpstreamArgs, config: &Config) -> Result<Self> {
        // The address is checked before the clearance, and not quoted: it may have a password.
        let upstream = Self::uncleared(args, config)?;
        let address = &args.upstream;
        let clearance = match (&args.clearance, configured(address, config)?) {
            (Some(taints), _) => clearance(taints, config)?,
            (None, Some(provider)) => provider.clearance.clone(),
            (None, None) => bail!(
                "nothing says what may be sent to {address}; start with --clearance (`any`, or the taints),\n\
                 or configure a [[provider]] with base_url = \"{address}\" and a clearance"
            ),
        };
        Ok(Self {
            clearance,
            ..upstream
        })
    }

    /// The same without a clearance: everything is sent.
    pub(crate) fn uncleared(args: &UpstreamArgs, config: &Config) -> Result<Self> {
        let configured = configured(&args.upstream, config)?;
        let endpoint = match configured {
            Some(provider) => endpoint(provider)?,
            None => None,
        };
        let address = match &endpoint {
            Some(endpoint) => endpoint.base_url.as_str(),
            None => args.upstream.as_str(),
        };
        let key = key(args, endpoint.as_ref())?;
        let mut api = api(configured, address, key);
        // Images are forwarded only if the configuration labels them.
        api.images = config.proxy.images.is_some();
        let usable = HttpProvider::new(api);
        let provider = Arc::new(usable.context("--upstream cannot be used")?);
        Ok(Self {
            provider,
            clearance: Label::top(),
        })
    }
}

impl Upstream {
    /// The server that the user's own agent uses, which is sent everything that the agent would send there.
    pub(crate) fn at(dialect: Dialect, address: &str, key: Option<ApiKey>) -> Result<Self> {
        let api = passing(HttpConfig::speaking(dialect, NAME, address, "default"), key);
        let usable = HttpProvider::new(HttpConfig {
            images: true,
            ..api
        });
        Ok(Self {
            provider: Arc::new(usable.context("the agent's server cannot be used")?),
            clearance: Label::top(),
        })
    }
}

/// The configured provider with this name, or with exactly this address.
fn configured<'a>(upstream: &str, config: &'a Config) -> Result<Option<&'a config::Provider>> {
    let mut providers = config.providers.iter();
    if let Some(named) = providers.find(|provider| provider.name == upstream) {
        return match named.kind {
            ProviderKind::Api { .. } => Ok(Some(named)),
            _ => bail!(
                "the provider {upstream} has no address; --upstream needs one that is not embedded"
            ),
        };
    }
    // A final `/` makes no other address.
    let trimmed = upstream.trim_end_matches('/');
    let same = |provider: &&config::Provider| {
        address(provider).is_some_and(|url| url.trim_end_matches('/') == trimmed)
    };
    let found: Vec<_> = config.providers.iter().filter(same).collect();
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        // Their clearances may differ.
        [first, ..] => bail!(
            "several providers have the address of --upstream; name one of them, such as --upstream {}",
            first.name
        ),
    }
}

fn address(provider: &config::Provider) -> Option<String> {
    // A provider whose key and address do not fit together does not match.
    let endpoint = endpoint(provider).ok().flatten()?;
    Some(endpoint.base_url)
}

fn api(configured: Option<&config::Provider>, address: &str, key: Option<ApiKey>) -> HttpConfig {
    // Unused: every request names its own model.
    let model = configured.map_or("default", |provider| provider.model.as_str());
    let dialect = configured.map_or(Dialect::Chat, |provider| match provider.kind {
        ProviderKind::Api { dialect, .. } => self::dialect(dialect),
        _ => Dialect::Chat,
    });
    let mut api = HttpConfig::speaking(dialect, NAME, address, model);
    if let Some(provider) = configured {
        compose::set_dialect(&mut api, &provider.kind);
    }
    passing(api, key)
}

/// Requests have their own model, and a key of their own if there is none here.
fn passing(mut api: HttpConfig, key: Option<ApiKey>) -> HttpConfig {
    api.pass_through = true;
    api.timeouts.read = READ_TIMEOUT;
    // Agents retry by themselves.
    api.retry.attempts = 0;
    api.api_key = key;
    api
}

/// The key of the command line or of the configured provider; without one the agents' keys are passed through.
fn key(args: &UpstreamArgs, endpoint: Option<&Endpoint>) -> Result<Option<ApiKey>> {
    if let Some(name) = &args.upstream_key_env {
        let key = key_of(name).with_context(|| {
            format!("the variable {name} is not set or empty; export it and start again")
        })?;
        return Ok(Some(key));
    }
    let variable = endpoint.and_then(|endpoint| endpoint.key_variable.as_ref());
    Ok(variable.and_then(|name| key_of(name)))
}

/// The clearance of the command line.
fn clearance(taints: &[String], config: &Config) -> Result<Label> {
    if let [any] = taints
        && any == "any"
    {
        return Ok(Label::top());
    }
    let clearance = config.lattice.labels(taints.iter().map(String::as_str))?;
    // A clearance is about secrets, not about influence.
    let influence = config.lattice.whole(Dimension::Integrity);
    Ok(clearance.join(&influence))
}
