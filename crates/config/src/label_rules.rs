//! Reads label rules from TOML.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ifc::{Dimension, Label};
use policy::{
    Form, Format, Head, LabelRule, Mark, PathError, PatternError, ResultLabels, UserLabels,
    UserRule,
};

use crate::diagnostics::did_you_mean;
use crate::result_conditions::{contradiction, key, list, unless, when};
use crate::toml_reader::{At, Table};

/// Most label rules of one tool: each is one more query over a result that an attacker may shape.
const MAX_RULES: usize = 64;

/// Most rules for the user's messages: each is one more search through the text.
const MAX_USER_RULES: usize = 16;

/// What was written about a tool's results; the rest comes from below it, or from the defaults.
#[derive(Debug, Default, Clone)]
pub(crate) struct LabelDraft {
    pub(crate) format: Option<Format>,
    pub(crate) rules: Option<Vec<LabelRule>>,
    pub(crate) rest: Option<Label>,
    pub(crate) structure: Option<Label>,
}

impl LabelDraft {
    /// One label for everything.
    pub(crate) fn uniform(label: Label) -> Self {
        Self {
            rules: Some(Vec::new()),
            rest: Some(label),
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
        }
    }

    /// The rules; what nobody wrote is as restrictive as can be.
    pub(crate) fn finish(self) -> ResultLabels {
        let rules = self.rules.unwrap_or_default();
        ResultLabels::new(rules, self.rest, self.structure)
            .with_format(self.format.unwrap_or_default())
    }
}

/// The `[results.NAME]` of an app: what several tools return.
pub(crate) type Shapes = BTreeMap<String, LabelDraft>;

/// Reads the shapes of results that stand in this table.
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
    for key in ["format", "labels", "rest", "structure"] {
        if table.has(key) {
            let message = format!("'results' and '{key}' exclude each other");
            let help = "leave one out; what differs needs results of its own";
            table.context.error(&named.span, message, help);
        }
    }
    if let Some(shape) = shapes.get(named.value) {
        return shape.clone();
    }
    let known: Vec<&str> = shapes.keys().map(String::as_str).collect();
    let meant = did_you_mean(named.value, known.iter().copied());
    let message = format!("there are no results '{}'", named.value);
    let help = match known.as_slice() {
        [] => "write them in a table [results.NAME] of the manifest or the app".to_owned(),
        _ => format!("{meant}there are {}", known.join(", ")),
    };
    table.context.error(&named.span, message, help);
    own
}

fn own_labels(table: &Table<'_>) -> LabelDraft {
    let format = table.choice("format", &Format::NAMES);
    LabelDraft {
        format,
        rules: table.value("labels").map(|_| label_rules(table, format)),
        rest: table.label("rest"),
        structure: table.label("structure"),
    }
}

