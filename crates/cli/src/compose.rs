//! The composition root: from a configuration to a session's parts.

use std::collections::BTreeSet;
use std::env;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use config::{Config, JsonForm, ProviderKind};
use hub::planner::Group;
use hub::{Limits, Purpose, Screening};
use ifc::Label;
use llm::{Broker, Endpoint, OpenAi, OpenAiConfig, Provider};
use policy::SessionFacts;
use sandbox::Layer;
use server::{AppSetup, Parts, SessionSetup};

use crate::hex::hex;
use crate::keep_for::KeepFor;
use crate::permissions::Permitted;
use crate::terminal::say;
use crate::{app_setup, login, memory, paths, screener, seen};

/// What the command line adds to a configuration.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Screen before every step.
    pub(crate) eager: bool,
    /// Defend in this way instead of with the configured screener.
    pub(crate) defence: Option<String>,
    /// Sandbox layers that may be missing.
    pub(crate) allow_degraded: BTreeSet<Layer>,
    /// What conditions of the policy may know of the session.
    pub(crate) facts: SessionFacts,
    /// How long what the user allows for good lasts.
    pub(crate) keep_for: KeepFor,
    /// Every query stands alone, and nothing of it is remembered.
    pub(crate) private: bool,
}

/// The layers that a command line gives up.
///
/// # Errors
/// A name that is no layer's.
pub(crate) fn layers(names: &[String]) -> Result<BTreeSet<Layer>> {
    let parse = |name: &String| {
        name.parse::<Layer>()
            .map_err(|error| anyhow!("--allow-degraded: {error}"))
    };
    names.iter().map(parse).collect()
}

/// The parts of a session over this configuration.
///
/// # Errors
/// A model or an app's variable is missing, a mount gives too much, or the user's permissions cannot be
/// read.
pub(crate) fn session(config: &Config, broker: Broker, options: &Options) -> Result<SessionSetup> {
    // Before anything starts, and again at each start: what lies where can have changed since the configuration was
    // loaded.
    app_setup::mounts(config).context("nothing was started")?;
    let layers = &options.allow_degraded;
    let apps = config
        .apps
        .values()
        // Those at clients of the guard proxy have no process here.
        .filter(|app| !app.client)
        .map(|app| {
            let setup = app_setup::of(app, login::token_port(app, layers)?, layers)?;
            Ok(AppSetup {
                check: seen::kept_from_first_use(app, setup.check),
                ..setup
            })
        })
        .collect::<Result<_>>()?;
    let name = session_name()?;
    let permissions = Arc::new(Permitted::open(config, options.keep_for)?);
    Ok(SessionSetup {
        name,
        traces: paths::traces()?,
        parts: parts(config, broker, options)?,
        apps,
        groups: config
            .groups
            .iter()
            .map(|(name, apps)| Group {
                name: name.clone(),
                apps: apps.clone(),
            })
            .collect(),
        vanilla: config.vanilla.clone(),
        functionalities: config
            .functionalities
            .values()
            .map(|functionality| Arc::new(functionality.clone()))
            .collect(),
        // A choice of apps is kept with the permissions, so that one list shows both and one command revokes them.
        selections: Some(permissions.clone()),
        permissions: Some(permissions),
        facts: config.memory.facts,
        memory: match options.private {
            true => None,
            false => memory::of_session(config, options.facts.front),
        },
        private: options.private,
    })
}

