//! From the drafts of an app's tools to its rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use ifc::Dimension;

use super::compile::{Source, Tool, compile};
use super::conditions::Vocabulary;
use crate::App;
use crate::diagnostics::did_you_mean;
use crate::manifest::ToolDraft;
use crate::toml_reader::Context;

/// Checks the drafts, compiles conditions, and gives the app its rules.
pub(crate) fn tools(
    context: &Context<'_>,
    app: &mut App,
    drafts: BTreeMap<String, ToolDraft>,
    of_app: &[Source],
) {
    for (name, draft) in &drafts {
        check_arguments(context, name, draft);
    }
    app.has_conditions = !of_app.is_empty();
    let tools: BTreeMap<String, Tool<'_>> = drafts
        .iter()
        .map(|(name, draft)| {
            let tool = Tool {
                parameters: draft.parameters.as_ref(),
                sources: draft.conditions.as_deref().unwrap_or_default(),
            };
            (name.clone(), tool)
        })
        .collect();
    let mut conditions = BTreeMap::new();
    // While the lattice is wrong, what is said of labels is not judged.
    if let Some(lattice) = context.lattice {
        let vocabulary = Arc::new(Vocabulary {
            app: app.name.clone(),
            taints: lattice
                .taints()
                .map(|(name, label)| (name.to_owned(), label))
                .collect(),
            integrity: lattice.whole(Dimension::Integrity),
            confidentiality: lattice.whole(Dimension::Confidentiality),
        });
        conditions = compile(context.sink, lattice, &vocabulary, of_app, &tools);
    }
    for (name, draft) in drafts {
        let mut rule = draft.finish();
        rule.conditions = conditions.remove(&name);
        app.tools.insert(name, rule);
    }
}

/// A limit of an argument that the tool does not take would never hold anything.
fn check_arguments(context: &Context<'_>, tool: &str, draft: &ToolDraft) {
    for (name, argument) in &draft.arguments {
        let (message, help) = match &draft.parameters {
            Some(parameters) if parameters.0.contains_key(name) => continue,
            Some(parameters) => {
                let known: Vec<&str> = parameters.names().collect();
                let meant = did_you_mean(name, known.iter().copied());
                (
                    format!("the tool '{tool}' has no parameter '{name}'"),
                    format!("{meant}it has {}", known.join(", ")),
                )
            }
            None => (
                format!("the tool '{tool}' does not say which parameters it has"),
                "add parameters = [\"NAME\", …] to the tool: all that a call may have".to_owned(),
            ),
        };
        context
            .sink
            .error(&argument.file, &argument.span, message, help);
    }
}
