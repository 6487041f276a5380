//! Installed apps, and the installed app that a command of a configuration means.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use config::App;
use hub::trace::escape;
use provision::{
    Host, InstallError, Installer, Package, Record, Registry, Store, Unknown, launcher,
};
use sha2::{Digest, Sha256};

use crate::keep_for::KeepFor;
use crate::question::Lines;
use crate::terminal::{Terminal, columns, say};
use crate::{paths, shell};

/// Some packages fetch more at their first use. Without a registry that fails at once, not after minutes of retries.
pub(crate) const IMPATIENT: [(&str, &str); 2] =
    [("npm_config_fetch_retries", "0"), ("PIP_RETRIES", "0")];

/// An app of a configuration that is in the store.
pub(crate) struct Installed {
    pub(crate) record: Record,
    /// How to start it: the program in the store, and the arguments of the configuration.
    pub(crate) command: Vec<String>,
    /// Variables that it needs.
    pub(crate) env: BTreeMap<String, String>,
    /// Its files.
    pub(crate) tree: PathBuf,
}

/// The user's store.
pub(crate) fn store() -> Result<Store> {
    Ok(Store::new(paths::apps()?))
}

/// The installed app that a launcher's command means, after its files were verified; `None` for any other command. `new`
/// replaces the saved record, for files that are tried before they are kept. An error is a line that says what to do.
pub(crate) fn of(app: &App, new: Option<&Record>) -> Result<Option<Installed>, String> {
    let Some(package) = wanted(app).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let store = store().map_err(|error| error.to_string())?;
    let record = match new {
        Some(new) => Some(new.clone()),
        None => store.get(&app.name).map_err(|error| error.to_string())?,
    };
    let record = match record {
        Some(record) if is_for(&record, &package) => record,
        // The command has changed since the user agreed to the package.
        Some(_) => {
            return Err(format!(
                "its command names another package than the installed one; {}",
                remedy(app)
            ));
        }
        None => {
            return Err(format!(
                "its command would fetch a package at each start, and its sandbox reaches no registry; {}",
                remedy(app)
            ));
        }
    };
    // At each start, since programs outside of the sandboxes can change the files.
    let tree = store.verify(&record).map_err(|error| error.to_string())?;
    let (program, env) = start(&record, &tree);
    let command = std::iter::once(program).chain(package.arguments).collect();
    Ok(Some(Installed {
        record,
        command,
        env,
        tree,
    }))
}

/// The package that its command would fetch, if it is a launcher's.
fn wanted(app: &App) -> Result<Option<Package>, Unknown> {
    launcher(&app.command, app.env.keys().chain(&app.env_from))
}

fn remedy(app: &App) -> String {
    format!(
        "install it once with `sluice app add {} -- {}`",
        app.name,
        shell::command(&app.command)
    )
}

/// The identity of an app for permissions: the configuration's, with the hash of the installed files. Another version of a
/// package is another app.
pub(crate) fn identity(app: &App) -> Result<[u8; 32]> {
    let record = match wanted(app) {
        Ok(Some(_)) => store()?.get(&app.name)?,
        Ok(None) | Err(_) => None,
    };
    Ok(identity_with(app, record.as_ref()))
}

fn identity_with(app: &App, record: Option<&Record>) -> [u8; 32] {
    let own = app.identity();
    match record {
        Some(record) => Sha256::new()
            .chain_update(own)
            .chain_update(&record.sha256)
            .finalize()
            .into(),
        None => own,
    }
}

/// Whether the record is of this package.
pub(crate) fn is_for(record: &Record, package: &Package) -> bool {
    record.registry == package.registry
        && record.requirement == package.requirement
        && record.with == package.with
        && record.python == package.python
        && record.program == package.program
}

fn start(record: &Record, tree: &std::path::Path) -> (String, BTreeMap<String, String>) {
    let program = tree.join(&record.entry).to_string_lossy().into_owned();
    let env = match record.registry {
        Registry::Npm => BTreeMap::new(),
        Registry::PyPi => BTreeMap::from([(
            "PYTHONPATH".to_owned(),
            tree.join("site").to_string_lossy().into_owned(),
        )]),
    };
    (program, env)
}

