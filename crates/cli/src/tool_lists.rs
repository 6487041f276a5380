//! The tools of apps as they listed them at their last start, so that a list of them needs no start.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::Result;
use config::{App, Config};
use sandbox::Layer;
use tokio::task::JoinSet;
use wire::ToolDescription;

use crate::hex::hex;
use crate::terminal::message;
use crate::{exit, installed, paths, review, trial};

/// One file for each app as it is configured and installed: another version has another list.
fn file(app: &App) -> Result<PathBuf> {
    let name = hex(&installed::identity(app)?);
    Ok(paths::state()?.join("tools").join(name + ".json"))
}

/// The list of an app, if it is that of its last start, and the reviewed one if there was a review.
fn find(app: &App) -> Option<Vec<ToolDescription>> {
    let text = fs::read(file(app).ok()?).ok()?;
    let mut tools: Vec<ToolDescription> = serde_json::from_slice(&text).ok()?;
    // The configuration may hide some since.
    tools.retain(|tool| app.filter.shows(&tool.name));
    review::unchanged(app, &tools).ok().map(|()| tools)
}

/// Keeps the list of an app that has just started.
fn keep(app: &App, tools: &[ToolDescription]) -> Result<()> {
    let file = file(app)?;
    let folder = file.parent().unwrap_or(&file);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(&serde_json::to_vec(tools)?)?;
    new.persist(&file)?;
    Ok(())
}

/// The lists of all apps. An app without one is started once, side by side with the others; one that does not start is
/// left out with a note.
pub(crate) async fn all(
    config: &Config,
    layers: &BTreeSet<Layer>,
) -> BTreeMap<String, Vec<ToolDescription>> {
    let (mut lists, mut starting) = (BTreeMap::new(), JoinSet::new());
    for app in config.apps.values() {
        if let Some(tools) = find(app) {
            lists.insert(app.name.clone(), tools);
            continue;
        }
        let (config, app, layers) = (config.clone(), app.clone(), layers.clone());
        starting.spawn(async move {
            let started = trial::start(&config, &app, &layers).await;
            (app, started.map(|trial| trial.tools))
        });
    }
    while let Some(started) = starting.join_next().await {
        let Ok((app, started)) = started else {
            continue;
        };
        match started {
            Ok(tools) => {
                note_failure(&app.name, keep(&app, &tools));
                lists.insert(app.name, tools);
            }
            Err(error) => message(&format!(
                "note: continuing without the app {}: {}",
                app.name,
                exit::shown(&error)
            )),
        }
    }
    lists
}

/// Refuses an app whose tools are not those that clients were told of. The next list has the new ones.
pub(crate) fn unchanged(
    app: &App,
    listed: &[ToolDescription],
) -> impl Fn(&[ToolDescription]) -> Result<(), String> + Send + Sync + 'static {
    let (app, listed) = (app.clone(), review::seen(listed));
    move |tools| {
        let now = review::seen(tools);
        let Some(difference) = review::Difference::between(&listed, &now) else {
            return Ok(());
        };
        note_failure(&app.name, keep(&app, tools));
        Err(format!(
            "its tools changed since they were listed ({difference}); restart the client"
        ))
    }
}

/// Without a kept list the app is started for the next one.
fn note_failure(app: &str, kept: Result<()>) {
    if let Err(error) = kept {
        message(&format!("note: the tools of {app} are not kept: {error:#}"));
    }
}
