//! What a configuration may do, in lines that are read before it is trusted.

use std::path::Path;

use anyhow::{Result, bail};
use config::{App, Config, Piece, Provider, ProviderKind, Remote};
use hub::trace::escape;
use ifc::{Dimension, Effect, Lattice};
use llm::Endpoint;

use super::files::Files;

/// Most lines. Nothing is left out of a summary, since what is left out is what a stranger would hide
/// there; a configuration that says more is one that nobody can judge at a glance.
const MAX_LINES: usize = 60;

/// The lines, each with what kind of thing it is about first.
///
/// # Errors
/// They are too many to be read.
pub(super) fn of(config: &Config, files: &Files, path: &Path) -> Result<String> {
    let mut lines = Lines::default();
    for app in config.apps.values() {
        of_app(&mut lines, app);
    }
    for provider in &config.providers {
        of_provider(&mut lines, &config.lattice, provider);
    }
    if let Some(server) = &config.memory.redis {
        lines.add("remember", &format!("in the Redis server at {server}"));
    }
    for app in config.apps.values() {
        unasked(&mut lines, app);
    }
    let folder = path.parent().unwrap_or(path);
    for file in files.digests().keys().filter(|file| *file != path) {
        let shown = file.strip_prefix(folder).unwrap_or(file);
        lines.add("read", &shown.to_string_lossy());
    }
    lines.finish()
}

#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    /// Every word of a configuration is foreign here.
    fn add(&mut self, what: &str, text: &str) {
        self.0.push(format!("  {what:<9} {}\n", escape(text)));
    }

    fn finish(self) -> Result<String> {
        if self.0.len() > MAX_LINES {
            bail!(
                "this configuration would take {} lines to say what it may do, too many to judge at a glance; if you wrote it, name it with --config",
                self.0.len()
            );
        }
        Ok(self.0.concat())
    }
}

fn of_app(lines: &mut Lines, app: &App) {
    let name = &app.name;
    match (app.client, &app.remote) {
        (true, _) => lines.add("guard", &format!("{name}, at a client of the proxy")),
        (false, Some(remote)) => of_remote(lines, name, remote),
        (false, None) => lines.add(
            "start",
            &format!("{name}, in a sandbox: {}", app.command.join(" ")),
        ),
    }
    for mount in &app.mounts {
        let access = match (mount.write, mount.execute) {
            (true, true) => "writable, executable",
            (true, false) => "writable",
            (false, true) => "executable",
            (false, false) => "readable",
        };
        let size = mount
            .size
            .map(|bytes| format!(", {} MiB at most", bytes >> 20));
        let (source, size) = (mount.source.display(), size.unwrap_or_default());
        lines.add("open", &format!("{source} for {name}, {access}{size}"));
    }
    for egress in &app.egress {
        let (host, port) = (&egress.host, egress.port);
        lines.add("connect", &format!("{name} to {host}:{port}"));
    }
    for domain in &app.domains {
        let ports: Vec<String> = domain.ports.iter().map(u16::to_string).collect();
        let (pattern, ports) = (&domain.pattern, ports.join(", "));
        lines.add(
            "connect",
            &format!("{name} to {pattern} and what is below it, port {ports}"),
        );
    }
    if app.ask_domains {
        lines.add(
            "connect",
            &format!("{name} to any domain, after a question"),
        );
    }
    if let Some(sampling) = &app.sampling {
        let (provider, times) = (&sampling.provider, sampling.per_session);
        lines.add(
            "complete",
            &format!("whatever {name} writes, by {provider}, {times} times a session"),
        );
    }
    if !app.env_from.is_empty() {
        let names = app.env_from.join(", ");
        lines.add(
            "give",
            &format!("{name} the values of your variables {names}"),
        );
    }
}

/// A server elsewhere, and what it is told.
fn of_remote(lines: &mut Lines, name: &str, remote: &Remote) {
    lines.add("ask", &format!("{name}: the server at {}", remote.url));
    for (header, value) in &remote.headers {
        for piece in value.pieces() {
            let what = match piece {
                Piece::Secret(secret) => format!("your secret {secret}"),
                Piece::Variable(variable) => format!("the value of your variable {variable}"),
                Piece::Text(_) | Piece::Foreign(_) => continue,
            };
            lines.add("give", &format!("{name} {what}, as {header}"));
        }
    }
}

fn of_provider(lines: &mut Lines, lattice: &Lattice, provider: &Provider) {
    let Provider { name, model, .. } = provider;
    let ProviderKind::OpenAi {
        base_url,
        api_key_env,
        images,
    } = &provider.kind
    else {
        lines.add("ask", &format!("{name}: the model {model} on this machine"));
        return;
    };
    // Without an address of its own it goes where the user's environment says.
    let endpoint = Endpoint::new(base_url.as_deref(), api_key_env.as_deref(), None);
    let (address, key) = match &endpoint {
        Ok(endpoint) => (endpoint.base_url.as_str(), endpoint.key_variable.as_deref()),
        Err(_) => ("an address of your environment", None),
    };
    let key = key.map(|key| format!(", with the key in ${key}"));
    // Who influenced a text does not matter for whom it is disclosed to.
    let secrets = lattice.whole(Dimension::Confidentiality);
    let secrets = provider.clearance.meet(&secrets);
    let clearance = match () {
        () if provider.clearance.is_top() => "everything".to_owned(),
        () if secrets.is_bottom() => "no secret".to_owned(),
        () => lattice.describe(&secrets).join(", "),
    };
    lines.add(
        "ask",
        &format!(
            "{name}: the model {model} at {address}{}; it may see {clearance}{}",
            key.unwrap_or_default(),
            if *images { ", images too" } else { "" }
        ),
    );
}

/// The tools that act whatever their calls depend on.
fn unasked(lines: &mut Lines, app: &App) {
    let acts = |effect: Effect| !effect.reads();
    let free = app
        .rules
        .tools
        .iter()
        .filter(|(_, rule)| rule.limit.is_top() && acts(rule.effect));
    let free: Vec<String> = free
        .map(|(tool, rule)| format!("{}.{tool} ({})", app.name, rule.effect.name()))
        .collect();
    if !free.is_empty() {
        lines.add("act", &format!("without asking you: {}", free.join(", ")));
    }
}
