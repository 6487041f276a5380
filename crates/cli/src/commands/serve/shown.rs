//! What `sluice serve` says.

use std::net::SocketAddr;

use anyhow::Result;
use config::{Config, ProviderKind};
use serde_json::json;
use server::desk::page::PageRoutes;

use super::fronts::About;
use crate::commands::token;
use crate::exit::Exit;
use crate::json_lines::print_json;
use crate::provider::key_of;
use crate::terminal::{message, say, say_whole};
use crate::words::counted;
use crate::{paths, session, shell};

/// Where a service is found.
pub(super) struct Addresses {
    pub(super) service: SocketAddr,
    /// The metrics, if they have an address of their own.
    pub(super) metrics: Option<SocketAddr>,
    pub(super) desk: DeskAddresses,
}

/// Where the page of the desk is, and what logs a browser in.
pub(super) struct DeskAddresses {
    page: String,
    /// As for `sluice desk`: a person has a terminal.
    login: Option<String>,
}

impl DeskAddresses {
    pub(super) fn of(page: &PageRoutes) -> Result<Self> {
        Ok(Self {
            page: page.url(),
            login: token::has_person().then(page.logins()).transpose()?,
        })
    }

    pub(super) fn page(&self) -> &str {
        &self.page
    }
}

/// Says where each front is, and what comes next.
pub(super) fn serving(config: &Config, about: &About, at: &Addresses, as_json: bool) -> Result<()> {
    let base = format!("http://{}", at.service);
    let metrics = at.metrics.unwrap_or(at.service);
    let metrics = format!("http://{metrics}/metrics");
    let gateway = format!("{base}{}", server::gateway::PATH);
    let DeskAddresses { page, login } = &at.desk;
    if as_json {
        let proxy = about.proxy.as_ref().ok();
        return Ok(print_json(&json!({
            "listening": base,
            "proxy": proxy.map(|(app, upstream)| json!({"url": format!("{base}/v1"), "app": app, "upstream": upstream})),
            "gateway": {"url": gateway, "apps": about.apps},
            "desk": {"url": page, "login": login},
            "metrics": metrics,
            "needs_token": about.needs_token.is_some(),
        }))?);
    }
    match &about.proxy {
        Ok((app, upstream)) => say_whole(&format!(
            "proxy     OPENAI_BASE_URL={base}/v1 or ANTHROPIC_BASE_URL={base}, by the rules of {app}, to {upstream}\n"
        )),
        Err(why) => say_whole(&format!("proxy     none: {why}\n")),
    }
    let apps = counted(about.apps, "app", "apps");
    say_whole(&format!("gateway   {gateway}, {apps}\n"));
    say_whole(&format!("desk      {}\n", login.as_ref().unwrap_or(page)));
    let token = match at.metrics {
        Some(_) => "",
        None => " with the token of an admin",
    };
    say_whole(&format!(
        "metrics   {metrics}{token}, health {base}/readyz\n"
    ));
    let kept = match config.state.url.is_some() || config.state.url_env.is_some() {
        true => "PostgreSQL".to_owned(),
        false => format!("SQLite in {}", paths::state()?.display()),
    };
    say_whole(&format!("state     {kept}\n"));
    let new = shell::configured("sluice token new my-agent --role agent", Some(&config.root));
    match (about.needs_token, &about.proxy) {
        (Some(why), Ok(_)) => say(&format!("Agents need a token, because {why}: {new}\n")),
        (None, Ok(_)) => say(&format!(
            "Every program of this machine can use the proxy without a token: there are no hosts, no tenants and no api_key_env.\n\
             Clients of the gateway need one: {new}\n"
        )),
        _ => say(&format!("Clients of the gateway need a token: {new}\n")),
    }
    Ok(())
}

/// Says what may be a mistake in a configuration that can be served.
pub(super) fn notes(config: &Config) {
    session::say_notes(config);
    let service = &config.service;
    for provider in &config.providers {
        if let ProviderKind::Api {
            api_key_env: Some(name),
            ..
        } = &provider.kind
            && key_of(name).is_none()
        {
            message(&format!(
                "note: the variable {name} of api_key_env is not set, so requests to {} have the agents' own keys, or none",
                provider.name
            ));
        }
    }
    if !service.listen.ip().is_loopback() && service.hosts.is_empty() {
        message(&format!(
            "note: other machines reach {} by an address alone; write the names that they use to hosts of [service]",
            service.listen
        ));
    }
}

/// Says that the configuration can be served.
pub(super) fn checked(config: &Config, as_json: bool) -> Result<Exit> {
    let (listen, apps) = (config.service.listen, config.apps.len());
    let counted = counted(apps, "app", "apps");
    match as_json {
        true => print_json(&json!({"ok": true, "listen": listen.to_string(), "apps": apps}))?,
        false => say(&format!(
            "the configuration can be served at {listen}, with {counted}\n"
        )),
    }
    Ok(Exit::Done)
}
