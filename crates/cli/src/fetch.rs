//! What the apps of a session need, with those that are not installed yet fetched first.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use config::Config;
use hub::trace::escape;
use provision::Record;
use sandbox::Layer;
use tokio::task::spawn_blocking;

use crate::terminal::{ask_word, say};
use crate::trial::{self, Of};
use crate::{installed, needs, review};

/// Whether what a configuration's commands would fetch at each start is fetched now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// The user has said so.
    Yes,
    /// If the user says so.
    Ask,
    /// There is nobody to ask.
    No,
}

/// As [`needs::provide`], for a session: the apps that the user has named must be there, and of the others it is said that
/// they are not. What is not installed yet is fetched first, if the user wants it, and started once without these layers.
///
/// # Errors
/// An app that was named cannot be started.
pub(crate) async fn provide_for(
    config: &mut Config,
    named: impl Fn(&str) -> bool,
    fetch: Fetch,
    layers: &BTreeSet<Layer>,
) -> Result<()> {
    // Before the search, which leaves out what is not installed.
    self::fetch(config, fetch, layers).await?;
    for (app, reason) in needs::provide(config) {
        if named(&app) {
            bail!("the app {app} cannot be started: {reason}");
        }
        say(&format!(
            "note: the app {app} is left out: {}\n",
            escape(&reason)
        ));
    }
    Ok(())
}

/// Installs what is wanted, once for all apps.
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
        say(
            "They are fetched from your registries in a sandbox, and nothing of them runs meanwhile.\n",
        );
        if ask_word("Type install and Enter [no]: ", &["install"]).is_none() {
            return Ok(());
        }
    }
    for (name, package) in unmet {
        let app = name.clone();
        // Without install scripts: the user was asked about packages, and told that nothing of them runs.
        let fetched = spawn_blocking(move || installed::fetch(&app, &package, false)).await?;
        // One that cannot be fetched does not hinder the others: it is left out, and named.
        let kept = match fetched {
            Ok(record) => keep(config, &record, layers).await,
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            say(&format!(
                "note: {name}: {}\n",
                escape(&format!("{error:#}"))
            ));
        }
    }
    Ok(())
}

/// Keeps what was fetched, with the tools of its first start as those that the user starts with. What does not start is not
/// kept: its tools would be compared with nothing.
async fn keep(config: &Config, record: &Record, layers: &BTreeSet<Layer>) -> Result<()> {
    let store = installed::store()?;
    let mut config = config.clone();
    let of = Of::New(record);
    match trial::find_and_start(&mut config, &record.app, of, layers).await {
        Ok(trial) => Ok(store.put(&Record {
            // Whoever was asked has agreed to the packages; nobody has looked at the tools yet.
            tools: Some(review::seen(&trial.tools)),
            tried: trial.tried.keys().cloned().collect(),
            ..record.clone()
        })?),
        Err(error) => {
            store.remove(&record.app)?;
            Err(error)
        }
    }
}
