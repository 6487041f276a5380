//! The parts of `sluice.toml` that are not about apps: lattice, providers, screener, limits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hub::Filling;
use ifc::{Dimension, Label, Lattice, LatticeError, Order};

use crate::app::App;
use crate::config::{
    Dialect, JsonForm, OnViolation, Provider, ProviderKind, ProxySettings, Screener, ScreenerKind,
};
use crate::limits::{Limits, SpokeLimits};
use crate::toml_reader::{At, Table};
use crate::watch::Takes;

/// The embedded model that `sluice model pull` fetches by default.
const DEFAULT_MODEL: &str = "qwen2.5-coder-1.5b";

/// The lattice, or `None` after an error was reported. Without `[lattice]` it has four points. `apps` are the names that it
/// has a category for with `confidentiality = "apps"`.
pub(crate) fn lattice(root: &Table<'_>, apps: &BTreeSet<String>) -> Option<Lattice> {
    let Some(table) = root.table("lattice") else {
        return (!root.has("lattice")).then(Lattice::four_point);
    };
    let integrity = order(&table, Dimension::Integrity, apps);
    let confidentiality = order(&table, Dimension::Confidentiality, apps);
    table.finish();
    let understood = integrity.is_some() && confidentiality.is_some();
    // A default in place of a wrong order, so that the errors of both orders are found.
    let orders = [integrity, confidentiality].map(|order| order.unwrap_or(Order::TwoPoint));
    let [integrity, confidentiality] = &orders;
    match Lattice::new(integrity, confidentiality) {
        Ok(lattice) => understood.then_some(lattice),
        Err(error) => {
            let help = match error {
                LatticeError::Empty(_) => "name at least one",
                LatticeError::Duplicate(_) => "the names of both orders must be different",
                // The other messages say what to do.
                _ => "",
            };
            table.wrong(error.to_string(), help);
            None
        }
    }
}

/// The order of confidentiality in which each app has a category.
pub(crate) const APPS: &str = "apps";

fn order(table: &Table<'_>, dimension: Dimension, apps: &BTreeSet<String>) -> Option<Order> {
    let key = dimension.name();
    let Some(value) = table.value(key) else {
        return Some(Order::TwoPoint);
    };
    let words = match dimension {
        Dimension::Integrity => vec!["two-point".to_owned()],
        Dimension::Confidentiality => vec!["two-point".to_owned(), APPS.to_owned()],
    };
    table.takes(key, Takes::Word(words));
    let right = match dimension {
        Dimension::Integrity => "\"two-point\", { levels = […] } or { categories = […] }",
        Dimension::Confidentiality => {
            "\"two-point\", \"apps\", { levels = […] }, { categories = […] } or { readers = […] }"
        }
    };
    match value.get_ref().as_str() {
        Some("two-point") => return Some(Order::TwoPoint),
        // Labels have no capitals. Two apps whose names differ in nothing else are reported as one name twice.
        Some(APPS) if dimension == Dimension::Confidentiality => {
            let names = apps.iter().map(|app| app.to_ascii_lowercase());
            let names: Vec<String> = names.collect();
            return Some(match names.is_empty() {
                true => Order::TwoPoint,
                false => Order::Categories(names),
            });
        }
        _ => {}
    }
    if !value.get_ref().is_table() {
        table.wrong_type(key, value, right);
        return None;
    }
    let order = table.table(key)?;
    let words = |names: Vec<At<&str>>| -> Vec<String> {
        names.iter().map(|name| name.value.to_owned()).collect()
    };
    let levels = order.strings("levels").map(words);
    let categories = order.strings("categories").map(words);
    let readers = match dimension {
        Dimension::Integrity => None,
        Dimension::Confidentiality => order.strings(Lattice::READERS).map(words),
    };
    order.finish();
    match (levels, categories, readers) {
        // One level is no order: its only label is ⊥, and everything would be trusted.
        (Some(levels), None, None) if levels.len() < 2 => {
            let help = "name at least two, the least restrictive first";
            order.wrong(format!("the levels of '{key}' are no order"), help);
            None
        }
        (Some(levels), None, None) => Some(Order::Levels(levels)),
        (None, Some(categories), None) => Some(Order::Categories(categories)),
        (None, None, Some(readers)) => Some(Order::Readers(readers)),
        _ => {
            let message = format!("'{key}' needs exactly one order");
            order.wrong(message, format!("write {right}"));
            None
        }
    }
}

