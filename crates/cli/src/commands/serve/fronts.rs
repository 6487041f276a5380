//! From a configuration to the fronts of a service. A reload makes them again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use config::{Config, OnViolation, ProviderKind};
use hub::Permits;
use ifc::{Dimension, Label};
use sandbox::Layer;
use server::access::{self, Access, Agent};
use server::audit::{Audit, Note};
use server::desk::{Approver, Desk, DropCalls};
use server::gateway::{Gateway, Routes};
use server::limits::{Budget, Limits};
use server::proxy::{Behind, ProxyRoutes, ProxySetup};
use server::service::Fronts;
use server::telemetry::{Check, Metrics, PolicyNames};
use server::{Rotation, Sinks, StateSetup, TraceFile, remove_old_traces};
use sha2::{Digest, Sha256};
use store::{NewToken, Role, SessionState, Time};
use tokio::time::sleep;
use tracing::warn;

use crate::asking::Asking;
use crate::commands::gateway::{self, Offered};
use crate::commands::proxy::by_rules;
use crate::commands::proxy::upstream::{Upstream, UpstreamArgs};
use crate::hex::hex;
use crate::terminal::message;
use crate::{compose, deployment, needs, os_user, paths};

/// The name of the gateway among an agent's MCP servers, as `sluice init` writes it.
const SERVER: &str = "sluice";

/// How the names of tokens begin that a service makes for the agents of its own user.
const LOCAL: &str = "local-";
const HOUR: Duration = Duration::from_secs(3_600);
const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// What outlives a configuration.
pub(super) struct Own {
    pub(super) desk: Arc<store::Desk>,
    pub(super) agents: Arc<Agents>,
    pub(super) state: StateSetup,
    pub(super) sinks: Sinks,
    pub(super) limits: Limits,
    pub(super) names: Arc<PolicyNames>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) audit: Arc<Audit>,
    pub(super) address: SocketAddr,
    pub(super) layers: BTreeSet<Layer>,
}

/// The fronts of a configuration.
pub(super) struct Built {
    pub(super) fronts: Fronts,
    pub(super) about: About,
}

/// What is said of them.
pub(super) struct About {
    /// The app with the rules of the proxy, and its upstream; without them there is no proxy, and why.
    pub(super) proxy: Result<(String, String), &'static str>,
    pub(super) apps: usize,
    /// Why agents need a token at the proxy, if they do.
    pub(super) needs_token: Option<&'static str>,
}

impl Own {
    /// The fronts of this configuration, with its budgets in force.
    pub(super) async fn build(&self, config: &Config) -> Result<Built> {
        let asks = config.proxy.on_violation != OnViolation::Drop;
        let session = compose::session_name()?;
        let asking = Asking::of(
            Arc::clone(&self.desk),
            "serve",
            config.proxy.approval_timeout,
        );
        let mut asking = asking.telling(&config.desk).outliving();
        if config.proxy.user_header.is_some() {
            asking = asking.of_no_user();
        }
        let desk = asking.desk(&session)?;
        let proxy = self.proxy(config, asks, &session, &desk)?;
        let needs_token = match &proxy {
            Ok((setup, _)) => setup.needs_token(),
            Err(_) => Some("a gateway runs the user's apps"),
        };
        let tenants = config.tenants.keys().cloned().collect();
        let access = Access::new(self.agents.clone(), needs_token.is_some(), tenants);
        let (gateway, apps) = self.gateway(config, asks, &session, &desk).await?;
        let routes = Routes::of_agents(Arc::clone(&gateway), access.clone());
        let (fronts, about) = match proxy {
            Ok((mut setup, upstream)) => {
                let app = setup.app.clone();
                setup.access = Some(access);
                setup.behind = Some(Behind {
                    server: SERVER.to_owned(),
                    tools: Arc::new(move || gateway.tools()),
                    permits: Arc::default(),
                    // Each token has its own, by the store.
                    session: String::new(),
                    files: Label::bottom(),
                    whole: [Dimension::Confidentiality, Dimension::Integrity]
                        .map(|dimension| config.lattice.whole(dimension)),
                    // Agents run elsewhere, and more than one of them may have a token.
                    starts: Arc::new(|_| false),
                    gathers: Arc::new(|_| false),
                });
                setup.beside = Some(routes);
                let fronts = Fronts::of_proxy(ProxyRoutes::new(setup)?);
                (fronts, Ok((app, upstream)))
            }
            Err(why) => {
                let hosts = hosts(config);
                let fronts = Fronts::of_gateway(routes, desk, hosts.as_deref(), why);
                (fronts, Err(why))
            }
        };
        self.limits.replace(budgets(config));
        let tools = config.apps.values().flat_map(|app| {
            let tools = app.rules.tools.keys();
            tools.map(|tool| (app.name.clone(), tool.clone()))
        });
        self.names.replace(tools);
        Ok(Built {
            fronts,
            about: About {
                proxy: about,
                apps,
                needs_token,
            },
        })
    }

