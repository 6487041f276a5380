//! Whether values can be among those that an argument accepts. Judged once all apps are known.

use std::collections::BTreeMap;

use ifc::Label;
use policy::{Among, ToolRule};

use crate::accepts::AmongSource;
use crate::app::App;
use crate::diagnostics::Sink;
use crate::suggestions::listed;

/// Reports each `among` of these apps that no value can be in.
pub(crate) fn check(sink: &Sink, apps: &BTreeMap<String, App>) {
    for source in apps.values().flat_map(|app| &app.among) {
        if let Err((message, help)) = judge(sink, source, apps) {
            sink.error(&source.file, &source.span, message, help);
        }
    }
}

/// Message and help if no value can be among these.
fn judge(
    sink: &Sink,
    source: &AmongSource,
    apps: &BTreeMap<String, App>,
) -> Result<(), (String, String)> {
    let Among { app, tool, .. } = &source.among;
    let Some(found) = apps.get(app) else {
        let known = apps.keys().map(String::as_str);
        let meant = sink.did_you_mean(app, known.clone());
        let help = format!("{meant}there are {}", listed(known));
        return Err((format!("there is no app '{app}'"), help));
    };
    let Some(rule) = found.rules.tools.get(tool) else {
        let known = found.rules.tools.keys().map(String::as_str);
        let meant = sink.did_you_mean(tool, known.clone());
        let help = format!("{meant}it has {}", listed(known));
        let message = format!("the app '{app}' has no rule for a tool '{tool}'");
        return Err((message, help));
    };
    if labels(rule).any(|label| label.flows_to(&source.limit)) {
        return Ok(());
    }
    let message = format!(
        "no result of {app}.{tool} has a label that values of this 'among' may have, so it never holds"
    );
    let help = "give the values at this path a label of their own in the tool's results, or name their \
                    label: labelled = [\"LABEL\"]";
    Err((message, help.to_owned()))
}

/// Every label that a part of a tool's results may have.
fn labels(rule: &ToolRule) -> impl Iterator<Item = &Label> {
    let rules = rule.result.rules().iter();
    // Of whole values, which are what `among` selects: the labels of heads and keys do not count.
    let of_rules = rules.flat_map(|rule| {
        let unless = rule.unless.iter().map(|unless| &unless.label);
        std::iter::once(&rule.label).chain(unless)
    });
    of_rules.chain(std::iter::once(rule.result.worst()))
}
