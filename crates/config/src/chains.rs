//! What goes wrong between the tools of an app: one hands out what the next one may not be called with.

use std::collections::{BTreeMap, BTreeSet};

use ifc::{ArgumentPath, Effect, Label, Lattice};
use policy::{ToolRule, toml_key};
use serde_json::{Map, Value};

use crate::app::App;
use crate::diagnostics::Sink;
use crate::manifest::Written;

/// Names of arguments that say where something goes.
const DESTINATIONS: &[&str] = &[
    "account",
    "address",
    "bcc",
    "cc",
    "channel",
    "domain",
    "email",
    "host",
    "iban",
    "invitees",
    "participants",
    "receiver",
    "receivers",
    "recipient",
    "recipients",
    "server",
    "to",
    "url",
    "uri",
    "webhook",
];

/// Warns of tools whose usual next tool refuses what they return, and of destinations without a limit. `written`
/// says where each tool's limit stands.
pub(crate) fn check(
    sink: &Sink,
    lattice: &Lattice,
    app: &App,
    written: &BTreeMap<String, Written>,
) {
    for (name, rule) in &app.rules.tools {
        let Some(place) = written.get(name) else {
            continue;
        };
        let arguments = arguments(app, name, rule);
        // Only of tools that read: that a write is asked about is expected, and nobody would read a warning for each.
        if rule.effect.reads() {
            for argument in &arguments {
                if let Some((message, help)) = refused(lattice, app, name, rule, argument) {
                    sink.warning(&place.file, &place.span, message, help);
                    break;
                }
            }
        }
        let leaves_nothing = rule.effect == Effect::Read;
        let open = arguments.iter().find(|one| is_open(lattice, rule, one));
        if let Some(argument) = open.filter(|_| !leaves_nothing) {
            let message = format!(
                "whatever was read may choose the argument '{argument}' of '{}.{name}', which says where something goes",
                app.name
            );
            let help = format!(
                "keep it at the tool's limit, or write [app.{}.tools.{name}.arguments.{}] limit = []",
                app.name,
                toml_key(&argument.to_string())
            );
            sink.warning(&place.file, &place.span, message, help);
        }
    }
}

/// The arguments that the rules or their examples name, some by a path.
pub(crate) fn arguments(app: &App, name: &str, rule: &ToolRule) -> BTreeSet<ArgumentPath> {
    let declared = rule.parameters.iter().flat_map(|all| all.names());
    let limited = rule.arguments.keys().cloned();
    let mut names: BTreeSet<_> = declared.map(ArgumentPath::of).chain(limited).collect();
    for example in app.examples.get(name).into_iter().flatten() {
        // An example may hold what is no JSON, to be denied; then it names no arguments.
        let arguments: Map<String, Value> =
            serde_json::from_str(&example.arguments).unwrap_or_default();
        names.extend(
            arguments
                .into_iter()
                .map(|(name, _)| ArgumentPath::of(name)),
        );
    }
    names
}

/// What bounds an argument.
fn limit<'r>(rule: &'r ToolRule, argument: &ArgumentPath) -> &'r Label {
    let own = rule.arguments.get(argument);
    own.map_or(&rule.limit, |limit| &limit.label)
}

/// Whether anybody's words may choose a destination.
fn is_open(lattice: &Lattice, rule: &ToolRule, argument: &ArgumentPath) -> bool {
    let influence = lattice.whole(ifc::Dimension::Integrity);
    DESTINATIONS.contains(&argument.last_name()) && influence.flows_to(limit(rule, argument))
}

/// A tool of the same app that returns this argument under a label that the tool refuses.
fn refused(
    lattice: &Lattice,
    app: &App,
    name: &str,
    rule: &ToolRule,
    argument: &ArgumentPath,
) -> Option<(String, String)> {
    let limit = limit(rule, argument);
    let sources = app
        .rules
        .tools
        .iter()
        .filter(|(other, source)| *other != name && source.effect.reads());
    let mut fields = sources.flat_map(|(other, source)| {
        let rules = source.result.rules().iter();
        rules.map(move |field| (other, field))
    });
    let (source, field) = fields.find(|(_, field)| {
        let of_name =
            last(field.path.as_str()).is_some_and(|last| is_same(argument.last_name(), last));
        // With a condition, some results have a lower label, and not each call would be a question.
        of_name && field.unless.is_none() && field.when.is_empty() && !field.label.flows_to(limit)
    })?;
    let names = |label: &Label| {
        let names = lattice.describe(label);
        match names.is_empty() {
            true => "what is trusted and public".to_owned(),
            false => names.join(", "),
        }
    };
    let (path, own) = (field.path.as_str(), names(&field.label));
    let message = format!(
        "'{source}' returns {path} as {own}, and '{name}' takes its argument '{argument}' from {} only: each '{name}' after '{source}' is a question",
        names(limit)
    );
    let help = format!(
        "if {path} can say nothing, give it a form and no label; or let the limit of [app.{}.tools.{name}] have {own}",
        app.name
    );
    Some((message, help))
}

/// The name in which a path ends: `id` in `$.emails[*].id`.
fn last(path: &str) -> Option<&str> {
    let name = path.rsplit('.').next()?;
    let name = name.trim_end_matches("[*]");
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .then_some(name)
}

/// Whether an argument takes this field: `id` goes to `id` and to `email_id`.
fn is_same(argument: &str, field: &str) -> bool {
    let ends = |long: &str, short: &str| {
        let rest = long.strip_suffix(short);
        rest.is_some_and(|rest| rest.ends_with('_'))
    };
    argument == field || ends(argument, field) || ends(field, argument)
}