/// Fetches a package into the store and says which version came. It blocks. After an error nothing is left behind.
pub(crate) fn fetch(app: &str, wanted: &Package, scripts: bool) -> Result<Record> {
    say(&format!(
        "fetching {} for {app} …\n",
        escape(&wanted.requirement)
    ));
    let (host, store) = (Host::of_user(), store()?);
    let program = paths::binary("sluice-build")?;
    let installer = Installer {
        host: &host,
        store: &store,
        program: &program,
        scripts,
    };
    let progress = Terminal::new(false, KeepFor::default());
    progress.working(format!("installing {}", wanted.requirement));
    let installed = installer.install(app, wanted);
    progress.rest();
    if let Err(InstallError::Failed { said, .. }) = &installed {
        say(&last_words(wanted.registry, said));
        if !scripts && said.contains("No matching distribution found") {
            say(
                "note: a package that comes as source only is built by programs in it, which run with --scripts only\n",
            );
        }
    }
    let provision::Installed {
        record,
        unrun,
        unsupplied,
        newer,
    } = installed?;
    say(&format!(
        "installed {} {}, sha256 {}\n",
        package(&record),
        record.version,
        record.sha256
    ));
    if !unrun.is_empty() {
        say(&format!(
            "note: install scripts of {} were not run; if the app needs them, add it with --scripts, which runs them without network\n",
            escape(&unrun.join(", "))
        ));
    }
    if let Some(newer) = newer {
        say(&format!(
            "note: {newer} is newer, but comes as source only, which is built by programs in it; add it with --scripts to get that version\n"
        ));
    }
    for (folder, why) in &unsupplied {
        say(&format!(
            "note: the Node program in {} lacks its modules, because {}; the app fails where it needs that program\n",
            escape(&folder.to_string_lossy()),
            escape(why)
        ));
    }
    Ok(record)
}

/// The last words of a package manager, with its name before each line: install scripts can write anything.
fn last_words(registry: Registry, said: &str) -> String {
    let name = match registry {
        Registry::Npm => "npm> ",
        Registry::PyPi => "pip> ",
    };
    let mut lines = Lines::new(columns());
    lines.said_by(name, said.lines());
    lines.finish()
}

/// Package and registry, in words.
pub(crate) fn package(record: &Record) -> String {
    let registry = match record.registry {
        Registry::Npm => "npm",
        Registry::PyPi => "PyPI",
    };
    format!("{registry} {}", escape(&record.requirement))
}

/// The package that the command of an app would fetch, if nothing is installed for it.
pub(crate) fn unmet(app: &App) -> Option<Package> {
    // `of` reports what is wrong with a command.
    let package = wanted(app).ok().flatten()?;
    let record = store().and_then(|store| Ok(store.get(&app.name)?));
    // An unreadable record is not replaced: `of` reports it.
    matches!(record, Ok(None)).then_some(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_of_an_installed_app_is_another_app() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sluice.toml");
        std::fs::write(
            &file,
            "[app.files]\ncommand = [\"npx\", \"-y\", \"files\"]\n",
        )
        .unwrap();
        let config = config::Config::load(&file).unwrap();
        let app = config.apps.get("files").unwrap();
        let record = |sha256: &str| Record {
            app: "files".to_owned(),
            registry: Registry::Npm,
            requirement: "files".to_owned(),
            with: Vec::new(),
            python: None,
            program: None,
            version: "1.0.0".to_owned(),
            sha256: sha256.to_owned(),
            entry: "bin/files".into(),
            interpreter: None,
            programs: Vec::new(),
            scripts: false,
            tools: None,
            reviewed: false,
            tried: Vec::new(),
        };
        let of = |sha256: &str| identity_with(app, Some(&record(sha256)));
        assert_eq!(of("aa"), of("aa"));
        assert_ne!(of("aa"), of("ab"));
        assert_ne!(of("aa"), identity_with(app, None));
        assert_eq!(app.identity(), identity_with(app, None));
    }
}
