//! Reads label rules from TOML.

use std::collections::BTreeMap;
use std::sync::Arc;

use ifc::{Dimension, Label};
use policy::{
    ErrorText, Format, Head, LabelRule, Mark, PathError, ResultLabels, UserLabels, UserRule,
};

use crate::forms::{FORM_KEYS, check_words, form, parsed};
use crate::result_conditions::{by, contradiction, key, list, unless, unreached, when};
use crate::toml_reader::{At, Table};

/// Most label rules of one tool. Each is a query over a result that an attacker may shape.
const MAX_RULES: usize = 64;

/// Most rules for the user's messages. Each is a search through the text.
const MAX_USER_RULES: usize = 16;

/// The keys about a tool's results that were written. The others come from the manifest, or from the defaults.
#[derive(Debug, Default, Clone)]
pub(crate) struct LabelDraft {
    pub(crate) format: Option<Format>,
    pub(crate) rules: Option<Vec<LabelRule>>,
    pub(crate) rest: Option<Label>,
    pub(crate) structure: Option<Label>,
    pub(crate) errors: Option<Vec<ErrorText>>,
}

impl LabelDraft {
    /// One label for everything.
    pub(crate) fn uniform(rest: Option<Label>) -> Self {
        Self {
            rules: Some(Vec::new()),
            rest,
            ..Self::default()
        }
    }

    /// These keys where they are written, else those of `base`.
    pub(crate) fn over(self, base: Self) -> Self {
        Self {
            format: self.format.or(base.format),
            rules: self.rules.or(base.rules),
            rest: self.rest.or(base.rest),
            structure: self.structure.or(base.structure),
            errors: self.errors.or(base.errors),
        }
    }

    /// The rules; a key that was not written has the most restrictive value.
    pub(crate) fn finish(self) -> ResultLabels {
        let rules = self.rules.unwrap_or_default();
        ResultLabels::new(rules, self.rest, self.structure)
            .with_format(self.format.unwrap_or_default())
            .with_errors(self.errors.unwrap_or_default())
    }
}

/// The `[results.NAME]` of an app, which several tools share.
pub(crate) type Shapes = BTreeMap<String, LabelDraft>;

/// Reads `[results.NAME]`.
pub(crate) fn shapes(table: &Table<'_>) -> Shapes {
    let shape = |(name, table): (At<&str>, Table<'_>)| {
        let labels = own_labels(&table);
        table.finish();
        (name.value.to_owned(), labels)
    };
    let named = table.named_tables("results");
    named.into_iter().map(shape).collect()
}

/// The keys of a tool that are about its results: its own, or `results = "NAME"`.
pub(crate) fn result_labels(table: &Table<'_>, shapes: &Shapes) -> LabelDraft {
    let own = own_labels(table);
    let Some(named) = table.string("results") else {
        return own;
    };
    for key in ["format", "labels", "rest", "structure", "errors"] {
        if table.has(key) {
            let message = format!("'results' and '{key}' exclude each other");
            let help = "leave one out";
            table.error(&named.span, message, help);
        }
    }
    if let Some(shape) = shapes.get(named.value) {
        return shape.clone();
    }
    let known = shapes.keys().map(String::as_str);
    let help = match shapes.is_empty() {
        true => "write them in a table [results.NAME] of the manifest or the app".to_owned(),
        false => table.context.sink.known("there are", named.value, known),
    };
    table.error(
        &named.span,
        format!("there are no results '{}'", named.value),
        help,
    );
    own
}

fn own_labels(table: &Table<'_>) -> LabelDraft {
    let formats: Vec<(&str, Format)> = Format::all().iter().map(|it| (it.name(), *it)).collect();
    let format = table.choice("format", &formats);
    LabelDraft {
        format,
        rules: table.value("labels").map(|_| label_rules(table, format)),
        rest: table.label("rest"),
        structure: table.label("structure"),
        errors: errors(table),
    }
}

/// `errors = ["no file {path}"]`: the errors that are the tool's own words.
fn errors(table: &Table<'_>) -> Option<Vec<ErrorText>> {
    let texts = table.strings("errors")?;
    if let Some(first_too_many) = texts.get(MAX_RULES) {
        let message = format!("more than {MAX_RULES} errors of one tool");
        table.error(&first_too_many.span, message, "name the most frequent ones");
    }
    Some(texts.iter().map(|it| ErrorText::new(it.value)).collect())
}

/// The `[[labels]]` of a tool.
fn label_rules(table: &Table<'_>, format: Option<Format>) -> Vec<LabelRule> {
    let tables = table.tables("labels");
    if let Some(first_too_many) = tables.get(MAX_RULES) {
        let message = format!("more than {MAX_RULES} label rules for one tool");
        let help = "join rules with a wildcard or a list of names, like $.a['b', 'c']";
        table.error(&first_too_many.span, message, help);
    }
    let mut rules: Vec<LabelRule> = Vec::new();
    // Limited, since each is compared with all before it.
    for table in tables.iter().take(MAX_RULES) {
        let Some(rule) = label_rule(table) else {
            continue;
        };
        let mut others = rules.iter().filter(|other| other.path == rule.path);
        if let Some((message, help)) = others.find_map(|other| contradiction(&rule, other)) {
            table.wrong(message, help);
        }
        if format == Some(Format::Text) && rule.path.as_str() != "$" {
            let message = format!("text has no {}", rule.path.as_str());
            let help = "write path = \"$\", the whole text, or another format";
            table.wrong(message, help);
        }
        let in_record = ["$[", "$.."]
            .iter()
            .any(|it| rule.path.as_str().starts_with(it));
        if matches!(format, Some(Format::Lines | Format::EscapedLines)) && !in_record {
            let message = format!("lines have no {}", rule.path.as_str());
            let help = "lines are records: write path = \"$[*].NAME\", or $[*]['THE NAME']";
            table.wrong(message, help);
        }
        for (message, help) in rules.iter().filter_map(|other| unreached(&rule, other)) {
            let (sink, file) = (table.context.sink, table.context.file);
            sink.warning(file, &table.span, message, help);
        }
        rules.push(rule);
    }
    rules
}

