//! App manifests (`sluice-app.toml`), and the rules of tools wherever they stand.

use std::collections::BTreeMap;

use ifc::{Effect, Label};

use crate::diagnostics::did_you_mean;
use crate::toml_reader::{At, Context, Table, parse};
use crate::{Form, LabelPath, LabelRule, ResultLabels, ToolRule};

/// Most label rules of one tool: each is one more query over a result that an attacker may shape.
const MAX_RULES: usize = 64;

/// What a manifest says.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) description: Option<String>,
    pub(crate) command: Vec<String>,
    pub(crate) descriptions: Option<Label>,
    pub(crate) tools: BTreeMap<String, ToolDraft>,
}

/// The keys of a tool that were written; the others come from below it, or from the defaults.
#[derive(Debug, Default, Clone)]
pub(crate) struct ToolDraft {
    pub(crate) effect: Option<Effect>,
    pub(crate) limit: Option<Label>,
    pub(crate) rules: Option<Vec<LabelRule>>,
    pub(crate) rest: Option<Label>,
    pub(crate) structure: Option<Label>,
}

impl ToolDraft {
    /// Everything most restrictive, for a tool of which nothing is known.
    pub(crate) fn conservative(whole: Label) -> Self {
        Self {
            effect: Some(Effect::Irreversible),
            limit: Some(Label::bottom()),
            rules: Some(Vec::new()),
            rest: Some(whole),
            structure: None,
        }
    }

    /// These keys where they are written, else those of `base`.
    pub(crate) fn over(self, base: Self) -> Self {
        Self {
            effect: self.effect.or(base.effect),
            limit: self.limit.or(base.limit),
            rules: self.rules.or(base.rules),
            rest: self.rest.or(base.rest),
            structure: self.structure.or(base.structure),
        }
    }

    /// The rule; what nobody wrote is as restrictive as can be.
    pub(crate) fn finish(self) -> ToolRule {
        ToolRule {
            effect: self.effect.unwrap_or(Effect::Irreversible),
            limit: self.limit.unwrap_or(Label::bottom()),
            result: ResultLabels::new(self.rules.unwrap_or_default(), self.rest, self.structure),
        }
    }
}

/// Reads a manifest; errors are reported.
pub(crate) fn manifest(context: Context<'_>) -> Option<Manifest> {
    let document = parse(context)?;
    let root = Table::new(
        context,
        0..0,
        document.get_ref(),
        "an app manifest".to_owned(),
    );
    let mut manifest = Manifest::default();
    match root.table("app") {
        Some(app) => {
            if app.string("name").is_none() && !app.has("name") {
                app.missing("name", "name = \"NAME\"");
            }
            let description = app.string("description");
            manifest.description = description.map(|text| text.value.to_owned());
            manifest.command = command(&app);
            manifest.descriptions = app.label("descriptions");
            app.finish();
        }
        None if root.has("app") => {}
        None => root.missing("app", "[app] with name, description and command"),
    }
    for (name, table) in root.named_tables("tools") {
        if !table.has("effect") {
            table.missing("effect", "effect = \"read\", \"write\" or \"irreversible\"");
        }
        manifest.tools.insert(name.value.to_owned(), tool(&table));
    }
    root.finish();
    Some(manifest)
}

/// The words of a `command`.
pub(crate) fn command(table: &Table<'_>) -> Vec<String> {
    let Some(words) = table.strings("command") else {
        return Vec::new();
    };
    if let Some(value) = table.value("command").filter(|_| words.is_empty()) {
        let help = "write [\"PROGRAM\", \"ARGUMENT\"]";
        table
            .context
            .error(&value.span(), "'command' names no program", help);
    }
    words.iter().map(|word| word.value.to_owned()).collect()
}

/// Reads the rules of a tool and finishes its table.
pub(crate) fn tool(table: &Table<'_>) -> ToolDraft {
    let effects = [Effect::Read, Effect::Write, Effect::Irreversible];
    let draft = ToolDraft {
        effect: table.choice("effect", &effects.map(|effect| (effect.name(), effect))),
        limit: table.label("limit"),
        rules: table.value("labels").map(|_| label_rules(table)),
        rest: table.label("rest"),
        structure: table.label("structure"),
    };
    table.finish();
    draft
}

fn label_rules(table: &Table<'_>) -> Vec<LabelRule> {
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
