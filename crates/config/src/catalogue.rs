//! The catalogue: apps and functionalities that are known although nobody configured them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::config::{App, Config};
use crate::diagnostics::{Diagnostics, File, Sink, did_you_mean};
use crate::toml_reader::{Context, Table, parse};

/// Apps and functionalities that could be added. It is advice: nothing in it starts or allows anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// What apps can do, by name, each in a few words for a planner.
    pub functionalities: BTreeMap<String, String>,
    /// Apps by name.
    pub apps: BTreeMap<String, CatalogueApp>,
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
}

/// A functionality that no configured app brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub functionality: String,
    /// What it is, in a few words.
    pub description: String,
    /// The apps of the catalogue that bring it.
    pub apps: Vec<String>,
}

impl Catalogue {
    /// Reads a catalogue. `path` is where mistakes are said to be.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Diagnostics> {
        let sink = Sink::default();
        let file = File {
            path: path.to_owned(),
            text: text.into(),
        };
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

    /// What no app of this configuration brings, by name. A configured app brings what the catalogue says of
    /// the app of its name, or of its program.
    #[must_use]
    pub fn missing(&self, config: &Config) -> Vec<Missing> {
        let is_configured = |name: &String, app: &CatalogueApp| {
            let mut own = config.apps.iter();
            own.any(|(own, configured)| own == name || program(configured) == Some(&app.program))
        };
        let (here, others): (Vec<_>, Vec<_>) = self
            .apps
            .iter()
            .partition(|(name, app)| is_configured(name, app));
        let brought = |functionality: &String| {
            let mut here = here.iter();
            here.any(|(_, app)| app.functionalities.contains(functionality))
        };
        let missing = self
            .functionalities
            .iter()
            .filter(|(name, _)| !brought(name));
        let missing = missing.map(|(name, description)| {
            let bring = others
                .iter()
                .filter(|(_, app)| app.functionalities.contains(name));
            Missing {
                functionality: name.clone(),
                description: description.clone(),
                apps: bring.map(|(app, _)| (*app).clone()).collect(),
            }
        });
        missing.collect()
    }
}

/// The name of the program that an app runs.
fn program(app: &App) -> Option<&str> {
    Path::new(app.command.first()?).file_name()?.to_str()
}

fn read(context: Context<'_>) -> Option<Catalogue> {
    let document = parse(context)?;
    let root = Table::new(context, 0..0, document.get_ref(), "a catalogue".to_owned());
    let mut functionalities = BTreeMap::new();
    for (name, table) in root.named_tables("functionality") {
        let description = text(&table, "description");
        table.finish();
        functionalities.insert(name.value.to_owned(), description);
    }
    let mut apps = BTreeMap::new();
    for (name, table) in root.named_tables("app") {
        let app = CatalogueApp {
            description: text(&table, "description"),
            program: text(&table, "program"),
            manifest: text(&table, "manifest"),
            functionalities: known(&table, &functionalities),
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
    if value.is_none() && !table.has(key) {
        table.missing(key, &format!("{key} = \"…\""));
    }
    value.map_or_else(String::new, |value| value.value.to_owned())
}

/// The functionalities of an app, which must be those of the catalogue.
fn known(table: &Table<'_>, all: &BTreeMap<String, String>) -> BTreeSet<String> {
    let named = table.strings("functionalities").unwrap_or_default();
    if named.is_empty() && !table.has("functionalities") {
        table.missing("functionalities", "functionalities = [\"NAME\"]");
    }
    for name in named.iter().filter(|name| !all.contains_key(name.value)) {
        let message = format!("there is no functionality '{}'", name.value);
        let help = did_you_mean(name.value, all.keys().map(String::as_str));
        table.context.error(&name.span, message, help);
    }
    named.iter().map(|name| name.value.to_owned()).collect()
}
