//! Installing the missing packages of a session's apps.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use config::Config;
use hub::trace::escape;
use provision::Record;
use sandbox::Layer;
use tokio::task::spawn_blocking;

use crate::terminal::{is_agreed, say};
use crate::trial::{self, Of};
use crate::{exit, installed, needs};

/// Whether packages that an app's command would fetch at each start are installed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fetch {
    Yes,
    Ask,
    /// No terminal to ask at.
    No,
}

/// As [`needs::provide`], after missing packages were installed. An app that cannot be started is an error if the user
/// named it, and is left out with a note otherwise.
pub(crate) async fn provide_for(
    config: &mut Config,
    named: &BTreeSet<String>,
    fetch: Fetch,
    layers: &BTreeSet<Layer>,
    verbose: bool,
) -> Result<()> {
    self::fetch(config, fetch, layers).await?;
    for (app, reason) in needs::provide(config, verbose) {
        if named.contains(&app) {
            bail!("the app {app} cannot be started: {reason}");
        }
        say(&format!(
            "note: continuing without the app {app}: {}\n",
            escape(&reason)
        ));
    }
    Ok(())
}

/// Installs the packages that are missing.
async fn fetch(config: &Config, fetch: Fetch, layers: &BTreeSet<Layer>) -> Result<()> {
    let here = config.apps.values().filter(|app| !app.client);
    let unmet: Vec<_> = here
        .filter_map(|app| Some((app.name.clone(), installed::unmet(app)?)))
        .collect();
    if unmet.is_empty() || fetch == Fetch::No {
        return Ok(());
    }
    if fetch == Fetch::Ask {
        for (name, package) in &unmet {
            let wanted = escape(&package.requirement);
            say(&format!("{name} needs {wanted}, which is not installed\n"));
        }
        say("Sluice fetches them from your registries in a sandbox and runs no install script.\n");
        if !is_agreed("Type install to install them [no]: ", "install") {
            return Ok(());
        }
    }
    for (name, package) in unmet {
        let app = name.clone();
        // Without install scripts, as the question said.
        let fetched = spawn_blocking(move || installed::fetch(&app, &package, false)).await?;
        // A package that cannot be installed does not stop the others.
        let kept = match fetched {
            Ok(record) => keep(config, &record, layers).await,
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            say(&format!("note: {name}: {}", exit::shown(&error)));
        }
    }
    Ok(())
}

/// Keeps a package with the tools of its first start, with which later starts are compared. A package that does not start
/// is removed again.
async fn keep(config: &Config, record: &Record, layers: &BTreeSet<Layer>) -> Result<()> {
    let store = installed::store()?;
    let mut config = config.clone();
    let of = Of::New(record);
    match trial::find_and_start(&mut config, &record.app, of, layers).await {
        // The user agreed to the package and has not seen the tools.
        Ok(trial) => Ok(store.put(&trial.record(record, false))?),
        Err(error) => {
            store.remove(&record.app)?;
            Err(error)
        }
    }
}