/// The `[[labels]]` of a tool.
fn label_rules(table: &Table<'_>, format: Option<Format>) -> Vec<LabelRule> {
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
        let mut same = rules.iter().filter(|other| other.path == rule.path);
        if let Some((message, help)) = same.find_map(|other| contradiction(&rule, other)) {
            table.context.error(&table.span, message, help);
        }
        if format == Some(Format::Text) && rule.path.as_str() != "$" {
            let message = format!("text has no {}", rule.path.as_str());
            let help = "write path = \"$\", the whole text, or another format";
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
    check_words(table, form.as_ref(), label.as_ref());
    let list = list(table, form.as_ref());
    let when = when(table);
    let conditional = table.has("unless");
    let unless = table
        .table("unless")
        .map(|inner| unless(&inner, label.as_ref()));
    let key = key(table, check_words);
    let has_head = table.has("head");
    let head = table.table("head").map(|inner| head(&inner));
    table.finish();
    let path = parsed(table, &path?, PATH_HELP, |error: &PathError| {
        (error.offset, error.message.clone())
    })?;
    let (key, key_form) = key.ok()?;
    Some(LabelRule {
        key,
        key_form,
        // A head that is wrong is an error, not a rule without one.
        head: match has_head {
            true => Some(head??),
            false => None,
        },
        path,
        label: label?,
        form,
        list: list.ok()?,
        when: when?,
        place: Some(table.context.place(&table.span)),
        // A condition that is wrong is an error, not a rule without one.
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
    for (key, example) in [
        (
            "before",
            "before = \"Rating: \", how the text begins; may be \"\"",
        ),
        ("after", "after = \"\\n\", what ends the token"),
        ("label", "label = [], the label of the head"),
    ] {
        if !table.has(key) {
            table.missing(key, example);
        }
    }
    check_words(table, form.as_ref(), label.as_ref());
    if form.is_none() && !FORM_KEYS.iter().any(|key| table.has(key)) {
        table.missing("form", "form = \"number\", what stands between");
    }
    table.finish();
    let after = after?;
    Head::new(before?.value, form?, after.value, label?)
        .inspect_err(|message| {
            let help = "like head = { before = \"Rating: \", form = \"number\", after = \"\\nReviews: \", label = [] }";
            table.context.error(&after.span, *message, help);
        })
        .ok()
}

/// `[user]` of `sluice.toml`: the parts of messages that the user did not write.
pub(crate) fn user(root: &Table<'_>) -> UserLabels {
    let Some(table) = root.table("user") else {
        return UserLabels::default();
    };
    let tables = table.tables("labels");
    table.finish();
    if let Some(first_too_many) = tables.get(MAX_USER_RULES) {
        let message = format!("more than {MAX_USER_RULES} rules for the user's messages");
        let help = "use the same marks for several kinds of text";
        table.context.error(&first_too_many.span, message, help);
    }
    UserLabels::new(tables.iter().filter_map(user_rule).collect())
}

fn user_rule(table: &Table<'_>) -> Option<UserRule> {
    let between = table.strings("between");
    let lines = table.string("lines");
    let label = table.label("label");
    if !table.has("label") {
        table.missing("label", "label = [\"NAME\"]");
    }
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
        table.context.error(&table.span, message, help);
    }
    Some(UserRule {
        mark: mark?,
        label: label?,
    })
}

/// Parses a string that has a syntax of its own. The caret of an error stands where it goes wrong, if
/// the string is written plainly.
pub(crate) fn parsed<T: FromStr>(
    table: &Table<'_>,
    at: &At<&str>,
    help: &str,
    place: impl Fn(&T::Err) -> (usize, String),
) -> Option<T> {
    let refused = match at.value.parse() {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let (offset, message) = place(&refused);
    let inside = at.span.start + 1..at.span.end.saturating_sub(1);
    let plain = table.context.file.text.get(inside.clone()) == Some(at.value);
    let wrong = inside.start + offset;
    let span = if plain {
        wrong..wrong + 1
    } else {
        at.span.clone()
    };
    table.context.error(&span, message, help);
    None
}

pub(crate) const PATH_HELP: &str = "paths are RFC 9535, like $.emails[*].subject or $..body";

/// The keys that say what a value looks like.
pub(crate) const FORM_KEYS: [&str; 3] = ["form", "one_of", "pattern"];

/// A form that can spell words does not make its value trusted: a name is somebody's choice, and a
/// sentence without spaces is a name.
fn check_words(table: &Table<'_>, form: Option<&Form>, label: Option<&Label>) {
    let (Some(form), Some(label), Some(lattice)) = (form, label, table.context.lattice) else {
        return;
    };
    let influenced = !label.meet(&lattice.whole(Dimension::Integrity)).is_bottom();
    if form.can_spell_words() && !influenced {
        let place = table.value("form").map(toml::Spanned::span);
        let message =
            "a value of this form can spell words, and its label says that nobody else wrote it";
        let help = "give the label a taint of integrity, which sinks can accept; an identifier has \
                    form = \"uuid\", \"hex\" or \"digits\", or pattern = \"INV-[0-9]{4,8}\"";
        let span = place.unwrap_or(table.span.clone());
        table.context.error(&span, message, help);
    }
}

pub(crate) fn form(table: &Table<'_>) -> Option<Form> {
    let range = range(table);
    let words = table.strings("one_of");
    let pattern = table.string("pattern");
    let named = table.string("form");
    let written = FORM_KEYS.map(|key| table.value(key).map(toml::Spanned::span));
    if let [_, second, ..] = written.iter().flatten().collect::<Vec<_>>().as_slice() {
        let message = format!(
            "{} exclude each other",
            FORM_KEYS.map(|key| format!("'{key}'")).join(", ")
        );
        table
            .context
            .error(second, message, "leave all but one out");
    }
    if let Some(words) = words {
        if words.is_empty() {
            let message = "'one_of' names no word, so no value has this form";
            table
                .context
                .error(&table.span, message, "write one_of = [\"a\", \"b\"]");
        }
        return Some(Form::OneOf(
            words.iter().map(|word| word.value.to_owned()).collect(),
        ));
    }
    if let Some(at) = pattern {
        return parsed(table, &at, PATTERN_HELP, |error: &PatternError| {
            (error.offset, error.message.clone())
        })
        .map(Form::Pattern);
    }
    let named = named?;
    let form = Form::named(named.value);
    if let Some(range) = range {
        return match form {
            Some(Form::Integer) => range.map(Form::IntegerIn),
            _ => {
                let message = "'from' and 'to' are about an integer";
                let help = "write form = \"integer\" with them, or leave them out";
                table.context.error(&named.span, message, help);
                None
            }
        };
    }
    if form.is_none() {
        let meant = did_you_mean(named.value, Form::NAMES);
        let help = match named.value {
            word if word.starts_with("digits") => {
                "write \"digits\", \"digits(6)\" or \"digits(4,8)\", with 20 digits at most".to_owned()
            }
            // It was one, and let 128 characters of the writer's choice pass.
            "id" => "an identifier is \"uuid\", \"hex\" or \"digits\", or has a pattern = \"INV-[0-9]{4,8}\"; \
                     a name that somebody chose is a \"token\", under a taint of its own".to_owned(),
            _ => format!(
                "{meant}it is one of {}; for fixed words write one_of = [\"a\", \"b\"]",
                Form::NAMES.join(", ")
            ),
        };
        let message = format!("there is no form '{}'", named.value);
        table.context.error(&named.span, message, help);
    }
    form
}

/// `from = 1, to = 100`. `None` where neither is written, and a range that is wrong is `Some(None)`.
fn range(table: &Table<'_>) -> Option<Option<RangeInclusive<i64>>> {
    let (from, to) = (table.signed("from"), table.signed("to"));
    if !table.has("from") && !table.has("to") {
        return None;
    }
    let range = match (&from, &to) {
        (Some(from), Some(to)) if from.value <= to.value => Some(from.value..=to.value),
        _ => None,
    };
    if range.is_none() {
        let message = "'from' and 'to' are no range of integers";
        let help = "write both: form = \"integer\", from = 1, to = 100";
        table.context.error(&table.span, message, help);
    }
    Some(range)
}

const PATTERN_HELP: &str =
    "a pattern is like \"INV-[0-9]{4,8}\": letters, digits, classes and counts";
