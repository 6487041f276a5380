//! Reads label rules from TOML.

use crate::diagnostics::did_you_mean;
use crate::toml_reader::{At, Table};
use crate::{Form, LabelPath, LabelRule};

/// Most label rules of one tool: each is one more query over a result that an attacker may shape.
const MAX_RULES: usize = 64;

/// The `[[labels]]` of a tool.
pub(crate) fn label_rules(table: &Table<'_>) -> Vec<LabelRule> {
    let tables = table.tables("labels");
    if let Some(first_too_many) = tables.get(MAX_RULES) {
        let message = format!("more than {MAX_RULES} label rules for one tool");
        let help = "join rules with a wildcard or a list of names, like $.a['b', 'c']";
        table.context.error(&first_too_many.span, message, help);
    }
    let mut rules: Vec<LabelRule> = Vec::new();
    for table in &tables {
        let Some(rule) = label_rule(table) else {
            continue;
        };
        if rules.iter().any(|other| other.path == rule.path) {
            let message = format!("there are two rules for {}", rule.path.as_str());
            let help = "their labels would be joined; write one rule";
            table.context.error(&table.span, message, help);
        }
        rules.push(rule);
    }
    rules
}

fn label_rule(table: &Table<'_>) -> Option<LabelRule> {
    let path = table.string("path");
    let label = table.label("label");
    for (key, example) in [
        ("path", "path = \"$.field\""),
        ("label", "label = [\"NAME\"], or [] for trusted and public"),
    ] {
        if !table.has(key) {
            table.missing(key, example);
        }
    }
    let form = form(table);
    table.finish();
    let path = label_path(table, &path?)?;
    Some(LabelRule {
        path,
        label: label?,
        form,
        unless: None,
    })
}

fn label_path(table: &Table<'_>, path: &At<&str>) -> Option<LabelPath> {
    LabelPath::parse(path.value)
        .inspect_err(|error| {
            // The caret stands where the path goes wrong, if the string is written plainly.
            let source = &table.context.file.text;
            let inside = path.span.start + 1..path.span.end.saturating_sub(1);
            let plain = source.get(inside.clone()) == Some(path.value);
            let at = inside.start + error.offset;
            let span = if plain { at..at + 1 } else { path.span.clone() };
            let help = "paths are RFC 9535, like $.emails[*].subject or $..body";
            table.context.error(&span, &error.message, help);
        })
        .ok()
}

fn form(table: &Table<'_>) -> Option<Form> {
    let words = table.strings("one_of");
    let named = table.string("form");
    if let (Some(_), Some(named)) = (&words, &named) {
        let message = "'form' and 'one_of' exclude each other";
        table.context.error(&named.span, message, "leave one out");
    }
    if let Some(words) = words {
        return Some(Form::OneOf(
            words.iter().map(|word| word.value.to_owned()).collect(),
        ));
    }
    let named = named?;
    let form = Form::named(named.value);
    if form.is_none() {
        let meant = did_you_mean(named.value, Form::NAMES);
        table.context.error(
            &named.span,
            format!("there is no form '{}'", named.value),
            format!(
                "{meant}it is one of {}; for fixed words write one_of = [\"a\", \"b\"]",
                Form::NAMES.join(", ")
            ),
        );
    }
    form
}
