//! `sluice gateway`: one MCP server in the place of all others.

mod bridge;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use config::{Config, ScreenerKind};
use hub::Permits;
use ifc::{Dimension, Effect, Label};
use policy::{Front, SessionFacts};
use sandbox::Layer;
use serde_json::Value;
use server::Told;
use server::desk::{Approver, Desk, fresh_token};
use server::gateway::{Gateway as Guard, GatewayApp, GatewaySetup, HttpGateway, HttpSetup};
use server::proxy::Behind;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use wire::{ToolDescription, ToolFilter};

use crate::asking::Asking;
use crate::commands::proxy::terminal::{Announced, Asked};
use crate::exit::Exit;
use crate::fetch::{self, Fetch};
use crate::interrupts::interrupts;
use crate::observed::{self, Draft, Observe, WARNING, say_json};
use crate::place::Place;
use crate::terminal::{Terminal, message, say, say_whole};
use crate::{compose, exit, service, session, tool_lists, trial};

/// The name of the gateway among an agent's MCP servers, as `sluice init` writes it.
pub(crate) const SERVER: &str = "sluice";

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  sluice gateway --app mail --tools 'mail.read_*'
  claude mcp add --scope user sluice -- sluice gateway
  sluice gateway --observe     # no rules yet: a report and a draft policy once the client has gone

Every server of the configuration runs in its own sandbox, and starts at its first call. Questions go to the client,
if it can ask its user, and to `sluice approve` and `sluice desk`.")]
pub(crate) struct Gateway {
    #[command(flatten)]
    place: Place,
    /// Offer the tools of this app only (repeatable) [default: all apps].
    #[arg(long, value_name = "NAME")]
    app: Vec<String>,
    #[command(flatten)]
    offered: Offered,
    #[command(flatten)]
    http: Http,
    #[command(flatten)]
    observed: Observe,
    /// Use a running `sluice serve`: the one of $SLUICE_SERVICE or of [service] url, with the token in $SLUICE_TOKEN, or else
    /// your own on this machine [default: the servers are started here; also if no service runs]. Of the options that limit
    /// what is offered, it takes --app.
    #[arg(long, conflicts_with_all = ["http", "observe", "tools", "search", "unattended"])]
    service: bool,
    /// With --observe: print the report as JSON, in one line on standard error.
    #[arg(long, requires = "observe")]
    json: bool,
}

/// Where clients connect, if not by standard input and output.
#[derive(Debug, Default, Args)]
pub(crate) struct Http {
    /// Serve clients over streamable HTTP at this address [default: one client on standard input and output].
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Let other machines connect.
    #[arg(long, requires = "http")]
    allow_remote: bool,
    /// A host name by which other machines reach it (repeatable) [default: its addresses only].
    #[arg(long, value_name = "NAME", requires = "allow_remote")]
    host: Vec<String>,
    /// A variable with the token that clients must send as `Authorization: Bearer` [default: a new one is printed].
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    token_env: Option<String>,
}

/// What clients are offered.
#[derive(Debug, Default, Args)]
pub(crate) struct Offered {
    /// Offer only tools whose name APP.TOOL is one of these, separated by commas; * stands for any text [default: all].
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) tools: Vec<String>,
    /// Offer a tool that finds the others and one that calls them, instead of a list of all [default: with more than 100
    /// tools].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) search: Option<bool>,
    /// No person uses the client: permissions count only if they were given for scripts, and a question that the client
    /// cannot ask is refused at once.
    #[arg(long)]
    pub(crate) unattended: bool,
}

/// Serves a client on standard input and output until it closes them.
pub(crate) async fn gateway(args: Gateway) -> Result<Exit> {
    // No question about trust is asked: the terminal, if there is one, is the client's.
    let draft = match args.observed.observe {
        true => {
            say(&format!("{WARNING}; each server stays in its sandbox\n"));
            let named = args.place.file.config.as_deref();
            let file = args.observed.draft.as_deref();
            Some(Draft::new(file, named, None)?)
        }
        false => None,
    };
    let mut config = args.place.file.open(true)?;
    if let Some(draft) = &draft {
        draft.check(args.place.file.config.as_deref())?;
    }
    if args.service
        && let Some(known) = service::find(&config.service)?
    {
        return bridge::serve(known, &args.app).await;
    }
    session::say_notes(&config);
    for name in &args.app {
        trial::startable(&config, name)?;
    }
    let is_offered = |name: &String| args.app.is_empty() || args.app.contains(name);
    config
        .apps
        .retain(|name, app| !app.client && is_offered(name));
    if config.apps.is_empty() {
        say(
            "note: no app is configured, so there are no tools; add one with sluice init or sluice app add\n",
        );
    }
    let named = args.app.iter().cloned().collect();
    let layers = args.place.layers();
    fetch::provide_for(&mut config, &named, Fetch::No, &layers, false).await?;
    let observe = draft.is_some();
    let trace = serve(config, true, observe, &args.offered, &args.http, &layers).await?;
    if let Some(draft) = draft {
        let json = args.json.then_some(say_json as fn(&Value) -> _);
        observed::finish(&draft, &[trace], BTreeSet::new(), json)?;
    }
    Ok(Exit::Done)
}

