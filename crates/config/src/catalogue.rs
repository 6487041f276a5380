//! The catalogue: apps and functionalities that are known although nobody configured them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::diagnostics::{Diagnostics, File, Sink};
use crate::functionalities::functionality;
use crate::toml_reader::{At, Context, Table, parse};

/// Apps and functionalities that could be added. It is advice: nothing in it starts or allows anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// What apps can do, by name.
    pub functionalities: BTreeMap<String, CatalogueFunctionality>,
    /// Apps by name.
    pub apps: BTreeMap<String, CatalogueApp>,
}

/// A functionality of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueFunctionality {
    /// What it is, in a few words for a planner.
    pub description: String,
    /// The form in which apps can ask for it, if they can.
    pub form: Option<CatalogueForm>,
}

/// The form of a functionality: JSON Schemas, as the TOML text of the catalogue. They have been read, so
/// they can be written into a configuration as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueForm {
    /// Of a request.
    pub request: String,
    /// Of a response.
    pub response: String,
}

/// An app of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueApp {
    /// What it is for.
    pub description: String,
    /// The program that is its MCP server.
    pub program: String,
    /// Where its manifest lies, below the sources of Sluice.
    pub manifest: String,
    /// The functionalities that it brings.
    pub functionalities: BTreeSet<String>,
    /// Those of them for which other apps can ask it, each with the tool that would serve it.
    pub offers: BTreeMap<String, String>,
}

impl Catalogue {
    /// Reads a catalogue. `path` is where mistakes are said to be.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Diagnostics> {
        let sink = Sink::default();
        let file = File::new(path.to_owned(), text);
        let context = Context {
            file: &file,
            sink: &sink,
            lattice: None,
            // It names no other file.
            read: &|_| Err(std::io::ErrorKind::Unsupported.into()),
        };
        let catalogue = read(context);
        Ok(sink.finish(path, catalogue)?.0)
    }
}

fn read(context: Context<'_>) -> Option<Catalogue> {
    let document = parse(context)?;
    let root = Table::new(context, 0..0, document.get_ref(), "a catalogue".to_owned());
    let mut functionalities = BTreeMap::new();
    for (name, table) in root.named_tables("functionality") {
        let functionality = CatalogueFunctionality {
            form: form(&name, &table),
            description: text(&table, "description"),
        };
        table.finish();
        functionalities.insert(name.value.to_owned(), functionality);
    }
    let mut apps = BTreeMap::new();
    for (name, table) in root.named_tables("app") {
        let app = CatalogueApp {
            description: text(&table, "description"),
            program: text(&table, "program"),
            manifest: text(&table, "manifest"),
            functionalities: known(&table, &functionalities),
            offers: offers(&table, &functionalities),
        };
        table.finish();
        apps.insert(name.value.to_owned(), app);
    }
    root.finish();
    Some(Catalogue {
        functionalities,
        apps,
    })
}

fn text(table: &Table<'_>, key: &'static str) -> String {
    let value = table.string(key);
    table.needs(key, &format!("{key} = \"…\""));
    value.map_or_else(String::new, |value| value.value.to_owned())
}

/// The form of a functionality, read as that of a configuration is. A mistake in it is one of the catalogue.
fn form(name: &At<&str>, table: &Table<'_>) -> Option<CatalogueForm> {
    if !table.has("request") && !table.has("response") {
        return None;
    }
    // Read for its mistakes. What is kept is the text.
    functionality(name, table)?;
    let source = |key| {
        let span = table.value(key)?.span();
        Some(table.context.file.text.get(span)?.to_owned())
    };
    Some(CatalogueForm {
        request: source("request")?,
        response: source("response")?,
    })
}

/// What other apps can ask an app for: functionalities of the catalogue that have a form.
fn offers(
    table: &Table<'_>,
    all: &BTreeMap<String, CatalogueFunctionality>,
) -> BTreeMap<String, String> {
    let offers = table.named_strings("offers");
    let has_form = |name: &str| all.get(name).is_some_and(|known| known.form.is_some());
    for (name, _) in offers.iter().filter(|(name, _)| !has_form(name.value)) {
        let message = format!("the functionality '{}' has no form", name.value);
        let help = "write its request and its response, or leave it out here";
        table.context.error(&name.span, message, help);
    }
    let offers = offers.into_iter();
    offers
        .map(|(name, tool)| (name.value.to_owned(), tool.value.to_owned()))
        .collect()
}

/// The functionalities of an app, which must be those of the catalogue.
fn known(table: &Table<'_>, all: &BTreeMap<String, CatalogueFunctionality>) -> BTreeSet<String> {
    let named = table.strings("functionalities").unwrap_or_default();
    table.needs("functionalities", "functionalities = [\"NAME\"]");
    for name in named.iter().filter(|name| !all.contains_key(name.value)) {
        let message = format!("there is no functionality '{}'", name.value);
        let known = all.keys().map(String::as_str);
        let help = table.context.did_you_mean(name.value, known);
        table.context.error(&name.span, message, help);
    }
    named.iter().map(|name| name.value.to_owned()).collect()
}