/// The providers that are named.
pub(crate) fn providers(root: &Table<'_>) -> Vec<Provider> {
    let mut names = BTreeSet::new();
    let mut providers = Vec::new();
    for table in root.tables("provider") {
        let provider = provider(&table);
        table.finish();
        let Some(provider) = provider else { continue };
        // Two providers of one name could have two clearances.
        if !names.insert(provider.name.clone()) {
            let message = format!("there are two providers '{}'", provider.name);
            let help = "give each its own name";
            table.wrong(message, help);
        }
        providers.push(provider);
    }
    providers
}

pub(crate) fn default_provider() -> Provider {
    Provider {
        name: "local".to_owned(),
        kind: ProviderKind::Embedded,
        model: DEFAULT_MODEL.to_owned(),
        clearance: Label::top(),
        open: false,
    }
}

fn provider(table: &Table<'_>) -> Option<Provider> {
    let name = table.string("name");
    table.needs("name", "name = \"local\"");
    let help = "kind = \"embedded\", \"openai\", \"anthropic\" or \"responses\"";
    table.needs("kind", help);
    let kinds = [
        ("embedded", None),
        ("openai", Some(Dialect::Chat)),
        ("anthropic", Some(Dialect::Messages)),
        ("responses", Some(Dialect::Responses)),
    ];
    let dialect = table.choice("kind", &kinds);
    let model = table.string("model").map(|model| model.value.to_owned());
    let base_url = table.string("base_url");
    let api_key_env = table.string("api_key_env");
    let local = table.boolean("local");
    let images = table.boolean("images");
    let forms = [
        ("schema", JsonForm::Schema),
        ("call", JsonForm::Call),
        ("words", JsonForm::Words),
    ];
    let json = table.choice("json", &forms);
    let limits = [("max_tokens", false), ("max_completion_tokens", true)];
    let max_completion_tokens = table.choice("token_limit", &limits);
    let completion_tokens = completion_tokens(table);
    if let Some(url) = &base_url
        && !(url.value.starts_with("https://") || url.value.starts_with("http://"))
    {
        let message = format!("'{}' is not the address of an API", url.value);
        table.error(&url.span, message, "write https://HOST/v1");
    }
    let clearance = table.label("clearance");
    let whole = |lattice: &Lattice| lattice.whole(Dimension::Integrity);
    let influence = table.context.lattice.map_or(Label::top(), whole);
    // After all keys were read, so that none of them is reported as unknown.
    let kind = match dialect? {
        Some(dialect) => {
            table.needs("model", "model = \"NAME\", as the API calls it");
            if dialect != Dialect::Chat {
                let message = "'token_limit' is only for kind = \"openai\"".to_owned();
                table.refuse("token_limit", message, "leave it out");
            }
            ProviderKind::Api {
                dialect,
                base_url: base_url.map(|url| url.value.to_owned()),
                api_key_env: api_key_env.map(|key| key.value.to_owned()),
                local: local.unwrap_or(false),
                images: images.unwrap_or(false),
                json,
                max_completion_tokens,
                completion_tokens,
            }
        }
        None => {
            for key in ["base_url", "api_key_env", "images", "completion_tokens"] {
                let message = format!("an embedded model does not take '{key}'");
                let help = "leave it out, or write the kind of an API, such as \"openai\"";
                table.refuse(key, message, help);
            }
            ProviderKind::Embedded
        }
    };
    let open = kind != ProviderKind::Embedded && (clearance.is_none() || table.context.by_app);
    let clearance = match (&kind, clearance) {
        (ProviderKind::Embedded, None) => Label::top(),
        // No secret goes to an API unless the user says so.
        (_, clearance) => clearance.unwrap_or(Label::bottom()).join(&influence),
    };
    Some(Provider {
        name: name?.value.to_owned(),
        model: model.unwrap_or_else(|| DEFAULT_MODEL.to_owned()),
        kind,
        clearance,
        open,
    })
}

