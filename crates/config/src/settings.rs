//! The parts of `sluice.toml` that are not about apps: lattice, providers, screener, limits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hub::Filling;
use ifc::{Dimension, Label, Lattice, LatticeError, Order};

use crate::app::App;
use crate::config::{
    JsonForm, OnViolation, Provider, ProviderKind, ProxySettings, Screener, ScreenerKind,
};
use crate::limits::{Limits, SpokeLimits};
use crate::suggestions::listed;
use crate::toml_reader::{At, Table};
use crate::watch::Takes;

/// The embedded model that `sluice model pull` fetches when nothing else is asked.
const DEFAULT_MODEL: &str = "qwen2.5-coder-1.5b";

/// The lattice, or `None` after an error was reported. Without `[lattice]` it has four points.
pub(crate) fn lattice(root: &Table<'_>) -> Option<Lattice> {
    let Some(table) = root.table("lattice") else {
        return (!root.has("lattice")).then(Lattice::four_point);
    };
    let integrity = order(&table, Dimension::Integrity);
    let confidentiality = order(&table, Dimension::Confidentiality);
    table.finish();
    let understood = integrity.is_some() && confidentiality.is_some();
    // Another order in place of a wrong one, so that the errors of both are found.
    let orders = [integrity, confidentiality].map(|order| order.unwrap_or(Order::TwoPoint));
    let [integrity, confidentiality] = &orders;
    match Lattice::new(integrity, confidentiality) {
        Ok(lattice) => understood.then_some(lattice),
        Err(error) => {
            let help = match error {
                LatticeError::Empty(_) => "name at least one",
                LatticeError::Duplicate(_) => "the names of both orders must be different",
                // The others say it themselves.
                _ => "",
            };
            table.context.error(&table.span, error.to_string(), help);
            None
        }
    }
}

fn order(table: &Table<'_>, dimension: Dimension) -> Option<Order> {
    let key = dimension.name();
    let Some(value) = table.value(key) else {
        return Some(Order::TwoPoint);
    };
    table.takes(key, Takes::Word(vec!["two-point".to_owned()]));
    let right = "\"two-point\", { levels = […] } or { categories = […] }";
    if value.get_ref().as_str() == Some("two-point") {
        return Some(Order::TwoPoint);
    }
    if !value.get_ref().is_table() {
        table.wrong_type(key, value, right);
        return None;
    }
    let order = table.table(key)?;
    let words = |names: Vec<At<&str>>| names.iter().map(|name| name.value.to_owned()).collect();
    let found = [
        order.strings("levels").map(words).map(Order::Levels),
        order
            .strings("categories")
            .map(words)
            .map(Order::Categories),
    ];
    order.finish();
    let mut found = found.into_iter().flatten();
    let (first, second) = (found.next(), found.next());
    match first {
        // One level is no order: its only label is ⊥, and everything would be trusted.
        Some(Order::Levels(levels)) if levels.len() < 2 && second.is_none() => {
            let help = "name at least two, the least restrictive first";
            let message = format!("the levels of '{key}' are no order");
            table.context.error(&order.span, message, help);
            None
        }
        Some(order) if second.is_none() => Some(order),
        _ => {
            let message = format!("'{key}' needs exactly one order");
            table
                .context
                .error(&order.span, message, format!("write {right}"));
            None
        }
    }
}

/// The providers; the embedded one if none is configured.
pub(crate) fn providers(root: &Table<'_>) -> Vec<Provider> {
    let mut names = BTreeSet::new();
    let mut providers = Vec::new();
    for table in root.tables("provider") {
        let provider = provider(&table);
        table.finish();
        let Some(provider) = provider else { continue };
        // Apps and screeners refer to a provider by its name, and two could have two clearances.
        if !names.insert(provider.name.clone()) {
            let message = format!("there are two providers '{}'", provider.name);
            let help = "give each its own name";
            table.context.error(&table.span, message, help);
        }
        providers.push(provider);
    }
    // The embedded model: nothing leaves the machine without a word of the user's.
    if providers.is_empty() {
        providers.push(default_provider());
    }
    providers
}

