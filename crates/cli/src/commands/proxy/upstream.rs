//! The API that the guard proxy forwards to, and what may be sent there.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use config::{Config, ProviderKind};
use ifc::{Dimension, Label};
use llm::{ApiKey, Endpoint, OpenAi, OpenAiConfig};

use crate::compose;

/// The upstream's name in traces and errors.
const NAME: &str = "upstream";

/// The longest pause of the upstream: without streaming it says nothing until it is done.
const READ_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
pub(super) struct UpstreamArgs {
    /// The OpenAI-compatible API to forward to: the name of a configured provider, or its address
    /// up to and with `/v1`.
    #[arg(long, value_name = "NAME|URL")]
    upstream: String,
    /// The variable with the upstream's key; without one the agents' own keys are passed through.
    #[arg(long, value_name = "VARIABLE")]
    upstream_key_env: Option<String>,
    /// What may be sent to the upstream: taints, or `any` [default: the configured provider's; an
    /// upstream that is not configured needs it].
    #[arg(long, value_name = "TAINTS", value_delimiter = ',')]
    clearance: Option<Vec<String>>,
}

impl UpstreamArgs {
    /// As the user named it.
    pub(super) fn name(&self) -> &str {
        &self.upstream
    }
}

/// An upstream with its clearance. One without a clearance is not used at all: that an address
/// looks like somebody's says nothing about what may be sent there.
pub(super) struct Upstream {
    pub(super) provider: Arc<OpenAi>,
    pub(super) clearance: Label,
}

impl Upstream {
    /// The upstream of the command line: a configured provider, or an address with `--clearance`.
    ///
    /// # Errors
    /// Nothing says what may be sent there; or its address or key cannot be used.
    pub(super) fn of(args: &UpstreamArgs, config: &Config) -> Result<Self> {
        let configured = configured(&args.upstream, config)?;
        let endpoint = match configured {
            Some(provider) => compose::endpoint(provider)?,
            None => None,
        };
        let address = match &endpoint {
            Some(endpoint) => endpoint.base_url.as_str(),
            None => args.upstream.as_str(),
        };
        // First whether it is an address at all: that mistake is the likelier one. Without its
        // text, which may hold a password.
        let key = key(args, endpoint.as_ref())?;
        let mut api = api(configured, address, key);
        // Images go on only where the proxy takes any: where the configuration labels them.
        api.images = config.proxy.images.is_some();
        let usable = OpenAi::new(api);
        let provider = Arc::new(usable.context("--upstream cannot be used")?);
        let clearance = match (&args.clearance, configured) {
            (Some(taints), _) => clearance(taints, config)?,
            (None, Some(provider)) => provider.clearance.clone(),
            (None, None) => bail!(
                "nothing says what may be sent to {address}; start with --clearance (`any`, or the taints), \
                 or add to the configuration:\n\n[[provider]]\nname = \"{NAME}\"\nkind = \"openai\"\n\
                 model = \"NAME\"\nbase_url = \"{address}\"\nclearance = \"any\""
            ),
        };
        Ok(Self {
            provider,
            clearance,
        })
    }
}

/// The configured provider with this name, or with exactly this address.
fn configured<'a>(upstream: &str, config: &'a Config) -> Result<Option<&'a config::Provider>> {
    let mut providers = config.providers.iter();
    if let Some(named) = providers.find(|provider| provider.name == upstream) {
        return match named.kind {
            ProviderKind::OpenAi { .. } => Ok(Some(named)),
            _ => bail!(
                "the provider {upstream} has no address; --upstream needs one of kind \"openai\""
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
        // Their clearances may differ, and which one counts is not ours to guess.
        [first, ..] => bail!(
            "several providers have the address of --upstream; name the one that is meant, such as --upstream {}",
            first.name
        ),
    }
}

fn address(provider: &config::Provider) -> Option<String> {
    // One whose key and address do not fit is no match; if it is named, its mistake is said.
    let endpoint = compose::endpoint(provider).ok().flatten()?;
    Some(endpoint.base_url)
}

fn api(configured: Option<&config::Provider>, address: &str, key: Option<ApiKey>) -> OpenAiConfig {
    // Every request names its own model; this one is for none.
    let model = configured.map_or("default", |provider| provider.model.as_str());
    let mut api = OpenAiConfig::new(NAME, address, model);
    if let Some(provider) = configured {
        compose::set_dialect(&mut api, &provider.kind);
    }
    api.pass_through = true;
    api.timeouts.read = READ_TIMEOUT;
    // Agents try again by themselves, and are told when.
    api.retry.attempts = 0;
    api.api_key = key;
    api
}

/// The key of the command line, or the one that the configuration names for this address. Without
/// one the clients' own keys are passed through.
fn key(args: &UpstreamArgs, endpoint: Option<&Endpoint>) -> Result<Option<ApiKey>> {
    if let Some(name) = &args.upstream_key_env {
        let key = compose::key_of(name).with_context(|| {
            format!("the variable {name} is not set or empty; export it and start again")
        })?;
        return Ok(Some(key));
    }
    let variable = endpoint.and_then(|endpoint| endpoint.key_variable.as_ref());
    Ok(variable.and_then(|name| compose::key_of(name)))
}

/// The clearance of the command line.
fn clearance(taints: &[String], config: &Config) -> Result<Label> {
    if let [any] = taints
        && any == "any"
    {
        return Ok(Label::top());
    }
    let clearance = config.lattice.labels(taints.iter().map(String::as_str))?;
    // Who influenced a text does not matter for whom it is disclosed to.
    let influence = config.lattice.whole(Dimension::Integrity);
    Ok(clearance.join(&influence))
}
