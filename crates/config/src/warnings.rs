//! Warnings about rules that are allowed, but probably a mistake.

use ifc::{Dimension, Effect, Lattice};
use policy::{By, Parameters, ResultLabels, names};

use crate::app::App;
use crate::diagnostics::Sink;
use crate::manifest::ToolDraft;
use crate::suggestions::listed;
use crate::toml_reader::{At, Table};

/// Warns of `limit = "any"` for an app that may connect somewhere: it can send there all of its arguments, so each of its
/// tools is a sink, a search too.
pub(crate) fn egress(sink: &Sink, app: &App, tool: &str, draft: &ToolDraft) {
    let unlimited = draft.limit.as_ref().is_some_and(ifc::Label::is_top);
    let takes_nothing = |parameters: &policy::Parameters| parameters.0.is_empty();
    // A call without arguments tells the app only that it was made.
    let silent = draft.parameters.as_ref().is_some_and(takes_nothing);
    let Some(written) = draft.written.as_ref().filter(|_| unlimited && !silent) else {
        return;
    };
    let relay = app.egress.first();
    let relay = relay.map(|relay| format!("{}:{}", relay.host, relay.port));
    // A domain with a limit asks.
    let domain = app.domains.iter().find(|it| it.takes_everything());
    let domain = domain.map(|domain| domain.pattern.to_string());
    if let Some(first) = relay.or(domain) {
        let message = format!(
            "the app '{}' may connect to {first}, and its tool '{tool}' takes text of any label",
            app.name
        );
        let help = "name what the app may learn, like limit = [\"untrusted\"]; \
                    parameters = [] says that a call carries nothing";
        sink.warning(&written.file, &written.span, message, help);
    }
}

/// Warns of `rest = []` beside rules. It looks like "everything else is trusted", but a value without a rule has the labels
/// of all rules.
pub(crate) fn rest(sink: &Sink, app: &App, tool: &str, draft: &ToolDraft) {
    let labels = &draft.labels;
    let rest = labels.rest.as_ref().filter(|rest| rest.is_bottom());
    let (Some(rest), Some(rules), Some(written)) = (rest, &labels.rules, &draft.written) else {
        return;
    };
    // The label that everything else really has.
    let whole = ResultLabels::new(rules.clone(), Some(rest.clone()), labels.structure.clone());
    if !rules.is_empty() && whole.worst() != rest {
        let message = format!(
            "values without a rule of '{}.{tool}' have the labels of all its rules: 'rest = []' takes nothing away",
            app.name
        );
        let help = "for \"everything else\" write a rule, like { path = \"$[*].*\", label = [] }: \
                    a value that several rules select has the labels of each";
        sink.warning(&written.file, &written.span, message, help);
    }
}

/// Warns of what has no effect in lines, where a stranger's line may look like a field.
pub(crate) fn lines(sink: &Sink, app: &App, tool: &str, draft: &ToolDraft) {
    let Some(written) = draft.written.as_ref() else {
        return;
    };
    let result = draft.labels.clone().finish();
    let rules = result.rules().iter().filter(|_| result.format().is_lines());
    for rule in rules {
        let is_lower = rule.form.is_none() && rule.label != *result.worst();
        let has_key = rule.key.is_some() && rule.key_form.is_none();
        let by_sibling = matches!(rule.by, Some(By::Sibling { .. }));
        if is_lower || has_key || by_sibling || rule.destination || rule.unless.is_some() {
            let message = format!(
                "a stranger's line may look like {} of '{}.{tool}': without a form it has every label of the tool, \
                 and 'unless', 'destination' and a sibling in 'by' have no effect",
                rule.path.as_str(),
                app.name
            );
            let help = "write a form, like form = \"date\", or every label of the tool";
            sink.warning(&written.file, &written.span, message, help);
        }
    }
}

/// Warns of a tool that may move text by itself, where the configuration has named secrets.
pub(crate) fn moves(sink: &Sink, lattice: &Lattice, app: &App, tool: &str, draft: &ToolDraft) {
    let secrets = lattice.describe(&lattice.whole(Dimension::Confidentiality));
    let acts = !draft.effect.is_some_and(Effect::reads);
    let parameters = draft.parameters.iter().flat_map(Parameters::names);
    let may_move = acts && draft.carries.is_none() && names::moves(tool, parameters);
    if let Some(written) = draft
        .written
        .as_ref()
        .filter(|_| may_move && secrets != ["secret"])
    {
        let message = format!(
            "'{}.{tool}' may send text that no argument carries, which its limits do not see",
            app.name
        );
        let help = "write carries = [\"LABEL\"], the label of what it moves by itself, or carries = [] if it moves nothing secret";
        sink.warning(&written.file, &written.span, message, help);
    }
}

/// Warns of the tools of an app with `draft = true` whose results no key describes. `sluice policy propose` writes that key,
/// since names of tools do not tell who wrote what they return, or whether it is secret.
pub(crate) fn draft(app: &Table<'_>, tools: &[(At<&str>, Table<'_>)]) {
    let is_draft = app.boolean("draft") == Some(true);
    let is_open = |tool: &Table<'_>| {
        !["rest", "labels", "results"]
            .iter()
            .any(|key| tool.has(key))
    };
    let open = tools
        .iter()
        .filter(|(_, tool)| is_draft && is_open(tool))
        .map(|(name, _)| name.value);
    let (Some(at), Some(_)) = (app.value("draft"), open.clone().next()) else {
        return;
    };
    let message = format!(
        "a draft: no 'rest' says who wrote the results of {} and what they reveal, so they count as untrusted and secret",
        listed(open)
    );
    let help = "write 'rest' for each tool, \"any\" where it is not known; or remove draft = true";
    let file = app.context.file;
    app.context.sink.warning(file, &at.span(), message, help);
}