/// Serves the apps of this configuration, and returns the trace. `prefixed` says whether the names of tools begin with that of
/// their app.
pub(crate) async fn serve(
    config: Config,
    prefixed: bool,
    observe: bool,
    offered: &Offered,
    http: &Http,
    layers: &BTreeSet<Layer>,
) -> Result<PathBuf> {
    let name = format!("{}-gateway", compose::session_name()?);
    let asking = Asking::new("gateway", config.proxy.approval_timeout, &config.desk)?;
    let desk = asking.desk(&name)?;
    let approver: Option<Arc<dyn Approver>> = match http.http {
        Some(_) if Terminal::attended() => Some(Arc::new(Asked::new(desk.clone()))),
        Some(_) => Some(desk.clone()),
        None if offered.unattended => None,
        // The terminal, if there is one, is the client's.
        None => Some(Arc::new(Announced(desk.clone()))),
    };
    let front = Fronts {
        name,
        asks_client: true,
        approver,
        observe,
        ..Fronts::default()
    };
    let gateway = start(config, prefixed, offered, front, layers).await?;
    let trace = gateway.trace();
    // The report names it.
    if !observe {
        say(&format!("trace: {}\n", trace.display()));
    }
    let cancel = interrupts();
    match http.http {
        Some(address) => listen(gateway, address, http, desk, &cancel).await?,
        None => {
            let client = gateway.client("");
            let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
            client.serve(input, output, cancel.notified()).await?;
            desk.close().await;
        }
    }
    Ok(trace)
}

/// Who answers the questions of a gateway, and what another front has permitted.
#[derive(Default)]
pub(crate) struct Fronts {
    /// Of the trace.
    pub(crate) name: String,
    /// Whether the client's user may answer. A program of an agent's could answer in the place of its user.
    pub(crate) asks_client: bool,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    /// Whether everything is only observed.
    pub(crate) observe: bool,
    pub(crate) permits: Arc<Mutex<Permits>>,
    pub(crate) told: Option<Told>,
}

/// What a proxy knows of this gateway, for clients of which nothing is known: neither where their programs run, nor what those
/// read.
pub(crate) fn behind(gateway: &Arc<Guard>, config: &Config) -> Behind {
    let tools = Arc::clone(gateway);
    Behind {
        server: SERVER.to_owned(),
        tools: Arc::new(move || tools.tools()),
        permits: Arc::default(),
        // Each token has its own, by the store.
        session: String::new(),
        files: Label::bottom(),
        whole: [Dimension::Confidentiality, Dimension::Integrity]
            .map(|dimension| config.lattice.whole(dimension)),
        starts: Arc::new(|_| false),
        gathers: Arc::new(|_| false),
    }
}

/// A gateway over the apps of this configuration.
pub(crate) async fn start(
    config: Config,
    prefixed: bool,
    offered: &Offered,
    fronts: Fronts,
    layers: &BTreeSet<Layer>,
) -> Result<Arc<Guard>> {
    let setup = setup(config, prefixed, offered, fronts, layers).await?;
    Ok(Guard::start(setup)?)
}

