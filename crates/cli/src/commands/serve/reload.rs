//! Reloads the configuration while the service runs: by SIGHUP, and when one of its files changes.
//!
//! A change that loses keys counts after SIGHUP alone: a file that was cut off, or is half written, looks like that. Any other
//! change of what the operator wrote is taken, also one that allows more.
//!
//! A reload asks nothing. A file that is named by `--config`, or is the user's own, needs no trust. A `sluice.toml` of the
//! working folder has to be trusted anew (`sluice trust`) before its change counts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::Config;
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use sd_notify::NotifyState;
use server::audit::Note;
use server::service::ServiceHandle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use toml::Value;
use tracing::{error, info, warn};

use super::args::Serve;
use super::manager::tell;
use super::own::Own;
use crate::configuration::Files;
use crate::{configuration, deployment, exit};

/// How long the files must be quiet before they are read: editors and orchestrators write several times.
const QUIET: Duration = Duration::from_millis(300);
/// How long changes in the folders may put off a reload. Other programs may write there all the time.
const LONGEST_UNREST: Duration = Duration::from_secs(5);
/// After how long a reading is reported. A file system whose server is gone does not answer.
const LONGEST_READ: Duration = Duration::from_secs(10);
/// When files that were refused are looked at again. A folder that is removed and made again reports no change.
const AGAIN: Duration = Duration::from_secs(5);

/// The task that reloads. It ends when this is dropped.
pub(super) struct Reloads {
    /// How often a reload was asked for by hand. Any other message says that a file has changed.
    wake: Arc<watch::Sender<u64>>,
    task: JoinHandle<()>,
}

impl Drop for Reloads {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reloads {
    pub(super) fn start(
        again: Serve,
        own: Arc<Own>,
        service: ServiceHandle,
        config: Config,
    ) -> Result<Self> {
        deployment::warn_of_writers(&config);
        let wake = Arc::new(watch::Sender::new(0));
        let (change, woken) = (Arc::clone(&wake), wake.subscribe());
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_complete(event.kind)) {
                change.send_modify(|_| {});
            }
        });
        let mut files = Sources {
            found: found(&again)?.map(|found| found.shown),
            again,
            digest: configuration::digest(&config.files),
            all: config.files.clone(),
            watcher: watcher.context("the files of the configuration cannot be watched")?,
            watched: BTreeSet::new(),
        };
        files.watch();
        let reload = Reload {
            own,
            service,
            keys: keys(&config),
            config,
            files: Arc::new(Mutex::new(files)),
            is_refused: false,
        };
        let task = tokio::spawn(reload.run(woken));
        Ok(Self { wake, task })
    }

    /// Reloads, whether a file has changed or not.
    pub(super) fn now(&self) {
        self.wake.send_modify(|by_hand| *by_hand += 1);
    }
}

/// Whether an event ends a change. A file into which a program still writes is not read.
fn is_complete(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Data(_)) => false,
        _ => true,
    }
}

/// A configuration, and the keys of its files.
type Read = (Config, BTreeSet<String>);

struct Reload {
    own: Arc<Own>,
    service: ServiceHandle,
    /// The configuration in force, and what its files had.
    config: Config,
    keys: BTreeSet<String>,
    files: Arc<Mutex<Sources>>,
    /// Whether the files are not the configuration in force.
    is_refused: bool,
}

impl Reload {
    async fn run(mut self, mut woken: watch::Receiver<u64>) {
        let mut seen = 0;
        loop {
            tokio::select! {
                _ = woken.changed() => {}
                () = sleep(AGAIN), if self.is_refused => {}
            }
            let quiet = async { while let Ok(Ok(())) = timeout(QUIET, woken.changed()).await {} };
            // After this time they are read as they are.
            let _ = timeout(LONGEST_UNREST, quiet).await;
            let before = std::mem::replace(&mut seen, *woken.borrow_and_update());
            if let Some(read) = self.read(seen != before).await {
                self.reload(read, seen != before).await;
            }
        }
    }

    /// The configuration of the files; `None` if they have not changed and no signal asks for them.
    async fn read(&self, by_hand: bool) -> Option<Result<Read>> {
        let files = Arc::clone(&self.files);
        let mut reading = spawn_blocking(move || lock(&files).read(by_hand));
        let read = match timeout(LONGEST_READ, &mut reading).await {
            Ok(read) => read,
            Err(_) => {
                self.own.metrics.reload(false);
                let seconds = LONGEST_READ.as_secs();
                error!(
                    seconds,
                    "the files are not read yet; is their file system there?"
                );
                reading.await
            }
        };
        read.unwrap_or_else(|reason| Some(Err(reason.into())))
    }

    async fn reload(&mut self, read: Result<Read>, by_hand: bool) {
        let mut states = vec![NotifyState::Reloading];
        states.extend(NotifyState::monotonic_usec_now());
        tell(&states);
        let outcome = match read {
            Ok((config, keys)) => self.replace(config, keys, by_hand).await,
            Err(why) => Err(why),
        };
        tell(&[NotifyState::Ready]);
        self.is_refused = outcome.is_err();
        self.own.metrics.reload(outcome.is_ok());
        let note = match outcome {
            Ok(()) => Note::new("reload", "done"),
            Err(why) => {
                // What runs goes on.
                let why = exit::shown(&why).replace("; nothing was started", "");
                error!(
                    reason = why.trim_end(),
                    "the configuration is not reloaded; the one before stays in force"
                );
                Note::new("reload", "failed")
            }
        };
        let digest = crate::hex::hex(&lock(&self.files).digest);
        self.own.audit.note(note.with("configuration", digest));
    }