pub(crate) fn default_provider() -> Provider {
    Provider {
        name: "local".to_owned(),
        kind: ProviderKind::Embedded,
        model: DEFAULT_MODEL.to_owned(),
        clearance: Label::top(),
    }
}

fn provider(table: &Table<'_>) -> Option<Provider> {
    let name = table.string("name");
    table.needs("name", "name = \"local\"");
    table.needs("kind", "kind = \"embedded\" or kind = \"openai\"");
    let is_openai = table.choice("kind", &[("embedded", false), ("openai", true)]);
    let model = table.string("model").map(|model| model.value.to_owned());
    let base_url = table.string("base_url");
    let api_key_env = table.string("api_key_env");
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
        table
            .context
            .error(&url.span, message, "write https://HOST/v1");
    }
    let clearance = table.label("clearance");
    let whole = |lattice: &Lattice| lattice.whole(Dimension::Integrity);
    let influence = table.context.lattice.map_or(Label::top(), whole);
    // Only after all keys were read, so that none of them is called unknown.
    let kind = if is_openai? {
        table.needs("model", "model = \"NAME\", as the API calls it");
        ProviderKind::OpenAi {
            base_url: base_url.map(|url| url.value.to_owned()),
            api_key_env: api_key_env.map(|key| key.value.to_owned()),
            images: images.unwrap_or(false),
            json: json.unwrap_or_default(),
            max_completion_tokens,
            completion_tokens,
        }
    } else {
        if let (Some(_), Some(value)) = (completion_tokens, table.value("completion_tokens")) {
            let message = "an embedded model has the limit of all providers";
            let help = "write completion_tokens under [limits]";
            table.context.error(&value.span(), message, help);
        }
        if let (Some(true), Some(value)) = (images, table.value("images")) {
            let message = "the embedded model takes no images";
            let help = "leave it out, or write kind = \"openai\"";
            table.context.error(&value.span(), message, help);
        }
        for at in [&base_url, &api_key_env].into_iter().flatten() {
            let message = "an embedded model has no address and no key";
            let help = "leave it out, or write kind = \"openai\"";
            table.context.error(&at.span, message, help);
        }
        ProviderKind::Embedded
    };
    let clearance = match (&kind, clearance) {
        (ProviderKind::Embedded, None) => Label::top(),
        // An API is sent no secret unless the user says so.
        (_, clearance) => clearance.unwrap_or(Label::bottom()).join(&influence),
    };
    Some(Provider {
        name: name?.value.to_owned(),
        model: model.unwrap_or_else(|| DEFAULT_MODEL.to_owned()),
        kind,
        clearance,
    })
}