/// What a gateway over the apps of this configuration is made of.
pub(crate) async fn setup(
    mut config: Config,
    prefixed: bool,
    offered: &Offered,
    fronts: Fronts,
    layers: &BTreeSet<Layer>,
) -> Result<GatewaySetup> {
    // No step is made here, so nothing is screened.
    config.screener.kind = ScreenerKind::Naive;
    let options = compose::Options {
        allow_degraded: layers.clone(),
        facts: SessionFacts {
            attended: !offered.unattended,
            front: Front::Gateway,
            user: config.user_name.clone(),
        },
        private: true,
        ..compose::Options::default()
    };
    // No model is asked, so there need not be one.
    let setup = compose::session(&config, compose::no_model()?, &options)?;
    let mut lists = self::lists(&config, layers).await;
    let mut apps = Vec::new();
    for mut setup in setup.apps {
        let name = setup.spoke.app.clone();
        let (Some(tools), Some(app)) = (lists.remove(&name), config.apps.get(&name)) else {
            continue;
        };
        if let Err(reason) = setup.check.accepts(&tools) {
            say(&format!(
                "note: continuing without the app {name}: {reason}\n"
            ));
            continue;
        }
        setup.check = setup.check.and(tool_lists::unchanged(&tools));
        apps.push(GatewayApp {
            tools: kept(&name, tools, &offered.tools)?,
            effects: effects(app),
            setup,
        });
    }
    Ok(GatewaySetup {
        name: fronts.name,
        traces: setup.traces,
        parts: setup.parts,
        apps,
        prefixed,
        search: offered.search,
        permissions: setup.permissions,
        asks_client: fronts.asks_client,
        approver: fronts.approver,
        approval_timeout: config.proxy.approval_timeout,
        observe: fronts.observe,
        permits: fronts.permits,
        told: fronts.told,
        state: None,
    })
}

/// Serves clients over HTTP.
async fn listen(
    gateway: Arc<Guard>,
    address: SocketAddr,
    http: &Http,
    desk: Arc<Desk>,
    cancel: &Notify,
) -> Result<()> {
    let token = match &http.token_env {
        Some(name) => std::env::var(name).ok().filter(|token| !token.is_empty()),
        None => Some(fresh_token().map_err(|reason| anyhow!(reason))?),
    };
    let token =
        token.context("the variable of --token-env is not set; export it and start again")?;
    let listening = HttpGateway::bind(
        gateway,
        HttpSetup {
            address,
            allow_remote: http.allow_remote,
            hosts: http.host.clone(),
            token: token.clone(),
            desk: Some(desk.clone()),
        },
    );
    let listening = listening.await;
    let listening = listening.with_context(|| {
        format!("the gateway cannot listen on {address}; choose another address with --http")
    })?;
    let address = listening.address();
    say(&format!(
        "serving MCP at http://{address}{}\n",
        server::gateway::PATH
    ));
    // A token from a variable is not printed.
    if http.token_env.is_none() {
        say_whole(&format!(
            "clients need a token: Authorization: Bearer {token}\n"
        ));
    }
    say_whole(&format!(
        "questions: http://{address}/sluice/v1/approvals, with Authorization: Bearer {}\n",
        desk.token()
    ));
    let ending = async {
        cancel.notified().await;
        // An open question becomes a no.
        desk.close().await;
    };
    listening.serve(ending).await;
    Ok(())
}

/// The lists of all apps. An app without one is started once, side by side with the others; one that does not start is
/// left out with a note.
pub(crate) async fn lists(
    config: &Config,
    layers: &BTreeSet<Layer>,
) -> BTreeMap<String, Vec<ToolDescription>> {
    let (mut lists, mut starting) = (BTreeMap::new(), JoinSet::new());
    for app in config.apps.values() {
        if let Some(tools) = tool_lists::find(app) {
            lists.insert(app.name.clone(), tools);
            continue;
        }
        let (config, app, layers) = (config.clone(), app.clone(), layers.clone());
        starting.spawn(async move {
            let started = trial::start(&config, &app, &layers).await;
            (app, started.map(|trial| trial.tools))
        });
    }
    while let Some(started) = starting.join_next().await {
        let Ok((app, started)) = started else {
            continue;
        };
        match started {
            Ok(tools) => {
                lists.insert(app.name, tools);
            }
            Err(error) => message(&format!(
                "note: continuing without the app {}: {}",
                app.name,
                exit::shown(&error).trim_end()
            )),
        }
    }
    lists
}

/// The tools of an app that are offered.
fn kept(
    app: &str,
    tools: Vec<ToolDescription>,
    patterns: &[String],
) -> Result<Vec<ToolDescription>> {
    if let Some(wrong) = patterns
        .iter()
        .find(|pattern| !pattern.contains('.') && *pattern != "*")
    {
        bail!("--tools {wrong}: write APP.TOOL, such as mail.read_*");
    }
    let is_kept = |tool: &ToolDescription| {
        let name = format!("{app}.{}", tool.name);
        patterns.is_empty() || patterns.iter().any(|it| ToolFilter::fits(it, &name))
    };
    Ok(tools.into_iter().filter(is_kept).collect())
}

/// What the tools of an app do, by their rules.
fn effects(app: &config::App) -> BTreeMap<String, Effect> {
    let rules = app.rules.tools.iter();
    rules
        .map(|(tool, rule)| (tool.clone(), rule.effect))
        .collect()
}