    /// Removes what is older than the configuration keeps, every hour. What the store keeps of the secret stays.
    pub(super) async fn prune(&self, config: &Config) {
        let before = |days: u32| {
            let ago = i64::from(days).saturating_mul(DAY_MS);
            Time::from_millis(now().millis().saturating_sub(ago))
        };
        loop {
            if let Err(reason) =
                deployment::claim(&*self.state.store, &self.state.secret, false).await
            {
                warn!(%reason, "the store has another secret, or does not answer");
            }
            let state = self.state.store.prune(before(config.state.keep_days)).await;
            let audit = self
                .audit
                .remove_before(before(config.audit.keep_days))
                .await;
            let traces = paths::traces()
                .and_then(|it| Ok(remove_old_traces(&it, Rotation::default().keep)?));
            // The next hour comes.
            if let Err(reason) = state
                .map_err(anyhow::Error::from)
                .and(audit.map_err(Into::into))
                .and(traces)
            {
                warn!(%reason, "what is too old is not removed");
            }
            sleep(HOUR).await;
        }
    }

    /// A new token for the agents of this user on this machine. The one before, of a service at the same address with the same
    /// folder, is revoked.
    ///
    /// # Errors
    /// The store fails, or an operator made a token of this name.
    pub(super) async fn local_token(&self) -> Result<String> {
        let name = self.local_name()?;
        self.revoke_local_token().await?;
        let token = NewToken {
            name,
            role: Role::Agent,
            tenant: None,
            apps: Vec::new(),
            effects: Vec::new(),
            expires: None,
        };
        let note = Note::new("token", "new").with("name", token.name.as_str());
        self.audit.note(note.with("role", token.role.name()));
        Ok(self.desk.new_token(&token, now()).await?)
    }

    /// Revokes the token of [`Own::local_token`]. One of another role or with a tenant is an operator's, and stays.
    pub(super) async fn revoke_local_token(&self) -> Result<()> {
        let name = self.local_name()?;
        let tokens = self.desk.tokens().await?;
        let is_own = tokens.iter().any(|token| {
            token.name == name
                && token.role == Role::Agent
                && token.tenant.is_none()
                && token.expires.is_none()
        });
        if is_own {
            self.desk.revoke(&name).await?;
        }
        Ok(())
    }

    /// `local-HOST-DIGEST`. Services that share a database or a folder have names of their own.
    fn local_name(&self) -> Result<String> {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let host = host.chars().filter(char::is_ascii_alphanumeric);
        let host: String = host.take(32).collect();
        let place = format!("{}\n{}", paths::state()?.display(), self.address);
        let digest: String = hex(&Sha256::digest(place)).chars().take(8).collect();
        Ok(format!("{LOCAL}{host}-{digest}"))
    }

    /// The proxy and the name of its upstream, if the configuration has one.
    fn proxy(
        &self,
        config: &Config,
        asks: bool,
        session: &str,
        desk: &Arc<Desk>,
    ) -> Result<Result<(ProxySetup, String), &'static str>> {
        let (mut setup, upstream) = match proxy(config, asks)? {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        setup.address = self.address;
        if let Some(hosts) = hosts(config) {
            setup.allow_remote = true;
            setup.hosts = hosts;
        }
        setup.parts.sinks = self.sinks.clone();
        setup.parts.limits = self.limits.clone();
        setup.state = Some(self.state.clone());
        setup.desk = Some(Arc::clone(desk));
        setup.approver = match asks {
            true => desk.clone(),
            false => Arc::new(DropCalls),
        };
        let name = format!("{session}-proxy");
        let trace = TraceFile::rotating(&paths::traces()?, &name, Rotation::default())?;
        setup.trace = Some(trace);
        Ok(Ok((setup, upstream)))
    }

    async fn gateway(
        &self,
        config: &Config,
        asks: bool,
        session: &str,
        desk: &Arc<Desk>,
    ) -> Result<(Arc<Gateway>, usize)> {
        let approver: Option<Arc<dyn Approver>> = match asks {
            true => Some(desk.clone()),
            false => None,
        };
        let fronts = gateway::Fronts {
            name: format!("{session}-gateway"),
            // A program of the agent's could answer in the place of its user.
            asks_client: false,
            approver,
            observe: false,
            permits: Arc::<Mutex<Permits>>::default(),
            told: None,
        };
        let mut behind = config.clone();
        behind.apps.retain(|_, app| !app.client);
        for (app, reason) in needs::provide(&mut behind, false) {
            warn!(app, reason, "the app cannot be started");
        }
        let offered = Offered::served(!asks);
        let setup = gateway::setup(behind, true, &offered, fronts, &self.layers).await;
        let mut setup = setup.context("the gateway does not start")?;
        for name in own_apps(config) {
            if !setup.apps.iter().any(|app| app.setup.spoke.app == *name) {
                warn!(
                    "the app {name} has no tools here; see why it does not start: sluice app test {name} --config {}",
                    config.root.display()
                );
            }
        }
        setup.parts.sinks = self.sinks.clone();
        setup.parts.limits = self.limits.clone();
        setup.state = Some(self.state.clone());
        let apps = setup.apps.len();
        Ok((Gateway::start(setup)?, apps))
    }
}

