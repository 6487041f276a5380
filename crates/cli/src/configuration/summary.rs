//! The summary of a configuration that a user reads before trusting it.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Result, bail};
use config::{App, Config, Domain, Piece, Provider, ProviderKind, Remote};
use hub::trace::escape;
use ifc::{Dimension, Label, Lattice};
use llm::Endpoint;
use policy::ToolRule;

use super::files::Files;
use crate::provider::dialect;
use crate::question::columns;

/// Most lines on a terminal. A summary is never cut, since an attacker would use the part that is cut.
const MAX_LINES: usize = 60;
/// Columns of a terminal's line: one long text can push the others out of sight too.
const COLUMNS: usize = 80;

/// The lines, each with a verb first. Too many to be read are an error.
pub(super) fn of(config: &Config, files: &Files, path: &Path) -> Result<String> {
    let mut lines = Lines::default();
    let lattice = &config.lattice;
    for app in config.apps.values() {
        of_app(&mut lines, lattice, app);
    }
    let named = config.providers.iter().filter(|_| config.names_provider);
    named.for_each(|provider| of_provider(&mut lines, lattice, provider));
    if !config.names_provider {
        let model = "the model of your own configuration, or else one that you are offered";
        lines.add("ask", model);
    }
    for app in config.apps.values() {
        unasked(&mut lines, lattice, app);
        sends(&mut lines, lattice, app);
    }
    if !config.apps.is_empty() {
        // A rule that labels foreign text as trusted prevents questions, and the summary cannot show whether one does.
        lines.add(
            "decide",
            "by its labels and limits which results are trusted and which calls you are asked about",
        );
    }
    if let Some(webhook) = &config.desk.webhook {
        let what = match config.desk.contents {
            true => "with its app, tool and title",
            false => "and no more",
        };
        // Shown without its path, which may be a secret.
        lines.add(
            "tell",
            &format!("{webhook:?} that a question waits, {what}"),
        );
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
    fn add(&mut self, what: &str, text: &str) {
        self.0.push(format!("  {what:<9} {}\n", escape(text)));
    }

    fn finish(self) -> Result<String> {
        let lines = self.0.iter().map(|line| columns(line).div_ceil(COLUMNS));
        let lines: usize = lines.sum();
        if lines > MAX_LINES {
            bail!(
                "the summary of this configuration has {lines} lines, more than the {MAX_LINES} that can be reviewed; if you wrote it, name it with --config"
            );
        }
        Ok(self.0.concat())
    }
}

fn of_app(lines: &mut Lines, lattice: &Lattice, app: &App) {
    let name = &app.name;
    match (app.client, &app.remote) {
        (true, _) => lines.add("guard", &format!("{name}, whose tools the agent runs")),
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
        let inside = inside(&egress.addresses);
        // A relay has no limit of its own.
        lines.add(
            "connect",
            &format!("{name} to {host}:{port}{inside}, with any data that it was given"),
        );
    }
    for domain in &app.domains {
        of_domain(lines, lattice, name, domain);
    }
    if app.ask_domains {
        lines.add(
            "connect",
            &format!("{name} to any domain, after a question"),
        );
    }
    if !app.rules.addresses.is_bottom() {
        let from = lattice.describe(&app.rules.addresses).join(", ");
        lines.add(
            "show",
            &format!("links from what {name} returns as they are, written by {from}"),
        );
    }
    if !app.env_from.is_empty() || !app.filled_in.is_empty() {
        let names: Vec<_> = app.env_from.iter().chain(&app.filled_in).cloned().collect();
        let names = names.join(", ");
        lines.add(
            "give",
            &format!("{name} the values of your variables {names}"),
        );
    }
}

/// The secrets that may go to a domain without a question; without a limit none.
fn secrets_to(lattice: &Lattice, domain: &Domain) -> Label {
    let whole = lattice.whole(Dimension::Confidentiality);
    let limit = domain.limit.as_ref();
    limit.map_or(Label::bottom(), |limit| limit.meet(&whole))
}

/// A domain that an app may reach, and the secrets that may go there without a question.
fn of_domain(lines: &mut Lines, lattice: &Lattice, name: &str, domain: &Domain) {
    let ports: Vec<String> = domain.ports.iter().map(u16::to_string).collect();
    let (pattern, ports) = (&domain.pattern, ports.join(", "));
    let secrets = secrets_to(lattice, domain);
    let unasked = match secrets.is_bottom() {
        true => String::new(),
        false => format!(", unasked with {}", lattice.describe(&secrets).join(", ")),
    };
    let inside = inside(&domain.addresses);
    lines.add(
        "connect",
        &format!("{name} to {pattern} and what is below it, port {ports}{unasked}{inside}"),
    );
}

/// Private addresses to which a name may resolve.
fn inside(addresses: &[IpAddr]) -> String {
    let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    match addresses.is_empty() {
        true => String::new(),
        false => format!(", also at the private address {}", addresses.join(" or ")),
    }
}

/// A remote server, and the secrets that it is sent.
fn of_remote(lines: &mut Lines, name: &str, remote: &Remote) {
    let inside = inside(&remote.addresses);
    lines.add(
        "ask",
        &format!("{name}: the server at {}{inside}", remote.url),
    );
    if let Some(file) = &remote.ca_file {
        let file = file.display();
        lines.add("believe", &format!("the certificates in {file} for {name}"));
    }
    // A login at this origin is used without a further question.
    if !remote.headers.contains_key("authorization") {
        let origin = remote.url.origin();
        let login = format!("{name} your login at {origin}, if you have one");
        lines.add("give", &login);
    }
    for (header, value) in &remote.headers {
        for piece in value.pieces() {
            let what = match piece {
                Piece::Secret(secret) => format!("your secret {secret}"),
                Piece::Variable(variable, _) => format!("the value of your variable {variable}"),
                Piece::Text(_) | Piece::Foreign(_) => continue,
            };
            lines.add("give", &format!("{name} {what}, as {header}"));
        }
    }
}

fn of_provider(lines: &mut Lines, lattice: &Lattice, provider: &Provider) {
    let Provider { name, model, .. } = provider;
    let ProviderKind::Api {
        dialect,
        base_url,
        api_key_env,
        images,
        ..
    } = &provider.kind
    else {
        lines.add("ask", &format!("{name}: the model {model} on this machine"));
        return;
    };
    // Without an address of its own it uses that of the user's environment.
    let endpoint = Endpoint::new(
        self::dialect(*dialect),
        base_url.as_deref(),
        api_key_env.as_deref(),
        None,
    );
    let (address, key) = match &endpoint {
        Ok(endpoint) => (endpoint.base_url.as_str(), endpoint.key_variable.as_deref()),
        Err(_) => ("an address of your environment", None),
    };
    let key = key.map(|key| format!(", with the key in ${key}"));
    // A clearance is about secrets, not about influence.
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

/// The tools that act on untrusted text without a question, tools without a rule included.
fn unasked(lines: &mut Lines, lattice: &Lattice, app: &App) {
    let influence = lattice.whole(Dimension::Integrity);
    let secrets = lattice.whole(Dimension::Confidentiality);
    let (mut whatever, mut public) = (Vec::new(), Vec::new());
    for (tool, rule) in tools(app) {
        let limit = rule.highest_limit();
        // A limit that names every taint admits as much as `any`.
        if rule.effect.reads() || !influence.flows_to(&limit) {
            continue;
        }
        let line = format!("{}.{tool} ({})", app.name, rule.effect.name());
        match secrets.flows_to(&limit) {
            true => whatever.push(line),
            false => public.push(line),
        }
    }
    for (tools, how) in [
        (whatever, "without asking you"),
        (
            public,
            "on untrusted text, without asking you, unless a secret is in it",
        ),
    ] {
        if !tools.is_empty() {
            lines.add("act", &format!("{how}: {}", tools.join(", ")));
        }
    }
}

/// The tools that may be given secrets without a question: those that read, of an app that may send them on, and those that
/// act, except for those of which [`unasked`] says that they take everything.
fn sends(lines: &mut Lines, lattice: &Lattice, app: &App) {
    let mut domains = app.domains.iter();
    let is_open = domains.any(|domain| !secrets_to(lattice, domain).is_bottom());
    let connects = is_open || !app.egress.is_empty();
    let [influence, whole] =
        [Dimension::Integrity, Dimension::Confidentiality].map(|it| lattice.whole(it));
    let is_told = |rule: &ToolRule| {
        let arguments = rule.arguments.values().map(|limit| &limit.label);
        let limits = arguments.fold(rule.highest_limit(), |all, limit| all.join(limit));
        let mut audiences = rule.arguments.values().map(|limit| &limit.audience);
        !limits.meet(&whole).is_bottom()
            || rule.audience.is_some()
            || audiences.any(Option::is_some)
    };
    let takes_all = |rule: &ToolRule| influence.join(&whole).flows_to(&rule.highest_limit());
    let (mut read, mut act) = (Vec::new(), Vec::new());
    for (tool, rule) in tools(app).filter(|(_, rule)| is_told(rule)) {
        let line = format!("{}.{tool} ({})", app.name, rule.effect.name());
        match rule.effect.reads() {
            true if connects => read.push(line),
            false if !takes_all(rule) => act.push(line),
            _ => {}
        }
    }
    let to = format!("secrets to where {} connects", app.name);
    for (tools, what) in [(read, to.as_str()), (act, "secrets in what a call says")] {
        if !tools.is_empty() {
            let tools = tools.join(", ");
            lines.add("send", &format!("{what}, without asking you, by {tools}"));
        }
    }
}

/// The rules of an app's tools, by their names.
fn tools(app: &App) -> impl Iterator<Item = (&str, &ToolRule)> {
    let listed = app.rules.tools.iter();
    let listed = listed.map(|(tool, rule)| (tool.as_str(), rule));
    let others = app.rules.other_tools.iter();
    listed.chain(others.map(|rule| ("(tools without a rule)", rule)))
}