/// What every front is driven with: the same policy, screener, limits and defaults for all of them.
///
/// # Errors
/// There is no such defence, or its model or weights are missing.
pub(crate) fn parts(config: &Config, broker: Broker, options: &Options) -> Result<Parts> {
    let name = match &options.defence {
        Some(name) => name,
        None => screener::name(config.screener.kind)?,
    };
    let defence = screener::defence(name, &config.screener)?;
    let screener = defence.screener();
    let check = config.screener.check;
    let screening = match options.eager || !config.screener.lazy {
        true => Screening::Eager,
        false => Screening::Lazy {
            // It is the check that keeps naive tainting from asking about everything.
            check: check.unwrap_or(name == screen::NaiveTainting::NAME),
        },
    };
    let policy = config.policy().with_session(options.facts);
    let lattice = Arc::new(config.lattice.clone());
    let mut parts = Parts::new(Arc::new(broker), Arc::new(policy), lattice, screener);
    parts.settings.screening = match (defence.screening(screening), check) {
        // A screener that errs is checked unless the configuration says otherwise.
        (Screening::Lazy { .. }, Some(check)) => Screening::Lazy { check },
        (screening, _) => screening,
    };
    parts.settings.arguments = config.screener.arguments;
    parts.settings.limits = limits(config);
    parts.turn_timeout = config.limits.turn_timeout;
    parts.serving_timeout = config.limits.serving_timeout;
    Ok(parts)
}

/// Bytes of messages in a prompt of the embedded model. Its context has 8,192 tokens of about three bytes;
/// half of them are for tools and the answer.
const EMBEDDED_PROMPT_BYTES: usize = 16 << 10;

/// Tokens of an answer of the embedded model, which writes some ten a second.
const EMBEDDED_COMPLETION_TOKENS: u32 = 1024;

/// The limits of turns that a configuration sets.
fn limits(config: &Config) -> Limits {
    let own = config.limits.prompt_bytes;
    let kinds = || config.providers.iter().map(|provider| &provider.kind);
    // One embedded provider is enough: a prompt may go to any of them, and has to fit into the smallest context.
    let (prompt_bytes, completion_tokens) =
        match kinds().any(|kind| *kind == ProviderKind::Embedded) {
            true => (EMBEDDED_PROMPT_BYTES, EMBEDDED_COMPLETION_TOKENS),
            false => (
                Limits::default().prompt_bytes,
                Limits::default().completion_tokens,
            ),
        };
    let completion_tokens = (config.limits.completion_tokens).unwrap_or(completion_tokens);
    Limits {
        steps: config.limits.steps as usize,
        prompt_bytes: own.unwrap_or(prompt_bytes),
        completion_tokens,
        history_bytes: config.limits.history_bytes,
        result_bytes: config.limits.spoke.result_bytes,
        hops: config.limits.hops as usize,
        serving_steps: config.limits.serving_steps as usize,
        ..Limits::default()
    }
}

/// The configured language models, ready to be asked. The embedded one starts with its first request.
///
/// # Errors
/// A model file is missing, or an address or key is.
pub(crate) fn broker(config: &Config) -> Result<Broker> {
    let mut broker: Option<Broker> = None;
    for provider in &config.providers {
        let model = self::provider(provider)?;
        let clearance = provider.clearance.clone();
        broker = Some(match broker {
            None => Broker::new(model, clearance),
            Some(broker) => broker.with_provider(model, clearance)?,
        });
    }
    let broker = broker.context("no provider is configured; add a [[provider]]")?;
    let names: Vec<&str> = config
        .providers
        .iter()
        .map(|provider| provider.name.as_str())
        .collect();
    with_helpers(broker.with_default_route(names)?, config)
}

/// The same for a front that brings the model which answers: the configured ones only judge and
/// draft, where the configuration says so.
///
/// # Errors
/// As [`broker`].
pub(crate) fn broker_behind(
    upstream: Arc<dyn Provider>,
    clearance: Label,
    config: &Config,
) -> Result<Broker> {
    let mut broker = Broker::new(upstream, clearance);
    for provider in &config.providers {
        // Others are left out: an embedded model must be on this machine, and nothing would ask it.
        if helpers(config).any(|(_, name)| *name == provider.name) {
            let model = self::provider(provider)?;
            broker = broker.with_provider(model, provider.clearance.clone())?;
        }
    }
    with_helpers(broker, config)
}