/// The screener: naive, lazily, with the check before a question, by default. It needs no model of its own.
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
    // Redact-all screens every step, whatever `lazy` says.
    let asks_late = screener.lazy && screener.kind != ScreenerKind::RedactAll;
    if let (Some(true), false, Some(value)) = (screener.check, asks_late, table.value("check")) {
        let message = "only a lazy screening has a draft to check before a question";
        let help = "leave it out, or write lazy = true, with any kind but redact-all";
        table.context.error(&value.span(), message, help);
    }
    let filling = [
        ("lazy", Filling::Lazy),
        ("eager", Filling::Eager),
        ("exact", Filling::Exact),
    ];
    screener.arguments = table.choice("arguments", &filling).unwrap_or_default();
    let is_late = asks_late || screener.arguments == Filling::Lazy;
    if let (false, Some(value)) = (is_late, table.value("arguments")) {
        let message = "only a lazy screening has a draft whose arguments can be made one by one";
        let help = "leave it out, or write lazy = true, with any kind but redact-all";
        table.context.error(&value.span(), message, help);
    }
    let attends = screener.kind.attends();
    if let Some(provider) = known_provider(&table, "provider", providers) {
        if !screener.kind.judges() {
            let message = "only a judge asks a provider";
            let help = "leave it out, or write kind = \"judge\" or kind = \"combined\"";
            table.context.error(&provider.span, message, help);
        }
        screener.provider = Some(provider.value);
    }
    if let Some(draft) = known_provider(&table, "draft", providers) {
        if !attends {
            let message = "only the attention screener looks at drafts";
            let help = "leave it out, or write kind = \"attention\"";
            table.context.error(&draft.span, message, help);
        } else if screener.lazy {
            let message = "lazily the draft is the step itself, by the agent's own model";
            let help = "leave it out, or write lazy = false";
            table.context.error(&draft.span, message, help);
        }
        screener.draft = Some(draft.value);
    }
    let recall = table.integer("recall", RECALL);
    screener.recall = recall.and_then(|percent| u8::try_from(percent).ok());
    // With the judge beside it, two thresholds of its own say where it is unsure.
    let aims = screener.kind == ScreenerKind::Attention;
    if let (Some(_), false, Some(value)) = (recall, aims, table.value("recall")) {
        let message = "only the attention screener alone has a recall to aim at";
        let help = "leave it out, or write kind = \"attention\"";
        table.context.error(&value.span(), message, help);
    }
    if let Some(weights) = table.string("weights") {
        if !attends {
            let message = "only the attention screener has weights";
            let help = "leave it out, or write kind = \"attention\"";
            table.context.error(&weights.span, message, help);
        }
        screener.weights = Some(table.context.file.absolute(weights.value));
    }
    table.finish();
    screener
}

/// Percent of all dependencies that a screener may be asked to find. Below a half it masks what
/// most steps need; all of them would need a threshold of nothing.
const RECALL: std::ops::RangeInclusive<u64> = 50..=99;

/// The provider that this key names. An unknown one is reported.
pub(crate) fn known_provider(
    table: &Table<'_>,
    key: &'static str,
    providers: &[Provider],
) -> Option<At<String>> {
    let At { span, value } = table.string(key)?;
    let names = providers.iter().map(|provider| provider.name.as_str());
    if !names.clone().any(|name| name == value) {
        let meant = table.context.did_you_mean(value, names.clone());
        let help = format!("{meant}there are {}", listed(names));
        let message = format!("there is no provider '{value}'");
        table.context.error(&span, message, help);
    }
    // Also one that is unknown: it is reported, and the checks that follow are about its key.
    Some(At {
        span,
        value: value.to_owned(),
    })
}

/// Who has a model of its own: `[vanilla] provider`, which is returned, and `[app.NAME] provider`, which
/// is only checked here.
pub(crate) fn own_models(root: &Table<'_>, providers: &[Provider]) -> Option<String> {
    for (name, table) in root.named_tables("app") {
        let own = known_provider(&table, "provider", providers);
        if let (Some(own), Some(true)) = (own, table.boolean("client")) {
            let message = format!(
                "the app '{}' runs at a client, which has its own model",
                name.value
            );
            let help = "leave out 'provider', or 'client'";
            table.context.error(&own.span, message, help);
        }
    }
    let table = root.table("vanilla")?;
    table.needs("provider", "provider = \"NAME\", one of the [[provider]]");
    let own = known_provider(&table, "provider", providers);
    table.finish();
    own.map(|own| own.value)
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
            // A person at the screen needs seconds; most HTTP clients give up after minutes.
            approval_timeout: Duration::from_secs(120),
            images: None,
        }
    }
}

