//! The memory of a configuration, and whether a session has one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result};
use config::Config;
use policy::Front;
use sha2::{Digest, Sha256};
use store::{Apps, Identity, Limits, Memory, Name, Namespace, SqliteMemory, Time};

use crate::hex::hex;
use crate::paths;
use crate::terminal::say;

/// The memory of a session, if it has one. If the memory cannot be opened, the user is told and the session
/// goes on without it.
pub(crate) fn of_session(config: &Config, front: Front) -> Option<Arc<dyn Memory>> {
    // A chat is expected to know what was said before. A single query, often part of a script, is expected to
    // give the same each time.
    let by_default = matches!(front, Front::Chat);
    if !config.memory.enabled.unwrap_or(by_default) {
        return None;
    }
    // Before `open`, which creates the file.
    let is_new = file(config).is_ok_and(|file| !file.exists());
    let memory = match open(config) {
        Ok(memory) => memory,
        Err(error) => {
            say(&format!("note: nothing is remembered: {error:#}\n"));
            return None;
        }
    };
    if is_new {
        say(
            "note: this conversation is remembered (`sluice memory list`); --private leaves nothing behind, and [memory] enabled = false turns it off\n",
        );
    }
    if let Err(error) = say_of_others(memory.as_ref(), config) {
        say(&format!("note: the memory cannot be read: {error:#}\n"));
    }
    Some(memory)
}

/// The memory of this configuration, without entries that are too old.
pub(crate) fn open(config: &Config) -> Result<Arc<dyn Memory>> {
    let limits = Limits {
        entries: config.memory.entries,
        ..Limits::default()
    };
    let memory = SqliteMemory::open(&file(config)?, config.lattice.clone(), limits);
    let memory = memory.context("the memory cannot be opened")?;
    if let Some(days) = config.memory.days {
        let now = Time::from(SystemTime::now()).millis();
        let before = now.saturating_sub(i64::from(days).saturating_mul(DAY));
        // An error is one of `open`: nothing older than the user allows is recalled.
        let expired = memory.expire(Time::from_millis(before));
        expired.context("memories that are too old cannot be forgotten")?;
    }
    Ok(Arc::new(memory))
}

/// Milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Tells the user which memories the configured apps do not see, because apps from elsewhere had their names.
fn say_of_others(memory: &dyn Memory, config: &Config) -> Result<()> {
    let now = apps(config)?;
    let is_app = |name: &str| now.keys().any(|own| own.as_str() == name);
    for namespace in memory.namespaces()? {
        // Only configured names: the commands below need no quotes in a shell.
        let is_old = namespace != Namespace::Hub && !namespace.is_of(&now);
        if is_old
            && namespace.names().into_iter().all(is_app)
            && !memory.ids(&namespace)?.is_empty()
        {
            let whose = named(&namespace, &now);
            say(&format!(
                "note: {namespace} has another command, address or folder than before, so it does not see the memories of {whose}; `sluice memory list --namespace {whose}` shows them, `sluice memory forget --namespace {whose}` removes them\n"
            ));
        }
    }
    Ok(())
}

/// Where each app of the configuration comes from.
///
/// # Errors
/// An app has a name that cannot be written.
pub(crate) fn apps(config: &Config) -> Result<Apps> {
    let apps = config.apps.values().map(|app| {
        let origin = Identity::from_digest(app.origin());
        Ok((Name::new(app.name.as_str())?, origin))
    });
    apps.collect()
}

/// A namespace as the user names it: `hub`, or its apps, `calendar+mail`. An app that comes from elsewhere than
/// the configured one has the beginning of its origin behind its name (`mail~1f0c9e52a7b3`).
pub(crate) fn named(namespace: &Namespace, now: &Apps) -> String {
    let Namespace::Apps(apps) = namespace else {
        return namespace.to_string();
    };
    let app = |(name, own): (&Name, &Identity)| match now.get(name) == Some(own) {
        true => name.to_string(),
        false => format!("{name}~{:.ORIGIN$}", own.to_string()),
    };
    apps.iter().map(app).collect::<Vec<_>>().join("+")
}

/// Hexadecimal digits of an origin in a name: enough that no two apps of one name are alike by chance.
const ORIGIN: usize = 12;

/// Bytes of a configuration's digest in the name of its file. They tell files apart, nothing more.
const DIGEST: usize = 8;

/// Each configuration has a file of its own: what was said under one is not told under another, whose apps may
/// have the same names.
fn file(config: &Config) -> Result<PathBuf> {
    // Without a file the configuration is the built-in one.
    let own = config.files.first().filter(|file| file.is_absolute());
    let name = own.map_or_else(
        || "built-in".to_owned(),
        |file| {
            hex(Sha256::digest(file.as_os_str().as_encoded_bytes())
                .iter()
                .take(DIGEST))
        },
    );
    Ok(paths::state()?
        .join("memory")
        .join(format!("{name}.sqlite")))
}
