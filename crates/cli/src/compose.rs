//! The composition root: from a configuration to a session's parts.

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use config::{App, Config, ProviderKind, SpokeLimits};
use hub::missing::Functionality;
use hub::planner::Group;
use hub::{Limits, Purpose, Screening};
use ifc::{Label, Labeled};
use llm::{Broker, Endpoint, OpenAi, OpenAiConfig, Provider};
use policy::SessionFacts;
use remote::Settings;
use sandbox::defaults::RESOLVER_PORT;
use sandbox::{Access, Layer};
use screen::Defence;
use server::{
    AppSetup, Domains, Egress, Missing, Parts, SamplingBudget, SessionSetup, SpokeSetup, ToolCheck,
};

use crate::commands::catalogue;
use crate::keep_for::KeepFor;
use crate::permissions::Permitted;
use crate::terminal::say;
use crate::{login, memory, paths, remote_app, review, screener, secrets};

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

/// Where an app starts, inside its sandbox; the only writable place that every spoke has.
const WORKDIR: &str = "/tmp";
/// Looked up inside the sandbox.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

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
    mounts(config)?;
    let apps = config
        .apps
        .values()
        // Those at clients of the guard proxy have no process here.
        .filter(|app| !app.client)
        .map(|app| self::app(app, options))
        .collect::<Result<_>>()?;
    let name = session_name()?;
    let permissions = Arc::new(Permitted::open(config, &name, options.keep_for)?);
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
        missing: missing(config)?,
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

