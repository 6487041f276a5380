//! `sluice proxy`: guard any agent that speaks OpenAI's chat completions.

mod fit;
mod tally;
mod terminal;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use config::{Config, OnViolation, ProviderKind};
use hub::Purpose;
use ifc::Label;
use llm::{ApiKey, Broker, Endpoint, OpenAi, OpenAiConfig};
use policy::{Front, SessionFacts};
use server::TraceFile;
use server::proxy::{ApprovalDesk, Approver, ClientLabels, DropCalls, Proxy as Guard, ProxySetup};

use self::fit::Fit;
use self::tally::{Observed, ObservedPolicy, Tally};
use self::terminal::{Asked, attended};
use crate::commands::run::interrupts;
use crate::compose;
use crate::configuration;
use crate::exit::Exit;
use crate::paths;
use crate::terminal::{print, say};

/// The upstream's name in traces and errors.
const UPSTREAM: &str = "upstream";
/// The longest pause of the upstream: without streaming it says nothing until it is done.
const READ_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// The OpenAI-compatible API to forward to, up to and with `/v1`.
    #[arg(long, value_name = "URL")]
    upstream: String,
    /// The configuration with the rules [default: as for `sluice run`].
    #[arg(long, value_name = "FILE", alias = "config")]
    policy: Option<PathBuf>,
    /// The app whose rules the agent's tools have [default: the one with `client = true`].
    #[arg(long, value_name = "NAME")]
    app: Option<String>,
    /// Where to listen; port 0 lets the system choose.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Let other machines connect. The proxy asks nobody who they are.
    #[arg(long)]
    allow_remote: bool,
    /// Defend in this way [default: the configured screener].
    #[arg(long, value_name = "NAME")]
    defence: Option<String>,
    /// Screen before every step, as the paper does, instead of only when a call would violate.
    #[arg(long)]
    eager: bool,
    /// What becomes of a call that would violate the policy [default: the configuration's].
    #[arg(long, value_enum, value_name = "WHAT")]
    on_violation: Option<Violation>,
    /// Seconds that a question waits; no answer is no [default: the configuration's].
    #[arg(long, value_name = "S")]
    approval_timeout: Option<u64>,
    /// The variable with the upstream's key; without one the agents' own keys are passed through.
    #[arg(long, value_name = "VARIABLE")]
    upstream_key_env: Option<String>,
    /// What may be sent to the upstream, as taints [default: that of the configured provider with
    /// this address, or anything].
    #[arg(long, value_name = "TAINTS", value_delimiter = ',')]
    clearance: Option<Vec<String>>,
    /// A first run: nothing is blocked, and the end says what would have been asked.
    #[arg(long, conflicts_with = "on_violation")]
    observe: bool,
    /// Keep no trace.
    #[arg(long)]
    no_trace: bool,
    /// Print one event per line, as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Violation {
    /// Ask at the terminal and at the approval endpoint.
    Ask,
    /// Drop the call and tell the model why.
    Drop,
}

