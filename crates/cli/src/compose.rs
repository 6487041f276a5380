//! The composition root: from a configuration to a session's parts.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use config::{Config, JsonForm, ProviderKind, ScreenerKind};
use hub::planner::Group;
use hub::{Limits, Purpose, Screening};
use ifc::Label;
use llm::{Broker, Dialect, Endpoint, HttpConfig, HttpProvider, Provider};
use policy::SessionFacts;
use sandbox::Layer;
use server::{AppSetup, Parts, SessionSetup};

use crate::hex::hex;
use crate::keep_for::KeepFor;
use crate::permissions::Permitted;
use crate::provider::{dialect, endpoint, key_of, owner};
use crate::terminal::say;
use crate::{app_setup, login, memory, paths, screener, seen, tool_lists};

/// The options of a session or proxy beside its configuration.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Screen before every step.
    pub(crate) eager: bool,
    /// Sandbox layers that may be missing.
    pub(crate) allow_degraded: BTreeSet<Layer>,
    /// What conditions of the policy may know of the session.
    pub(crate) facts: SessionFacts,
    /// How long the answer "always" lasts.
    pub(crate) keep_for: KeepFor,
    /// Neither read nor write memory and permissions.
    pub(crate) private: bool,
}

/// The parts of a session over this configuration. Anything that is missing or wrong is an error, so nothing starts.
pub(crate) fn session(config: &Config, broker: Broker, options: &Options) -> Result<SessionSetup> {
    // Links and folders can have changed since the configuration was loaded.
    app_setup::mounts(config).context("nothing was started")?;
    let attended = options.facts.attended;
    let permissions = Arc::new(Permitted::open(config, options.keep_for, attended)?);
    let layers = &options.allow_degraded;
    let apps = config
        .apps
        .values()
        // The tools of a client app run in the agent behind the proxy.
        .filter(|app| !app.client)
        .map(|app| {
            let setup = app_setup::of(app, login::token_port(app, layers)?, layers)?;
            let (permitted, own) = (permissions.clone(), app.clone());
            let check = seen::kept_from_first_use(app, setup.check).and(move |tools| {
                permitted.note(&own.name, tools);
                tool_lists::keep(&own, tools)
            });
            Ok(AppSetup { check, ..setup })
        })
        .collect::<Result<_>>()?;
    let groups = config.groups.iter().map(|(name, apps)| Group {
        name: name.clone(),
        apps: apps.clone(),
    });
    let functionalities = config.functionalities.values();
    Ok(SessionSetup {
        name: session_name()?,
        traces: paths::traces()?,
        parts: parts(config, broker, options)?,
        apps,
        groups: groups.collect(),
        vanilla: config.vanilla.clone(),
        functionalities: functionalities.cloned().map(Arc::new).collect(),
        // Choices of apps are permissions too: one list shows both, one command revokes them.
        selections: Some(permissions.clone()),
        permissions: Some(permissions),
        facts: config.memory.facts,
        memory: (!options.private)
            .then(|| memory::of_session(config, options.facts.front))
            .flatten(),
        private: options.private,
    })
}

/// The policy, screener and limits, the same for sessions and the proxy.
pub(crate) fn parts(config: &Config, broker: Broker, options: &Options) -> Result<Parts> {
    let defence = screener::defence(&config.screener)?;
    let screener = defence.screener();
    let check = config.screener.check;
    let screening = match options.eager || !config.screener.lazy {
        true => Screening::Eager,
        false => Screening::Lazy {
            // Without the check, naive tainting would ask about everything.
            check: check.unwrap_or(config.screener.kind == ScreenerKind::Naive),
        },
    };
    let policy = config.policy().with_session(options.facts.clone());
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
    let (own, default) = (&config.limits, Limits::default());
    let is_embedded = |it: &config::Provider| it.kind == ProviderKind::Embedded;
    // A prompt may go to any provider, so one embedded provider sets the size for all.
    let (prompt_bytes, completion_tokens) = match config.providers.iter().any(is_embedded) {
        true => (EMBEDDED_PROMPT_BYTES, EMBEDDED_COMPLETION_TOKENS),
        false => (default.prompt_bytes, default.completion_tokens),
    };
    Limits {
        steps: own.steps as usize,
        prompt_bytes: own.prompt_bytes.unwrap_or(prompt_bytes),
        completion_tokens: own.completion_tokens.unwrap_or(completion_tokens),
        history_bytes: own.history_bytes,
        result_bytes: own.spoke.result_bytes,
        hops: own.hops as usize,
        serving_steps: own.serving_steps as usize,
        ..default
    }
}