/// Who is asked for what, beside the steps of an agent.
fn with_helpers(broker: Broker, config: &Config) -> Result<Broker> {
    helpers(config).try_fold(broker, |broker, (purpose, name)| {
        Ok(broker.with_route(purpose, [name.as_str()])?)
    })
}

fn helpers(config: &Config) -> impl Iterator<Item = (Purpose, &String)> {
    let judge = config.screener.provider.iter();
    let draft = config.screener.draft.iter();
    let judge = judge.map(|name| (Purpose::Judge, name));
    judge.chain(draft.map(|name| (Purpose::Draft, name)))
}

pub(crate) fn provider(provider: &config::Provider) -> Result<Arc<dyn Provider>> {
    match &provider.kind {
        ProviderKind::Embedded => crate::embedded::provider(&provider.name, &provider.model),
        ProviderKind::OpenAi {
            images,
            completion_tokens,
            ..
        } => {
            let endpoint = endpoint(provider)?.context("it has no address")?;
            let mut config = OpenAiConfig::new(&provider.name, &endpoint.base_url, &provider.model);
            config.api_key = key(&provider.name, &endpoint);
            config.images = *images;
            set_dialect(&mut config, &provider.kind);
            config.completion_tokens = *completion_tokens;
            Ok(Arc::new(OpenAi::new(config)?))
        }
        // A kind of provider that is configured and not built in is an error, and never replaced by another one.
        kind => bail!("the provider kind {kind:?} is not part of this build"),
    }
}

/// Sets what a provider's configuration says of its server's dialect.
pub(crate) fn set_dialect(config: &mut OpenAiConfig, kind: &ProviderKind) {
    let ProviderKind::OpenAi {
        json,
        max_completion_tokens,
        ..
    } = kind
    else {
        return;
    };
    config.json = match json {
        JsonForm::Schema => llm::JsonForm::Schema,
        JsonForm::Call => llm::JsonForm::Call,
        JsonForm::Words => llm::JsonForm::Words,
    };
    if let Some(is_new) = max_completion_tokens {
        config.max_completion_tokens = *is_new;
    }
}

/// Where a provider's server is, and which key goes there; `None` if it has no server.
///
/// # Errors
/// The environment would send a key to a server for which it was not named.
pub(crate) fn endpoint(provider: &config::Provider) -> Result<Option<Endpoint>> {
    let ProviderKind::OpenAi {
        base_url,
        api_key_env,
        ..
    } = &provider.kind
    else {
        return Ok(None);
    };
    let environment = env::var(llm::BASE_URL_VARIABLE).ok();
    let endpoint = Endpoint::new(
        base_url.as_deref(),
        api_key_env.as_deref(),
        environment.as_deref(),
    );
    let endpoint = endpoint.with_context(|| format!("the provider {}", provider.name))?;
    Ok(Some(endpoint))
}

/// The key of a provider. That the usual one is not sent is said, because the server will refuse.
fn key(provider: &str, endpoint: &Endpoint) -> Option<llm::ApiKey> {
    let usual = llm::DEFAULT_KEY_VARIABLE;
    match &endpoint.key_variable {
        Some(variable) => key_of(variable),
        None => {
            if key_of(usual).is_some() {
                let host = &endpoint.base_url;
                say(&format!(
                    "note: no key is sent to the provider {provider} at {host}; if it needs one, write api_key_env = \"VARIABLE\" beside its base_url\n"
                ));
            }
            None
        }
    }
}

/// The key that a variable holds. An empty one holds none: a header without a key would be sent, and the keys of a
/// proxy's clients passed over for it.
pub(crate) fn key_of(variable: &str) -> Option<llm::ApiKey> {
    let key = env::var(variable).ok().filter(|key| !key.is_empty());
    key.map(llm::ApiKey::new)
}

/// Sorts by time, and two sessions of one second differ.
pub(crate) fn session_name() -> Result<String> {
    let mut random = [0; 3];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S-%3f");
    Ok(format!("{time}-{}", hex(&random)))
}
