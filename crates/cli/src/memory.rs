//! Where memories are kept, and whether a session has any.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result};
use config::Config;
use policy::Front;
use sha2::{Digest, Sha256};
use store::{Apps, Identity, Limits, Memory, MemoryError, Name, Namespace, SqliteMemory, Time};

use crate::hex::hex;
use crate::paths;
use crate::terminal::say;

/// The memory of a session, if it has one. A memory that cannot be opened is none, and the user is told:
/// a conversation without it is better than no conversation.
pub(crate) fn of_session(config: &Config, front: Front) -> Option<Arc<dyn Memory>> {
    // A conversation is expected to know what was said before; a single query, often part of a script,
    // is expected to be the same each time.
    let by_itself = matches!(front, Front::Chat);
    if !config.memory.enabled.unwrap_or(by_itself) {
        return None;
    }
    // Before it is opened, which makes the file.
    let is_new = config.memory.redis.is_none() && file(config).is_ok_and(|file| !file.exists());
    match open(config) {
        Ok(memory) => {
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
        Err(error) => {
            say(&format!("note: nothing is remembered: {error:#}\n"));
            None
        }
    }
}

/// The memory of this configuration.
///
/// # Errors
/// The file or the server cannot be used.
pub(crate) fn open(config: &Config) -> Result<Arc<dyn Memory>> {
    let limits = Limits {
        entries: config.memory.entries,
        ..Limits::default()
    };
    let memory: Arc<dyn Memory> = match &config.memory.redis {
        Some(address) => redis(address, config, limits)?,
        None => {
            let memory = SqliteMemory::open(&file(config)?, config.lattice.clone(), limits);
            Arc::new(memory.context("the memory cannot be opened")?)
        }
    };
    if let Some(days) = config.memory.days {
        let now = Time::from(SystemTime::now()).millis();
        let before = now.saturating_sub(i64::from(days).saturating_mul(DAY));
        // Where they cannot be removed the memory is not opened: nothing older than the user allows is recalled.
        let expired = memory.expire(Time::from_millis(before));
        let expired = expired.context("memories that are too old cannot be forgotten")?;
        if let Err(error) = expired.erased {
            let count = expired.count;
            let on_disk = not_erased(&error);
            say(&format!(
                "note: {count} memories that were too old are forgotten, and {on_disk}"
            ));
        }
    }
    Ok(memory)
}

/// Tells the user which memories the apps of the configuration are not told, because apps from elsewhere had their names.
///
/// # Errors
/// The memory cannot be read.
fn say_of_others(memory: &dyn Memory, config: &Config) -> Result<()> {
    let now = apps(config)?;
    for namespace in memory.namespaces()? {
        let why = match &namespace {
            Namespace::Hub => continue,
            Namespace::Apps(_) if namespace.is_of(&now) => continue,
            Namespace::Apps(_) => "its command, address or folders were others",
            Namespace::Names(_) => "an earlier version of Sluice did not note whose it is",
        };
        // An app that is gone cannot be told anything. And so the names in the commands below are names of configured
        // apps, which a shell takes without quotes.
        let is_app = |name: &str| now.keys().any(|own| own.as_str() == name);
        let names = namespace.names();
        if !names.into_iter().all(is_app) || memory.ids(&namespace)?.is_empty() {
            continue;
        }
        let (whose, to_whom) = (named(&namespace, &now), &namespace);
        say(&format!(
            "note: {to_whom} is not told what is remembered of {whose}: {why}; `sluice memory adopt {whose}` shows it and lets {to_whom} be told, `sluice memory forget --namespace {whose}` forgets it\n"
        ));
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

/// A namespace as the user names it: `hub`, or its apps, `calendar+mail`. One that comes from elsewhere than the app of that
/// name now has the beginning of its origin behind it (`mail~1f0c9e52a7b3`), and one of an origin that nobody noted `~unknown`.
pub(crate) fn named(namespace: &Namespace, now: &Apps) -> String {
    let app = |(name, own): (&Name, &Identity)| match now.get(name) == Some(own) {
        true => name.to_string(),
        false => {
            let own: String = own.to_string().chars().take(ORIGIN).collect();
            format!("{name}~{own}")
        }
    };
    match namespace {
        Namespace::Hub => namespace.to_string(),
        Namespace::Apps(apps) => apps.iter().map(app).collect::<Vec<_>>().join("+"),
        Namespace::Names(names) => format!("{names}~unknown"),
    }
}

/// Hexadecimal digits of an origin in a name: enough that no two apps of one name are alike by chance. Where two are,
/// the name is refused as that of several.
const ORIGIN: usize = 12;

/// What is said where the text of forgotten memories is still on the disk.
pub(crate) fn not_erased(error: &MemoryError) -> String {
    format!("their text is still on the disk: {error}\n")
}

/// Milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1000;

#[cfg(feature = "redis")]
fn redis(address: &str, config: &Config, limits: Limits) -> Result<Arc<dyn Memory>> {
    let space = Name::new(name(config))?;
    let memory = store::RedisMemory::open(address, &space, config.lattice.clone(), limits);
    Ok(Arc::new(memory.context("the memory cannot be opened")?))
}

#[cfg(not(feature = "redis"))]
fn redis(_: &str, _: &Config, _: Limits) -> Result<Arc<dyn Memory>> {
    anyhow::bail!(
        "this build has no Redis; build it with --features redis, or leave out redis under [memory]"
    )
}

/// Bytes of a configuration's digest in the name of its memory. They tell files apart, nothing more.
const DIGEST: usize = 8;

/// Each configuration has a memory of its own, in a file or in a space of a server: what was said under one
/// is not told under another, whose apps may have the same names.
fn name(config: &Config) -> String {
    // Without a file the configuration is the built-in one.
    let own = config.files.first().filter(|file| file.is_absolute());
    own.map_or_else(|| "built-in".to_owned(), |file| digest(file))
}

fn file(config: &Config) -> Result<PathBuf> {
    let file = format!("{}.sqlite", name(config));
    Ok(paths::state()?.join("memory").join(file))
}

fn digest(file: &Path) -> String {
    let digest = Sha256::digest(file.as_os_str().as_encoded_bytes());
    hex(digest.iter().take(DIGEST))
}