/// The screener. The default is naive and lazy, with the check before a question; it needs no model of its own.
pub(crate) fn screener(root: &Table<'_>, providers: &[Provider]) -> Screener {
    let mut screener = Screener::default();
    let Some(table) = root.table("screener") else {
        return screener;
    };
    let kinds = [
        ("judge", ScreenerKind::Judge),
        ("attention", ScreenerKind::Attention),
        ("combined", ScreenerKind::Combined),
        ("naive", ScreenerKind::Naive),
        ("redact-all", ScreenerKind::RedactAll),
    ];
    screener.kind = table.choice("kind", &kinds).unwrap_or(screener.kind);
    screener.lazy = table.boolean("lazy").unwrap_or(screener.lazy);
    screener.check = table.boolean("check");
    let filling = [
        ("lazy", Filling::Lazy),
        ("eager", Filling::Eager),
        ("exact", Filling::Exact),
    ];
    screener.arguments = table.choice("arguments", &filling).unwrap_or_default();
    screener.provider = known_provider(&table, "provider", providers);
    screener.draft = known_provider(&table, "draft", providers);
    let recall = table.integer("recall", RECALL);
    screener.recall = recall.and_then(|percent| u8::try_from(percent).ok());
    let weights = table.string("weights");
    screener.weights = weights.map(|weights| table.context.file.absolute(weights.value));
    let kind = screener.kind;
    // Redact-all screens every step, whatever `lazy` says.
    let lazy = screener.lazy && kind != ScreenerKind::RedactAll;
    let help_lazy = "it needs lazy = true, and any kind but \"redact-all\"";
    let help_judge = "it needs kind = \"judge\" or \"combined\"";
    let help_attention = "it needs kind = \"attention\" or \"combined\"";
    for (key, has_effect, help) in [
        ("check", lazy || screener.check == Some(false), help_lazy),
        (
            "arguments",
            lazy || screener.arguments == Filling::Lazy,
            help_lazy,
        ),
        ("provider", kind.judges(), help_judge),
        // A lazy step is its own draft, by the agent's model.
        (
            "draft",
            kind.attends() && !screener.lazy,
            "it needs kind = \"attention\" and lazy = false",
        ),
        // Beside the judge, two thresholds of its own say where the attention screener is unsure.
        (
            "recall",
            kind == ScreenerKind::Attention,
            "it needs kind = \"attention\"",
        ),
        ("weights", kind.attends(), help_attention),
    ] {
        if !has_effect {
            let message = format!("'{key}' has no effect with this screener");
            table.refuse(key, message, help);
        }
    }
    table.finish();
    screener
}

/// The part of all dependencies, in percent, that a screener may be asked to find. Below 50 it masks what most steps need.
const RECALL: std::ops::RangeInclusive<u64> = 50..=99;

/// The name of a provider. An unknown one is reported.
fn known_provider(table: &Table<'_>, key: &'static str, providers: &[Provider]) -> Option<String> {
    let At { span, value } = table.string(key)?;
    let names = providers.iter().map(|provider| provider.name.as_str());
    if !names.clone().any(|name| name == value) {
        let help = table.context.sink.known("there are", value, names);
        table.error(&span, format!("there is no provider '{value}'"), help);
    }
    Some(value.to_owned())
}

/// Checks `[app.NAME] provider`, and returns `[vanilla] provider`.
pub(crate) fn own_models(root: &Table<'_>, providers: &[Provider]) -> Option<String> {
    for (_, table) in root.named_tables("app") {
        known_provider(&table, "provider", providers);
    }
    let table = root.table("vanilla")?;
    table.needs("provider", "provider = \"NAME\", one of the [[provider]]");
    let own = known_provider(&table, "provider", providers);
    table.finish();
    own
}

