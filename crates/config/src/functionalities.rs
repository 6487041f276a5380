//! `[functionality.NAME]`, and the keys of apps about functionalities: `offers`, `asks`, `serves`, `receives`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hub::isc::{Functionality, Offer, Schema, ServedBy};
use ifc::Label;
use policy::{AppMessages, MessageRules};
use toml::Spanned;
use toml::de::DeValue;

use crate::app::App;
use crate::json::json;
use crate::limits::Limits;
use crate::settings::serving_limits;
use crate::suggestions::listed;
use crate::toml_reader::{At, Table};
use crate::watch::Takes;

/// Longest name: with `ask__` before it, it is the name of a tool, which providers bound.
const MAX_NAME: usize = 48;

/// The keys of an app that are read here, after all apps are known.
const KEYS: [&str; 4] = ["offers", "asks", "serves", "receives"];

/// How an app says that a conversation of its own serves a functionality.
const CONVERSATION: &str = "{ conversation = true }";

/// The functionalities, and the rules for messages about them.
#[derive(Debug, Default)]
pub(crate) struct Functionalities {
    pub(crate) all: BTreeMap<String, Functionality>,
    pub(crate) messages: MessageRules,
}

/// Marks the keys of an app that [`functionalities`] reads later.
pub(crate) fn keys_of_app(table: &Table<'_>) {
    for key in KEYS {
        table.value(key);
    }
}

/// Reads everything about functionalities. The apps get what they offer and what they may ask for.
pub(crate) fn functionalities(
    root: &Table<'_>,
    apps: &mut BTreeMap<String, App>,
    limits: &mut Limits,
) -> Functionalities {
    let modes = [("labels", false), ("strict", true)];
    let isc = root.table("isc");
    let strict = isc.as_ref().and_then(|table| table.choice("mode", &modes));
    if let Some(table) = isc {
        serving_limits(&table, limits);
        table.finish();
    }
    let mut all = BTreeMap::new();
    // Those with errors too: a reference to one of them is no further error.
    let mut named = BTreeSet::new();
    let mut chosen = Vec::new();
    for (name, table) in root.named_tables("functionality") {
        check_name(&table, &name);
        if let Some(app) = table.string("app") {
            chosen.push((name.value, app));
        }
        named.insert(name.value);
        if let Some(functionality) = functionality(&name, &table) {
            all.insert(name.value.to_owned(), functionality);
        }
        table.finish();
    }
    let names: BTreeSet<String> = apps.keys().cloned().collect();
    let mut messages = MessageRules {
        strict: strict.unwrap_or(false),
        apps: names
            .iter()
            .map(|name| (name.clone(), AppMessages::default()))
            .collect(),
    };
    for (name, table) in root.named_tables("app") {
        let Some(app) = apps.get_mut(name.value) else {
            continue;
        };
        offers(&table, app, &all, &named);
        app.asks = asks(&table, &named);
        messages.apps.insert(
            name.value.to_owned(),
            AppMessages {
                receives: table.label("receives").unwrap_or(Label::top()),
                serves: serves(&table, &names),
            },
        );
    }
    for app in apps.values_mut() {
        // An offer of a manifest counts only if the user has predefined the functionality.
        app.offers.retain(|name, _| all.contains_key(name));
        for (name, by) in &app.offers {
            if let Some(functionality) = all.get_mut(name) {
                functionality.offers.push(Offer {
                    app: app.name.clone(),
                    by: by.clone(),
                    // What a tool returns has the labels of its rules. In a conversation the app's own words steer a model.
                    taint: match by {
                        ServedBy::Tool(_) => Label::bottom(),
                        ServedBy::Conversation => app.descriptions.clone(),
                    },
                });
            }
        }
    }
    // Last, when the offers of all apps are known.
    for (name, app) in chosen {
        if let Some(functionality) = all.get_mut(name) {
            choose(root, functionality, &app);
        }
    }
    Functionalities { all, messages }
}

/// `app = "B"`: only this app serves the functionality.
fn choose(root: &Table<'_>, functionality: &mut Functionality, app: &At<&str>) {
    let known = functionality.apps();
    if !known.iter().any(|known| known == app.value) {
        let name = &functionality.name;
        let message = format!("the app '{}' does not offer '{name}'", app.value);
        let meant = root.did_you_mean(app.value, known.iter().map(String::as_str));
        let help = format!(
            "{meant}write {name} = \"TOOL\", or {CONVERSATION}, under [app.{}.offers]",
            app.value
        );
        root.error(&app.span, message, help);
    }
    functionality.offers.retain(|offer| offer.app == app.value);
}

fn check_name(table: &Table<'_>, name: &At<&str>) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let begins = name.value.starts_with(|c: char| c.is_ascii_alphanumeric());
    let right = begins && name.value.len() <= MAX_NAME && name.value.chars().all(allowed);
    if !right || name.value.contains("__") {
        let message = format!("'{}' is no name for a functionality", name.value);
        let help = format!(
            "use at most {MAX_NAME} letters, digits, '-' and '_', beginning with a letter, \
             and no '__'"
        );
        table.error(&name.span, message, help);
    }
}

