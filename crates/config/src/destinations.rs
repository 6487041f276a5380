//! Arguments that say where something goes, and that any text may choose.

use std::collections::{BTreeMap, BTreeSet};

use ifc::{ArgumentPath, Dimension, Effect, Lattice};
use policy::names::is_in;
use policy::{AcceptedValues, ToolRule, toml_key};
use serde_json::{Map, Value};

use crate::app::App;
use crate::diagnostics::Sink;
use crate::manifest::Written;

/// Names of arguments that say where something goes.
pub(crate) const DESTINATIONS: &str = "\
    account address bcc cc channel domain email host iban invitees participants receiver receivers \
    recipient recipients server to url uri webhook";

/// Warns of destinations that any text may choose. `written` has the place of each tool's limit.
pub(crate) fn check(
    sink: &Sink,
    lattice: &Lattice,
    app: &App,
    written: &BTreeMap<String, Written>,
) {
    // A value of a form is enough to name an account.
    let influence = lattice.whole(Dimension::Integrity).formed();
    for (name, rule) in &app.rules.tools {
        let Some(place) = written.get(name).filter(|_| rule.effect != Effect::Read) else {
            continue;
        };
        let is_open = |argument: &&ArgumentPath| {
            let own = rule.arguments.get(argument);
            let limit = own.map_or(&rule.limit, |limit| &limit.label);
            let accepts = own.into_iter().flat_map(|limit| &limit.accepts);
            let by_form = accepts
                .filter(|it| matches!(&it.values, AcceptedValues::Form(form) if form.can_name()));
            let mut limits = by_form.map(|accept| &accept.limit).chain([limit]);
            is_in(DESTINATIONS, argument.last_name())
                && limits.any(|limit| influence.flows_to(limit))
        };
        for argument in arguments(app, name, rule).iter().filter(is_open) {
            let message = format!(
                "untrusted text may choose the argument '{argument}' of '{}.{name}', which names a destination",
                app.name
            );
            let help = format!(
                "keep it at the tool's limit, or write [app.{}.tools.{name}.arguments.{}] limit = [] without a form in 'accepts'",
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
        // An example that expects a denial may not be JSON. It names no arguments then.
        let read: Map<String, Value> = serde_json::from_str(&example.arguments).unwrap_or_default();
        names.extend(read.keys().map(ArgumentPath::of));
    }
    names
}
