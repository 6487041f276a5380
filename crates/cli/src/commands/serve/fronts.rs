//! From a configuration to the fronts of a service. A reload makes them again.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use config::{Config, OnViolation, ProviderKind};
use sandbox::Layer;
use server::access::Access;
use server::desk::{Approver, DropCalls};
use server::gateway::{Gateway, Routes};
use server::limits::Budget;
use server::proxy::{ProxyRoutes, ProxySetup};
use server::service::Fronts;
use server::{Parts, Rotation, TraceFile};
use tracing::warn;

use super::own::Own;
use crate::asking::Asking;
use crate::commands::gateway::{self, Offered};
use crate::commands::proxy::by_rules;
use crate::commands::proxy::upstream::{Upstream, UpstreamArgs};
use crate::terminal::message;
use crate::{compose, deployment, needs, paths, shell};

/// What is said of the fronts of a configuration.
pub(super) struct About {
    /// The app with the rules of the proxy, and its upstream; without them there is no proxy, and why.
    pub(super) proxy: Result<(String, String), &'static str>,
    pub(super) apps: usize,
    /// Why agents need a token at the proxy, if they do.
    pub(super) needs_token: Option<&'static str>,
}

impl Own {
    /// The fronts of this configuration, with its budgets in force.
    pub(super) async fn build(&self, config: &Config) -> Result<(Fronts, About)> {
        let session = compose::session_name()?;
        let (store, timeout) = (Arc::clone(&self.desk), config.proxy.approval_timeout);
        let mut asking = Asking::of(store, "serve", timeout, &config.desk);
        asking.setup.outlives = true;
        asking.setup.limits = self.limits.clone();
        if config.proxy.user_header.is_some() {
            asking.setup.asker = None;
        }
        let desk = asking.desk(&session)?;
        let asks = config.proxy.on_violation != OnViolation::Drop;
        let approver = asks.then(|| Arc::clone(&desk) as Arc<dyn Approver>);
        let proxy = proxy(config, self.address, asks)?;
        let needs_token = match &proxy {
            Ok((setup, upstream)) => setup
                .needs_token()
                .or_else(|| needs_token(config, upstream)),
            Err(_) => Some("a gateway runs the user's apps"),
        };
        let tenants = config.tenants.keys().cloned().collect();
        let access = Access::new(self.agents.clone(), needs_token.is_some(), tenants);
        let name = format!("{session}-gateway");
        let (gateway, apps) = self.gateway(config, approver.clone(), name).await?;
        let routes = Routes::of_agents(Arc::clone(&gateway), access.clone());
        let (fronts, about) = match proxy {
            Ok((mut setup, upstream)) => {
                self.share(&mut setup.parts);
                setup.state = Some(self.state.clone());
                setup.desk = Some(desk);
                setup.approver = approver.unwrap_or_else(|| Arc::new(DropCalls));
                let name = format!("{session}-proxy");
                let trace = TraceFile::rotating(&paths::traces()?, &name, Rotation::default())?;
                setup.trace = Some(trace);
                setup.access = Some(access);
                setup.behind = Some(gateway::behind(&gateway, config));
                setup.beside = Some(routes);
                let app = setup.app.clone();
                let fronts = Fronts::of_proxy(ProxyRoutes::new(setup)?);
                (fronts, Ok((app, upstream)))
            }
            Err(why) => {
                let hosts = hosts(config);
                let fronts = Fronts::of_gateway(routes, desk, hosts.as_deref(), why);
                (fronts, Err(why))
            }
        };
        let budgets = config.tenants.iter().map(|(name, limits)| {
            let budget = Budget {
                calls: limits.calls,
                tokens: limits.tokens,
                questions: limits.questions,
                tools: limits.tools.clone(),
            };
            (name.clone(), budget)
        });
        self.limits.replace(budgets.collect());
        let tools = config.apps.values().flat_map(|app| {
            let tools = app.rules.tools.keys();
            tools.map(|tool| (app.name.clone(), tool.clone()))
        });
        self.names.replace(tools);
        let about = About {
            proxy: about,
            apps,
            needs_token,
        };
        Ok((fronts, about))
    }

