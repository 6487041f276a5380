//! `sluice catalogue`: apps that could be added, and what they bring.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use config::{Catalogue as Known, CatalogueApp};
use hub::trace::escape;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::json_lines::print_json;
use crate::terminal::print;

/// The catalogue is a part of the program.
const TEXT: &str = include_str!("../../../../examples/catalogue.toml");

#[derive(Debug, Args)]
pub(crate) struct Catalogue {
    #[command(subcommand)]
    action: CatalogueAction,
}

#[derive(Debug, Subcommand)]
enum CatalogueAction {
    /// List the known apps, each with its functionalities.
    #[command(after_help = "Example:\n  sluice catalogue list")]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one app, and what to write to have it.
    #[command(after_help = "Example:\n  sluice catalogue show mail")]
    Show {
        /// The app's name in the catalogue.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The catalogue that this program has.
///
/// # Errors
/// It was built with one that has a mistake.
pub(crate) fn known() -> Result<Known> {
    Known::parse(Path::new("catalogue.toml"), TEXT).map_err(|errors| anyhow!("{errors}"))
}

/// Shows the catalogue. Nothing is installed.
pub(crate) fn catalogue(args: &Catalogue) -> Result<Exit> {
    let known = known()?;
    match &args.action {
        CatalogueAction::List { json: true } => {
            let apps = known
                .apps
                .iter()
                .map(|(name, app)| value(&known, name, app));
            print_json(&apps.collect::<Vec<_>>())?;
        }
        CatalogueAction::List { json: false } => {
            for (name, app) in &known.apps {
                let brings: Vec<&str> = app.functionalities.iter().map(String::as_str).collect();
                print(&format!("{name:<12} {}", app.description))?;
                print(&format!("{:<12} brings {}", "", brings.join(", ")))?;
            }
        }
        CatalogueAction::Show { name, json } => {
            let Some(app) = known.apps.get(name) else {
                let names: Vec<&str> = known.apps.keys().map(String::as_str).collect();
                let (name, names) = (escape(name), names.join(", "));
                bail!("there is no app '{name}' in the catalogue; it has {names}");
            };
            match json {
                true => print_json(&value(&known, name, app))?,
                false => show(&known, name, app)?,
            }
        }
    }
    Ok(Exit::Done)
}

fn show(known: &Known, name: &str, app: &CatalogueApp) -> Result<()> {
    print(&format!("{name}: {}\n", app.description))?;
    for functionality in &app.functionalities {
        let description = known.functionalities.get(functionality);
        let description = description.map(String::as_str).unwrap_or_default();
        print(&format!("  {functionality:<18} {description}"))?;
    }
    print(&format!(
        "\nIts program is {program}; its manifest, with the folders and variables that it needs, is\n\
         {manifest} of Sluice. To have it, write into sluice.toml, and add its mounts:\n\n\
         [app.{name}]\nmanifest = \"path/to/{manifest}\"",
        program = app.program,
        manifest = app.manifest,
    ))?;
    Ok(())
}

fn value(known: &Known, name: &str, app: &CatalogueApp) -> Value {
    let brings = app.functionalities.iter().map(|functionality| {
        let description = known.functionalities.get(functionality);
        json!({ "name": functionality, "description": description })
    });
    json!({
        "name": name,
        "description": app.description,
        "program": app.program,
        "manifest": app.manifest,
        "functionalities": brings.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_catalogue_has_no_mistake_and_every_functionality_an_app() {
        let known = known().unwrap();
        for functionality in known.functionalities.keys() {
            let mut apps = known.apps.values();
            assert!(
                apps.any(|app| app.functionalities.contains(functionality)),
                "{functionality}"
            );
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for app in known.apps.values() {
            let manifest = std::fs::read_to_string(root.join(&app.manifest)).unwrap();
            assert!(manifest.contains(&app.program), "{}", app.manifest);
        }
    }
}
