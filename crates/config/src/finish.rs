//! From the drafts of an app's tools to its rules.

use std::collections::BTreeMap;

use ifc::{ArgumentPath, Effect, Lattice};
use policy::names::is_in;
use policy::{CedarText, CedarTool, Conditions, ErrorText, Parameters, compile_conditions};

use crate::app::App;
use crate::call_rules::Source;
use crate::destinations::{self, DESTINATIONS};
use crate::manifest::{ToolDraft, selecting};
use crate::result_checks;
use crate::toml_reader::Context;
use crate::warnings;

/// Checks the drafts, compiles conditions, and gives the app its rules.
pub(crate) fn tools(
    context: &Context<'_>,
    app: &mut App,
    drafts: BTreeMap<String, ToolDraft>,
    of_app: &[Source],
) {
    for (name, draft) in &drafts {
        check_arguments(context, name, draft);
        let of_tool = selecting(&drafts, name).map(|(_, draft)| draft);
        check_select(context, name, draft, of_tool.unwrap_or(draft));
        check_audience(context, name, draft);
    }
    check_after(context, &drafts);
    app.rules.has_conditions = !of_app.is_empty();
    // Without a lattice, labels are not checked.
    let mut conditions = context.lattice.map_or_else(BTreeMap::new, |lattice| {
        conditions(context, lattice, &app.name, of_app, &drafts)
    });
    // A finished rule keeps only the line of its limit; the checks below mark the place.
    let mut written = BTreeMap::new();
    for (name, mut draft) in drafts {
        if let Some(place) = &draft.written {
            written.insert(name.clone(), place.clone());
        }
        warnings::egress(context.sink, app, &name, &draft);
        warnings::rest(context.sink, app, &name, &draft);
        warnings::lines(context.sink, app, &name, &draft);
        if let Some(lattice) = context.lattice.filter(|_| !context.by_app) {
            warnings::moves(context.sink, lattice, app, &name, &draft);
        }
        let examples = std::mem::take(&mut draft.examples);
        if !examples.is_empty() {
            app.examples.insert(name.clone(), examples);
        }
        app.among.extend(draft.among(&app.name));
        let mut rule = draft.finish(&app.name);
        rule.conditions = conditions.remove(&name);
        app.rules.tools.insert(name, rule);
    }
    app.rules.count();
    if let Some(lattice) = context.lattice {
        destinations::check(context.sink, lattice, app, &written);
        result_checks::check(context.sink, lattice, app, &written);
    }
}

/// Compiles the conditions of an app and its tools; mistakes are reported where they stand.
fn conditions(
    context: &Context<'_>,
    lattice: &Lattice,
    app: &str,
    of_app: &[Source],
    drafts: &BTreeMap<String, ToolDraft>,
) -> BTreeMap<String, Conditions> {
    let mut sources: Vec<&Source> = Vec::new();
    let shared = texts(&mut sources, of_app);
    let mut tools = BTreeMap::new();
    for (name, draft) in drafts {
        let of_tool = draft.conditions.as_deref().unwrap_or_default();
        let tool = CedarTool {
            parameters: draft.parameters.as_ref(),
            texts: texts(&mut sources, of_tool),
        };
        tools.insert(name.clone(), tool);
    }
    let (conditions, errors) = compile_conditions(lattice, app, &shared, &tools);
    for error in errors {
        let Some(source) = sources.get(error.origin) else {
            // Not reached: every text is numbered here. An error is never dropped all the same.
            let path = &context.file.path;
            context.sink.unreadable(path, &error.message, &error.help);
            continue;
        };
        let inside = error.span.zip(source.offset);
        let span = inside.map(|(span, offset)| span.start + offset..span.end + offset);
        let span = span.unwrap_or(source.span.clone());
        let (message, help) = (error.message, error.help);
        context.sink.error(&source.file, &span, message, help);
    }
    conditions
}

/// Numbers more texts, so that errors can say which of them they are in.
fn texts<'s>(sources: &mut Vec<&'s Source>, more: &'s [Source]) -> Vec<CedarText<'s>> {
    let first = sources.len();
    sources.extend(more);
    let text = |(source, origin): (&'s Source, usize)| CedarText {
        text: &source.text,
        origin,
    };
    more.iter().zip(first..).map(text).collect()
}

/// The argument that selects the rule of a call is of its control part: by its value a stranger would choose the rule.
fn check_select(context: &Context<'_>, tool: &str, draft: &ToolDraft, of_tool: &ToolDraft) {
    let (Some(select), Some(at)) = (&of_tool.select, draft.at("select")) else {
        return;
    };
    let mut limited = draft.arguments.keys();
    let is_known = |all: &Parameters| all.0.contains_key(select);
    let message = if limited.any(|path| path.argument() == select) {
        format!("'{select}' selects the rule of '{tool}', and cannot have a limit of its own")
    } else if !draft.parameters.as_ref().is_some_and(is_known) {
        format!("'{select}' selects the rule of '{tool}', and is not in its 'parameters'")
    } else {
        return;
    };
    let help = "name one of 'parameters' that has no limit of its own";
    context.sink.error(&at.file, &at.span, message, help);
}

