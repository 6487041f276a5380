//! The keys of a tool that are about its calls.

use std::collections::BTreeMap;
use std::ops::Range;

use ifc::{ArgumentPath, PathError};
use policy::{ArgumentLimit, Parameter, ParameterKind, Parameters};

use crate::accepts::{AcceptDraft, accepts};
use crate::audience::audience;
use crate::diagnostics::File;
use crate::toml_reader::{At, Table, named_file};
use crate::watch::Takes;

/// Cedar text and its place.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) file: File,
    /// The place of the whole text.
    pub(crate) span: Range<usize>,
    /// The offset of the text, unless escapes make it differ from the file.
    pub(crate) offset: Option<usize>,
    pub(crate) text: String,
}

/// A limit of an argument, with the place of the argument's name.
#[derive(Debug, Clone)]
pub(crate) struct ArgumentDraft {
    pub(crate) limit: ArgumentLimit,
    pub(crate) accepts: Vec<AcceptDraft>,
    pub(crate) span: Range<usize>,
    pub(crate) file: File,
}

/// `parameters = ["NAME", "OTHER?", …]`, or with kinds: `parameters = { NAME = "string", OTHER = "number?" }`.
pub(crate) fn parameters(table: &Table<'_>) -> Option<Parameters> {
    table.takes("parameters", Takes::Strings);
    table.takes("parameters", Takes::NamedStrings);
    let value = table.value("parameters")?;
    let mut found = Parameters::default();
    // Without kinds, conditions cannot compare these arguments.
    if value.get_ref().is_array() {
        let any = Parameter {
            kind: ParameterKind::Any,
            required: false,
        };
        for name in table.strings("parameters")? {
            // Without a kind each may be missing, so the mark says nothing more.
            let name = name.value.strip_suffix('?').unwrap_or(name.value);
            found.0.insert(name.to_owned(), any);
        }
        return Some(found);
    }
    if !value.get_ref().is_table() {
        let right = "[\"NAME\", …], or { NAME = \"string\", OTHER = \"number?\" } for conditions";
        table.wrong_type("parameters", value, right);
        return None;
    }
    for (name, kind) in table.named_strings("parameters") {
        let (word, required) = match kind.value.strip_suffix('?') {
            Some(word) => (word, false),
            None => (kind.value, true),
        };
        let mut named = ParameterKind::NAMED.iter();
        match named.find(|(known, _)| *known == word) {
            Some((_, kind)) => {
                let parameter = Parameter {
                    kind: *kind,
                    required,
                };
                found.0.insert(name.value.to_owned(), parameter);
            }
            None => {
                let known = ParameterKind::NAMED.map(|(name, _)| name);
                let known = table.context.sink.known("it is one of", word, known);
                let message = format!("there is no kind '{}' of parameters", kind.value);
                let help = format!("{known}; with '?' it may be missing");
                table.error(&kind.span, message, help);
            }
        }
    }
    Some(found)
}

impl ArgumentDraft {
    /// The limit in a rule of this app.
    pub(crate) fn finish(self, app: &str) -> ArgumentLimit {
        let accepts = self.accepts.iter().map(|accept| accept.finish(app));
        ArgumentLimit {
            accepts: accepts.collect(),
            ..self.limit
        }
    }
}

/// `[….arguments.NAME] limit = [...]`, with `accepts`; `[….arguments."NAME.NAME"]` is inside of an argument.
pub(crate) fn argument_limits(table: &Table<'_>) -> BTreeMap<ArgumentPath, ArgumentDraft> {
    let mut limits = BTreeMap::new();
    for (name, argument) in table.named_tables("arguments") {
        argument.needs("limit", "limit = [\"LABEL\"]");
        let limit = argument.label("limit");
        let accepts = accepts(&argument, limit.as_ref());
        let audience = audience(&argument);
        argument.finish();
        if let Some(label) = limit {
            let written = argument.value("limit").map(toml::Spanned::span);
            let place = written.unwrap_or(name.span.clone());
            let place = argument.context.place(&place);
            let draft = ArgumentDraft {
                limit: ArgumentLimit {
                    label,
                    accepts: Vec::new(),
                    audience,
                    place,
                },
                accepts,
                span: name.span.clone(),
                file: argument.context.file.clone(),
            };
            // A name has two spellings, `a` and `["a"]`.
            if let Some(path) = argument_path(table, &name)
                && limits.insert(path, draft).is_some()
            {
                let message = format!("there are two limits for '{}'", name.value);
                table.error(&name.span, message, "leave one out");
            }
        }
    }
    limits
}

/// The path of an argument. A wrong one is reported.
pub(crate) fn argument_path(table: &Table<'_>, written: &At<&str>) -> Option<ArgumentPath> {
    match written.value.parse() {
        Ok(path) => Some(path),
        Err(error) => {
            let error: PathError = error;
            let message = format!("'{}' is {error}", written.value);
            let help = "write a name with '.', '[', ']' or '\"' in brackets, as in [\"a.b\"].note";
            table.error(&written.span, message, help);
            None
        }
    }
}

/// `cedar = '''…'''` and `policy_file = "FILE"`, both or either.
pub(crate) fn conditions(table: &Table<'_>) -> Option<Vec<Source>> {
    let mut sources = Vec::new();
    if let Some(text) = table.string("cedar") {
        let file = table.context.file;
        // Found only if the string has no escapes.
        let written = file
            .text
            .get(text.span.clone())
            .and_then(|w| w.find(text.value));
        sources.push(Source {
            file: file.clone(),
            span: text.span.clone(),
            offset: written.map(|at| text.span.start + at),
            text: text.value.to_owned(),
        });
    }
    if let Some((_, file)) = named_file(table, "policy_file") {
        sources.push(Source {
            span: 0..file.text.len(),
            offset: Some(0),
            text: file.text.to_string(),
            file,
        });
    }
    // Also if a file could not be read: the manifest's conditions must not replace it.
    let written = table.has("cedar") || table.has("policy_file");
    written.then_some(sources)
}
