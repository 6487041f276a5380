//! The tools of apps as they listed them at their last start, so that a list of them needs no start.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::Result;
use config::App;
use wire::ToolDescription;

use crate::hex::hex;
use crate::terminal::message;
use crate::{installed, paths, permissions, review};

/// One file for each app as it is configured and installed: another version has another list.
fn file(app: &App) -> Result<PathBuf> {
    let name = hex(&installed::identity(app)?);
    Ok(paths::state()?.join("tools").join(name + ".json"))
}

/// The list of an app, if it is that of its last start, and the reviewed one if there was a review.
pub(crate) fn find(app: &App) -> Option<Vec<ToolDescription>> {
    let text = fs::read(file(app).ok()?).ok()?;
    let mut tools: Vec<ToolDescription> = serde_json::from_slice(&text).ok()?;
    // The configuration may hide some since.
    tools.retain(|tool| app.filter.shows(&tool.name));
    review::unchanged(app, &tools).ok().map(|()| tools)
}

/// Keeps the list of an app that has just started. Without a kept list the app is started for the next one.
///
/// # Errors
/// The tools of a hand-written command have changed, and what was allowed with "always" could not be ended.
pub(crate) fn keep(app: &App, tools: &[ToolDescription]) -> Result<(), String> {
    let old = file(app).and_then(|file| Ok(fs::read(file)?)).ok();
    let old: Option<Vec<ToolDescription>> = old.and_then(|it| serde_json::from_slice(&it).ok());
    if old.as_deref() == Some(tools) {
        return Ok(());
    }
    // Before the new list is kept: if this fails, the next start compares again.
    end_permissions(app, &old.unwrap_or_default(), tools)?;
    let keep = || -> Result<()> {
        let (file, new) = (file(app)?, serde_json::to_vec(tools)?);
        let folder = file.parent().unwrap_or(&file);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let mut kept = tempfile::NamedTempFile::new_in(folder)?;
        kept.write_all(&new)?;
        kept.persist(&file)?;
        Ok(())
    };
    if let Err(error) = keep() {
        let name = &app.name;
        message(&format!(
            "note: the list of tools of {name} is not kept: {error:#}"
        ));
    }
    Ok(())
}

/// Ends what the user allowed an app with "always" if its tools are not those of its last start. An installed app and a
/// remote server do not start then; the program of a hand-written command is the user's own to change.
fn end_permissions(
    app: &App,
    old: &[ToolDescription],
    tools: &[ToolDescription],
) -> Result<(), String> {
    let is_reviewed = app.found.as_ref().is_some_and(|it| it.reviewed.is_some());
    if is_reviewed || app.remote.is_some() || old.is_empty() {
        return Ok(());
    }
    let (before, now) = (review::seen(old), review::seen(tools));
    let Some(difference) = review::Difference::between(&before, &now) else {
        return Ok(());
    };
    let ended = permissions::end(app).map_err(|error| {
        format!("its tools changed, and its permissions cannot be revoked: {error:#}")
    })?;
    let name = &app.name;
    let ended = match ended {
        0 => String::new(),
        1 => "; its permission is revoked".to_owned(),
        count => format!("; its {count} permissions are revoked"),
    };
    message(&format!(
        "note: the tools of {name} changed since its last session ({difference}){ended}"
    ));
    Ok(())
}

/// Refuses an app whose tools are not those that clients were told of. The next list has the new ones.
pub(crate) fn unchanged(
    listed: &[ToolDescription],
) -> impl Fn(&[ToolDescription]) -> Result<(), String> + Send + Sync + 'static {
    let listed = review::seen(listed);
    move |tools| {
        let now = review::seen(tools);
        let Some(difference) = review::Difference::between(&listed, &now) else {
            return Ok(());
        };
        Err(format!(
            "its tools changed since they were listed ({difference}); restart the client"
        ))
    }
}