/// A limit of an argument that the tool does not take would never hold anything.
fn check_arguments(context: &Context<'_>, tool: &str, draft: &ToolDraft) {
    if let (Some(true), Some(at)) = (draft.poll, draft.at("poll"))
        && draft.effect != Some(Effect::Read)
    {
        let message = format!("the tool '{tool}' is polled, but does more than read");
        let help = "only a tool with effect = \"read\" can have poll = true";
        context.sink.error(&at.file, &at.span, message, help);
    }
    if let Some(parameters) = &draft.parameters {
        let named = [("once", &draft.once), ("destinations", &draft.destinations)];
        for (key, name) in named
            .into_iter()
            .flat_map(|(key, names)| names.iter().flatten().map(move |name| (key, name)))
            .filter(|(_, name)| !parameters.0.contains_key(*name))
        {
            let message = format!("'{key}' names '{name}', which the tool '{tool}' does not take");
            let help = context.sink.known("it has", name, parameters.names());
            if let Some(at) = draft.at(key) {
                context.sink.error(&at.file, &at.span, message, help);
            }
        }
        let errors = draft.labels.errors.iter().flatten();
        let mut named = errors.flat_map(ErrorText::arguments);
        let unknown = named.find(|name| !parameters.0.contains_key(*name));
        if let Some((name, at)) = unknown.zip(draft.at("errors")) {
            let message = format!(
                "an error of '{tool}' has '{{{name}}}' in it to the letter: the tool takes no argument '{name}'"
            );
            let help = context.sink.known("it has", name, parameters.names());
            context.sink.warning(&at.file, &at.span, message, help);
        }
    }
    // In sorted order a path is directly followed by the paths inside of it.
    let mut before: Option<&ArgumentPath> = None;
    for (path, argument) in &draft.arguments {
        let name = path.argument();
        let outer = before.filter(|before| before.contains(path));
        before = Some(outer.unwrap_or(path));
        let (message, help) = match (outer, &draft.parameters) {
            (Some(outer), _) => (
                format!("the data argument '{path}' lies inside of '{outer}'"),
                "give a limit to one of them: an argument with a limit has no parts with limits of their own".to_owned(),
            ),
            (None, Some(parameters)) if parameters.0.contains_key(name) => continue,
            (None, Some(parameters)) => (
                format!("the tool '{tool}' has no parameter '{name}'"),
                context.sink.known("it has", name, parameters.names()),
            ),
            (None, None) => (
                format!("the tool '{tool}' does not say which parameters it has"),
                "add parameters = [\"NAME\", …] to the tool: all that a call may have".to_owned(),
            ),
        };
        let (file, span) = (&argument.file, &argument.span);
        context.sink.error(file, span, message, help);
    }
}

/// Checks that the recipients of a tool's calls are among its parameters, and that the audience counts all of them.
fn check_audience(context: &Context<'_>, tool: &str, draft: &ToolDraft) {
    let of_arguments = draft.arguments.values().flat_map(|own| &own.limit.audience);
    let Some(written) = draft.at("audience") else {
        return;
    };
    let (sink, file, span) = (context.sink, &written.file, &written.span);
    for audience in draft.audience.iter().chain(of_arguments) {
        let Some(parameters) = &draft.parameters else {
            let message = format!(
                "the tool '{tool}' has an audience and does not say which parameters it has"
            );
            let help = "add parameters = [\"NAME\", …] to the tool: another argument could name a recipient too";
            sink.error(file, span, message, help);
            return;
        };
        let unknown = audience
            .of
            .iter()
            .find(|name| !parameters.0.contains_key(*name));
        if let Some(name) = unknown {
            let message =
                format!("'audience' names '{name}', which the tool '{tool}' does not take");
            let help = context.sink.known("it has", name, parameters.names());
            sink.error(file, span, message, help);
        }
        let is_left_out =
            |name: &&str| is_in(DESTINATIONS, name) && !audience.of.iter().any(|it| it == name);
        let left_out: Vec<&str> = parameters.names().filter(is_left_out).collect();
        if !left_out.is_empty() {
            let message = format!(
                "the audience of '{tool}' does not count '{}', which may name further recipients",
                left_out.join("', '")
            );
            sink.warning(
                file,
                span,
                message,
                "name all arguments with recipients in 'of'",
            );
        }
    }
}

/// Checks that the tools of `after` exist, and take the arguments that must be the same, and that those of `before` exist.
fn check_after(context: &Context<'_>, drafts: &BTreeMap<String, ToolDraft>) {
    for (name, draft) in drafts {
        for example in &draft.examples {
            let mut before = example.before.iter().map(|call| &call.tool);
            if let Some(tool) = before.find(|tool| !drafts.contains_key(*tool)) {
                let message = format!("'before' names '{tool}', which has no rules here");
                let known = drafts.keys().map(String::as_str);
                let help = context.sink.known("there are", tool, known);
                let (file, span) = (&example.file, &example.span);
                context.sink.error(file, span, message, help);
            }
        }
        let (Some(after), Some(written)) = (&draft.after, draft.at("after")) else {
            continue;
        };
        let error = |message: String, help: String| {
            context
                .sink
                .error(&written.file, &written.span, message, help);
        };
        let Some(other) = drafts.get(&after.tool).filter(|_| after.tool != *name) else {
            let others = drafts.keys().filter(|it| *it != name).map(String::as_str);
            let message = match after.tool == *name {
                true => format!("'{name}' runs after itself, so it never runs"),
                false => format!(
                    "'{name}' runs after '{}', which has no rules here",
                    after.tool
                ),
            };
            error(
                message,
                context.sink.known("there are", &after.tool, others),
            );
            continue;
        };
        for (tool, draft) in [(name, draft), (&after.tool, other)] {
            let takes = |argument: &&String| {
                let parameters = draft.parameters.as_ref();
                parameters.is_some_and(|it| it.0.contains_key(*argument))
            };
            if let Some(argument) = after.same.iter().find(|argument| !takes(argument)) {
                let message =
                    format!("'same' names '{argument}', which the tool '{tool}' does not take");
                let help = "name arguments that stand in the parameters of both tools".to_owned();
                error(message, help);
            }
        }
    }
}
