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
        let description = description(known, functionality);
        print(&format!("  {functionality:<18} {description}"))?;
    }
    print(&format!(
        "\nIts program is {program}; its manifest, with the folders and variables that it needs, is\n\
         {manifest} of Sluice. To have it, write into sluice.toml, with its mounts and, under\n\
         [lattice], the categories of its labels (`sluice policy check` names them; examples/work.toml\n\
         of Sluice has all of it):\n\n\
         [app.{name}]\nmanifest = \"path/to/{manifest}\"",
        program = app.program,
        manifest = app.manifest,
    ))?;
    if !app.offers.is_empty() {
        print("\nOther apps can ask it for something then, if you predefine that:")?;
        print(&offered(known, name, app))?;
    }
    Ok(())
}

/// What to write into a configuration so that other apps can ask this one.
fn offered(known: &Known, name: &str, app: &CatalogueApp) -> String {
    let mut tables = String::new();
    for functionality in app.offers.keys() {
        let form = known.functionalities.get(functionality);
        if let Some(form) = form.and_then(|known| known.form.as_ref()) {
            tables += &format!(
                "\n[functionality.{functionality}]\ndescription = {:?}\nrequest = {}\nresponse = {}\n",
                description(known, functionality),
                form.request,
                form.response,
            );
        }
    }
    tables += &format!("\n[app.{name}.offers]");
    for (functionality, tool) in &app.offers {
        tables += &format!("\n{functionality} = {tool:?}");
    }
    tables
}

fn description<'a>(known: &'a Known, functionality: &str) -> &'a str {
    let known = known.functionalities.get(functionality);
    known.map_or("", |known| &known.description)
}

fn value(known: &Known, name: &str, app: &CatalogueApp) -> Value {
    let brings = app.functionalities.iter().map(|functionality| {
        json!({
            "name": functionality,
            "description": description(known, functionality),
            "tool": app.offers.get(functionality),
        })
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

    /// What `show` prints can be written into a configuration as it is.
    #[test]
    fn what_an_app_offers_is_configuration() {
        let known = known().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut text = String::new();
        let apps = known.apps.iter().filter(|(_, app)| !app.offers.is_empty());
        for (name, app) in apps {
            let manifest = root.join(&app.manifest);
            text += &format!("[app.{name}]\nmanifest = {manifest:?}\n");
            text += &offered(&known, name, app);
            text += "\n";
        }
        let work = std::fs::read_to_string(root.join("examples/work.toml")).unwrap();
        let (lattice, _) = work.split_once("[[provider]]").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sluice.toml");
        std::fs::write(&file, format!("{lattice}\n{text}")).unwrap();
        let config = config::Config::load(&file).unwrap();
        for name in ["change_calendar", "read_notes"] {
            let offers = &config.functionalities.get(name).unwrap().offers;
            assert_eq!(offers.len(), 1, "{name}");
        }
    }
}