/// The apps that the gateway starts.
fn own_apps(config: &Config) -> impl Iterator<Item = &String> {
    let apps = config.apps.values().filter(|app| !app.client);
    apps.map(|app| &app.name)
}

/// Whether a service by this configuration could start: everything but the start of apps. Says what may be a mistake.
pub(super) async fn check(config: &Config, layers: &BTreeSet<Layer>) -> Result<()> {
    drop(proxy(config, true)?);
    deployment::given(config)?;
    if let Err(error) = deployment::reach(config).await? {
        message(&format!(
            "note: the database of [state] does not answer now: {error}"
        ));
    }
    for (app, reason) in needs::provide(&mut config.clone(), false) {
        message(&format!("note: the app {app} cannot be started: {reason}"));
    }
    let layers = compose::Options {
        allow_degraded: layers.clone(),
        private: true,
        ..compose::Options::default()
    };
    let upstream = llm::HttpProvider::new(llm::HttpConfig::new(
        "none",
        "http://127.0.0.1:9/v1",
        "none",
    ))?;
    let broker = llm::Broker::new(Arc::new(upstream), Label::bottom());
    compose::session(config, broker, &layers).map(drop)
}

/// The proxy by the rules of the configuration, and the name of its upstream; or why there is none.
fn proxy(config: &Config, asks: bool) -> Result<Result<(ProxySetup, String), &'static str>> {
    let Some(app) = &config.proxy.app else {
        return Ok(Err(
            "no app has rules for agents; write [app.agent] with client = true",
        ));
    };
    let is_api = |it: &&config::Provider| matches!(it.kind, ProviderKind::Api { .. });
    let first = config.providers.iter().find(is_api);
    let named = config.service.upstream.as_ref();
    let Some(name) = named.or(first.map(|it| &it.name)) else {
        return Ok(Err(
            "no provider has an API; write a [[provider]] with its kind, model and base_url",
        ));
    };
    if !config.providers.iter().any(|it| it.name == *name) {
        bail!("there is no provider {name}, which upstream of [service] names");
    }
    let upstream = Upstream::of(&UpstreamArgs::named(name), config)?;
    let setup = by_rules(config, app, upstream, asks, false)?;
    Ok(Ok((setup, name.clone())))
}

/// The names by which other machines reach the service; `None`: they do not.
pub(super) fn hosts(config: &Config) -> Option<Vec<String>> {
    let is_open = !config.service.listen.ip().is_loopback();
    // Behind a proxy with TLS on this machine, requests name the host of that proxy.
    let is_named = !config.service.hosts.is_empty();
    (is_open || is_named).then(|| config.service.hosts.clone())
}

fn budgets(config: &Config) -> BTreeMap<String, Budget> {
    let tenants = config.tenants.iter();
    let budgets = tenants.map(|(name, limits)| {
        let budget = Budget {
            calls: limits.calls,
            tokens: limits.tokens,
            questions: limits.questions,
            tools: limits.tools.clone(),
        };
        (name.clone(), budget)
    });
    budgets.collect()
}

/// The tokens of the desk.
pub(super) struct Agents(pub(super) Arc<store::Desk>, pub(super) Arc<Metrics>);

fn now() -> Time {
    SystemTime::now().into()
}

#[async_trait]
impl access::Agents for Agents {
    async fn admit(&self, secret: &str) -> Result<Option<Agent>, String> {
        let token = self.1.stored("token", self.0.admit(secret, now())).await;
        let token = token.map_err(|error| error.to_string())?;
        let agent = token.filter(|token| token.role == Role::Agent);
        Ok(agent.map(|token| Agent {
            // The user of this machine asks by such a token, and allows no own question as an approver.
            name: match token.name.starts_with(LOCAL) {
                true => os_user::name(),
                false => token.name,
            },
            tenant: token.tenant,
        }))
    }
}

/// Whether the store answers, for `/readyz`.
pub(super) struct Answers(pub(super) Arc<dyn SessionState>);

#[async_trait]
impl Check for Answers {
    async fn check(&self) -> Result<(), String> {
        let store = Arc::clone(&self.0);
        // It goes on where the one who asks waits no longer, so that it is counted.
        let ping = tokio::spawn(async move { store.ping().await.map_err(|it| it.to_string()) });
        let answers = ping.await.map_err(|error| error.to_string());
        // The reason is in the log: anyone may ask, and it may name a path.
        answers.flatten().map_err(|reason| {
            warn!(reason, "the state cannot be used");
            "it cannot be used".to_owned()
        })
    }
}

/// Whether the audit log can be written, for `/readyz`. What it could not write before is tried again.
pub(super) struct Writes(pub(super) Arc<Audit>);

#[async_trait]
impl Check for Writes {
    async fn check(&self) -> Result<(), String> {
        let written = self.0.written().await;
        written.map_err(|_| "it cannot be written".to_owned())
    }
}