fn label_rule(table: &Table<'_>) -> Option<LabelRule> {
    let path = table.string("path");
    let label = table.label("label");
    table.needs("path", "path = \"$.field\"");
    table.needs("label", "label = [\"NAME\"], or [] for trusted and public");
    let form = form(table);
    check_words(table, form.as_ref(), label.as_ref());
    let list = list(table, form.as_ref());
    let when = when(table);
    let conditional = table.has("unless");
    let unless = table
        .table("unless")
        .map(|inner| unless(&inner, label.as_ref()));
    let key = key(table);
    let destination = table.boolean("destination").unwrap_or(false);
    let by = by(table);
    let strangers = table.context.lattice;
    let strangers = strangers.map(|lattice| lattice.whole(Dimension::Integrity));
    let has_head = table.has("head");
    let head = table.table("head").map(|inner| head(&inner));
    table.finish();
    // After all keys were read, so that an error in one does not hide an error in another.
    let path = parsed(table, &path?, PATH_HELP, |error: &PathError| {
        (error.offset, error.message.clone())
    })?;
    let (key, key_form) = key.ok()?;
    Some(LabelRule {
        key,
        key_form,
        // A wrong head must not become a rule without one.
        head: match has_head {
            true => Some(head??),
            false => None,
        },
        path,
        label: label?,
        strangers: strangers.unwrap_or_default(),
        destination,
        by: by.ok()?,
        form,
        list: list.ok()?,
        when: when?,
        place: Some(table.context.place(&table.span)),
        // A wrong condition must not become a rule without one.
        unless: match conditional {
            true => Some(unless??),
            false => None,
        },
    })
}

/// `{ before = "Rating: ", form = "number", after = "\nReviews: ", label = [] }`.
fn head(table: &Table<'_>) -> Option<Head> {
    let before = table.string("before");
    let after = table.string("after");
    let form = form(table);
    let label = table.label("label");
    table.needs(
        "before",
        "before = \"Rating: \", how the text begins; may be \"\"",
    );
    table.needs("after", "after = \"\\n\", what ends the token");
    table.needs("label", "label = [], the label of the head");
    check_words(table, form.as_ref(), label.as_ref());
    if form.is_none() && !FORM_KEYS.iter().any(|key| table.has(key)) {
        table.missing("form", "form = \"number\", what stands between");
    }
    table.finish();
    let after = after?;
    Head::new(before?.value, form?, after.value, label?)
        .inspect_err(|message| {
            let help = "like head = { before = \"Rating: \", form = \"number\", after = \"\\nReviews: \", label = [] }";
            table.error(&after.span, *message, help);
        })
        .ok()
}

/// `[user]`: the name of the user, and the parts of the user's messages that the user did not write.
pub(crate) fn user(root: &Table<'_>) -> (Option<Arc<str>>, UserLabels) {
    let Some(table) = root.table("user") else {
        return Default::default();
    };
    let name = table.string("name");
    if let Some(name) = name.as_ref().filter(|name| name.value.is_empty()) {
        table.error(
            &name.span,
            "the user has no name",
            "name the user, or leave out the key",
        );
    }
    let name = name.map(|name| name.value.into());
    let tables = table.tables("labels");
    table.finish();
    if let Some(first_too_many) = tables.get(MAX_USER_RULES) {
        let message = format!("more than {MAX_USER_RULES} rules for the user's messages");
        let help = "use the same marks for several kinds of text";
        table.error(&first_too_many.span, message, help);
    }
    let tables = tables.iter().take(MAX_USER_RULES);
    (
        name,
        UserLabels::new(tables.filter_map(user_rule).collect()),
    )
}

fn user_rule(table: &Table<'_>) -> Option<UserRule> {
    let between = table.strings("between");
    let lines = table.string("lines");
    let label = table.label("label");
    table.needs("label", "label = [\"NAME\"]");
    table.finish();
    let mark = match (between, lines) {
        (Some(marks), None) => match marks.as_slice() {
            [open, close] => Some(Mark::Between {
                open: open.value.to_owned(),
                close: close.value.to_owned(),
            }),
            _ => None,
        },
        (None, Some(prefix)) => Some(Mark::Lines(prefix.value.to_owned())),
        _ => None,
    };
    let empty = match &mark {
        Some(Mark::Between { open, close }) => open.is_empty() || close.is_empty(),
        Some(Mark::Lines(prefix)) => prefix.is_empty(),
        None => true,
    };
    if empty {
        let message = "this rule marks no part of a message";
        let help = "write between = [\"<<<\", \">>>\"] or lines = \"> \"";
        table.wrong(message, help);
    }
    Some(UserRule {
        mark: mark?,
        label: label?,
    })
}

pub(crate) const PATH_HELP: &str = "paths are RFC 9535, like $.emails[*].subject or $..body";