    async fn replace(
        &mut self,
        config: Config,
        keys: BTreeSet<String>,
        by_hand: bool,
    ) -> Result<()> {
        let missing = missing(&self.keys, &keys);
        if !by_hand && !missing.is_empty() {
            bail!(
                "it lacks {}, which the one before has; if that is meant, run `systemctl reload sluice` or `kill -HUP {}`",
                missing.join(", "),
                process::id()
            );
        }
        let (fronts, _) = self.own.build(&config).await?;
        self.service.replace(fronts);
        for key in needs_restart(&self.config, &config) {
            warn!(key, "this change needs a restart");
        }
        (self.config, self.keys) = (config, keys);
        info!("the configuration is reloaded");
        Ok(())
    }
}

fn lock(files: &Mutex<Sources>) -> MutexGuard<'_, Sources> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The files of the configuration. All functions may wait for a file system.
struct Sources {
    again: Serve,
    /// The main file, as it was found at the start.
    found: Option<PathBuf>,
    all: BTreeSet<PathBuf>,
    /// What they had when they were read last.
    digest: [u8; 32],
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
}

impl Sources {
    /// The configuration; `None` if its files have not changed and `by_hand` is not set.
    fn read(&mut self, by_hand: bool) -> Option<Result<Read>> {
        self.watch();
        let digest = configuration::digest(&self.all);
        if digest == self.digest && !by_hand {
            return None;
        }
        self.digest = digest;
        Some(self.config())
    }

    fn config(&mut self) -> Result<Read> {
        // Without a file the built-in configuration would count, which has no app and no tenant.
        let found = found(&self.again)?;
        let config = self.again.config(false)?;
        if let Some(before) = &self.found {
            let same = found.filter(|it| it.shown == *before && it.path() == config.root);
            let gone = || {
                let before = before.display();
                format!("{before} is gone; put it back, or restart the service without it")
            };
            if same.with_context(gone)?.text()?.lines().all(is_blank) {
                bail!("{} is empty", before.display());
            }
        }
        let keys = keys(&config);
        if configuration::digest(&self.all) != self.digest {
            bail!("it changed while it was read");
        }
        // New files may be named.
        self.all.clone_from(&config.files);
        self.digest = configuration::digest(&self.all);
        self.watch();
        Ok((config, keys))
    }

    /// Watches the folders of all files, since most programs replace a file instead of writing into it. A folder stays
    /// watched, and one that was made again is watched anew.
    fn watch(&mut self) {
        let folders = self.all.iter().filter_map(|file| file.parent());
        let new: BTreeSet<PathBuf> = folders.map(Path::to_owned).collect();
        for folder in self.watched.union(&new) {
            if let Err(reason) = self.watcher.watch(folder, RecursiveMode::NonRecursive)
                && !self.watched.contains(folder)
            {
                let folder = folder.display();
                warn!(%folder, %reason, "changes here are not seen; send SIGHUP to reload");
            }
        }
        self.watched.extend(new);
    }
}

fn found(again: &Serve) -> Result<Option<configuration::Found>> {
    configuration::find(again.place.file.config.as_deref())
}

fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// All keys that the files have, by their tables. Lists of tables have a key for each.
fn keys(config: &Config) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for file in &config.files {
        let text = Files::default().read(file).unwrap_or_default();
        // Another program's file of servers is JSON. What is neither has no part that could be missing.
        let read = toml::from_str(&text).ok();
        let read = read.or_else(|| serde_json::from_str::<Value>(&text).ok());
        let name = match *file == config.root {
            true => String::new(),
            false => format!("{}: ", file.display()),
        };
        add_keys(&name, "", &read.unwrap_or(Value::Boolean(false)), &mut keys);
    }
    keys
}

fn add_keys(table: &str, dot: &str, value: &Value, keys: &mut BTreeSet<String>) {
    let mut add = |key: String, value| {
        add_keys(&key, ".", value, keys);
        keys.insert(key);
    };
    match value {
        Value::Table(all) => all
            .iter()
            .for_each(|(key, value)| add(format!("{table}{dot}{key}"), value)),
        Value::Array(all) if all.iter().all(Value::is_table) => (1..)
            .zip(all)
            .for_each(|(nth, value)| add(format!("{table}[{nth}]"), value)),
        _ => {}
    }
}

/// The tables and keys that were there before and are not there now. Without a table its keys are missing, too.
fn missing(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let missing: Vec<&String> = before.difference(after).collect();
    let is_below = |key: &String, table: &&String| {
        key.strip_prefix(table.as_str())
            .is_some_and(|rest| rest.starts_with(['.', '[']))
    };
    let is_first = |key: &&&String| !missing.iter().any(|table| is_below(key, table));
    missing
        .iter()
        .filter(is_first)
        .map(ToString::to_string)
        .collect()
}

/// What was changed that is read at the start alone.
fn needs_restart(before: &Config, after: &Config) -> Vec<&'static str> {
    let (old, new) = (&before.service, &after.service);
    let kept = [
        ("[service] listen", old.listen == new.listen),
        ("[service] desk_listen", old.desk_listen == new.desk_listen),
        (
            "[service] metrics_listen",
            old.metrics_listen == new.metrics_listen,
        ),
        ("[service] desk_hosts", old.desk_hosts == new.desk_hosts),
        ("[service] drain_s", old.drain == new.drain),
        ("[service] secret_file", old.secret_file == new.secret_file),
        ("[audit]", before.audit == after.audit),
        ("[state]", before.state == after.state),
        ("[telemetry]", before.telemetry == after.telemetry),
    ];
    let changed = kept.into_iter().filter(|(_, is_kept)| !is_kept);
    changed.map(|(key, _)| key).collect()
}
