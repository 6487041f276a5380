//! Checks of the conditions of label rules against the rules of the app's tools.

use std::collections::BTreeMap;

use ifc::{Dimension, Effect, Label, Lattice};
use policy::{ArgumentIs, By, LabelRule, ParameterKind, ToolRule, When};

use crate::app::App;
use crate::destinations::arguments;
use crate::diagnostics::Sink;
use crate::manifest::Written;
use crate::result_conditions::conditions;

/// Names of arguments that say which file is moved or copied, and where to.
const SOURCES: &[&str] = &["from", "old_path", "path", "source", "src"];
const TARGETS: &[&str] = &["destination", "dest", "dst", "new_path", "target", "to"];

/// Reports conditions on arguments that a call cannot have, and warns of tools that write where others trust what they
/// read. `written` has the place of each tool's limit.
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
        for label_rule in rule.result.rules() {
            let texts = label_rule.when.iter().map(|when| (&when.argument, true));
            let by = label_rule.by.iter().flat_map(By::arguments);
            for (argument, is_text) in texts.chain(by.map(|name| (name, false))) {
                if let Some((message, help)) = impossible(sink, rule, label_rule, argument, is_text)
                {
                    sink.error(&place.file, &place.span, message, help);
                }
            }
            if let Some(name) = rule.result.untrusted_sibling(label_rule) {
                let at = named(label_rule);
                let message = format!(
                    "{at} names no writer: no rule trusts a text '{name}' beside the value"
                );
                let help = "name a text beside the value whose own rule trusts it, or write believed = true";
                sink.warning(&place.file, &place.span, message, help);
            }
        }
        if rule.parameters.is_none() && of_calls(rule).next().is_some() {
            let message = format!(
                "the results of '{}.{name}' are labelled by arguments of the call, and other arguments may say what they mean",
                app.name
            );
            let help = "name all that a call may have: parameters = [\"NAME\", …]";
            sink.warning(&place.file, &place.span, message, help);
        }
        let laundering = written_there(lattice, app, name, rule);
        let laundering = laundering.or_else(|| moved_there(lattice, app, name, rule));
        if let Some((message, help)) = laundering {
            sink.warning(&place.file, &place.span, message, help);
        }
    }
}

/// The conditions on arguments, each with its rule.
pub(crate) fn of_calls(rule: &ToolRule) -> impl Iterator<Item = (&LabelRule, &When)> {
    let rules = rule.result.rules().iter();
    rules.flat_map(|rule| rule.when.iter().map(move |when| (rule, when)))
}

/// The error of a rule about an argument that no call has, or that is no text.
fn impossible(
    sink: &Sink,
    rule: &ToolRule,
    label_rule: &LabelRule,
    argument: &str,
    is_text: bool,
) -> Option<(String, String)> {
    let parameters = rule.parameters.as_ref()?;
    let at = named(label_rule);
    match parameters.0.get(argument) {
        None => Some((
            format!("{at} never applies: no call has the argument '{argument}'"),
            sink.known("'parameters' has", argument, parameters.names()),
        )),
        Some(parameter) => match parameter.kind {
            ParameterKind::String
            | ParameterKind::Line
            | ParameterKind::Strings
            | ParameterKind::Any => None,
            kind => is_text.then(|| {
                let kind = kind.name();
                (
                    format!("{at} never applies: the argument '{argument}' is {kind}, and conditions are about texts"),
                    "write the condition about a text".to_owned(),
                )
            }),
        },
    }
}

/// A rule, by its path and place.
pub(crate) fn named(rule: &LabelRule) -> String {
    let place = rule.place.as_ref();
    let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
    format!("the rule for {}{place}", rule.path.as_str())
}

/// The warning about a rule that trusts a place to which another tool of the app can write untrusted text.
fn written_there(
    lattice: &Lattice,
    app: &App,
    name: &str,
    rule: &ToolRule,
) -> Option<(String, String)> {
    let influence = lattice.whole(Dimension::Integrity);
    of_calls(rule).find_map(|(label_rule, when)| {
        let mut writers = app.rules.tools.iter().filter(|(_, writer)| {
            // Conditions may keep such texts out; that cannot be decided without a call.
            writer.effect != Effect::Read && writer.conditions.is_none()
        });
        // Whether this limit admits an integrity taint that the tool's results may have, and that the rule removes.
        let lowered = |label: &Label| {
            let admitted = label.meet(&influence).meet(rule.result.worst());
            !admitted.flows_to(&label_rule.label)
        };
        let (writer, _) = writers.find(|(writer, draft)| {
            arguments(app, writer, draft)
                .iter()
                .any(|path| path.argument() == when.argument)
                && carried(draft).any(lowered)
        })?;
        let message = format!(
            "'{writer}' may write untrusted text there, and {} of '{name}' trusts it when {}",
            named(label_rule),
            conditions(label_rule)
        );
        let help = format!(
            "lower the limit of [app.{}.tools.{writer}], or give the rule the missing labels",
            app.name
        );
        Some((message, help))
    })
}

/// The warning about a tool that can move or copy strangers' files to where files are trusted. A call of it carries nothing
/// of them, so no limit holds it back.
fn moved_there(
    lattice: &Lattice,
    app: &App,
    name: &str,
    rule: &ToolRule,
) -> Option<(String, String)> {
    let paths = arguments(app, name, rule);
    let takes = |from: &[&str]| paths.iter().any(|it| from.contains(&it.last_name()));
    // Conditions may keep such calls out; that cannot be decided without a call.
    let is_bound = rule.effect == Effect::Read || rule.conditions.is_some();
    if is_bound || !takes(SOURCES) || !takes(TARGETS) {
        return None;
    }
    let influence = lattice.whole(Dimension::Integrity);
    let is_trusted = |label: &Label, worst: &Label| {
        label.meet(&influence).is_bottom() && !worst.meet(&influence).is_bottom()
    };
    let by_rules = app.rules.tools.values().find_map(|reader| {
        let worst = reader.result.worst();
        let mut trusted = of_calls(reader).filter(|(of, _)| is_trusted(&of.label, worst));
        trusted.find_map(|(_, when)| match &when.is {
            ArgumentIs::Under(folders) => Some(folders.first()?.as_str().to_owned()),
            _ => None,
        })
    });
    let worst = app.mounts.iter().map(|mount| &mount.label).collect();
    let mut mounts = app.mounts.iter();
    let mount = mounts.find(|mount| mount.write && is_trusted(&mount.label, &worst));
    let folder = by_rules.or(mount.map(|mount| mount.target.display().to_string()))?;
    let message = format!(
        "'{name}' may move or copy untrusted files into {folder}, where they are trusted afterwards"
    );
    // Of every path: `..` and links lead into a folder by other names.
    let help = format!(
        "ask about each call, at best `unless` it stays among untrusted files: [app.{}.tools.{name}] \
         cedar = '@ask forbid (principal, action, resource);'",
        app.name
    );
    Some((message, help))
}

/// The limits of a call: of its control part, and of each data argument.
fn carried(rule: &ToolRule) -> impl Iterator<Item = &Label> {
    let own = rule.arguments.values().map(|limit| &limit.label);
    std::iter::once(&rule.limit).chain(own)
}