    /// What the parts of all fronts share.
    fn share(&self, parts: &mut Parts) {
        parts.sinks = self.sinks.clone();
        parts.limits = self.limits.clone();
    }

    async fn gateway(
        &self,
        config: &Config,
        approver: Option<Arc<dyn Approver>>,
        name: String,
    ) -> Result<(Arc<Gateway>, usize)> {
        let offered = Offered {
            unattended: approver.is_none(),
            ..Offered::default()
        };
        let fronts = gateway::Fronts {
            name,
            approver,
            ..gateway::Fronts::default()
        };
        let mut behind = config.clone();
        behind.apps.retain(|_, app| !app.client);
        let own: Vec<String> = behind.apps.keys().cloned().collect();
        for (app, reason) in needs::provide(&mut behind, false) {
            warn!(app, reason, "the app cannot be started");
        }
        let setup = gateway::setup(behind, true, &offered, fronts, &self.layers).await;
        let mut setup = setup.context("the gateway does not start")?;
        for name in own {
            if !setup.apps.iter().any(|app| app.setup.spoke.app == name) {
                let test = format!("sluice app test {name}");
                let test = shell::configured(&test, Some(&config.root));
                warn!("the app {name} has no tools here; see why it does not start: {test}");
            }
        }
        self.share(&mut setup.parts);
        setup.state = Some(self.state.clone());
        let apps = setup.apps.len();
        Ok((Gateway::start(setup)?, apps))
    }
}

/// Whether a service by this configuration could start: everything but the start of apps. Says what may be a mistake.
pub(super) async fn check(
    config: &Config,
    layers: &BTreeSet<Layer>,
    new_secret: bool,
) -> Result<()> {
    drop(proxy(config, config.service.listen, true)?);
    deployment::check(config, new_secret).await?;
    for (app, reason) in needs::provide(&mut config.clone(), false) {
        message(&format!("note: the app {app} cannot be started: {reason}"));
    }
    let layers = compose::Options {
        allow_degraded: layers.clone(),
        private: true,
        ..compose::Options::default()
    };
    compose::session(config, compose::no_model()?, &layers).map(drop)
}

/// The proxy by the rules of the configuration, and the name of its upstream; or why there is none.
fn proxy(
    config: &Config,
    address: SocketAddr,
    asks: bool,
) -> Result<Result<(ProxySetup, String), &'static str>> {
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
    let mut setup = by_rules(config, app, upstream, asks, false)?;
    setup.address = address;
    if let Some(hosts) = hosts(config) {
        setup.allow_remote = true;
        setup.hosts = hosts;
    }
    Ok(Ok((setup, name.clone())))
}

/// Why agents need a token although only this machine reaches the address.
fn needs_token(config: &Config, upstream: &str) -> Option<&'static str> {
    // Also if the variable is not set: a mistake in the environment opens nothing.
    let has_key = |it: &config::Provider| {
        let ProviderKind::Api { api_key_env, .. } = &it.kind else {
            return false;
        };
        it.name == upstream && api_key_env.is_some()
    };
    match config {
        _ if !config.service.hosts.is_empty() => Some("[service] has hosts"),
        _ if !config.tenants.is_empty() => Some("tenants have budgets"),
        _ if config.providers.iter().any(has_key) => Some("the provider has an api_key_env"),
        _ => None,
    }
}

/// The names by which other machines reach the service; `None`: they do not.
fn hosts(config: &Config) -> Option<Vec<String>> {
    let is_open = !config.service.listen.ip().is_loopback();
    // Behind a proxy with TLS on this machine, requests name the host of that proxy.
    let is_named = !config.service.hosts.is_empty();
    (is_open || is_named).then(|| config.service.hosts.clone())
}