/// Guards until Ctrl-C: exit code 0, or 1 where the trace broke off.
pub(crate) async fn proxy(args: Proxy) -> Result<Exit> {
    let config = configuration::open(args.policy.as_deref(), attended() && !args.json)?;
    for note in &config.notes {
        say(&format!("note: {note}\n"));
    }
    let (mut setup, asks) = setup(&args, &config).await?;
    let rules = config.apps.get(&setup.app);
    let rules = rules.context("the app is not in the configuration")?;
    let tally = Arc::new(Tally::new(args.json, Fit::new(rules.clone())));
    setup.observer = tally.clone();
    if args.observe {
        setup.parts.policy = Arc::new(ObservedPolicy(setup.parts.policy));
        setup.approver = Arc::new(Observed);
    }
    let desk = match asks {
        Some(timeout) => Some(approvals(&mut setup, timeout, args.json)?),
        None => None,
    };
    let traced = setup.trace.as_ref().map(|trace| trace.path().to_owned());
    let app = setup.app.clone();
    let guard = Guard::bind(setup).await?;
    let url = guard.base_url();
    if args.json {
        let approvals = desk.as_ref().map(|desk| endpoint(&guard, desk));
        let line = serde_json::json!({"listening": url, "app": app, "approvals": approvals});
        print(&line.to_string())?;
    } else {
        say(&format!(
            "guarding {} by the rules of {app}; use it with OPENAI_BASE_URL={url}\n",
            args.upstream
        ));
        if let Some(desk) = &desk {
            let (address, token) = (guard.address(), desk.token());
            say(&format!(
                "questions: http://{address}/sluice/v1/approvals, with Authorization: Bearer {token}\n"
            ));
        }
        if let Some(trace) = &traced {
            say(&format!("trace: {}\n", trace.display()));
        }
    }
    let cancel = interrupts();
    let ending = async move {
        cancel.notified().await;
        say("ending with the requests under way; press Ctrl-C twice to end at once\n");
        // A question must not hold that up.
        if let Some(desk) = desk {
            desk.close();
        }
    };
    guard.serve(ending).await?;
    tally.report(args.observe)?;
    Ok(match tally.has_failed() {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

fn endpoint(guard: &Guard, desk: &ApprovalDesk) -> serde_json::Value {
    let url = format!("http://{}/sluice/v1/approvals", guard.address());
    serde_json::json!({"url": url, "token": desk.token()})
}

/// The proxy's parts, and how long questions wait if there are any.
async fn setup(args: &Proxy, config: &Config) -> Result<(ProxySetup, Option<Duration>)> {
    let app = app(args, config)?;
    let on_violation = match args.on_violation {
        Some(Violation::Drop) => OnViolation::Drop,
        Some(Violation::Ask) => OnViolation::Ask,
        None => config.proxy.on_violation,
    };
    let asks = !args.observe && on_violation != OnViolation::Drop;
    let timeout = match args.approval_timeout {
        Some(seconds) => Duration::from_secs(seconds),
        None => config.proxy.approval_timeout,
    };
    let facts = SessionFacts {
        attended: asks,
        front: Front::Proxy,
    };
    let upstream = OpenAi::new(upstream(args, config)?);
    // Without its text, which may hold a password.
    let upstream = Arc::new(upstream.context("--upstream cannot be used")?);
    let broker = Broker::new(upstream.clone(), clearance(args, config)?);
    let broker = helpers(broker, config).await?;
    let options = compose::Options {
        eager: args.eager,
        defence: args.defence.clone(),
        facts,
        ..compose::Options::default()
    };
    let parts = compose::parts(config, broker, &options)?;
    let mut setup = ProxySetup::new(parts, app.clone());
    let user = config.user.clone();
    setup.labels = ClientLabels {
        system: Label::bottom(),
        descriptions: config
            .apps
            .get(&app)
            .map_or(Label::top(), |app| app.descriptions.clone()),
        user: Arc::new(move |text| user.label(text)),
    };
    setup.models = Some(upstream);
    setup.address = args.listen;
    setup.allow_remote = args.allow_remote;
    if !args.no_trace {
        let name = format!("{}-proxy", compose::session_name()?);
        setup.trace = Some(TraceFile::create(&paths::traces()?, &name)?);
    }
    setup.approver = Arc::new(DropCalls);
    Ok((setup, asks.then_some(timeout)))
}

/// The app whose rules count.
fn app(args: &Proxy, config: &Config) -> Result<String> {
    let name = args.app.clone().or_else(|| config.proxy.app.clone());
    let name = name.context(
        "nothing says whose rules the agent's tools have; name the app with --app, or write one [app.NAME] with client = true",
    )?;
    match config.apps.contains_key(&name) {
        true => Ok(name),
        false => bail!("there is no app {name} in the configuration; write [app.{name}]"),
    }
}

/// The configured provider with the upstream's address.
fn provider<'a>(args: &Proxy, config: &'a Config) -> Option<&'a config::Provider> {
    let same = |url: &str| url.trim_end_matches('/') == args.upstream.trim_end_matches('/');
    config
        .providers
        .iter()
        .find(|provider| match &provider.kind {
            ProviderKind::OpenAi { base_url, .. } => base_url.as_deref().is_some_and(same),
            _ => false,
        })
}

fn upstream(args: &Proxy, config: &Config) -> Result<OpenAiConfig> {
    let known = provider(args, config);
    // Every request names its own model; this one is for none.
    let model = known.map_or("default", |provider| provider.model.as_str());
    let mut upstream = OpenAiConfig::new(UPSTREAM, &args.upstream, model);
    upstream.pass_through = true;
    upstream.timeouts.read = READ_TIMEOUT;
    // Agents try again by themselves, and are told when.
    upstream.retry.attempts = 0;
    upstream.api_key = match &args.upstream_key_env {
        None => configured_key(args, known)?,
        Some(name) => {
            let key = std::env::var(name).with_context(|| {
                format!("the variable {name} is not set; export it and start again")
            })?;
            Some(ApiKey::new(key))
        }
    };
    Ok(upstream)
}

/// The key that the configuration names for the upstream's address. Without one the clients' own keys
/// are passed through.
fn configured_key(args: &Proxy, known: Option<&config::Provider>) -> Result<Option<ApiKey>> {
    let Some(ProviderKind::OpenAi { api_key_env, .. }) = known.map(|provider| &provider.kind)
    else {
        return Ok(None);
    };
    let endpoint = Endpoint::new(Some(&args.upstream), api_key_env.as_deref(), None)?;
    let key = endpoint
        .key_variable
        .and_then(|name| std::env::var(name).ok());
    Ok(key.map(ApiKey::new))
}

/// An agent without Sluice shows its model everything, so that is the default where nothing else
/// is said.
fn clearance(args: &Proxy, config: &Config) -> Result<Label> {
    let Some(taints) = &args.clearance else {
        return Ok(provider(args, config).map_or(Label::top(), |p| p.clearance.clone()));
    };
    let taints = taints.iter().map(String::as_str);
    let named = config.lattice.labels(taints)?;
    // Who influenced a text does not matter for whom it is disclosed to.
    let influence = config.lattice.whole(ifc::Dimension::Integrity);
    Ok(named.join(&influence))
}

/// The providers that judge and draft, if the configuration names some.
async fn helpers(mut broker: Broker, config: &Config) -> Result<Broker> {
    let routes = [
        (Purpose::Judge, &config.screener.provider),
        (Purpose::Draft, &config.screener.draft),
    ];
    let mut added: Vec<&str> = Vec::new();
    for (purpose, name) in routes {
        let Some(name) = name else { continue };
        if !added.contains(&name.as_str()) {
            let found = config.providers.iter().find(|p| p.name == *name);
            let found = found.with_context(|| format!("there is no provider {name}"))?;
            let provider = compose::provider(found).await?;
            broker = broker.with_provider(provider, found.clearance.clone())?;
            added.push(name);
        }
        broker = broker.with_route(purpose, [name.as_str()])?;
    }
    Ok(broker)
}

/// Questions are put to the approval endpoint, and to the terminal where somebody sits.
fn approvals(setup: &mut ProxySetup, timeout: Duration, json: bool) -> Result<Arc<ApprovalDesk>> {
    let desk = ApprovalDesk::new(timeout).map_err(|reason| anyhow!(reason))?;
    let approver: Arc<dyn Approver> = match attended() && !json {
        true => Arc::new(Asked::new(desk.clone())),
        false => desk.clone(),
    };
    setup.approver = approver;
    setup.desk = Some(desk.clone());
    Ok(desk)
}