/// The configured language models. The embedded one starts with its first request.
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
    let names = config.providers.iter().map(|it| it.name.as_str());
    let open = config.providers.iter().filter(|it| it.open);
    let open = open.map(|it| it.name.as_str());
    with_helpers(broker.with_default_route(names)?.with_open(open), config)
}

/// The same for the proxy: its upstream answers, and configured models only judge and draft.
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

/// One for fronts that ask no model. It is never connected to.
pub(crate) fn no_model() -> Result<Broker> {
    let none = HttpProvider::new(HttpConfig::new("none", "http://127.0.0.1:9/v1", "none"))?;
    Ok(Broker::new(Arc::new(none), Label::bottom()))
}

/// The routes of the judge and of drafts.
fn with_helpers(broker: Broker, config: &Config) -> Result<Broker> {
    helpers(config).try_fold(broker, |broker, (purpose, name)| {
        Ok(broker.with_route(purpose, [name.as_str()])?)
    })
}

fn helpers(config: &Config) -> impl Iterator<Item = (Purpose, &String)> {
    let judge = (config.screener.provider.iter()).map(|name| (Purpose::Judge, name));
    judge.chain((config.screener.draft.iter()).map(|name| (Purpose::Draft, name)))
}

pub(crate) fn provider(provider: &config::Provider) -> Result<Arc<dyn Provider>> {
    match &provider.kind {
        ProviderKind::Embedded => crate::embedded::provider(&provider.name, &provider.model),
        ProviderKind::Api {
            dialect,
            images,
            completion_tokens,
            ..
        } => {
            let endpoint = endpoint(provider)?.context("the provider has no address")?;
            let (dialect, address) = (self::dialect(*dialect), &endpoint.base_url);
            let mut config =
                HttpConfig::speaking(dialect, &provider.name, address, &provider.model);
            config.api_key = key(&provider.name, dialect, &endpoint);
            config.images = *images;
            set_dialect(&mut config, &provider.kind);
            config.completion_tokens = *completion_tokens;
            Ok(Arc::new(HttpProvider::new(config)?))
        }
        kind => bail!("the provider kind {kind:?} is not part of this build"),
    }
}

/// Copies what the configuration says about a server and its API.
pub(crate) fn set_dialect(config: &mut HttpConfig, kind: &ProviderKind) {
    let ProviderKind::Api {
        json,
        max_completion_tokens,
        local,
        ..
    } = kind
    else {
        return;
    };
    if let Some(json) = json {
        config.json = match json {
            JsonForm::Schema => llm::JsonForm::Schema,
            JsonForm::Call => llm::JsonForm::Call,
            JsonForm::Words => llm::JsonForm::Words,
        };
    }
    if let Some(is_new) = max_completion_tokens {
        config.max_completion_tokens = *is_new;
    }
    if *local {
        // Another user's server can take the port at any time.
        config.before_send = |address| owner::check(address).map_err(|it| format!("{it:#}"));
    }
}

/// The key of a provider. A note says that the dialect's usual key is not sent, since the server will refuse.
fn key(provider: &str, dialect: Dialect, endpoint: &Endpoint) -> Option<llm::ApiKey> {
    let usual = dialect.usual().key_variable;
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

/// A new name. Names sort by time, and two sessions of one millisecond differ.
pub(crate) fn session_name() -> Result<String> {
    let mut random = [0; 3];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S-%3f");
    Ok(format!("{time}-{}", hex(&random)))
}
