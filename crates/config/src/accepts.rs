//! `accepts = [{ form = "digits(6)", limit = […] }, …]`: values for which an argument's limit is higher.

use std::ops::Range;

use ifc::Label;
use policy::{Accept, AcceptedValues, Among, Form, LabelPath, PathError};

use crate::diagnostics::File;
use crate::forms::{FORM_KEYS, form, parsed};
use crate::label_rules::PATH_HELP;
use crate::toml_reader::{At, Table};

/// Most entries of one argument. Each is a check of a value that an attacker may have chosen.
const MAX_ACCEPTS: usize = 16;

/// Most values of a list that are accepted one by one. A message has fewer recipients, and many short values together can
/// be a long text.
const MAX_MANY: u64 = 32;

/// An entry and its place.
#[derive(Debug, Clone)]
pub(crate) struct AcceptDraft {
    accept: Accept,
    span: Range<usize>,
    file: File,
}

/// The source of the values of an `among`, which is checked when all apps are known.
#[derive(Debug, Clone)]
pub(crate) struct AmongSource {
    pub(crate) among: Among,
    /// The label that these values may have.
    pub(crate) limit: Label,
    pub(crate) span: Range<usize>,
    pub(crate) file: File,
}

/// The `accepts` of an argument with this limit.
pub(crate) fn accepts(argument: &Table<'_>, limit: Option<&Label>) -> Vec<AcceptDraft> {
    let tables = argument.tables("accepts");
    if let Some(first_too_many) = tables.get(MAX_ACCEPTS) {
        let message = format!("one argument accepts more than {MAX_ACCEPTS} kinds of values");
        let help = "join words in one one_of = [\"a\", \"b\"]";
        argument.error(&first_too_many.span, message, help);
    }
    let tables = tables.iter().take(MAX_ACCEPTS);
    let drafts = tables.filter_map(|table| accept(table, limit));
    drafts.collect()
}

fn accept(table: &Table<'_>, above: Option<&Label>) -> Option<AcceptDraft> {
    let among = table.string("among");
    let tool = table.string("tool");
    let app = table.string("app");
    let labelled = table.label("labelled");
    let form = form(table);
    let many = table.integer("many", 2..=MAX_MANY);
    let limit = table.label("limit");
    table.needs("limit", "limit = [\"LABEL\"], the limit of such values");
    table.finish();
    let has_form = FORM_KEYS.iter().any(|key| table.has(key));
    if has_form == table.has("among") {
        let message = match has_form {
            true => "a form and 'among' need two entries",
            false => "this accepts no values",
        };
        let help = "write { form = \"digits(6)\", … }, { one_of = [\"a\", \"b\"], … } or \
                    { among = \"$[*].email\", tool = \"TOOL\", … }";
        table.wrong(message, help);
        return None;
    }
    for key in ["tool", "app", "labelled"] {
        if has_form && table.has(key) {
            let message = format!("'{key}' says where the values of an 'among' come from");
            table.wrong(message, "leave it out");
        }
    }
    if let (Some(limit), Some(above)) = (&limit, above)
        && limit.flows_to(above)
    {
        let message = "this entry has no effect: its limit is within the limit of the argument";
        let help = "an entry of 'accepts' adds to 'limit': name further labels, or leave it out";
        table.wrong(message, help);
    }
    let values = match among {
        None => of_form(table, form?),
        Some(path) => AcceptedValues::Among(Among {
            // An empty name stands for the app itself; `finish` replaces it.
            app: app.map_or_else(String::new, |app| app.value.to_owned()),
            path: path_of_values(table, &path)?,
            tool: tool?.value.to_owned(),
            labelled,
        }),
    };
    Some(AcceptDraft {
        accept: Accept {
            values,
            many: many
                .and_then(|many| usize::try_from(many).ok())
                .unwrap_or(1),
            limit: limit?,
            place: table.context.place(&table.span),
        },
        span: table.span.clone(),
        file: table.context.file.clone(),
    })
}

fn of_form(table: &Table<'_>, form: Form) -> AcceptedValues {
    if form.can_spell_words() {
        let message = "a value of this form can be any of the writer's choice";
        let help = "to accept known addresses or names, write among = \"$[*].email\" with tool = \"TOOL\", \
                    or one_of = [\"a\", \"b\"]; to accept any, raise the argument's 'limit'";
        table.wrong(message, help);
    }
    AcceptedValues::Form(form)
}

/// The path of the values in the tool's results.
fn path_of_values(table: &Table<'_>, among: &At<&str>) -> Option<LabelPath> {
    table.needs("tool", "tool = \"TOOL\", whose results have the values");
    let path: LabelPath = parsed(table, among, PATH_HELP, |error: &PathError| {
        (error.offset, error.message.clone())
    })?;
    // A filter reads values beside the accepted ones, which may be above the label of the decision.
    if path.filter().is_some() {
        let message = "'among' has a filter, which chooses values by other values";
        let help = "write a path without '?'; a value counts by its own label";
        table.error(&among.span, message, help);
    }
    Some(path)
}

impl AcceptDraft {
    /// The entry in a rule of this app.
    pub(crate) fn finish(&self, app: &str) -> Accept {
        let mut accept = self.accept.clone();
        if let AcceptedValues::Among(among) = &mut accept.values
            && among.app.is_empty()
        {
            app.clone_into(&mut among.app);
        }
        accept
    }

    /// The source of its values, if it has an `among`, in a rule of this app for a tool with this limit.
    pub(crate) fn source(&self, app: &str, limit: &Label) -> Option<AmongSource> {
        match self.finish(app).values {
            AcceptedValues::Form(_) => None,
            AcceptedValues::Among(among) => Some(AmongSource {
                limit: among.labelled.clone().unwrap_or(limit.clone()),
                among,
                span: self.span.clone(),
                file: self.file.clone(),
            }),
        }
    }
}
