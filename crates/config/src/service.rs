//! `[service]`, `[state]`, `[audit]`, `[telemetry]` and `[tenant.NAME]`: what `sluice serve` runs with.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::app::App;
use crate::desk::is_approver_name;
use crate::toml_reader::Table;
use crate::watch::Takes;

/// The longest time in which running requests may end.
const MAX_DRAIN_S: u64 = 3_600;
/// The longest time that the state of an idle conversation, or the audit log, is kept.
const MAX_DAYS: u64 = 3_650;
/// The most that a budget can be.
const MAX_BUDGET: u64 = 1 << 40;
/// The budget of whom no token names a tenant.
pub const DEFAULT_TENANT: &str = "default";

/// Where `sluice serve` listens: `[service]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    /// The proxy, the gateway and the desk.
    pub listen: SocketAddr,
    /// The page of the desk, if it has an address of its own.
    pub desk_listen: Option<SocketAddr>,
    /// The metrics, if they have an address of their own.
    pub metrics_listen: Option<SocketAddr>,
    /// Names by which other machines reach `listen`.
    pub hosts: Vec<String>,
    /// Names under which a proxy with TLS serves the page of the desk.
    pub desk_hosts: Vec<String>,
    /// The provider that the proxy forwards to. The default is the first one with an API.
    pub upstream: Option<String>,
    /// How long running requests may go on once the service stops.
    pub drain: Duration,
    /// The file with the secret of the deployment; an absolute path.
    pub secret_file: Option<PathBuf>,
    /// The service that `sluice guard` and `sluice init` of this user use.
    pub url: Option<String>,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            desk_listen: None,
            metrics_listen: None,
            hosts: Vec::new(),
            desk_hosts: Vec::new(),
            upstream: None,
            // As long as service managers wait before they kill a program.
            drain: Duration::from_secs(30),
            secret_file: None,
            url: None,
        }
    }
}

/// Where the state of conversations is kept: `[state]`.
#[derive(Clone, PartialEq, Eq)]
pub struct StateSettings {
    /// The address of the database. Without one it is SQLite in the state folder. It often has a password.
    pub url: Option<String>,
    /// The variable with the address.
    pub url_env: Option<String>,
    /// How many days the state of an idle conversation is kept.
    pub keep_days: u32,
}

impl Default for StateSettings {
    fn default() -> Self {
        Self {
            url: None,
            url_env: None,
            // Agents resume a conversation within days.
            keep_days: 7,
        }
    }
}

impl fmt::Debug for StateSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateSettings")
            .field("url", &self.url.as_ref().map(|_| "…"))
            .field("url_env", &self.url_env)
            .field("keep_days", &self.keep_days)
            .finish()
    }
}

/// How long the audit log is kept: `[audit]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSettings {
    /// In days.
    pub keep_days: u32,
}

impl Default for AuditSettings {
    fn default() -> Self {
        // What standards of security ask for.
        Self { keep_days: 365 }
    }
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogForm {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object in each line.
    Json,
}

/// What is seen from outside: `[telemetry]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TelemetrySettings {
    /// Where traces are sent by OTLP over HTTP.
    pub otlp: Option<String>,
    /// The form of the log.
    pub logs: LogForm,
    /// Whether traces and logs have the text of conversations.
    pub content: bool,
    /// Whether apps are told the spans of their calls.
    pub trace_apps: bool,
}

/// What a tenant may use in an hour: `[tenant.NAME]`. `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantLimits {
    /// Calls of tools.
    pub calls: Option<u64>,
    /// Tokens of models, those of prompts and of answers.
    pub tokens: Option<u64>,
    /// Questions to people.
    pub questions: Option<u64>,
    /// Calls of single tools, by `APP.TOOL`.
    pub tools: BTreeMap<String, u64>,
}

pub(crate) fn service(root: &Table<'_>) -> ServiceSettings {
    let default = ServiceSettings::default();
    let Some(table) = root.table("service") else {
        return default;
    };
    let secret = table.string("secret_file");
    let service = ServiceSettings {
        listen: address(&table, "listen").unwrap_or(default.listen),
        desk_listen: address(&table, "desk_listen"),
        metrics_listen: address(&table, "metrics_listen"),
        hosts: host_names(&table, "hosts"),
        desk_hosts: host_names(&table, "desk_hosts"),
        upstream: table.string("upstream").map(|it| it.value.to_owned()),
        drain: (table.integer("drain_s", 0..=MAX_DRAIN_S))
            .map_or(default.drain, Duration::from_secs),
        secret_file: secret.map(|it| table.context.file.absolute(it.value)),
        url: web_url(&table, "url"),
    };
    table.finish();
    service
}

pub(crate) fn state(root: &Table<'_>) -> StateSettings {
    let default = StateSettings::default();
    let Some(table) = root.table("state") else {
        return default;
    };
    let is_database = |url: &str| {
        let schemes = ["postgres://", "postgresql://"];
        let is_known = schemes.iter().any(|scheme| url.starts_with(scheme));
        is_known.then(|| url.to_owned())
    };
    let right = (
        "the address of a database",
        "write postgres://USER@HOST/DATABASE, or leave it out for SQLite",
    );
    let state = StateSettings {
        url: read(&table, "url", right, is_database),
        url_env: table.string("url_env").map(|it| it.value.to_owned()),
        keep_days: keep_days(&table).unwrap_or(default.keep_days),
    };
    if state.url.is_some() {
        table.refuse(
            "url_env",
            "'url_env' has no effect beside 'url'",
            "leave one of them out",
        );
    }
    table.finish();
    state
}