fn functionality(name: &At<&str>, table: &Table<'_>) -> Option<Functionality> {
    table.needs("description", "description = \"what it is, for a model\"");
    let description = table.string("description");
    let request = schema(table, "request");
    if let Some((span, request)) = &request
        && !request.is_object()
    {
        let help = "write type = \"object\": its properties are the arguments of a tool";
        table.error(span, "a request must be an object", help);
    }
    let response = schema(table, "response");
    Some(Functionality {
        name: name.value.to_owned(),
        description: description?.value.to_owned(),
        request: request?.1,
        response: response?.1,
        offers: Vec::new(),
    })
}

/// A JSON Schema, written as a table.
fn schema(table: &Table<'_>, key: &'static str) -> Option<(Range<usize>, Schema)> {
    table.takes(key, Takes::Free);
    let Some(value) = table.value(key) else {
        let example = format!("{key} = {{ type = \"object\", properties = {{ … }} }}");
        table.missing(key, &example);
        return None;
    };
    let right = "a JSON Schema: strings, numbers, lists and tables, at most 64 levels deep";
    let refused = |wrong| table.wrong_type(key, wrong, right);
    match Schema::read(&json(value).map_err(refused).ok()?) {
        Ok(schema) => Some((value.span(), schema)),
        Err(errors) => {
            for error in errors {
                table.error(&place(value, &error.at), error.message, error.help);
            }
            None
        }
    }
}

/// The place of the value below these keys, or of the last one that exists.
fn place(value: &Spanned<DeValue<'_>>, at: &[String]) -> Range<usize> {
    let Some((first, rest)) = at.split_first() else {
        return value.span();
    };
    let table = value.get_ref().as_table();
    match table.and_then(|table| table.get(first.as_str())) {
        Some(next) => place(next, rest),
        None => value.span(),
    }
}

/// Whether the value is `{ conversation = true }`, and nothing else.
fn is_conversation(value: &DeValue<'_>) -> bool {
    let DeValue::Table(table) = value else {
        return false;
    };
    let is_true = |value: &Spanned<DeValue<'_>>| matches!(value.get_ref(), DeValue::Boolean(true));
    table.len() == 1 && table.get("conversation").is_some_and(is_true)
}

/// `[app.NAME.offers]`: the tool that serves each functionality, or that a conversation does.
fn offers(
    table: &Table<'_>,
    app: &mut App,
    all: &BTreeMap<String, Functionality>,
    named: &BTreeSet<&str>,
) {
    for (name, value) in table.entries("offers") {
        let tool = match value.get_ref() {
            DeValue::String(tool) => At {
                span: value.span(),
                value: tool.as_ref(),
            },
            offered if is_conversation(offered) => {
                unless_named(table, &name, named);
                if all.contains_key(name.value) {
                    app.offers
                        .insert(name.value.to_owned(), ServedBy::Conversation);
                }
                continue;
            }
            _ => {
                let wanted = format!("the name of a tool, like \"get_fare\", or {CONVERSATION}");
                table.wrong_type(name.value, value, &wanted);
                continue;
            }
        };
        unless_named(table, &name, named);
        // Unknown, or with errors of its own; both are reported.
        let Some(functionality) = all.get(name.value) else {
            continue;
        };
        let Some(rule) = app.rules.tools.get(tool.value) else {
            let known = app.rules.tools.keys().map(String::as_str);
            let meant = table.did_you_mean(tool.value, known);
            let (app, tool_name) = (&app.name, tool.value);
            let message = format!("the tool '{tool_name}' of '{app}' is not listed");
            let help = format!("{meant}add [app.{app}.tools.{tool_name}] with its effect");
            table.error(&tool.span, message, help);
            continue;
        };
        if let Some(parameters) = &rule.parameters {
            let names = functionality.request.properties();
            for name in names.filter(|name| !parameters.0.contains_key(*name)) {
                let message = format!("the tool '{}' has no parameter '{name}'", tool.value);
                let known = listed(parameters.names());
                let help =
                    format!("the properties of the request are its arguments; it has {known}");
                table.error(&tool.span, message, help);
            }
        }
        let by = ServedBy::Tool(tool.value.to_owned());
        app.offers.insert(name.value.to_owned(), by);
    }
}

fn asks(table: &Table<'_>, named: &BTreeSet<&str>) -> Option<BTreeSet<String>> {
    let names = table.strings("asks")?;
    for name in &names {
        unless_named(table, name, named);
    }
    Some(names.iter().map(|name| name.value.to_owned()).collect())
}

fn unless_named(table: &Table<'_>, name: &At<&str>, named: &BTreeSet<&str>) {
    if named.contains(name.value) {
        return;
    }
    let meant = table.did_you_mean(name.value, named.iter().copied());
    let message = format!("there is no functionality '{}'", name.value);
    let help = format!("{meant}predefine it: [functionality.{}]", name.value);
    table.error(&name.span, message, help);
}

fn serves(table: &Table<'_>, apps: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let named = table.strings("serves")?;
    for app in named.iter().filter(|app| !apps.contains(app.value)) {
        let message = format!("there is no app '{}'", app.value);
        let known = apps.iter().map(String::as_str);
        let help = table.did_you_mean(app.value, known);
        table.error(&app.span, message, help);
    }
    Some(named.iter().map(|app| app.value.to_owned()).collect())
}