/// What the catalogue knows and no configured app does.
fn missing(config: &Config) -> Result<Vec<Missing>> {
    let missing = catalogue::known()?.missing(config).into_iter();
    let missing = missing.map(|one| Missing {
        functionality: Functionality {
            name: one.functionality,
            description: one.description,
        },
        apps: one.apps,
    });
    Ok(missing.collect())
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
            check: check.unwrap_or(name == screen::NAIVE.name()),
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

/// The limits of turns that a configuration sets.
fn limits(config: &Config) -> Limits {
    let own = config.limits.prompt_bytes;
    let kinds = || config.providers.iter().map(|provider| &provider.kind);
    let prompt_bytes = match kinds().any(|kind| *kind == ProviderKind::Embedded) {
        true => EMBEDDED_PROMPT_BYTES,
        false => Limits::default().prompt_bytes,
    };
    Limits {
        steps: config.limits.steps as usize,
        prompt_bytes: own.unwrap_or(prompt_bytes),
        history_bytes: config.limits.history_bytes,
        result_bytes: config.limits.spoke.result_bytes,
        hops: config.limits.hops as usize,
        serving_steps: config.limits.serving_steps as usize,
        ..Limits::default()
    }
}

/// The configured language models, ready to be asked. The embedded one is loaded here.
///
/// # Errors
/// A model file is missing, or an address or key is.
pub(crate) async fn broker(config: &Config) -> Result<Broker> {
    let mut broker: Option<Broker> = None;
    for provider in &config.providers {
        let model = self::provider(provider).await?;
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
pub(crate) async fn broker_behind(
    upstream: Arc<dyn Provider>,
    clearance: Label,
    config: &Config,
) -> Result<Broker> {
    let mut broker = Broker::new(upstream, clearance);
    for provider in &config.providers {
        if helpers(config).any(|(_, name)| *name == provider.name) {
            let model = self::provider(provider).await?;
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

pub(crate) async fn provider(provider: &config::Provider) -> Result<Arc<dyn Provider>> {
    match &provider.kind {
        ProviderKind::Embedded => crate::embedded::provider(&provider.name, &provider.model).await,
        ProviderKind::OpenAi { images, .. } => {
            let endpoint = endpoint(provider)?.context("it has no address")?;
            let mut config = OpenAiConfig::new(&provider.name, &endpoint.base_url, &provider.model);
            config.api_key = key(&provider.name, &endpoint);
            config.images = *images;
            Ok(Arc::new(OpenAi::new(config)?))
        }
        kind => bail!("the provider kind {kind:?} is not part of this build"),
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
        Some(variable) => env::var(variable).ok().map(llm::ApiKey::new),
        None => {
            if env::var_os(usual).is_some() {
                let host = &endpoint.base_url;
                say(&format!(
                    "note: no key is sent to the provider {provider} at {host}; if it needs one, write api_key_env = \"VARIABLE\" beside its base_url\n"
                ));
            }
            None
        }
    }
}

/// How an app's spoke is run.
///
/// # Errors
/// A variable that it needs is not set, or the spoke's program is not there.
pub(crate) fn app(app: &App, options: &Options) -> Result<AppSetup> {
    let mut env = app.env.clone();
    let mut command = app.command.clone();
    if let Some(start) = &app.found {
        command.clone_from(&start.command);
        env.extend(start.env.clone());
    }
    env.entry("PATH".to_owned())
        .or_insert_with(|| PATH.to_owned());
    env.entry("HOME".to_owned())
        .or_insert_with(|| WORKDIR.to_owned());
    for name in &app.env_from {
        let value = env::var(name).with_context(|| {
            format!(
                "the app {} needs the variable {name}, which is not set; export it and start again",
                app.name
            )
        })?;
        env.insert(name.clone(), value);
    }
    let mut tokens = None;
    if let Some(remote) = &app.remote {
        tokens = login::token_port(app, remote, &options.allow_degraded)?;
        let settings = Settings {
            tokens: tokens.as_ref().map(|tokens| tokens.port),
            ..remote_app::settings(app, remote)?
        };
        env.extend([remote_app::variable(&settings)?]);
    }
    let mut sandbox = sandbox_of(app, options);
    sandbox
        .listen
        .extend(tokens.iter().map(|tokens| tokens.port));
    let limits = &app.limits;
    let spoke = SpokeSetup {
        app: app.name.clone(),
        program: paths::binary("sluice-spoke")?,
        command,
        env,
        workdir: WORKDIR.to_owned(),
        sandbox,
        of_program: of_program(app),
        limits: app_limits(limits),
        egress: app
            .egress
            .iter()
            .map(|egress| Egress {
                listen: egress.listen,
                host: egress.host.clone(),
                port: egress.port,
                addresses: egress.addresses.clone(),
            })
            .collect(),
        domains: domains(app),
        tokens,
        call_timeout: limits.call_timeout,
        resources: app.resources,
        prompts: app.prompts,
        sampling: app.sampling.as_ref().map(|sampling| {
            let config::Sampling {
                provider,
                max_tokens,
                per_session,
            } = sampling;
            SamplingBudget::new(provider, *max_tokens, *per_session)
        }),
    };
    // An app without a word about itself is known by its name alone.
    let description = app.description.clone().unwrap_or_else(|| app.name.clone());
    let rules = app.clone();
    let check = ToolCheck::new(move |tools| {
        review::unchanged(&rules, tools)?;
        let schemas = tools.iter();
        let schemas = schemas.map(|tool| (tool.name.as_str(), tool.input_schema.as_str()));
        rules
            .check_tools(&schemas.collect::<Vec<_>>())
            .map_err(|errors| errors.to_string())
    });
    Ok(AppSetup {
        fresh: app.fresh,
        check,
        spoke,
        provider: app.provider.clone(),
        description: Labeled::trusted_tcb(description),
        described_by_user: app.described_by_user,
        descriptions: app.descriptions.clone(),
        listed: app.rules.tools.keys().cloned().collect(),
        asks: app.asks.clone(),
        offers_others: app.rules.other_tools.is_some(),
    })
}

fn domains(app: &App) -> Domains {
    let addresses = app.domains.iter();
    let addresses = addresses.map(|domain| (domain.pattern.clone(), domain.addresses.clone()));
    Domains {
        addresses: addresses.collect(),
        holds: app.holds(),
    }
}

/// The ports on which names lead to the hub. An app that may reach none has one too, so that it is told at once that there
/// is no such name, and the user which one it asked for.
fn name_ports(app: &App, options: &Options) -> Vec<u16> {
    let ports = app.name_ports();
    if !ports.is_empty() {
        return ports.into_iter().collect();
    }
    let free = |port: &u16| app.egress.iter().all(|egress| egress.listen != *port);
    // On the host's network there can be no names of its own, and an app that needs none does without.
    let own = !options.allow_degraded.contains(&Layer::NetNamespace);
    let has_resolver = own
        && app
            .egress
            .iter()
            .all(|egress| egress.listen != RESOLVER_PORT);
    let ports = config::Domain::PORTS.into_iter().filter(free);
    ports.take(usize::from(has_resolver)).collect()
}

/// Refuses a session in which an app could write what decides about the next one.
pub(crate) fn mounts(config: &Config) -> Result<()> {
    let none =
        |app: &App| app.mounts.is_empty() && app.found.iter().all(|start| start.mounts.is_empty());
    if config.apps.values().all(none) {
        return Ok(());
    }
    let kept = secrets::folder()?;
    let kept = kept.canonicalize().unwrap_or(kept);
    for app in config.apps.values() {
        let found = app.found.iter().flat_map(|start| &start.mounts);
        for mount in app.mounts.iter().chain(found) {
            let source = mount.source.canonicalize();
            let source = source.unwrap_or_else(|_| mount.source.clone());
            if kept.starts_with(&source) || source.starts_with(&kept) {
                bail!(
                    "nothing was started\n{}: the app '{}' would see your secrets in '{}'; mount a folder beside it",
                    mount.place,
                    app.name,
                    kept.display()
                );
            }
        }
    }
    config.check_mounts(&paths::kept()?).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        anyhow!("nothing was started\n{}", errors.join("\n"))
    })
}

/// The mounts that were found for the program alone.
fn of_program(app: &App) -> BTreeSet<PathBuf> {
    let found = app.found.iter().flat_map(|start| &start.mounts);
    let program = found.filter(|mount| mount.execute);
    program.map(|mount| mount.target.clone()).collect()
}

fn sandbox_of(app: &App, options: &Options) -> sandbox::Spec {
    let limits = &app.limits;
    let found = app.found.iter().flat_map(|start| &start.mounts);
    let mount = |mount: &config::Mount| sandbox::Mount {
        source: mount.source.clone(),
        target: mount.target.clone(),
        access: if mount.write {
            Access::ReadWrite
        } else {
            Access::ReadOnly
        },
        executable: mount.execute,
    };
    let quota = |mount: &config::Mount| {
        let folder = mount.source.clone();
        mount.size.map(|bytes| sandbox::Quota { folder, bytes })
    };
    sandbox::Spec {
        mounts: app.mounts.iter().chain(found).map(mount).collect(),
        // The spoke itself needs no environment; the app gets its own by the first frame.
        env: Vec::new(),
        listen: app.egress.iter().map(|egress| egress.listen).collect(),
        names: name_ports(app, options),
        workdir: WORKDIR.into(),
        limits: sandbox::Limits {
            memory_bytes: limits.memory_bytes,
            processes: limits.processes,
            open_files: limits.open_files,
            file_bytes: limits.file_bytes,
            tmp_bytes: limits.tmp_bytes,
            ..sandbox::Limits::default()
        },
        quotas: app.mounts.iter().filter_map(quota).collect(),
        allow_degraded: options.allow_degraded.clone(),
    }
}

fn app_limits(limits: &SpokeLimits) -> wire::AppLimits {
    let default = wire::AppLimits::default();
    wire::AppLimits {
        start_timeout_ms: u64::try_from(limits.start_timeout.as_millis())
            .unwrap_or(default.start_timeout_ms),
        max_result_bytes: u32::try_from(limits.result_bytes)
            .map_or(default.max_result_bytes, |bytes| {
                bytes.min(default.max_result_bytes)
            }),
        ..default
    }
}

/// Sorts by time, and two sessions of one second differ.
pub(crate) fn session_name() -> Result<String> {
    let mut random = [0; 3];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let [a, b, c] = random;
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S-%3f");
    Ok(format!("{time}-{a:02x}{b:02x}{c:02x}"))
}