impl Default for Screener {
    fn default() -> Self {
        Self {
            kind: ScreenerKind::Naive,
            lazy: true,
            check: None,
            arguments: Filling::default(),
            provider: None,
            draft: None,
            recall: None,
            weights: None,
        }
    }
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            app: None,
            on_violation: OnViolation::Ask,
            // A user at the screen answers in seconds; most HTTP clients give up after minutes.
            approval_timeout: Duration::from_secs(120),
            images: None,
            inserted: None,
            unknown_members: true,
            omits_tools: false,
            any_model: false,
            user_header: None,
        }
    }
}

/// `user_header = "x-user"`.
fn user_header(table: &Table<'_>) -> Option<String> {
    let At { span, value } = table.string("user_header")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    // Clients have a say in the others.
    if value.is_empty() || !value.chars().all(is_name) || !value.starts_with("x-") {
        let message = format!("'{value}' is no name for this header");
        table.error(
            &span,
            message,
            "write a name that begins with x-, like \"x-user\"",
        );
    }
    Some(value.to_owned())
}

/// `[proxy]`.
pub(crate) fn proxy(root: &Table<'_>, apps: &BTreeMap<String, App>) -> ProxySettings {
    let mut proxy = ProxySettings::default();
    let clients: Vec<&str> = apps
        .values()
        .filter(|app| app.client)
        .map(|app| app.name.as_str())
        .collect();
    if let [only] = clients.as_slice() {
        proxy.app = Some((*only).to_owned());
    }
    let Some(table) = root.table("proxy") else {
        return proxy;
    };
    if let Some(At { span, value }) = table.string("app") {
        if !clients.contains(&value) {
            let message = match apps.contains_key(value) {
                true => format!("the app '{value}' does not run at a client"),
                false => format!("there is no app '{value}'"),
            };
            let meant = table.did_you_mean(value, clients.iter().copied());
            let help = format!("{meant}the proxy needs an [app.NAME] with client = true");
            table.error(&span, message, help);
        }
        proxy.app = Some(value.to_owned());
    } else if proxy.app.is_none() && !table.has("app") {
        let help = match clients.as_slice() {
            [] => "add an [app.NAME] with client = true".to_owned(),
            several => format!("write app = \"NAME\", one of {}", several.join(", ")),
        };
        table.wrong("the app whose rules the proxy uses is not named", help);
    }
    let words = [("ask", OnViolation::Ask), ("drop", OnViolation::Drop)];
    proxy.on_violation = table
        .choice("on_violation", &words)
        .unwrap_or(proxy.on_violation);
    proxy.images = table.label("images");
    proxy.inserted = table.label("inserted");
    let words = [("pass", true), ("refuse", false)];
    let unknown = table.choice("unknown_members", &words);
    proxy.unknown_members = unknown.unwrap_or(proxy.unknown_members);
    let words = [("omit", true), ("refuse", false)];
    let other = table.choice("other_tools", &words);
    proxy.omits_tools = other.unwrap_or(proxy.omits_tools);
    proxy.any_model = table.boolean("any_model").unwrap_or(proxy.any_model);
    proxy.user_header = user_header(&table);
    let timeout = &mut proxy.approval_timeout;
    seconds(&table, "approval_timeout_s", timeout, 3_600);
    table.finish();
    proxy
}

const MIB: u64 = 1 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            // The longest task of AgentDojo takes about fifteen; twice that.
            steps: 32,
            // A small model on two cores takes minutes for a long turn.
            turn_timeout: Duration::from_secs(900),
            prompt_bytes: None,
            completion_tokens: None,
            // More than a day's work. Prompts show a part of it; the rest stays for its labels.
            history_bytes: 32 << 20,
            // Each hop is a conversation within a conversation.
            hops: 3,
            serving_steps: 8,
            serving_timeout: Duration::from_secs(180),
            spoke: SpokeLimits::default(),
        }
    }
}