/// `[proxy]`.
pub(crate) fn proxy(root: &Table<'_>, apps: &BTreeMap<String, App>) -> ProxySettings {
    let mut proxy = ProxySettings::default();
    let clients: Vec<&str> = apps
        .values()
        .filter(|app| app.client)
        .map(|app| app.name.as_str())
        .collect();
    // With one such app there is nothing to choose.
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
            let meant = table.context.did_you_mean(value, clients.iter().copied());
            let help = format!("{meant}the proxy needs an [app.NAME] with client = true");
            table.context.error(&span, message, help);
        }
        proxy.app = Some(value.to_owned());
    } else if proxy.app.is_none() && !table.has("app") {
        let help = match clients.as_slice() {
            [] => "add an [app.NAME] with client = true".to_owned(),
            several => format!(
                "write app = \"NAME\", one of {}",
                listed(several.iter().copied())
            ),
        };
        let message = "it is not clear whose rules the proxy has";
        table.context.error(&table.span, message, help);
    }
    let words = [("ask", OnViolation::Ask), ("drop", OnViolation::Drop)];
    proxy.on_violation = table
        .choice("on_violation", &words)
        .unwrap_or(proxy.on_violation);
    proxy.images = table.label("images");
    // An hour at most, as everywhere.
    seconds(
        &table,
        "approval_timeout_s",
        &mut proxy.approval_timeout,
        3_600,
    );
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
            // Prompts show a part of it. The rest stays for its labels, and a day's work is less.
            history_bytes: 32 << 20,
            // An app that asks one that asks another is much; each of them has a conversation.
            hops: 3,
            // There is one thing to find out.
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
            // Longer than any mail or web server takes that will answer at all.
            call_timeout: Duration::from_secs(60),
            // What the protocol carries at most.
            result_bytes: 1 << 20,
            // An interpreter's engine alone maps about 700 MB writable at its start.
            memory_bytes: 2048 * MIB,
            // Interpreters and async runtimes start 10 to 20 threads each; a fork bomb ends here.
            processes: 256,
            open_files: 256,
            // An app writes documents, not disks.
            file_bytes: 256 * MIB,
            // It is memory, so it counts against the machine.
            tmp_bytes: 64 * MIB,
        }
    }
}

/// What `[isc]` says of conversations that serve an app's request. The caller finishes the table.
pub(crate) fn serving_limits(table: &Table<'_>, limits: &mut Limits) {
    // Past these a limit limits nothing; each hop is a conversation within a conversation.
    read(table, "hops", 1..=8, 1, &mut limits.hops);
    read(table, "steps", 1..=100, 1, &mut limits.serving_steps);
    seconds(table, "timeout_s", &mut limits.serving_timeout, 3_600);
}

/// `[limits]`: those of turns, and those of spokes that apps do not set themselves.
pub(crate) fn limits(root: &Table<'_>) -> Limits {
    let mut limits = Limits::default();
    if let Some(table) = root.table("limits") {
        // Past these a limit limits nothing.
        read(&table, "steps", 1..=1_000, 1, &mut limits.steps);
        seconds(&table, "turn_timeout_s", &mut limits.turn_timeout, 86_400);
        read(
            &table,
            "history_bytes",
            1_024..=(64 << 20),
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

/// Most tokens of one answer, of all providers or of one.
fn completion_tokens(table: &Table<'_>) -> Option<u32> {
    let tokens = table.integer("completion_tokens", 1..=1_000_000);
    tokens.and_then(|tokens| u32::try_from(tokens).ok())
}

/// The keys that `[limits]` and `[app.NAME.limits]` share. The caller finishes the table.
pub(crate) fn spoke_limits(table: &Table<'_>, limits: &mut SpokeLimits) {
    // An hour at most: nothing interactive waits longer, and milliseconds by mistake are found.
    seconds(table, "start_timeout_s", &mut limits.start_timeout, 3_600);
    seconds(table, "call_timeout_s", &mut limits.call_timeout, 3_600);
    // The protocol carries one MiB at most.
    read(table, "result_bytes", 1..=MIB, 1, &mut limits.result_bytes);
    // A TiB is more than any machine has that runs this.
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
