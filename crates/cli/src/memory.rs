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
use crate::terminal::{message, say};

/// The memory of a session, if it has one. A memory that cannot be opened is a note, and the session has none.
pub(crate) fn of_session(config: &Config, front: Front) -> Option<Arc<dyn Memory>> {
    // A chat should know earlier ones. A single query, often in a script, should give the same each time.
    let by_default = matches!(front, Front::Chat);
    if !config.memory.enabled.unwrap_or(by_default) {
        return None;
    }
    // Before `open`, which creates the file.
    let is_new = file(config).is_ok_and(|file| !file.exists());
    let memory = match open(config) {
        Ok(memory) => memory,
        Err(error) => {
            message(&format!("note: this session has no memory: {error:#}"));
            return None;
        }
    };
    if is_new {
        say(
            "note: this chat is remembered; list memories with `sluice memory list`, or turn memory off with --private or [memory] enabled = false\n",
        );
    }
    if let Err(error) = say_of_others(memory.as_ref(), config) {
        message(&format!("note: the memory cannot be read: {error:#}"));
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
        // Nothing is recalled if this fails.
        let expired = memory.expire(Time::from_millis(before));
        expired.context("memories that are too old cannot be forgotten")?;
    }
    Ok(Arc::new(memory))
}

/// Milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Names the memories that the configured apps do not see because other apps had their names.
fn say_of_others(memory: &dyn Memory, config: &Config) -> Result<()> {
    let now = apps(config)?;
    let is_app = |name: &str| now.keys().any(|own| own.as_str() == name);
    for namespace in memory.namespaces()? {
        // Configured names need no quotes in the commands below.
        let is_old = namespace != Namespace::Hub && !namespace.is_of(&now);
        if is_old
            && namespace.names().into_iter().all(is_app)
            && !memory.ids(&namespace)?.is_empty()
        {
            let whose = named(&namespace, &now);
            say(&format!(
                "note: {namespace} changed its command, address or folders, so it does not see the memories of {whose}; list them with `sluice memory list --namespace {whose}`, or remove them with `sluice memory forget --namespace {whose}`\n"
            ));
        }
    }
    Ok(())
}

/// The origin of each app of the configuration.
pub(crate) fn apps(config: &Config) -> Result<Apps> {
    let apps = config.apps.values().map(|app| {
        let origin = Identity::from_digest(app.origin());
        Ok((Name::new(app.name.as_str())?, origin))
    });
    apps.collect()
}

/// A namespace as the user names it: `hub`, or its apps, `calendar+mail`. An app of another origin than the configured
/// one has the beginning of its origin behind its name (`mail~1f0c9e52a7b3`).
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

/// Hexadecimal digits of an origin in a name.
const ORIGIN: usize = 12;

/// Bytes of a configuration's digest in the name of its file.
const DIGEST: usize = 8;

/// The file of a configuration. Each has its own, since apps of two configurations may have the same names.
fn file(config: &Config) -> Result<PathBuf> {
    let folder = paths::state()?.join("memory");
    let named = |file: &PathBuf| {
        let digest = Sha256::digest(file.as_os_str().as_encoded_bytes());
        folder.join(format!("{}.sqlite", hex(digest.iter().take(DIGEST))))
    };
    // Earlier versions named it by the first of all files.
    let all = std::iter::once(&config.root).chain(&config.files);
    let mut all = all.filter(|file| file.is_absolute()).map(named).peekable();
    let own = all.peek().cloned();
    let kept = all.find(|file| file.exists());
    // Without a file the configuration is the built-in one.
    Ok(kept
        .or(own)
        .unwrap_or_else(|| folder.join("built-in.sqlite")))
}