pub(crate) fn audit(root: &Table<'_>) -> AuditSettings {
    let mut audit = AuditSettings::default();
    if let Some(table) = root.table("audit") {
        audit.keep_days = keep_days(&table).unwrap_or(audit.keep_days);
        table.finish();
    }
    audit
}

fn keep_days(table: &Table<'_>) -> Option<u32> {
    let days = table.integer("keep_days", 1..=MAX_DAYS)?;
    u32::try_from(days).ok()
}

pub(crate) fn telemetry(root: &Table<'_>) -> TelemetrySettings {
    let Some(table) = root.table("telemetry") else {
        return TelemetrySettings::default();
    };
    let forms = [("text", LogForm::Text), ("json", LogForm::Json)];
    let telemetry = TelemetrySettings {
        otlp: web_url(&table, "otlp"),
        logs: table.choice("logs", &forms).unwrap_or_default(),
        content: table.boolean("content").unwrap_or(false),
        trace_apps: table.boolean("trace_apps").unwrap_or(false),
    };
    if telemetry.trace_apps && !table.has("otlp") {
        let message = "'trace_apps' has no effect without 'otlp'";
        table.refuse("trace_apps", message, "write 'otlp', or leave it out");
    }
    table.finish();
    telemetry
}

/// The limits of tenants by name. They may name tools of these apps.
pub(crate) fn tenants(
    root: &Table<'_>,
    apps: &BTreeMap<String, App>,
) -> BTreeMap<String, TenantLimits> {
    let mut tenants = BTreeMap::new();
    for (name, table) in root.named_tables("tenant") {
        let budget = |key| table.integer(key, 0..=MAX_BUDGET);
        let limits = TenantLimits {
            calls: budget("calls_per_hour"),
            tokens: budget("tokens_per_hour"),
            questions: budget("questions_per_hour"),
            tools: tools(&table, apps),
        };
        table.finish();
        if !is_tenant_name(name.value) {
            let help = "write at most 64 letters, digits, '-', '_' and '.'";
            table.error(&name.span, "this is not the name of a tenant", help);
        }
        tenants.insert(name.value.to_owned(), limits);
    }
    tenants
}

/// Whether a tenant can have this name.
#[must_use]
pub fn is_tenant_name(name: &str) -> bool {
    is_approver_name(name) && !name.contains('@')
}

fn tools(table: &Table<'_>, apps: &BTreeMap<String, App>) -> BTreeMap<String, u64> {
    table.takes("tools", Takes::Entries);
    let mut tools = BTreeMap::new();
    for (name, value) in table.entries("tools") {
        let written = name.value;
        match written.split_once('.') {
            None => {
                let message = format!("'{written}' is not the name of a tool");
                table.error(&name.span, message, "write \"APP.TOOL\" = CALLS");
            }
            Some((app, tool)) => match apps.get(app).map(|app| &app.rules) {
                // A warning: an app is removed without its budgets.
                None => {
                    let meant = table.did_you_mean(app, apps.keys().map(String::as_str));
                    let message = format!("there is no app '{app}', so this limits nothing");
                    let help = format!("{meant}add the app, or leave this out");
                    let sink = table.context.sink;
                    sink.warning(table.context.file, &name.span, message, help);
                }
                // Others are denied.
                Some(rules) if rules.other_tools.is_none() && !rules.tools.contains_key(tool) => {
                    let meant = table.did_you_mean(tool, rules.tools.keys().map(String::as_str));
                    let message = format!("the app '{app}' has no tool '{tool}'");
                    table.error(&name.span, message, format!("{meant}correct or remove it"));
                }
                Some(_) => {}
            },
        }
        if let Some(most) = table.as_integer("tools", value, &(0..=MAX_BUDGET)) {
            tools.insert(written.to_owned(), most);
        }
    }
    tools
}

/// What `read` makes of a string. An error says what would be right, and does not quote the string: it may have a password.
fn read<T>(
    table: &Table<'_>,
    key: &'static str,
    (right, help): (&str, &str),
    read: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let written = table.string(key)?;
    let found = read(written.value);
    if found.is_none() {
        table.error(&written.span, format!("'{key}' is not {right}"), help);
    }
    found
}

fn address(table: &Table<'_>, key: &'static str) -> Option<SocketAddr> {
    let right = (
        "an address with a port",
        "write 127.0.0.1:8080, or 0.0.0.0:8080 for other machines",
    );
    read(table, key, right, |it| it.parse().ok())
}

fn web_url(table: &Table<'_>, key: &'static str) -> Option<String> {
    // Inside a cluster there often is no TLS.
    let is_web = |url: &str| {
        let is_web = url.starts_with("http://") || url.starts_with("https://");
        is_web.then(|| url.trim_end_matches('/').to_owned())
    };
    let right = ("an address", "write http://HOST:PORT or https://HOST");
    read(table, key, right, is_web)
}

fn host_names(table: &Table<'_>, key: &'static str) -> Vec<String> {
    let names = table.strings(key).unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    for name in &names {
        if name.value.is_empty() || !name.value.chars().all(allowed) {
            let message = format!("'{}' is not the name of a host", name.value);
            let help = "write a name such as guard.example.org, without https:// and port";
            table.error(&name.span, message, help);
        }
    }
    let names = names.iter().map(|it| it.value.to_ascii_lowercase());
    names.collect()
}