impl Default for SpokeLimits {
    fn default() -> Self {
        Self {
            // An interpreter with many packages takes seconds on a cold disk.
            start_timeout: Duration::from_secs(20),
            // Longer than a mail or web server takes to answer.
            call_timeout: Duration::from_secs(60),
            // The most that the protocol carries.
            result_bytes: 1 << 20,
            // An interpreter's engine alone maps about 700 MB writable at its start.
            memory_bytes: 2048 * MIB,
            // Interpreters and async runtimes start 10 to 20 threads each. This ends a fork bomb.
            processes: 256,
            open_files: None,
            file_bytes: 256 * MIB,
            // It is the machine's memory.
            tmp_bytes: 64 * MIB,
        }
    }
}

/// The limits of conversations that serve an app's request, from `[isc]`. The caller finishes the table.
pub(crate) fn serving_limits(table: &Table<'_>, limits: &mut Limits) {
    read(table, "hops", 1..=8, 1, &mut limits.hops);
    read(table, "steps", 1..=100, 1, &mut limits.serving_steps);
    seconds(table, "timeout_s", &mut limits.serving_timeout, 3_600);
}

/// `[limits]`: those of turns, and those of spokes that apps do not set themselves.
pub(crate) fn limits(root: &Table<'_>) -> Limits {
    let mut limits = Limits::default();
    if let Some(table) = root.table("limits") {
        read(&table, "steps", 1..=1_000, 1, &mut limits.steps);
        seconds(&table, "turn_timeout_s", &mut limits.turn_timeout, 86_400);
        let history = 1_024..=(64 << 20);
        read(
            &table,
            "history_bytes",
            history,
            1,
            &mut limits.history_bytes,
        );
        // Below this a summary has no room.
        let prompt = table.integer("prompt_bytes", 4_096..=(64 << 20));
        limits.prompt_bytes = prompt.and_then(|bytes| usize::try_from(bytes).ok());
        limits.completion_tokens = completion_tokens(&table);
        spoke_limits(&table, &mut limits.spoke);
        table.finish();
    }
    limits
}

/// Most tokens of one answer.
fn completion_tokens(table: &Table<'_>) -> Option<u32> {
    let tokens = table.integer("completion_tokens", 1..=1_000_000);
    tokens.and_then(|tokens| u32::try_from(tokens).ok())
}

/// The keys that `[limits]` and `[app.NAME.limits]` share. The caller finishes the table.
pub(crate) fn spoke_limits(table: &Table<'_>, limits: &mut SpokeLimits) {
    // An hour at most: nothing interactive waits longer, and a value in milliseconds is found.
    seconds(table, "start_timeout_s", &mut limits.start_timeout, 3_600);
    seconds(table, "call_timeout_s", &mut limits.call_timeout, 3_600);
    // The protocol carries one MiB at most.
    read(table, "result_bytes", 1..=MIB, 1, &mut limits.result_bytes);
    // At most a TiB.
    read(table, "memory_mb", 16..=MIB, MIB, &mut limits.memory_bytes);
    read(table, "processes", 1..=32_768, 1, &mut limits.processes);
    read(table, "open_files", 16..=MIB, 1, &mut limits.open_files);
    read(table, "file_mb", 0..=MIB, MIB, &mut limits.file_bytes);
    read(table, "tmp_mb", 1..=MIB, MIB, &mut limits.tmp_bytes);
}

fn read<T: TryFrom<u64>>(
    table: &Table<'_>,
    key: &'static str,
    range: std::ops::RangeInclusive<u64>,
    unit: u64,
    into: &mut T,
) {
    let number = table.integer(key, range).and_then(|n| n.checked_mul(unit));
    if let Some(number) = number.and_then(|number| T::try_from(number).ok()) {
        *into = number;
    }
}

fn seconds(table: &Table<'_>, key: &'static str, into: &mut Duration, most: u64) {
    if let Some(seconds) = table.integer(key, 1..=most) {
        *into = Duration::from_secs(seconds);
    }
}
