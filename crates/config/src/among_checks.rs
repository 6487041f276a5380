//! Checks of `among` against the tools of all apps.

use std::collections::BTreeMap;

use ifc::Label;
use policy::{Among, ToolRule};

use crate::accepts::AmongSource;
use crate::app::App;
use crate::diagnostics::Sink;

/// Reports each `among` that can accept no value.
pub(crate) fn check(sink: &Sink, apps: &BTreeMap<String, App>) {
    for source in apps.values().flat_map(|app| &app.among) {
        if let Err((message, help)) = evaluate(sink, source, apps) {
            sink.error(&source.file, &source.span, message, help);
        }
    }
}

/// The message and help if no value can be accepted.
fn evaluate(
    sink: &Sink,
    source: &AmongSource,
    apps: &BTreeMap<String, App>,
) -> Result<(), (String, String)> {
    let Among { app, tool, .. } = &source.among;
    let Some(found) = apps.get(app) else {
        let help = sink.known("there are", app, apps.keys().map(String::as_str));
        return Err((format!("there is no app '{app}'"), help));
    };
    let tools = &found.rules.tools;
    let Some(rule) = tools.get(tool) else {
        let help = sink.known("it has", tool, tools.keys().map(String::as_str));
        return Err((
            format!("the app '{app}' has no rule for a tool '{tool}'"),
            help,
        ));
    };
    if labels(rule).any(|label| label.flows_to(&source.limit)) {
        return Ok(());
    }
    let message = format!(
        "no result of {app}.{tool} has a label that values of this 'among' may have, so it accepts nothing"
    );
    let help = "give the values at this path a label of their own in the tool's results, or name their \
                label: labelled = [\"LABEL\"]";
    Err((message, help.to_owned()))
}

/// Every label that a part of a tool's results may have.
fn labels(rule: &ToolRule) -> impl Iterator<Item = &Label> {
    let rules = rule.result.rules().iter();
    // `among` selects whole values, so the labels of heads and keys do not count.
    let of_rules = rules.flat_map(|rule| {
        let unless = rule.unless.iter().map(|unless| &unless.label);
        std::iter::once(&rule.label).chain(unless)
    });
    of_rules.chain(std::iter::once(rule.result.worst()))
}
