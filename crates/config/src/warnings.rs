//! What a configuration allows and probably does not mean.

use policy::ResultLabels;

use crate::app::App;
use crate::diagnostics::Sink;
use crate::manifest::ToolDraft;

/// An app that may connect somewhere can send there whatever it is given, so each of its tools is a
/// sink, the reading ones too: a search sends what is searched for. `limit = "any"` lets every
/// secret into such a call without a question.
pub(crate) fn egress(sink: &Sink, app: &App, tool: &str, draft: &ToolDraft) {
    let unlimited = draft.limit.as_ref().is_some_and(ifc::Label::is_top);
    let takes_nothing = |parameters: &policy::Parameters| parameters.0.is_empty();
    // Without an argument a call tells the app only that it was made.
    let silent = draft.parameters.as_ref().is_some_and(takes_nothing);
    let Some(written) = draft.written.as_ref().filter(|_| unlimited && !silent) else {
        return;
    };
    let relay = app.egress.first();
    let relay = relay.map(|relay| format!("{}:{}", relay.host, relay.port));
    // A domain with a limit asks; one without takes whatever the app was given.
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

/// Beside rules, `rest` can only add: what nobody foresaw has the labels of all of them. Whoever writes
/// `rest = []` there means "everything else is fine", and would get something else without a word.
pub(crate) fn rest(sink: &Sink, app: &App, tool: &str, draft: &ToolDraft) {
    let labels = &draft.labels;
    let rest = labels.rest.as_ref().filter(|rest| rest.is_bottom());
    let (Some(rest), Some(rules), Some(written)) = (rest, &labels.rules, &draft.written) else {
        return;
    };
    // What the label of everything else really becomes.
    let whole = ResultLabels::new(rules.clone(), Some(rest.clone()), labels.structure.clone());
    if !rules.is_empty() && whole.worst() != rest {
        let message = format!(
            "what no rule of '{}.{tool}' names has the labels of all its rules: 'rest = []' takes nothing away",
            app.name
        );
        let help = "for \"everything else\" write a rule, like { path = \"$[*].*\", label = [] }: \
                    a value that several rules select has the labels of each";
        sink.warning(&written.file, &written.span, message, help);
    }
}
